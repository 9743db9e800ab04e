"""The plans of normalizations whose output is dense along another axis than the input: kernels/normalization_turned.cu.

The moments of all groups are found first, as if there was no output, and handed on in the workspace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from cudml.plan.device import DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.layout import VECTOR_BYTES, ArrayLayout, broadcast, index_type, outer_to_inner
from cudml.plan.normalization.groups import MOMENTS, Groups
from cudml.plan.normalization.joint_axes import ARRAYS, JointAxes
from cudml.plan.normalization.operands import Operand
from cudml.plan.normalization.steps import operand_arguments, parameters
from cudml.plan.plan import Argument, Launch, Plan, Pointer, Struct, Workspace, constants_of
from cudml.plan.spec import Normalization
from cudml.plan.turned import Tile, shrunk

#: The largest and the smallest tile, by the bytes of the input's elements. Larger ones were tried for float32 only: on
#: an H200 64 x 64 reaches 63.7 % of copy speed, 128 x 64 and 64 x 128 up to half a point less. Where axes are short,
#: smaller ones take 0.74 times as long, of 64 random arrays none of them longer.
_TILES = {
    1: (Tile(128, 128, 256), Tile(32, 128, 128)),
    2: (Tile(128, 128, 256), Tile(16, 64, 128)),
    4: (Tile(64, 64, 256), Tile(16, 32, 64)),
    8: (Tile(64, 32, 256), Tile(16, 16, 64)),
}

#: Shorter axes leave most of a tile empty.
_LEAST_TURNED = 16

#: Elements for each multiprocessor, at least, unless it takes two launches all the same: (597, 3, 20, 3) float64s over
#: 2, 3, whose axes lie in the order 2, 3, 0, 1, take an H200 3.3 us without tiles and 6.7 in them, (22, 85, 4, 17)
#: floats in the order 2, 3, 1, 0 3.7 and 7.0; but (395, 6, 5, 36) float16s over 2, 3 16.2 and 8.6. And tiles, where
#: groups lie side by side in the output: 4.9 us for 512 x 512 floats in tiles and 5.5 without, for 384 x 384 5.3 and
#: 4.4.
_LEAST_ELEMENTS, _LEAST_TILES = 1 << 10, 3 / 8


@dataclass(frozen=True)
class Turned:
    """The axes of all arrays, those of tiles apart."""

    axes: JointAxes
    high: int
    """Along which the input is dense; the output is along the last one."""
    groups: Groups
    tile: Tile

    @classmethod
    def of(cls, groups: Groups, moments: ArrayLayout) -> Turned | None:
        """None where tiles do not pay."""
        source, output = groups.source, groups.arrays["output"]
        assert isinstance(output, ArrayLayout)
        if not (source.element_aligned and output.element_aligned):
            return None
        arrays = {**groups.arrays, "mean": moments}
        layouts = {
            name: broadcast(layout, source.shape)
            for name in ARRAYS
            if isinstance(layout := arrays.get(name), ArrayLayout)
        }
        axes = JointAxes.of(layouts, outer_to_inner(range(len(source.shape)), output))
        steps, last = axes.strides["input"], len(axes.sizes) - 1
        if axes.strides["output"][last] != output.dtype.itemsize or steps[last] == source.dtype.itemsize:
            return None
        high = next((i for i in range(last) if steps[i] == source.dtype.itemsize), last)
        own_of_each = axes.strides["mean"][high] != 0 and axes.strides["mean"][last] != 0
        if min(axes.sizes[high], axes.sizes[last]) < _LEAST_TURNED or high == last or own_of_each:
            return None
        tile = shrunk(*_TILES[source.dtype.itemsize], axes.sizes[high], axes.sizes[last])
        return cls(axes, high, groups, tile)

    @property
    def outer(self) -> JointAxes:
        """The axes outside of tiles."""
        places = [i for i in range(len(self.axes.sizes) - 1) if i != self.high]
        sizes = tuple(self.axes.sizes[i] for i in places) or (1,)
        strides = {name: tuple(s[i] for i in places) or (0,) for name, s in self.axes.strides.items()}
        return JointAxes(sizes, strides)

    @property
    def tiles(self) -> tuple[int, int]:
        """Below each other, and beside each other."""
        return -(-self.axes.sizes[self.high] // self.tile.height), -(-self.axes.sizes[-1] // self.tile.width)

    @property
    def blocks(self) -> int:
        return math.prod(self.outer.sizes) * math.prod(self.tiles)

    @property
    def index(self) -> np.dtype:
        return index_type((self.groups.source.size,), [self.axes.dims(name) for name in self.axes.strides])

    @property
    def geometry(self) -> Struct:
        """kernels/normalization_turned.cuh: struct TurnedGeometry."""
        down, across = (
            tuple(self.axes.strides[name][axis] if name in self.axes.strides else 0 for name in ARRAYS)
            for axis in (self.high, -1)
        )
        sizes = (self.groups.count, self.axes.sizes[self.high], self.axes.sizes[-1])
        numbers = self.outer.numbers(self.index.itemsize == 4)
        return Struct((*sizes, *self.tiles, *down, *across, *numbers), self.index)

    def begins_with_packs(self, name: str, along: int) -> bool:
        """Whether all lines along an axis begin at multiples of 16 bytes."""
        layout, steps = self.groups.arrays[name], self.axes.strides[name]
        assert isinstance(layout, ArrayLayout)
        others = [step for i, step in enumerate(steps) if i != along % len(steps)]
        return layout.lies_in_steps(VECTOR_BYTES, others)

    def access(self, name: str) -> str:
        """How scale or bias is read along a row (kernels/packs.cuh)."""
        layout = self.groups.arrays.get(name)
        if not isinstance(layout, ArrayLayout):
            return "NUMBER"
        step = self.axes.strides[name][-1]
        dense = step == layout.dtype.itemsize and self.begins_with_packs(name, -1)
        return "ONE" if step == 0 else "PACKED" if dense else "STRIDED"

    def constants(self, spec: Normalization) -> dict[str, str | int | bool]:
        arrays = self.groups.arrays
        own: dict[str, str | int | bool] = {}
        for name in ("scale", "bias"):
            is_array = isinstance(arrays.get(name), ArrayLayout)
            own[f"HAS_{name.upper()}"] = 1 if is_array else 0 if arrays.get(name) is None else 2
            own[f"{name.upper()}_ACCESS"] = self.access(name)
            own[f"{name.upper()}_DOWN"] = is_array and self.axes.strides[name][self.high] != 0
        return {
            **self.groups.constants(spec),
            **own,
            "KEPT_RANK": 1,
            "REDUCED_RANK": 1,
            "INDEX": c_name(self.index),
            "INPUT_ACCESS": "PACKED" if self.begins_with_packs("input", self.high) else "SHIFTED",
            "OUTPUT_PACKED": self.begins_with_packs("output", -1),
            "GROUPS_DOWN": self.axes.strides["mean"][self.high] != 0,
            "GROUPS_ACROSS": self.axes.strides["mean"][-1] != 0,
            "TILE_HEIGHT": self.tile.height,
            "TILE_WIDTH": self.tile.width,
            "BLOCK": self.tile.block,
            "OUTER_RANK": len(self.outer.sizes),
        }


def plan_turned(
    groups: Groups, spec: Normalization, device: DeviceProperties, plan_groups: Callable[[Groups], Plan]
) -> Plan | None:
    """The launches where the input is dense along another axis than the output, else None; `plan_groups` plans those
    that find moments."""
    moments = moments_of(groups, spec)
    turned = Turned.of(groups, moments)
    if turned is None or turned.blocks < (0 if groups.are_columns else _LEAST_TILES * device.multiprocessors):
        return None
    arrays: dict[str, Operand] = {"input": groups.source, "mean": moments}
    statistics = plan_groups(Groups.of(spec.axes, arrays, result=groups.result))
    place = Workspace(-(-statistics.workspace_bytes // VECTOR_BYTES) * VECTOR_BYTES)
    # No array has that name, so the address is null: what finds moments stores nothing else.
    moved: dict[Argument, Argument] = {Pointer("mean"): place, Pointer("output"): Pointer("nowhere")}
    found = tuple(
        launch._replace(arguments=tuple(moved.get(argument, argument) for argument in launch.arguments))
        for launch in statistics.launches
    )
    nbytes = place.offset + groups.count * MOMENTS.itemsize
    return replace(statistics, launches=found, workspace_bytes=nbytes, then=_apply(turned, spec, place))


def are_few_to_turn(groups: Groups, device: DeviceProperties) -> bool:
    """Whether elements are so few that one launch is faster, which turns nothing in tiles."""
    return groups.source.size < _LEAST_ELEMENTS * device.multiprocessors


def moments_of(groups: Groups, spec: Normalization) -> ArrayLayout:
    """Of all groups, in C order."""
    shape = tuple(1 if axis in spec.axes else size for axis, size in enumerate(groups.source.shape))
    strides = tuple(math.prod(shape[axis + 1 :]) * MOMENTS.itemsize for axis in range(len(shape)))
    return ArrayLayout(shape, strides, MOMENTS, VECTOR_BYTES)


def _apply(turned: Turned, spec: Normalization, moments: Workspace) -> Plan:
    groups, block = turned.groups, turned.tile.block
    handed_on = (turned.geometry, parameters(groups, spec))
    arrays = (Pointer("input"), Pointer("output"), *operand_arguments())
    launches = [Launch("apply_turned", turned.blocks, block, (*arrays, moments, *handed_on), early=True)]
    if groups.has("mean"):
        stored = (moments, Pointer("mean"), Pointer("variance"), *handed_on)
        launches.append(Launch("store_statistics", -(-groups.count // block), block, stored, early=True))
    return Plan("normalization_turned.cu", constants_of(**turned.constants(spec)), tuple(launches))
