"""In which order threads run. A schedule is repeated exactly by its name."""

from __future__ import annotations

from dataclasses import dataclass

ORDERS = ("in order", "reversed", "random")


@dataclass(frozen=True)
class Schedule:
    """In order and reversed go through blocks, warps and lanes up or down; random depends on the seed alone.

    Asynchronous copies land at the wait in order, at once reversed, and randomly in between otherwise.
    """

    order: str = "in order"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order must be one of {ORDERS}, not {self.order!r}")

    @staticmethod
    def parse(name: str) -> Schedule:
        """From what `str` shows, for example "in order" or "random:17"."""
        order, _, seed = name.partition(":")
        return Schedule(order, int(seed or 0))

    def __str__(self) -> str:
        return f"{self.order}:{self.seed}" if self.order == "random" else self.order


IN_ORDER, REVERSED = Schedule("in order"), Schedule("reversed")


def schedules(count: int, first_seed: int = 0) -> list[Schedule]:
    """`count` of them: in order, reversed, then random ones; a single one is any of these, by the seed."""
    if count == 1:
        return [{0: IN_ORDER, 1: REVERSED}.get(first_seed % 5, Schedule("random", first_seed))]
    return [IN_ORDER, REVERSED, *(Schedule("random", first_seed + i) for i in range(count - 2))]
