"""How an assembly line loads its stages: the constants of kernels/gate.cuh."""

from __future__ import annotations

BY_ELEMENTS, BY_COPIES, IN_BULK = 0, 1, 2
