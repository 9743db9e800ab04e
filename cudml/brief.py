"""Values as messages write them."""

from __future__ import annotations

import reprlib


class _Brief(reprlib.Repr):
    """Writes what a message can hold: who passes an array in place of its shape need not read all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = self.maxset = self.maxdict = 16
        self.maxstring = self.maxother = 200

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write integers of more than 4300 digits."""
        return repr(x) if x.bit_length() <= 256 else f"an integer of {x.bit_length()} bits"


#: A value as messages write it: as Python does, unless that is long.
shown = _Brief().repr
