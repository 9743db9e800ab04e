"""What DirectML supports at which feature level, transcribed from its documentation: data only, a source on every row.

The tables of an operator stand newest first. Its pages head each with "feature level X and above", and a level uses
the first table whose level it has reached. A table holds for all tensors that it names.

On the disputed types of the cumulative operators: older revisions of both pages list FLOAT32, FLOAT16, UINT32, UINT16,
newer ones FLOAT32, FLOAT16, INT32, UINT32 at the same levels. Both UINT16 and INT32 are accepted. The older tables
reach from the operator's introduction upwards ("and above", or no level named), and feature levels are supersets of
one another, so what is accepted at one level stays accepted at every later one; hence UINT16 is disputed in each row.
The older CUMULATIVE_SUMMATION page knows four dimensions only. From 4_0 it is read like the older CUMULATIVE_PRODUCT
page, which gives UINT16 one to eight.
"""

from __future__ import annotations

from typing import NamedTuple

from cudml.dml.enums import FeatureLevel, OperatorType, TensorDataType

_F32, _F16 = TensorDataType.FLOAT32, TensorDataType.FLOAT16
_I8, _I16, _I32, _I64 = TensorDataType.INT8, TensorDataType.INT16, TensorDataType.INT32, TensorDataType.INT64
_U8, _U16, _U32, _U64 = TensorDataType.UINT8, TensorDataType.UINT16, TensorDataType.UINT32, TensorDataType.UINT64

_FOUR = (4,)
_ONE_TO_EIGHT = tuple(range(1, 9))


class Table(NamedTuple):
    """One table of a page: dimension counts and data types of some tensors from a feature level on."""

    since: FeatureLevel
    tensors: tuple[str, ...]
    dimension_counts: tuple[int, ...]
    data_types: tuple[TensorDataType, ...]
    source: str
    disputed: tuple[TensorDataType, ...] = ()
    """Types that another revision of the page lists instead; accepted as well."""
    disputed_source: str = ""


class Introduction(NamedTuple):
    """The feature level that an operator appeared in."""

    since: FeatureLevel
    source: str


_SCAN = ("input_tensor", "output_tensor")
_SUM = "DML_CUMULATIVE_SUMMATION_OPERATOR_DESC, revision 2022-01-19"
_SUM_OLD = "DML_CUMULATIVE_SUMMATION_OPERATOR_DESC, revision 2020-10-29 (one table, no level): UINT16 for INT32"
_PRODUCT = "DML_CUMULATIVE_PRODUCT_OPERATOR_DESC, revision 2022-01-19"
_PRODUCT_OLD = "DML_CUMULATIVE_PRODUCT_OPERATOR_DESC, revision 2021-03-15 (tables 4_0 and 3_1): UINT16 for INT32"

_NORMALIZED = ("input_tensor", "scale_tensor", "bias_tensor", "output_tensor")
_MVN1 = "DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC, revision 2023-05-02"
_MVN = "DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC, revision 2023-05-02"

_BINARY = ("a_tensor", "b_tensor", "output_tensor")
_MODULUS = "DML_ELEMENT_WISE_MODULUS_TRUNCATE_OPERATOR_DESC, revision 2023-05-02"

_SCAN_32 = (_F32, _F16, _I32, _U32)
_SCAN_64 = (_F32, _F16, _I64, _I32, _U64, _U32)
_FLOATS = (_F32, _F16)
_MODULUS_32 = (_F32, _F16, _I32, _I16, _I8, _U32, _U16, _U8)
_MODULUS_64 = (_F32, _F16, _I64, _I32, _I16, _I8, _U64, _U32, _U16, _U8)

TABLES: dict[OperatorType, tuple[Table, ...]] = {
    OperatorType.CUMULATIVE_SUMMATION: (
        Table(FeatureLevel.FL_5_0, _SCAN, _ONE_TO_EIGHT, _SCAN_64, _SUM, (_U16,), _SUM_OLD),
        Table(FeatureLevel.FL_4_0, _SCAN, _ONE_TO_EIGHT, _SCAN_32, _SUM, (_U16,), _SUM_OLD),
        Table(FeatureLevel.FL_2_1, _SCAN, _FOUR, _SCAN_32, _SUM, (_U16,), _SUM_OLD),
    ),
    OperatorType.CUMULATIVE_PRODUCT: (
        Table(FeatureLevel.FL_5_0, _SCAN, _ONE_TO_EIGHT, _SCAN_64, _PRODUCT, (_U16,), _PRODUCT_OLD),
        Table(FeatureLevel.FL_4_0, _SCAN, _ONE_TO_EIGHT, _SCAN_32, _PRODUCT, (_U16,), _PRODUCT_OLD),
        Table(FeatureLevel.FL_3_1, _SCAN, _FOUR, _SCAN_32, _PRODUCT, (_U16,), _PRODUCT_OLD),
    ),
    OperatorType.MEAN_VARIANCE_NORMALIZATION1: (
        Table(FeatureLevel.FL_3_1, _NORMALIZED, _ONE_TO_EIGHT, _FLOATS, _MVN1),
        Table(FeatureLevel.FL_2_1, _NORMALIZED, _FOUR, _FLOATS, _MVN1),
    ),
    OperatorType.MEAN_VARIANCE_NORMALIZATION: (Table(FeatureLevel.FL_1_0, _NORMALIZED, _FOUR, _FLOATS, _MVN),),
    OperatorType.ELEMENT_WISE_MODULUS_TRUNCATE: (
        Table(FeatureLevel.FL_6_0, _BINARY, _ONE_TO_EIGHT, _MODULUS_64, _MODULUS),
        Table(FeatureLevel.FL_3_0, _BINARY, _ONE_TO_EIGHT, _MODULUS_32, _MODULUS),
        Table(FeatureLevel.FL_2_1, _BINARY, _FOUR, _MODULUS_32, _MODULUS),
    ),
}

INTRODUCTIONS: dict[OperatorType, Introduction] = {
    OperatorType.CUMULATIVE_SUMMATION: Introduction(FeatureLevel.FL_2_1, _SUM),
    OperatorType.CUMULATIVE_PRODUCT: Introduction(FeatureLevel.FL_3_1, _PRODUCT),
    OperatorType.MEAN_VARIANCE_NORMALIZATION1: Introduction(FeatureLevel.FL_2_1, _MVN1),
    OperatorType.MEAN_VARIANCE_NORMALIZATION: Introduction(FeatureLevel.FL_1_0, _MVN),
    OperatorType.ELEMENT_WISE_MODULUS_TRUNCATE: Introduction(FeatureLevel.FL_2_1, _MODULUS),
}

_ACTIVATIONS_SINCE: dict[FeatureLevel, tuple[OperatorType, ...]] = {
    FeatureLevel.FL_1_0: (
        OperatorType.ACTIVATION_ELU,
        OperatorType.ACTIVATION_HARD_SIGMOID,
        OperatorType.ACTIVATION_IDENTITY,
        OperatorType.ACTIVATION_LEAKY_RELU,
        OperatorType.ACTIVATION_LINEAR,
        OperatorType.ACTIVATION_PARAMETRIC_SOFTPLUS,
        OperatorType.ACTIVATION_RELU,
        OperatorType.ACTIVATION_SCALED_ELU,
        OperatorType.ACTIVATION_SCALED_TANH,
        OperatorType.ACTIVATION_SIGMOID,
        OperatorType.ACTIVATION_SOFTPLUS,
        OperatorType.ACTIVATION_SOFTSIGN,
        OperatorType.ACTIVATION_TANH,
        OperatorType.ACTIVATION_THRESHOLDED_RELU,
    ),
    FeatureLevel.FL_2_0: (OperatorType.ACTIVATION_SHRINK,),
    FeatureLevel.FL_3_0: (OperatorType.ACTIVATION_CELU,),
    FeatureLevel.FL_5_1: (OperatorType.ACTIVATION_GELU,),
}

#: Activations that can be fused, by the level that introduced them; each one's page is the source of its level. The
#: list is that of the page "Using fused operators for improved performance" (2025-02-10), without those that it
#: allows for convolution and GEMM only.
FUSED_ACTIVATIONS: dict[OperatorType, Introduction] = {
    activation: Introduction(since, f"DML_{activation.name}_OPERATOR_DESC")
    for since, activations in _ACTIVATIONS_SINCE.items()
    for activation in activations
}

#: From here on softplus takes a steepness below 1 (DML_ACTIVATION_SOFTPLUS_OPERATOR_DESC).
SMALL_STEEPNESS_SINCE = FeatureLevel.FL_6_4
#: From here on scale and bias are optional independently of each other (DirectML feature level history, 5_2).
INDEPENDENT_SCALE_AND_BIAS_SINCE = FeatureLevel.FL_5_2
#: From here on the channels of scale and bias are broadcast too (DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC).
CHANNEL_BROADCAST_SINCE = FeatureLevel.FL_4_0
#: Operators whose output may take an input's place (the Remarks of their pages, and the flag of DxDispatch's schema,
#: which the normalizations do not have).
IN_PLACE = frozenset(
    {
        OperatorType.CUMULATIVE_SUMMATION,
        OperatorType.CUMULATIVE_PRODUCT,
        OperatorType.ELEMENT_WISE_MODULUS_TRUNCATE,
    }
)


def table_at(operator: OperatorType, feature_level: FeatureLevel) -> Table | None:
    """The table that holds at a level; None where the operator does not exist yet."""
    return next((table for table in TABLES[operator] if table.since <= feature_level), None)
