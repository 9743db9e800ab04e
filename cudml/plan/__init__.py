"""From a spec, the layouts of its arrays and a device's properties to a plan: pure, without CuPy or a GPU."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from cudml.plan.device import H200, DeviceProperties
from cudml.plan.layout import ArrayLayout
from cudml.plan.plan import Plan
from cudml.plan.spec import Modulus, Moments, Normalization, Scan, SegmentedScan, Spec

_PLANNERS: dict[type, tuple[str, str]] = {
    Scan: ("scan", "plan_scan"),
    SegmentedScan: ("scan", "plan_segmented_scan"),
    Moments: ("normalization", "plan_moments"),
    Normalization: ("normalization", "plan_normalization"),
    Modulus: ("modulus", "plan_modulus"),
}


def make_plan(spec: Spec, arrays: dict[str, Any], device: DeviceProperties = H200) -> Plan:
    """The plan of `spec` on arrays of the given layouts; one number in place of an array is given as its dtype."""
    return _planner(*_PLANNERS[type(spec)])(spec, arrays, device)


def import_planners() -> None:
    """Imports the planners of all families, which are otherwise imported when they are first needed."""
    for module, name in _PLANNERS.values():
        _planner(module, name)


@cache
def _planner(module: str, name: str) -> Any:
    """Imported when first needed: without CuPy nothing is planned."""
    return getattr(import_module(f"cudml.plan.{module}"), name)


@lru_cache(maxsize=4096)
def recall_plan(spec: Spec, layouts: tuple[tuple[str, ArrayLayout | np.dtype], ...], device: DeviceProperties) -> Plan:
    """The same, made once: calls in a loop pay for a look-up."""
    return make_plan(spec, dict(layouts), device)
