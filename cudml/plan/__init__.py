"""From a spec, the layouts of its arrays and a device's properties to a plan: pure, without CuPy or a GPU."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from cudml.plan.device import H200, DeviceProperties
from cudml.plan.layout import ArrayLayout
from cudml.plan.modulus import plan_modulus
from cudml.plan.normalization import plan_moments, plan_normalization
from cudml.plan.plan import Plan
from cudml.plan.scan import plan_scan, plan_segmented_scan
from cudml.plan.spec import Modulus, Moments, Normalization, Scan, SegmentedScan, Spec

_PLANNERS: dict[type, Any] = {
    Scan: plan_scan,
    SegmentedScan: plan_segmented_scan,
    Moments: plan_moments,
    Normalization: plan_normalization,
    Modulus: plan_modulus,
}


def make_plan(spec: Spec, arrays: dict[str, Any], device: DeviceProperties = H200) -> Plan:
    """The plan of `spec` on arrays of the given layouts; one number in place of an array is given as its dtype."""
    return _PLANNERS[type(spec)](spec, arrays, device)


@lru_cache(maxsize=4096)
def recall_plan(spec: Spec, layouts: tuple[tuple[str, ArrayLayout | np.dtype], ...], device: DeviceProperties) -> Plan:
    """The same, made once: calls in a loop pay for a look-up."""
    return make_plan(spec, dict(layouts), device)
