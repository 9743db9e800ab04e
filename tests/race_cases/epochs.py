"""Calls for which a scratch has few epochs left, and starts them again (kernels/tickets.cuh)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from race_cases import modulus, scan
from race_cases import normalization as of_groups
from race_cases.calls import Call
from race_cases.devices import RING_OF_STRIPS_GPU, TEAMS_GPU

#: A case for each use of tickets; the epochs that are left to it are one more than a launch takes.
_SHARING_SCRATCH = (
    "linked tiles, twice",
    "long rows of full tiles",
    "segments over tiles",
    "columns in boxes",
    "columns in step",
    "stream",
    "strips",
    "strips of doubles",
    "tiled panels",
)

#: Teams take four epochs. One array is enough: two, as above, take the checker minutes.
_TEAMS = of_groups.normalization(
    "stream that teams draw as epochs start again", (40, 14_300), np.float64, (1,), device=TEAMS_GPU
)

CALLS: list[Call] = [
    *(
        replace(call, name=f"{call.name} as epochs start again", last_epochs=2)
        for call in [*scan.CALLS, *of_groups.CALLS, *modulus.CALLS]
        if call.name in _SHARING_SCRATCH
    ),
    replace(_TEAMS, last_epochs=5),
]

#: A launch of several epochs, as slots come round, for which those that are left are too few.
EPOCHS_RUN_OUT = replace(
    of_groups.normalization("epochs run out", (1100, 1056), np.float64, (0,), device=RING_OF_STRIPS_GPU), last_epochs=2
)
