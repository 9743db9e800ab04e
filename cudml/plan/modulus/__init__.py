"""The plans of the truncated modulus: which of kernels/modulus_*.cu."""

from __future__ import annotations

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.layout import ArrayLayout
from cudml.plan.modulus.call import call_of
from cudml.plan.modulus.elements import plan_elements, plan_small
from cudml.plan.modulus.packs import plan_packs
from cudml.plan.modulus.runs import plan_runs
from cudml.plan.modulus.tiles import plan_tiles
from cudml.plan.plan import Plan
from cudml.plan.spec import Modulus


def plan_modulus(spec: Modulus, arrays: dict[str, ArrayLayout | np.dtype], device: DeviceProperties) -> Plan:
    """The launch of `output` = `dividend` % `divisor`; an operand given as a dtype is one number."""
    call = call_of(spec, arrays, device)
    return plan_small(call) or plan_packs(call) or plan_tiles(call) or plan_runs(call) or plan_elements(call)
