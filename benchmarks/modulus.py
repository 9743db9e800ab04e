"""The truncated modulus: every type, what divisors can be, and views."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import cudml
from benchmarks import peers as libraries
from benchmarks.case import ADDITION, Arrays, Call, Case, filled
from benchmarks.scan import Shape, View, view_of

_GI = 1 << 30  # bytes of an operand

_MISALIGNED = View(lambda shape: (*shape[:-1], shape[-1] + 1), lambda stored: stored[..., 1:], of_output=True)


@dataclass(frozen=True)
class ModulusCase(Case):
    """Options: `divisor` is "number", "row" or "column", else an array like the dividend; `view` says how the dividend
    lies, and with `views` 2 the divisor too; `data` is "full range" of integers or "all exponents" of floats."""

    @property
    def divisor_shape(self) -> Shape:
        kinds = {"number": (), "row": self.shape[-1:], "column": (*self.shape[:-1], 1)}
        return kinds.get(self.options.get("divisor", ""), self.shape)

    @property
    def views(self) -> tuple[View | None, View | None, View | None]:
        """Of the operands and the output."""
        name = self.options.get("view")
        if name is None:
            return None, None, None
        view = _MISALIGNED if name == "misaligned" else view_of(name)
        both = self.options.get("views") == 2 and len(self.divisor_shape) == len(self.shape)
        return view, view if both else None, view if view.of_output else None

    @property
    def bytes(self) -> int:
        shapes = (self.shape, self.divisor_shape, self.shape)
        stored = (view.stored(shape) if view else shape for view, shape in zip(self.views, shapes, strict=True))
        elements = sum(math.prod(shape) for shape in stored if shape)
        return elements * np.dtype(self.dtype).itemsize


_DENSE = {
    **dict.fromkeys(("float16", "bfloat16", "float32", "float64", "int16", "int32", "uint16", "uint32"), 98),
    **dict.fromkeys(("int8", "uint8", "int64", "uint64"), 95),
}
_BROADCAST = ("float32", "float16", "int8", "int16", "int32", "int64")
_VIEWED: tuple[dict[str, Any], ...] = (
    {"view": "step 2", "views": 2},
    {"view": "transposed input"},
    {"view": "transposed input", "views": 2},
    {"view": "misaligned", "views": 2},
    {"view": "rows padded by 1", "views": 2},
    {"in_place": True},
)


def _cases() -> Iterator[ModulusCase]:
    def case(dtype: str, rows: int, options: dict[str, Any], group: str, **required: Any) -> ModulusCase:
        size = _GI // np.dtype(dtype).itemsize
        shape = (size // rows, rows) if rows else (size,)
        return ModulusCase("fmod", dtype, shape, None, options, group=group, **required)

    for dtype, percent in _DENSE.items():
        data = {} if np.dtype(dtype).kind == "f" or dtype == "bfloat16" else {"data": "full range"}
        yield case(dtype, 0, data, "arrays", required=percent, roof=ADDITION)
    for dtype, required in (("float16", 60), ("bfloat16", None), ("float32", 60), ("float64", None)):
        yield case(dtype, 0, {"data": "all exponents"}, "all exponents", required=required, roof=ADDITION)
    for dtype in _BROADCAST:
        for divisor in ("number", "row", "column"):
            yield case(dtype, 4096, {"divisor": divisor}, divisor, required=97)
    for dtype in ("int8", "float16"):
        for divisor in ("row", "column"):
            yield case(dtype, 95, {"divisor": divisor}, "short rows")
    for dtype in ("float32", "int8"):
        for options in _VIEWED:
            yield case(dtype, 4096, options, "views", required=85)
    for power in (10, 14, 18, 22):
        yield ModulusCase("fmod", "float32", (1 << power,), None, group="small")
    yield ModulusCase("fmod", "float32", (32, 64), None, group="small")


CASES: tuple[ModulusCase, ...] = tuple(_cases())


def arrays(case: ModulusCase, xp: Any) -> Arrays:
    views = case.views
    x1 = _operand(case, xp, case.shape, views[0], 0)
    x2 = _operand(case, xp, case.divisor_shape, views[1], 1) if case.divisor_shape else np.dtype(case.dtype).type(37)
    if "in_place" in case.options:
        return {"x1": x1, "x2": x2, "out": x1}
    stored = xp.empty(views[2].stored(case.shape) if views[2] else case.shape, case.dtype)
    return {"x1": x1, "x2": x2, "out": views[2].take(stored) if views[2] else stored}


def _operand(case: ModulusCase, xp: Any, shape: Shape, view: View | None, seed: int) -> Any:
    stored = view.stored(shape) if view else shape
    dtype, data = np.dtype(case.dtype), case.options.get("data")
    if data == "all exponents":
        bits = np.dtype(f"u{dtype.itemsize}")
        infinity = int(np.array(np.inf, dtype).view(bits))
        filling = filled(xp, stored, bits.name, 1, infinity, seed).view(dtype)
    elif data == "full range":
        info = np.iinfo(dtype)
        filling = filled(xp, stored, case.dtype, info.min * 0.999, info.max * 0.999, seed)
    else:
        filling = filled(xp, stored, case.dtype, *((0, 100), (3, 40))[seed], seed)
    return view.take(filling) if view else filling


def ours(case: ModulusCase, arrays: Arrays) -> Call:
    x1, x2, out = arrays["x1"], arrays["x2"], arrays["out"]
    return lambda: cudml.fmod(x1, x2, out=out)


def peers(case: ModulusCase, arrays: Arrays) -> dict[str, Call]:
    return libraries.modulus(case, arrays)


def compiled_peers(case: ModulusCase, arrays: Arrays) -> dict[str, Call]:
    return {}
