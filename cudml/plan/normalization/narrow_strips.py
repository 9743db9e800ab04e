"""How columns of floats are shared out where there are so few elements that a call takes as long as one block does: in
narrow strips, as a multiprocessor needs 1.6 ns for each row of a strip, however wide that is, and adds up few columns
faster.

On an H200 (606, 54) float16s over 0 take 2.3 us so and 4.5 in strips of 128 bytes, (512, 1024) floats 2.5 and 2.9,
(284, 128) float64s 3.3 and 4.3, mean and variance of (603, 40) floats 2.3 and 2.7; (1024, 54) float16s by clusters 2.3
and 5.8, with a scale of each element (969, 32) bfloat16s 3.1 and 8.6, (2048, 8) floats 2.3 and in two steps 4.1, (8192,
8) 3.4 and 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from cudml.plan.device import LANES, DeviceProperties
from cudml.plan.layout import power_of_two, powers_of_two
from cudml.plan.normalization.column_tiles import Columns, vector_of
from cudml.plan.normalization.groups import Groups

#: How wide strips of whole columns are, in bytes, or a multiple of it, if more would be more blocks than
#: multiprocessors: (512, 2048) floats take 3.9 us in strips of 64 bytes, 4.4 of 32 and 5.1 of 128.
_STRIP_BYTES = 32

#: Elements of a column at least; threads of such a block, and chunks of a column that a thread has at the most: (1024,
#: 4096) float16s would take 7.4 us so, and take 7.3 otherwise.
_LEAST_LENGTH, _LEAST_THREADS, _MOST_THREADS, _MOST_SPAN = 8, 64, 512, 4

#: Elements of a column that a cluster has, from one to the other: (512, 64) floats take 2.1 us so and 1.9 by a block;
#: (12544, 3) float16s 4.5 and in two steps 4.1.
_OF_CLUSTERS = range(513, 8193)

#: The same of columns whose strips are narrow for what is loaded: of so many elements, bytes of a thread's neighbours,
#: and threads across a strip. (4096, 32) floats take 2.7 us by words and 2.8 by 8 bytes; of (8192, 32) no cluster holds
#: a strip of 32 bytes by words, in those of 16 they take 4.4 us and 3.6.
_BY_WORDS, _BY_PAIRS, _MOST_BY_WORDS = (4, 8), (8, 4), 4096

#: Threads of a block and chunks of a thread, of which the first are taken with which a cluster holds a column.
_SHARES = ((64, 1), (128, 1), (128, 2), (256, 2), (256, 4))
_MOST_BLOCKS_OF_CLUSTER = 8

#: Blocks and bytes of the input for each multiprocessor at the most: (1024, 1000) floats take 5.7 us by clusters and
#: 4.9 otherwise, (3136, 256) 5.8 and 5.0; (6272, 100) 6.4 and 6.8.
_MOST_BLOCKS, _MOST_BYTES = 2, 19_000


def narrow_columns(groups: Groups, device: DeviceProperties) -> Columns | None:
    """Strips of whole columns in place of wide ones, which are few; None where they are no faster."""
    if not groups.are_floats or groups.length < _LEAST_LENGTH or groups.by_rows:
        return None
    chunks = math.ceil(groups.length / groups.chunk)
    least = max(_STRIP_BYTES // groups.source.dtype.itemsize, power_of_two(math.ceil(_LEAST_THREADS / chunks)))
    widths = powers_of_two(min(least, LANES), LANES)
    across = next((width for width in widths if groups.strips_of(width) <= device.multiprocessors), None)
    if across is None:
        return None
    across = min(across, power_of_two(groups.row))
    for span in powers_of_two(1, _MOST_SPAN):
        multiple = LANES // across
        spans = math.ceil(math.ceil(chunks / span) / multiple) * multiple
        if across * spans <= _MOST_THREADS:
            return Columns(1, span, across, spans, 1, groups.chunk)
    return None


def narrow_clusters(groups: Groups, device: DeviceProperties) -> Columns | None:
    """Strips of columns that are normalized, which a cluster of blocks shares; None where they are no faster."""
    are_able = device.clusters and groups.are_floats and groups.has("output")
    if not are_able or groups.length not in _OF_CLUSTERS:
        return None
    nbytes, most_across = _BY_WORDS if groups.length <= _MOST_BY_WORDS else _BY_PAIRS
    vector = vector_of(groups, nbytes)
    across = min(power_of_two(math.ceil(groups.kept.sizes[-1] / vector)), most_across)
    is_cut = groups.kept.sizes[-1] % (vector * across)
    if is_cut and len(groups.kept.sizes) > 1:
        return None  # a strip would be of several rows
    chosen = next(_clusters(groups, vector, across), None)
    if chosen is None or chosen.grid(groups) > _MOST_BLOCKS * device.multiprocessors:
        return None
    return chosen if groups.bytes_of_multiprocessor(device) <= _MOST_BYTES else None


def _clusters(groups: Groups, vector: int, across: int) -> Iterator[Columns]:
    """That hold whole columns."""
    for threads, span in _SHARES:
        columns = Columns(vector, span, across, threads // across, 1, groups.chunk)
        blocks = math.ceil(groups.length / columns.tile)
        if 1 < blocks <= _MOST_BLOCKS_OF_CLUSTER:
            yield columns._replace(blocks=blocks)
