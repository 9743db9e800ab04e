"""How the fields of a desc are taken from Python: a field names its conversion, a wrong Python type is a TypeError.

Conversions make values comparable and hashable (sequences become tuples, NumPy scalars Python numbers). They do not
judge values: a size of 0 or an axis out of range is constructed as it is, and `validate` reports it with the rest.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Set
from dataclasses import fields
from enum import IntEnum, IntFlag
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from cudml.brief import shown
from cudml.dml.enums import OperatorType

Conversion = Callable[[str, Any], Any]


class Desc:
    """A frozen dataclass whose fields are converted by the conversion in their metadata."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            if convert := field.metadata.get("convert"):
                object.__setattr__(self, field.name, convert(field.name, getattr(self, field.name)))


class OperatorDesc(Desc):
    """A desc of an operator: DML_OPERATOR_DESC, whose Type is a constant of the class."""

    operator_type: ClassVar[OperatorType]


def taken_as(conversion: Conversion) -> dict[str, Conversion]:
    """The metadata of a field that is taken with `conversion`."""
    return {"convert": conversion}


def optional(conversion: Conversion) -> Conversion:
    """`conversion`, except that None stays None."""
    return lambda name, value: None if value is None else conversion(name, value)


def integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; it must be an integer") from None


def integers(name: str, value: Any) -> tuple[int, ...]:
    """Neither sets, which have another order than they are written in, nor text and mappings, which may have
    integers too."""
    try:
        if isinstance(value, (str, bytes, Set, Mapping)):
            raise TypeError
        return tuple(operator.index(item) for item in value)
    except TypeError:
        raise TypeError(
            f"{name} is {shown(value)}; it must be a sequence of integers, for example (1, 1, 3, 4)"
        ) from None


def number(name: str, value: Any) -> float:
    """What is too large for a float is infinite, as it is when written with an exponent."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} is {shown(value)}; it must be a real number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if operator.gt(value, 0) else -math.inf


def as_float(value: float) -> float:
    """The nearest FLOAT, as DirectML's structs hold it."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def boolean(name: str, value: Any) -> bool:
    if isinstance(value, (bool, np.bool_, int)):
        return bool(value)
    raise TypeError(f"{name} is {shown(value)}; it must be True or False")


def member_of(enum: type[IntEnum | IntFlag], example: str) -> Conversion:
    """Takes a member of `enum`, or its number as C programs write it."""

    def convert(name: str, value: Any) -> Any:
        if isinstance(value, enum) or (type(value) is int and value in enum.__members__.values()):
            return enum(value)
        raise TypeError(f"{name} is {shown(value)}; it must be a member of {enum.__name__}, for example {example}")

    return convert


def instance_of(cls: type, what: str = "") -> Conversion:
    """Takes an instance of `cls`, which an error calls `what`."""

    def convert(name: str, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        raise TypeError(f"{name} is {shown(value)}; it must be {what or 'a ' + cls.__name__}")

    return convert
