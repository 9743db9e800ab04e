"""The rules that a tensor desc keeps by itself, and those between two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from cudml.brief import shown
from cudml.dml.enums import TENSOR_DIMENSION_COUNT_MAX1, UINT32_MAX, UINT64_MAX, TensorFlags
from cudml.dml.errors import Report, in_words
from cudml.dml.support import TABLES, Table, table_at
from cudml.dml.tensor import BufferTensorDesc
from cudml.memory import may_repeat_elements


def check_support(report: Report, field: str, tensor: BufferTensorDesc) -> None:
    """Data type and dimension count stand in the operator's table for the feature level."""
    table = table_at(report.operator, report.feature_level)
    if table is None:  # the operator does not exist yet, which is reported by itself
        return
    types = (*table.data_types, *table.disputed)
    report.require(
        tensor.data_type in types,
        f"{field}.data_type",
        tensor.data_type,
        f"must be one of {', '.join(data_type.name for data_type in types)}",
        _later(report, lambda later: tensor.data_type in later.data_types) + "convert the data to one of these",
    )
    counts = table.dimension_counts
    report.require(
        tensor.dimension_count in counts,
        f"{field}.sizes",
        tensor.sizes,
        f"must have {_span(counts)} dimensions, not {tensor.dimension_count}",
        _later(report, lambda later: tensor.dimension_count in later.dimension_counts)
        + "pad short sizes with leading ones, or merge neighbouring dimensions",
    )


def check_layout(report: Report, field: str, tensor: BufferTensorDesc, *, is_output: bool) -> None:
    """Sizes, strides, total size, alignment and flags, which do not depend on the feature level."""
    sizes_hold = _check_sizes(report, field, tensor)
    strides_hold = _check_strides(report, field, tensor)
    if sizes_hold and strides_hold:
        _check_total_size(report, field, tensor)
        if is_output:
            _check_no_overlap(report, field, tensor)
    _check_alignment(report, field, tensor)
    _check_flags(report, field, tensor, is_output=is_output)


def check_equal(report: Report, desc: object, attribute: str, fields: Sequence[str], what: str) -> None:
    """`attribute` of all tensors present is that of the first."""
    reference_field, *others = fields
    reference = getattr(getattr(desc, reference_field), attribute)
    for field in others:
        tensor = getattr(desc, field)
        if tensor is None:
            continue
        value = getattr(tensor, attribute)
        report.require(
            value == reference,
            f"{field}.{attribute}",
            value,
            f"must be the {what} of {reference_field}, {in_words(reference)}",
            f"give both tensors the same {what}",
        )


def _check_sizes(report: Report, field: str, tensor: BufferTensorDesc) -> bool:
    holds = report.require(
        all(1 <= size <= UINT32_MAX for size in tensor.sizes),
        f"{field}.sizes",
        tensor.sizes,
        "every size must be from 1 to 2**32 - 1",
        "leave out the operator for an empty tensor",
    )
    if not holds or tensor.dimension_count > TENSOR_DIMENSION_COUNT_MAX1:  # which no operator supports
        return False
    return report.require(
        prod(tensor.sizes) <= UINT32_MAX,
        f"{field}.sizes",
        tensor.sizes,
        f"the number of elements must be at most 2**32 - 1, not {shown(prod(tensor.sizes))}",
        "split the tensor",
    )


def _check_strides(report: Report, field: str, tensor: BufferTensorDesc) -> bool:
    if tensor.strides is None:
        return True
    right_count = report.require(
        len(tensor.strides) == tensor.dimension_count,
        f"{field}.strides",
        tensor.strides,
        f"must have one stride for each of the {tensor.dimension_count} sizes",
        "give one in elements for each, or None for a packed tensor",
    )
    in_range = report.require(
        all(0 <= stride <= UINT32_MAX for stride in tensor.strides),
        f"{field}.strides",
        tensor.strides,
        "every stride must be from 0 to 2**32 - 1",
        "give strides in elements; none can be negative",
    )
    return right_count and in_range


def _check_no_overlap(report: Report, field: str, tensor: BufferTensorDesc) -> None:
    report.require(
        not may_repeat_elements(tensor.sizes, tensor.element_strides, 1),
        f"{field}.strides",
        tensor.strides,
        "no two elements of an output may share memory: from the smallest stride to the largest, each must be greater "
        "than the distance that the smaller ones span",
        "use packed, padded or permuted strides without 0",
    )


def _check_total_size(report: Report, field: str, tensor: BufferTensorDesc) -> None:
    name, value = f"{field}.total_tensor_size_in_bytes", tensor.total_tensor_size_in_bytes
    implied = tensor.implied_size_in_bytes
    exists = report.require(
        implied <= UINT64_MAX,
        f"{field}.strides",
        tensor.strides,
        "the tensor must span at most 2**64 - 1 bytes",
        "give strides in elements",
    )
    computed, rounded = "leave it out to have it computed", -(-value // 4) * 4
    in_range = not exists or report.require(
        implied <= value <= UINT64_MAX,
        name,
        value,
        f"must be from {implied}, which type, sizes and strides imply, to 2**64 - 1",
        computed,
    )
    fix = f"round it up to {rounded}" if in_range and rounded <= UINT64_MAX else computed
    report.require(value % 4 == 0, name, value, "must be a multiple of 4", fix)


def _check_alignment(report: Report, field: str, tensor: BufferTensorDesc) -> None:
    alignment = tensor.guaranteed_base_offset_alignment
    element_size = -(-tensor.data_type.bits // 8)
    is_power_of_two = alignment > 0 and alignment & (alignment - 1) == 0
    report.require(
        alignment == 0 or (is_power_of_two and element_size <= alignment <= UINT32_MAX),
        f"{field}.guaranteed_base_offset_alignment",
        alignment,
        f"must be 0 or a power of two from the element size, {element_size}, to 2**31",
        "use 0 to guarantee nothing",
    )


def _check_flags(report: Report, field: str, tensor: BufferTensorDesc, *, is_output: bool) -> None:
    report.require(
        tensor.flags in TensorFlags.__members__.values(),
        f"{field}.flags",
        int(tensor.flags),
        "OWNED_BY_DML, 1, is the only flag",
        "clear the other bits",
    )
    report.require(
        not (is_output and tensor.flags & TensorFlags.OWNED_BY_DML),
        f"{field}.flags",
        tensor.flags,
        "only an input can be owned by DirectML",
        "leave the flag out for outputs",
    )


def _later(report: Report, supports: Callable[[Table], bool]) -> str:
    """Advice to raise the feature level, where a later table of the operator helps."""
    levels = [t.since for t in TABLES[report.operator] if t.since > report.feature_level and supports(t)]
    return f"use feature level {min(levels).label} or above, or " if levels else ""


def _span(counts: tuple[int, ...]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
