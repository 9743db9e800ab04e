"""The wheel holds everything: built from a copy of the sources, installed elsewhere, and used from there."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cudml

pytestmark = pytest.mark.xdist_group("wheel")  # one worker builds it, once

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "cudml", "kernels")

# Runs with the installed package only: -I ignores the current folder and PYTHONPATH.
USE_INSTALLED = """
import importlib.metadata, importlib.resources, json, sys
sys.path.insert(0, sys.argv[1])
import numpy
import cudml
from cudml.cuda import sources
kernels = importlib.resources.files("cudml.kernels")
print(json.dumps({
    "file": cudml.__file__,
    "version": cudml.__version__,
    "metadata_version": importlib.metadata.version("cudml"),
    "resources": {entry.name: entry.read_text() for entry in kernels.iterdir() if entry.name.endswith((".cu", ".cuh"))},
    "looked_up": {path.name: sources.source(path.name) for path in sources.kernels_folder().glob("*.cu*")},
    "cumsum": cudml.cumsum(numpy.array([1, 2, 3])).tolist(),
}))
"""


def build_options() -> list[str]:
    """This environment's setuptools where it is new enough, so that the test needs no network; else a fetched one."""
    try:
        version = importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        return []
    major, minor = (int(part) for part in version.split(".")[:2])
    return ["--no-build-isolation"] if (major, minor) >= (70, 1) else []


def run(*arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_worker_has_a_whole_group(request):
    """Workers name the groups of tests: those that are not named are shared out."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("only workers have groups, and only with --dist loadgroup")
    assert request.node.nodeid.endswith("@wheel")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel was installed."""
    sources, wheels, target = (tmp_path_factory.mktemp(name) for name in ("sources", "wheels", "target"))
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, sources / name)
    run("-m", "pip", "wheel", "--quiet", "--no-deps", *build_options(), "--wheel-dir", wheels, sources)
    (wheel,) = wheels.glob("cudml-*.whl")
    run("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target, wheel)
    return target


@pytest.fixture(scope="module")
def answers(installed: Path) -> dict:
    return json.loads(run("-I", "-c", USE_INSTALLED, installed))


def test_the_installed_package_is_used(answers: dict, installed: Path) -> None:
    assert Path(answers["file"]).is_relative_to(installed)
    assert answers["cumsum"] == [1, 3, 6]


@pytest.mark.parametrize("found_by", ["resources", "looked_up"])
def test_every_kernel_is_found_with_its_text(answers: dict, found_by: str) -> None:
    expected = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "kernels").glob("*.cu*")}
    assert expected
    assert answers[found_by] == expected


def test_every_module_is_installed(installed: Path) -> None:
    in_tree = {path.relative_to(ROOT) for path in (ROOT / "cudml").rglob("*.py")}
    assert {path.relative_to(installed) for path in (installed / "cudml").rglob("*.py")} == in_tree
    assert (installed / "cudml" / "py.typed").is_file()


def test_versions_agree(answers: dict) -> None:
    assert answers["version"] == answers["metadata_version"] == cudml.__version__
    assert f"## [{cudml.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
