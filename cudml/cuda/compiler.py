"""From kernel sources to a cubin, through NVRTC and without a GPU.

CuPy's own RawModule appends -ftz=true to whatever it compiles from source, which flushes subnormals. Compiled here and
loaded as a cubin, a kernel keeps them.
"""

from __future__ import annotations

import threading
from typing import Any

from cudml.cuda import sources
from cudml.plan.plan import KERNELS

#: Products and sums are not contracted: a kernel that wants a fused multiply-add asks for it by name, so a result does
#: not depend on what a compiler found worth fusing for one architecture. Warning 177 is of what nobody uses, such as
#: that of kernels that are left out.
OPTIONS = ("-std=c++17", "-fmad=false", "-diag-suppress=177")

#: Leaves out what kernels do not use of CUDA's own headers, 5 to 15 ms of a compilation. NVRTC knows it since 12.4; the
#: cubins are the same.
_MINIMAL, _KNOWS_MINIMAL = "-minimal", (12, 4)

Constants = tuple[tuple[str, str], ...]


class CompileError(RuntimeError):
    """A kernel did not compile; the message holds the compiler's log."""


def architecture_of_capability(major: int, minor: int) -> str:
    """What kernels are compiled for on GPUs of a compute capability, as in "sm_80"; for 9.0 with what it alone can do
    (kernels/intrinsics.cuh: take_registers)."""
    return "sm_90a" if (major, minor) == (9, 0) else f"sm_{major}{minor}"


def compile_options(constants: Constants, architecture: str) -> tuple[str, ...]:
    """All options of a compilation. `architecture` is like "sm_90a"."""
    return (f"-arch={architecture}", *OPTIONS, *(f"-D{name}={value}" for name, value in constants))


_loading = threading.Lock()


def _nvrtc() -> Any:
    """CuPy's NVRTC, which it loads when it is first called. One thread does so alone: where four did at the same time,
    most processes had some that failed to open libnvrtc-builtins.so (CuPy 14.2)."""
    from cupy_backends.cuda.libs import nvrtc

    with _loading:
        nvrtc.getVersion()
    return nvrtc


def nvrtc_version() -> tuple[int, int]:
    """The version of the NVRTC that is loaded."""
    return _nvrtc().getVersion()


def compile_cubin(name: str, constants: Constants, architecture: str) -> tuple[bytes, str]:
    """The cubin of kernels/`name` compiled with the given constants, and the compiler's log (empty: no warning).

    Of several kernels in the file only those in the constant KERNELS are compiled, if there is one: compiling all takes
    up to three times as long.
    """
    nvrtc = _nvrtc()
    headers, source, kernels = sources.headers(), sources.source(name), dict(constants).get(KERNELS)
    program = nvrtc.createProgram(
        sources.with_kernels(source, kernels.split(",")) if kernels else source,
        name,
        [text.encode() for text in headers.values()],
        [header.encode() for header in headers],
    )
    try:
        options = compile_options(constants, architecture)
        if nvrtc.getVersion() >= _KNOWS_MINIMAL:
            options += (_MINIMAL,)
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError as error:
            log = nvrtc.getProgramLog(program)
            raise CompileError(f"{name} does not compile with {' '.join(options)} ({error}):\n{log}") from None
        return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program).strip("\0 \n")
    finally:
        nvrtc.destroyProgram(program)
