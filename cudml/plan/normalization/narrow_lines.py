"""Which groups that lie side by side are so few that they are faster as lines, whose elements are loaded one by one.

Columns are shared out to blocks, of which a few narrow ones fill some only. On an H200, in us so and otherwise: (2,
608, 8, 2) float16s over 0, 1, 2 2.7 and 4.9, (10, 67, 12, 6) floats 3.2 and 5.0, (4, 28, 6, 7) 2.3 and 2.6, (339, 16)
over 0 2.3 and 2.4; mean and variance of (2568, 4) 3.1 and 4.4, of (17, 4, 44, 2) float16s, channels last, 2.5 and 3.2.
"""

from __future__ import annotations

from typing import NamedTuple

from cudml.plan.device import DeviceProperties
from cudml.plan.normalization.groups import Groups
from cudml.plan.normalization.line_shares import rows_of


class _Few(NamedTuple):
    """Groups of so many rows."""

    rows: range
    most: float
    """For each multiprocessor."""


#: Of one block each, and of a cluster of blocks. More are faster in columns, (1872, 25) floats take 3.1 us so and 3.9
#: as lines, and so is what is longer, (4, 7, 1297, 7), 284 rows, 6.6 and 8.7, or too long for one block and too short
#: for several, (66, 2, 17, 8), 18 rows, 3.3 and 3.8.
_SHORT, _SHARED = _Few(range(1, 7), 1 / 8), _Few(range(21, 64), 1 / 16)


def are_few_narrow(groups: Groups, device: DeviceProperties) -> bool:
    """Whether these are columns of floats that had better be lines."""
    rows, of_each = rows_of(groups), groups.count / device.multiprocessors
    kinds = (_SHORT, _SHARED) if device.clusters else (_SHORT,)
    are_few = any(rows in few.rows and of_each <= few.most for few in kinds)
    return are_few and groups.are_floats
