"""What plans may know of a GPU: enough to choose a path, a grid and an amount of shared memory.

Results must not depend on any of it. Device properties decide how the work is shared out, never the order of additions.
"""

from __future__ import annotations

from typing import NamedTuple

#: Of a warp.
LANES = 32

#: Of the shared memory of a multiprocessor, what the GPU keeps for itself of each block.
RESERVED_BYTES = 1024


class DeviceProperties(NamedTuple):
    """A GPU as planners see it. A named tuple, because it is part of a key that every call looks up."""

    compute_capability: tuple[int, int]
    multiprocessors: int
    threads_per_multiprocessor: int
    shared_bytes_per_multiprocessor: int
    shared_bytes_per_block: int
    """The most that a block can have, static and dynamic; beyond 48 KB only a kernel that asks for it."""
    cache_bytes: int
    """Of the second-level cache."""
    bytes_per_second: float
    """That memory moves, reading and writing, by its clock and the width of its bus."""
    cooperative_launch: bool = True
    """Whether blocks of a launch can be made to run all at the same time."""
    cluster_launch: bool = True
    """Whether blocks can be launched in clusters, from compute capability 9.0 on."""

    @property
    def hardware_gates(self) -> bool:
        """Whether there are asynchronous copies, and barriers that wait for them: kernels/gate.cuh."""
        return self.compute_capability >= (8, 0)

    @property
    def bulk_copies(self) -> bool:
        """Whether gates wait for asynchronous copies of any number of bytes, too."""
        return self.compute_capability >= (9, 0)

    @property
    def clusters(self) -> bool:
        """Whether blocks can share sums and data within a cluster."""
        return self.cluster_launch and self.compute_capability >= (9, 0)

    @property
    def begins_early(self) -> bool:
        """Whether launches begin while those ahead of them end: cudml/cuda/early.py."""
        return self.compute_capability >= (9, 0)


H200 = DeviceProperties((9, 0), 132, 2048, 233_472, 232_448, 60 << 20, 4.8e12)
"""What plans are made for where no device is named."""
