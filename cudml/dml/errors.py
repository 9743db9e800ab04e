"""What `validate` reports: violations, and the error that carries them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cudml.brief import shown
from cudml.dml.enums import FeatureLevel, OperatorType
from cudml.dml.fields import Desc


@dataclass(frozen=True)
class Violation:
    """One broken rule; its text is a sentence.

    >>> print(Violation("CUMULATIVE_SUMMATION", "axis", "must be less than 4", 4, FeatureLevel.FL_5_0, "use 0 to 3"))
    CUMULATIVE_SUMMATION at feature level 5_0: axis is 4, but must be less than 4; use 0 to 3.
    """

    operator: str
    field: str
    rule: str
    value: Any
    feature_level: FeatureLevel
    fix: str

    def __str__(self) -> str:
        return f"{self.operator} at feature level {self.feature_level.label}: {self.clause}."

    @property
    def clause(self) -> str:
        """The sentence without operator and feature level."""
        return f"{self.field} is {in_words(self.value)}, but {self.rule}; {self.fix}"


class DescriptorError(ValueError):
    """A desc that DirectML does not accept at the feature level; `violations` holds every rule that it breaks.

    `operator` and `feature_level` are common to all of them; `field`, `rule` and `value` are the first one's.
    """

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__(violations)
        self.violations = violations
        first = violations[0]
        self.operator, self.feature_level = first.operator, first.feature_level
        self.field, self.rule, self.value = first.field, first.rule, first.value

    def __str__(self) -> str:
        if len(self.violations) == 1:
            return str(self.violations[0])
        heading = f"{self.operator} breaks {len(self.violations)} rules of feature level {self.feature_level.label}:"
        return "\n".join([heading, *(f"  - {violation.clause}." for violation in self.violations)])


class Report:
    """Collects the violations of one desc."""

    def __init__(self, operator: OperatorType, feature_level: FeatureLevel) -> None:
        self.operator = operator
        self.feature_level = feature_level
        self.violations: list[Violation] = []

    def require(self, holds: bool, field: str, value: Any, rule: str, fix: str) -> bool:
        """Adds a violation unless the rule holds; says whether it does."""
        if not holds:
            self.violations.append(Violation(self.operator.name, field, rule, value, self.feature_level, fix))
        return holds

    def raise_if_any(self) -> None:
        if self.violations:
            raise DescriptorError(tuple(self.violations))


def in_words(value: Any) -> str:
    """Enum members by name, descs by class, everything else as Python writes it, in brief."""
    if isinstance(value, FeatureLevel):
        return value.label
    if isinstance(value, Desc):
        return f"a {type(value).__name__}"
    return getattr(value, "name", None) or shown(value)
