"""From a desc to something that runs: Device, Operator, CompiledOperator, as in DirectML's IDMLDevice and its kin."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from cudml.backend import backend_of, remember, repeated
from cudml.dml.binding import Slot, check_aliasing, require_array, require_writeable
from cudml.dml.enums import LATEST_FEATURE_LEVEL, FeatureLevel
from cudml.dml.fields import OperatorDesc
from cudml.dml.lowering import Lowered, lower
from cudml.dml.support import IN_PLACE
from cudml.dml.validation import validate


@dataclass(frozen=True)
class Device:
    """Accepts what DirectML accepts at a feature level.

    >>> from cudml.dml import BufferTensorDesc, CumulativeProductOperatorDesc, TensorDataType
    >>> tensor = BufferTensorDesc(data_type=TensorDataType.FLOAT32, sizes=(2, 5))
    >>> desc = CumulativeProductOperatorDesc(input_tensor=tensor, output_tensor=tensor, axis=1)
    >>> product = Device(FeatureLevel.FL_4_0).create_operator(desc).compile()
    """

    feature_level: FeatureLevel = LATEST_FEATURE_LEVEL

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature_level", FeatureLevel(self.feature_level))

    def create_operator(self, desc: OperatorDesc) -> Operator:
        """A checked operator; DescriptorError when the desc breaks a rule of the feature level, TypeError when it is
        not the desc of an operator that cudml computes."""
        validate(desc, self.feature_level)
        return Operator(desc, self.feature_level, lower(desc))


@dataclass(frozen=True)
class Operator:
    """A desc that was found valid at a feature level."""

    desc: OperatorDesc
    feature_level: FeatureLevel
    lowered: Lowered = dataclasses.field(repr=False, compare=False)

    def compile(self) -> CompiledOperator:
        return CompiledOperator(self)


class CompiledOperator:
    """An operator that is called with arrays: the inputs in the order of binding, then the output.

    >>> import numpy as np
    >>> from cudml.dml import BufferTensorDesc, ElementWiseModulusTruncateOperatorDesc, TensorDataType
    >>> tensor = BufferTensorDesc(data_type=TensorDataType.INT32, sizes=(3,))
    >>> desc = ElementWiseModulusTruncateOperatorDesc(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    >>> modulus = Device().create_operator(desc).compile()
    >>> a, b = np.array([-4, 7, 5], np.int32), np.array([2, -3, 8], np.int32)
    >>> modulus(a, b, np.empty_like(a))
    array([0, 1, 5], dtype=int32)

    Scans take (input, output), normalizations (input, scale, bias, output) and the modulus (a, b, output); a tensor
    that the desc leaves out is None. The arrays must have the dtype, shape and strides of their descs. The output may
    be an input array for the scans and the modulus, in the same layout; no other overlap is allowed.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        desc = operator.desc
        self._name = desc.operator_type.name
        self._in_place = desc.operator_type in IN_PLACE
        self._spec, self._array_names = operator.lowered
        self._slots = {
            name: None if (tensor := getattr(desc, name)) is None else Slot.of(name, tensor)
            for name in self._array_names
        }
        self._present = {name: slot for name, slot in self._slots.items() if slot is not None}
        self._owned: dict[str, Any] = {}
        self._key = (object(),)  # of this operator's calls and of no other's
        self._in_place_names = tuple(self._array_names.values())[:-1] if self._in_place else ()

    def __call__(self, *arrays: Any) -> Any:
        """Computes into the last array and returns it.

        Raises TypeError for a wrong number of arrays, a wrong dtype, or host and device arrays mixed; ValueError for
        another shape, other strides, a misaligned or read-only array, or a forbidden overlap. Nothing is computed then.
        """
        result = repeated(self._key, arrays) if arrays else None
        if result is not None:
            return result
        bound = self._bind(arrays)
        backend = backend_of(**bound, **self._owned)
        operands = {field: backend.asarray(value) for field, value in bound.items()}
        self._check_memory(operands, bound["output_tensor"])
        operands |= self._owned
        present = {self._array_names[field]: array for field, array in operands.items()}
        backend.run(self._spec, present)
        if all(slot.is_known_by_form for slot in self._present.values()):
            given = dict(zip(self._array_names.values(), arrays, strict=True))
            remember(self._key, given, arrays[-1], self._spec, present, self._in_place_names)
        return arrays[-1]

    def initialize(self, *inputs: Any) -> None:
        """Copies the inputs whose tensors are OWNED_BY_DML, as DirectML's operator initializer does.

        Takes all inputs in the order of binding, with None for those that are not owned. Later calls take None in the
        place of the owned ones. Raises what a call raises.
        """
        fields = list(self._slots)[:-1]
        if len(inputs) != len(fields):
            raise TypeError(f"{self._name}.initialize takes {', '.join(fields)}, not {len(inputs)} arrays")
        bound = {}
        for field, value in zip(fields, inputs, strict=True):
            slot = self._slots[field]
            if slot is not None and slot.is_owned:
                bound[field] = value
                require_array(field, value)
            elif value is not None:
                raise ValueError(f"{field} is not OWNED_BY_DML; pass None to initialize and bind it at the call")
        backend = backend_of(**bound)
        operands = {field: backend.asarray(value) for field, value in bound.items()}
        for field, array in operands.items():
            self._present[field].check(array)
        self._owned = {field: backend.copy(array) for field, array in operands.items()}

    def _bind(self, arrays: tuple[Any, ...]) -> dict[str, Any]:
        """The arrays of the call by field."""
        if len(arrays) != len(self._slots):
            raise TypeError(
                f"{self._name} takes {', '.join(self._slots)}, not {len(arrays)} arrays; pass None for absent tensors"
            )
        bound = {}
        for (field, slot), value in zip(self._slots.items(), arrays, strict=True):
            if slot is None or slot.is_owned:
                self._require_unbound(field, slot, value)
            else:
                require_array(field, value)
                bound[field] = value
        return bound

    def _require_unbound(self, field: str, slot: Slot | None, value: Any) -> None:
        if value is not None:
            reason = "absent from the desc" if slot is None else "OWNED_BY_DML and bound by initialize"
            raise ValueError(f"{field} is {reason}; pass None for it")
        if slot is not None and field not in self._owned:
            raise ValueError(f"{field} is OWNED_BY_DML; call initialize with it first")

    def _check_memory(self, operands: dict[str, Any], given_output: Any) -> None:
        """Every array against its desc, and the output against the inputs."""
        addresses = {field: self._present[field].check(array) for field, array in operands.items()}
        require_writeable("output_tensor", given_output, operands["output_tensor"])
        output_address = addresses.pop("output_tensor")
        output = self._present["output_tensor"]
        for field, address in addresses.items():
            check_aliasing(self._present[field], address, output, output_address, in_place=self._in_place)
