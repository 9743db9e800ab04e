"""The plan of the truncated modulus: kernels/modulus.cu."""

from __future__ import annotations

import math

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.layout import NO_DIMS, VECTOR_BYTES, ArrayLayout, Dims, broadcast, collapse, index_type, outer_to_inner
from cudml.plan.plan import Launch, Plan, Pointer, Scalar, Struct, constants_of
from cudml.plan.spec import Modulus

BLOCK = 256


def plan_modulus(spec: Modulus, arrays: dict[str, ArrayLayout | np.dtype], device: DeviceProperties) -> Plan:
    """The launch of `output` = `dividend` % `divisor`; an operand given as a dtype is one number."""
    output = arrays["output"]
    assert isinstance(output, ArrayLayout)
    operands = {name: _stretched(arrays[name], output.shape) for name in ("dividend", "divisor")}
    layouts = [layout for layout in (*operands.values(), output) if isinstance(layout, ArrayLayout)]
    axes = outer_to_inner(range(len(output.shape)), output)
    dims = {name: _dims(layout, axes) for name, layout in (*operands.items(), ("output", output))}
    pack = _pack(layouts, axes)
    index = index_type((output.size,), dims.values())
    constants = constants_of(
        VALUE=c_name(spec.dtype),
        OUTPUT=c_name(output.dtype),
        OUTPUT_ALIGNED=output.element_aligned,
        OUTPUT_RANK=dims["output"].rank,
        PACK=pack,
        INDEX="int" if index.itemsize == 4 else "long long",
        **_operand_constants("DIVIDEND", operands["dividend"], dims["dividend"]),
        **_operand_constants("DIVISOR", operands["divisor"], dims["divisor"]),
    )
    if output.size == 0:
        return Plan("modulus.cu", constants, ())
    geometry = Struct(
        (output.size, *dims["dividend"].numbers, *dims["divisor"].numbers, *dims["output"].numbers), index
    )
    pointers = (Pointer("dividend"), Pointer("divisor"), Pointer("output"))
    numbers = tuple(Scalar(name, _dtype(layout)) for name, layout in operands.items())
    launch = Launch("modulus", math.ceil(output.size / (BLOCK * pack)), BLOCK, (*pointers, *numbers, geometry))
    return Plan("modulus.cu", constants, (launch,))


def _stretched(operand: ArrayLayout | np.dtype, shape: tuple[int, ...]) -> ArrayLayout | np.dtype:
    return broadcast(operand, shape) if isinstance(operand, ArrayLayout) else operand


def _dims(operand: ArrayLayout | np.dtype, axes: tuple[int, ...]) -> Dims:
    return collapse(operand, axes) if isinstance(operand, ArrayLayout) else NO_DIMS


def _dtype(operand: ArrayLayout | np.dtype) -> np.dtype:
    return operand.dtype if isinstance(operand, ArrayLayout) else operand


def _operand_constants(name: str, operand: ArrayLayout | np.dtype, dims: Dims) -> dict[str, str | int]:
    is_array = isinstance(operand, ArrayLayout)
    return {
        name: c_name(_dtype(operand)),
        f"{name}_KIND": 1 if is_array else 2,
        f"{name}_ALIGNED": operand.element_aligned if isinstance(operand, ArrayLayout) else 1,
        f"{name}_RANK": dims.rank,
    }


def _pack(layouts: list[ArrayLayout], axes: tuple[int, ...]) -> int:
    """Elements that a thread takes: 16 bytes of the widest where all arrays lie dense in one order, else one."""
    pack = VECTOR_BYTES // max(layout.dtype.itemsize for layout in layouts)
    for layout in layouts:
        dims = collapse(layout, axes)
        dense = dims.rank == 1 and dims.strides[0] == layout.dtype.itemsize
        if not dense or layout.alignment % (pack * layout.dtype.itemsize) != 0:
            return 1
    return max(pack, 1)
