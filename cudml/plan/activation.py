"""The activations that can be fused into a normalization: names, parameters and defaults.

The formulas stand in kernels/normalization_activations.cuh and cudml/cpu/activations.py. Source of names, order of
parameters and defaults: the DML_ACTIVATION_*_OPERATOR_DESC pages and "Using fused operators for improved performance"
(DirectML).
"""

from __future__ import annotations

from functools import cache
from math import copysign
from typing import NamedTuple

#: Name of each activation and its parameters with DirectML's typical defaults. Where DirectML names none (linear,
#: parametric softplus), the default is the one that does the least: linear(1, 0), parametric_softplus(1, 1).
PARAMETERS: dict[str, dict[str, float]] = {
    "celu": {"alpha": 1.0},
    "elu": {"alpha": 1.0},
    "gelu": {},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "identity": {},
    "leaky_relu": {"alpha": 0.01},
    "linear": {"alpha": 1.0, "beta": 0.0},
    "parametric_softplus": {"alpha": 1.0, "beta": 1.0},
    "relu": {},
    "scaled_elu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    "scaled_tanh": {"alpha": 1.0, "beta": 0.5},
    "shrink": {"bias": 0.0, "threshold": 0.5},
    "sigmoid": {},
    "softplus": {"steepness": 1.0},
    "softsign": {},
    "tanh": {},
    "thresholded_relu": {"alpha": 1.0},
}


class Activation(NamedTuple):
    """A fused activation: one of PARAMETERS by name, and the values of its parameters in their order there. Zeros of
    both signs differ, as results do."""

    name: str
    parameters: tuple[float, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Activation) and tuple.__eq__(self, other) and self._signs == other._signs

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.name, self.parameters))

    @property
    def _signs(self) -> list[float]:
        return [copysign(1.0, parameter) for parameter in self.parameters]

    @classmethod
    @cache
    def named(cls, name: str) -> Activation:
        """The activation of that name with its default parameters."""
        if name not in PARAMETERS:
            names = ", ".join(PARAMETERS)
            raise ValueError(f"activation is {name!r}; it must be None, an activation of cudml.dml or one of {names}")
        return cls(name, tuple(PARAMETERS[name].values()))
