"""The plans of groups that have several columns each: kernels/normalization_joined_columns.cu."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.dtypes import c_name
from cudml.plan.layout import (
    SECTOR_BYTES,
    VECTOR_BYTES,
    ArrayLayout,
    Dims,
    collapse,
    innermost,
    lie_across,
    lie_in_one_order,
    outer_to_inner,
    power_of_two,
)
from cudml.plan.loads import asked_for_ahead
from cudml.plan.normalization.column_sums import dividing_columns
from cudml.plan.normalization.column_tiles import Columns, applied_columns
from cudml.plan.normalization.columns import AHEAD_BYTES_OF_STEPS, column_constants
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.steps import NORMALIZER_BYTES, NORMALIZERS, SUMS_BYTES, operand_arguments, parameters
from cudml.plan.plan import Launch, Plan, Pointer, Struct, Workspace, constants_of
from cudml.plan.spec import Normalization

#: Rows of 32 parts that a warp adds up, and warps that add up the parts of a group, at the most; warps of a block that
#: folds, and of one that joins at the least (kernels/normalization_joined_columns.cu: FOLDING, JOINING).
_MOST_ROWS, _MOST_JOINERS, _FOLDING, _LEAST_JOINING = 8, 32, 4, 4

#: Elements for each multiprocessor, at least, as there are three launches. Of 240 random arrays on an H200 whose
#: columns lie in rows of 32 bytes at least, 187 have more, and take 0.58 times as long as what else there is, a copy
#: mostly, 8 of them longer; those of fewer 0.90 times, 18 of 53 longer, and 44 with narrower rows 1.32 times. (16384,
#: 16384) floats whose axes lie in the order 1, 0 are reduced over both in 245 us in place of 767, and normalized in 754
#: in place of 1292. Outputs in another order are as fast from a copy, 0.99 times.
_LEAST_ELEMENTS = 1 << 11


class Joints:
    """How columns make up groups: they lie along the axes of a group behind the innermost in memory, side by side along
    all others."""

    def __init__(self, axes: Sequence[int], groups: Groups) -> None:
        source = groups.source
        own = [axis for axis in axes if source.shape[axis] > 1]
        inner = innermost(source, own)
        assert inner is not None
        self.along = tuple(axis for axis in own if axis > inner)
        self._reduced = tuple(axis for axis in own if axis <= inner)
        every = range(len(source.shape))
        self._kept = outer_to_inner((axis for axis in every if axis not in axes), *groups.stored)
        self._across = outer_to_inner((axis for axis in every if axis not in self.along), *groups.stored)
        self._source = source
        self.columns_of_group = math.prod(source.shape[axis] for axis in self._reduced)

    @property
    def row_bytes(self) -> int:
        """Of neighbouring columns that lie side by side in the input."""
        across, size = collapse(self._source, self._across), self._source.dtype.itemsize
        return across.sizes[-1] * size if across.strides[-1] == size else 0

    @property
    def first(self) -> Dims:
        """From a column to the first element of its group, in bytes."""
        strides = [0 if axis in self._reduced else stride for axis, stride in enumerate(self._source.strides)]
        return collapse(self._source._replace(strides=tuple(strides)), self._across)

    def parts(self, of_column: int) -> Dims:
        """From a column to the first of its parts."""
        strides = [0] * len(self._source.shape)
        step = of_column
        for axis in reversed((*self._kept, *self._reduced)):
            strides[axis] = step
            step *= self._source.shape[axis]
        return collapse(self._source._replace(strides=tuple(strides)), self._across)


class Joined:
    """A plan of joined columns in the making."""

    @classmethod
    def of(cls, groups: Groups, spec: Normalization, device: DeviceProperties) -> Joined | None:
        """None of groups that do not lie across, of which there are too few elements, and that no tiles divide."""
        source = groups.source
        if source.size < _LEAST_ELEMENTS * device.multiprocessors or not lie_across(spec.axes, source):
            return None
        joints, own = Joints(spec.axes, groups), ("input", "output", "scale", "bias")
        columns = Groups.of(joints.along, {name: groups.arrays.get(name) for name in own}, result=groups.result)
        if joints.row_bytes < SECTOR_BYTES or not columns.are_columns or columns.length % columns.chunk:
            return None
        added = dividing_columns(columns, device)
        return cls(groups, joints, added, columns, spec) if added else None

    def __init__(self, groups: Groups, joints: Joints, added: Columns, columns: Groups, spec: Normalization) -> None:
        self._groups, self._columns, self._spec, self._added = groups, columns, spec, added
        of_column = columns.length // added.tile
        self._parts = joints.columns_of_group * of_column  # of a group
        self._of_parts, self._first = joints.parts(of_column), joints.first
        counts = (groups.count * self._parts, groups.source.size)
        self._index = max(groups.index, columns.index_with(counts), key=lambda dtype: dtype.itemsize)
        self._rows = min(power_of_two(math.ceil(self._parts / LANES)), _MOST_ROWS)  # that a warp adds up

    @property
    def _folded(self) -> list[int]:
        """Parts of a group: of columns, and after each folding."""
        counts, most = [self._parts], self._rows * LANES
        while counts[-1] > most * _MOST_JOINERS:
            counts.append(math.ceil(counts[-1] / most))
        return counts

    @property
    def _joiners(self) -> int:
        return power_of_two(math.ceil(self._folded[-1] / (self._rows * LANES)))

    @property
    def _joints(self) -> Struct:
        """kernels/normalization_joined_columns.cu: struct Joints."""
        return Struct((self._parts, *self._first.numbers, *self._of_parts.numbers), self._index)

    @property
    def _joined_groups(self) -> Struct:
        """And struct JoinedGroups."""
        kept = self._groups.kept
        moments = kept.strides.get("mean", (0,) * len(kept.sizes))
        layouts = (*kept.sizes, *kept.strides["input"], *kept.sizes, *moments)
        return Struct((self._groups.count, self._folded[-1], *layouts), self._index)

    def _constants(self, columns: Groups, chosen: Columns) -> tuple[tuple[str, str], ...]:
        own: dict[str, str | int | bool] = {
            "INDEX": c_name(self._index),
            "MOMENT": self._groups.constants(self._spec)["MOMENT"],
            "FIRST_RANK": self._first.rank,
            "PARTS_RANK": self._of_parts.rank,
            "GROUP_RANK": len(self._groups.kept.sizes),
            "JOINERS": self._joiners,
            "JOINED_ROWS": self._rows,
        }
        return constants_of(**(column_constants(columns, self._spec, chosen) | own))

    def statistics(self, device: DeviceProperties) -> Plan:
        """The sums of all parts, and what they make."""
        columns, count = self._columns.in_tiles(self._added.tile), self._groups.count
        normalizers = count * NORMALIZER_BYTES if self._groups.has("output") else 0
        places = [Workspace(math.ceil(normalizers / VECTOR_BYTES) * VECTOR_BYTES)]
        for parts in self._folded:
            places.append(Workspace(places[-1].offset + count * parts * SUMS_BYTES))
        launches = [self._sums(columns, places[0], device)]
        for (before, left), place in zip(itertools.pairwise(self._folded), itertools.pairwise(places), strict=False):
            blocks, folding = math.ceil(count * left / _FOLDING), Struct((count, before, left), self._index)
            launches.append(Launch("fold_parts", blocks, _FOLDING * LANES, (*place, folding), early=True))
        launches.append(self._join(places[-2]))
        constants = self._constants(columns, self._added)
        return Plan("normalization_joined_columns.cu", constants, tuple(launches), places[-1].offset)

    def _sums(self, columns: Groups, parts: Workspace, device: DeviceProperties) -> Launch:
        ahead, blocks = (
            asked_for_ahead(columns.source, AHEAD_BYTES_OF_STEPS, device),
            self._added.grid(columns) * columns.tiles,
        )
        arguments = (Pointer("input"), parts, columns.geometry_in(self._index), self._joints, ahead)
        return Launch("sum_joined_columns", blocks, self._added.threads, arguments, early=True)

    def _join(self, parts: Workspace) -> Launch:
        joining = max(self._joiners, _LEAST_JOINING)
        blocks = math.ceil(self._groups.count * self._joiners / joining)
        handed_on = (self._joined_groups, parameters(self._groups, self._spec))
        arguments = (Pointer("input"), parts, NORMALIZERS, Pointer("mean"), Pointer("variance"), *handed_on)
        return Launch("join_columns", blocks, joining * LANES, arguments, early=True)

    def applied(self) -> Plan:
        """Every tile again."""
        chosen = applied_columns(self._columns)
        columns = self._columns.in_tiles(chosen.tile)
        arrays = (Pointer("input"), Pointer("output"), *operand_arguments(), NORMALIZERS)
        handed_on = (columns.geometry_in(self._index), parameters(self._groups, self._spec), self._joints)
        blocks = chosen.grid(columns) * columns.tiles
        launch = Launch("apply_joined_columns", blocks, chosen.threads, (*arrays, *handed_on), early=True)
        return Plan("normalization_joined_columns.cu", self._constants(columns, chosen), (launch,))


def plan_joined_columns(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launches for groups that lie across and are normalized into an array that lies alike; None of others, and
    where no tiles divide their columns."""
    output = groups.arrays["output"]
    assert isinstance(output, ArrayLayout)
    joined = Joined.of(groups, spec, device) if lie_in_one_order(groups.source, output) else None
    return replace(joined.statistics(device), then=joined.applied()) if joined else None


def plan_joined_moments(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The same where only moments are asked for."""
    joined = Joined.of(groups, spec, device)
    return joined.statistics(device) if joined else None
