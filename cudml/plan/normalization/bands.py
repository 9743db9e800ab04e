"""The plan of moments and normalizations of columns in narrow panels, read once: kernels/normalization_bands.cu.

On an H200 (17476, 1000, 3) floats over axis 1 take 103 us in place of 151 by kernels/normalization_long_panels.cu,
(131072, 100, 4) 104 in place of 247, (2133, 4096, 6) 113 in place of 165 in two passes, float16s (524288, 100, 2) 134
in place of 263 and (3495, 10000, 3) 116 in place of 277; a copy takes 103 to 106.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cudml.plan.device import LANES, RESERVED_BYTES, DeviceProperties
from cudml.plan.layout import VECTOR_BYTES, power_of_two
from cudml.plan.loads import asked_for_ahead
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.panels import lie_in_panels
from cudml.plan.normalization.steps import SUMS_BYTES, array_arguments, parameters
from cudml.plan.panels import panels_of_block
from cudml.plan.plan import Launch, Plan, constants_of
from cudml.plan.spec import Normalization

#: Columns at the most, and from which on a thread has so many registers in use that it adds up one band at a time:
#: (268435, 100, 5) float16s take 211 us by two bands and 218 by one, (223696, 100, 6) 205 and 193.
_MOST_COLUMNS, _COLUMNS_OF_SINGLE_BANDS = 16, 6

#: Steps of a column at least, by the bytes of an element, and of columns that have a part of a chunk. Threads for each
#: column are faster with fewer: (699050, 32, 3) floats take 131 us so and 164, (1118481, 20, 3) 166 and 133, (621378,
#: 72, 3) float16s 198 and 209, (894784, 50, 3) 319 and 245, (559240, 20, 3) float64s 131 and 133; (2711400, 33, 3)
#: floats took 999 us so, and 600 otherwise in another run, (268435, 50, 5) 148 and 137.
_LEAST_STEPS, _LEAST_STEPS_OF_PARTS = {2: 65, 4: 32, 8: 16}, 65

#: And of rows that threads load as they lie, 16 columns or 64 bytes, and bytes of a row at the most: (6990, 600, 16)
#: floats take 5 % longer so, (4194, 1000, 16) 12 % less time, (11491, 365, 8) float64s 137 us and 129 otherwise, (4194,
#: 1000, 8) 136 and 155, (2097, 1000, 16) 16 % longer.
_LEAST_STEPS_OF_WIDE_ROWS, _WIDE_COLUMNS, _WIDE_BYTES, _MOST_ROW_BYTES = 900, 16, 64, 96

#: Bytes of the input for each multiprocessor at least, as fewer blocks load together, and wait together: (5592, 1000,
#: 3) floats, 2^26 bytes, take 37 us so and 52 otherwise, (3830, 365, 3), 2^24, 17.1 and 16.1.
_LEAST_BYTES = 1 << 18

#: Or so many at the most of columns of such lengths, in rows of as many bytes, which few panels leave to few blocks
#: otherwise: (32, 1000, 2) floats take 2.7 us so and 12.4, (65, 1000, 2) float16s 2.3 and 22, but (5, 365, 8) floats
#: 3.5 and 2.4, (16, 2000, 2) 53 % longer, (4, 1000, 8) float64s 68 %.
_MOST_OF_FEW, _STEPS_OF_FEW, _ROW_BYTES_OF_FEW = 1 << 14, range(513, 1025), 24

#: Columns at the most, in one block, of which only moments are found, and steps but of halves: those of (447392, 100,
#: 3) float16s take a third of the time so, of (223696, 100, 3) floats half, of (22369, 1000, 3) 95 %, and of (5592,
#: 1000, 3) 108 %, of (30643, 365, 6) 122 %.
_MOST_COLUMNS_OF_MOMENTS, _MOST_STEPS_OF_MOMENTS = 5, 256

#: Bytes of a block of several panels, of two columns and of more: (223696, 200, 3) float16s take 151 us by 9600 bytes
#: and 141 by 19200, (466033, 72, 2) 202 by 9216 and 226 by 18432.
_BYTES_OF_TWO_COLUMNS, _BYTES = 16 << 10, 24 << 10

#: The part of a multiprocessor's shared memory up to which a block has a whole panel, and that of a block where a
#: cluster shares one: (2730, 4096, 6) floats, 96 KB, take 140 us by a block each and 156 by two, (2236, 10000, 3), 117
#: KB, 145 by three and 152 by two.
_MOST_OF_BLOCK, _SHARE = 0.45, 0.23

#: Blocks of a cluster at the most, which have more than that of large panels, the part of each at the most, and bytes
#: of the input for each multiprocessor at least: (445, 50176, 3) floats take 168 us so and 208 in two passes, (334,
#: 50176, 4) 233 and 203, and (139, 20000, 6) 63 and 57.
_MOST_BLOCKS, _MOST_OF_SHARE, _LEAST_OF_LARGE_PANELS = 8, 0.35, 1 << 20

#: Threads of a block of so many bytes at the most, and of others: (44739, 1000, 3) float16s, 24 KB, take 131 us by 128
#: threads and 135 by 64, (5461, 4096, 6), 48 KB, 134 by 256 and 140 by 128, (2730, 4096, 6) floats, 96 KB, 140 and 147.
_THREADS, _MOST_THREADS = ((16 << 10, 64), (32 << 10, 128)), 256

#: And of halves with arrays of scale or bias, whose threads take half as many registers again: by 256 threads two
#: blocks of 50 KB fit a multiprocessor in place of four, and (1783, 224, 224, 3) over 1, 2 took 460 us, twice as many
#: by 128 threads 643.
_THREADS_OF_SCALED_HALVES = ((16 << 10, 64), (64 << 10, 128))

#: Bytes that stay free behind each 128 where columns are an even number: cudml/plan/panels.py.
_FREE_BYTES, _FREE_BEHIND = 16, 128

#: Bytes of the input, at the most, that is asked for while the launch ahead ends, as of other panels.
_AHEAD_BYTES = 1 << 24


class _Cut(NamedTuple):
    """How the work is shared out: kernels/normalization_bands.cu."""

    panels: int
    blocks: int
    threads: int
    span: int
    adders: int
    units: int
    """Of a panel."""

    @classmethod
    def of(cls, groups: Groups, device: DeviceProperties) -> _Cut:
        inner, nbytes = groups.kept.sizes[-1], _bytes_of_panel(groups)
        part = nbytes / device.shared_bytes_per_multiprocessor
        blocks = 1 if part <= _MOST_OF_BLOCK else min(math.ceil(part / _SHARE), _MOST_BLOCKS)
        of_several = _BYTES if inner > 2 else _BYTES_OF_TWO_COLUMNS
        panels = panels_of_block(nbytes, groups.count // inner, device, of_several) if blocks == 1 else 1
        share = panels * nbytes // blocks
        of_bytes = _THREADS_OF_SCALED_HALVES if groups.are_scaled_halves else _THREADS
        threads = next((threads for most, threads in of_bytes if share <= most), _MOST_THREADS)
        span = 2 if inner < _COLUMNS_OF_SINGLE_BANDS else 1
        spans = math.ceil(groups.length / (groups.chunk * span))
        adders = min(LANES, power_of_two(spans))
        return cls(panels, blocks, threads, span, adders, math.ceil(spans / adders))

    @property
    def units_of_block(self) -> int:
        return math.ceil(self.units / self.blocks)

    def staged_bytes(self, groups: Groups) -> int:
        """Of a block, with the pieces that its last band has behind the last step."""
        steps = min(self.units_of_block * self.adders * self.span * groups.chunk, groups.length)
        inner, size = groups.kept.sizes[-1], groups.source.dtype.itemsize
        pieces = math.ceil(self.panels * steps * inner * size / VECTOR_BYTES) + inner + 2
        nbytes = pieces * VECTOR_BYTES
        return nbytes + (math.ceil(nbytes / _FREE_BEHIND) * _FREE_BYTES if _is_padded(groups) else 0)

    def static_bytes(self, groups: Groups) -> int:
        """Of the sums of units, the normalizers and the first elements."""
        return (
            self.panels
            * groups.kept.sizes[-1]
            * (power_of_two(self.units_of_block) * SUMS_BYTES + 4 * groups.normal_words + groups.source.dtype.itemsize)
        )


def plan_bands(groups: Groups, spec: Normalization, device: DeviceProperties) -> Plan | None:
    """The launch of blocks or clusters that have panels; None where groups are not the columns of such, or are faster
    else."""
    if not (_are_faster(groups, device) and _are_alike(groups) and lie_in_panels(groups)):
        return None
    cut, inner = _Cut.of(groups, device), groups.kept.sizes[-1]
    if not _fits(cut, groups, device):
        return None
    own: dict[str, str | int | bool] = {
        "INNER": inner,
        "PANELS": cut.panels,
        "CLUSTER": cut.blocks,
        "PANELS_ALIGNED": _bytes_of_panel(groups) % VECTOR_BYTES == 0,
        "WHOLE_CHUNKS": groups.length % groups.chunk == 0,
        "SPAN": cut.span,
        "ADDERS": cut.adders,
        "UNITS": power_of_two(cut.units_of_block),
        "ALL_UNITS": power_of_two(cut.units) if cut.blocks > 1 else 1,
        "THREADS": cut.threads,
        "PADDED": _FREE_BYTES if _is_padded(groups) else 0,
        "AT_FIRST": _at_first(cut, groups, device),
        "EVICTION": groups.eviction,
        "HAS_OUTPUT": groups.has("output"),
    }
    ahead = asked_for_ahead(groups.source, _AHEAD_BYTES, device)
    arguments = (*array_arguments(), groups.geometry, parameters(groups, spec), ahead)
    kernel = "normalize_bands" if cut.blocks == 1 else "normalize_shared_bands"
    grid = math.ceil(groups.count // inner / cut.panels) * cut.blocks
    launch = Launch(kernel, grid, cut.threads, arguments, cut.staged_bytes(groups), cluster=cut.blocks, early=True)
    return Plan("normalization_bands.cu", constants_of(**{**groups.constants(spec), **own}), (launch,))


def _bytes_of_panel(groups: Groups) -> int:
    return groups.length * groups.kept.sizes[-1] * groups.source.dtype.itemsize


def _is_padded(groups: Groups) -> bool:
    """Whether bytes stay free: threads whose bands lie a multiple of 32 bytes apart would load from the same banks."""
    return groups.kept.sizes[-1] % 2 == 0


def _are_alike(groups: Groups) -> bool:
    """Whether inputs and outputs are as large and lie alike, and columns have one scale and bias each."""
    sizes = {layout.dtype.itemsize for layout in groups.stored}
    aligned = all(layout.alignment % VECTOR_BYTES == 0 for layout in groups.stored)
    return len(sizes) == 1 and aligned and not groups.operands.differ_down


def _fits(cut: _Cut, groups: Groups, device: DeviceProperties) -> bool:
    """Whether blocks have room for their shares, and may share at all."""
    if cut.staged_bytes(groups) + cut.static_bytes(groups) > device.shared_bytes_per_block:
        return False
    part = _bytes_of_panel(groups) / cut.blocks / device.shared_bytes_per_multiprocessor
    are_many = groups.bytes_of_multiprocessor(device) >= _LEAST_OF_LARGE_PANELS
    is_small = part <= _SHARE or (part <= _MOST_OF_SHARE and are_many)
    return cut.blocks == 1 or (is_small and groups.has("output") and device.clusters)


def _at_first(cut: _Cut, groups: Groups, device: DeviceProperties) -> int:
    """Clusters that the GPU holds at a time; no blocks by themselves."""
    nbytes = cut.staged_bytes(groups) + cut.static_bytes(groups) + RESERVED_BYTES
    held = device.shared_bytes_per_multiprocessor // nbytes * device.multiprocessors // cut.blocks
    return held if cut.blocks > 1 else 0


def _are_faster(groups: Groups, device: DeviceProperties) -> bool:
    """Whether these are long columns of narrow rows of floats, and many or few of such a length."""
    size, inner = groups.source.dtype.itemsize, groups.kept.sizes[-1]
    row = inner * size
    if not (groups.are_floats and device.hardware_gates and inner <= _MOST_COLUMNS and row <= _MOST_ROW_BYTES):
        return False
    is_wide, is_whole = inner >= _WIDE_COLUMNS or row >= _WIDE_BYTES, groups.length % groups.chunk == 0
    least = _LEAST_STEPS[size] if is_whole else _LEAST_STEPS_OF_PARTS
    if groups.length < (_LEAST_STEPS_OF_WIDE_ROWS if is_wide else least):
        return False
    nbytes = groups.bytes_of_multiprocessor(device)
    if not groups.has("output"):
        is_short = inner <= _MOST_COLUMNS_OF_MOMENTS and (size == 2 or groups.length <= _MOST_STEPS_OF_MOMENTS)
        return is_short and nbytes >= _LEAST_BYTES
    are_few = nbytes <= _MOST_OF_FEW and groups.length in _STEPS_OF_FEW and row <= _ROW_BYTES_OF_FEW
    return nbytes >= _LEAST_BYTES or are_few
