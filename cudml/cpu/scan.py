"""Running sums and products in NumPy.

Lines are cut into blocks, the blocks scanned, their totals scanned in turn, and each block moved by the total before
it: the additions behind one output grow as the logarithm of its index, and with them the error. Types narrower than
float64 accumulate in float64 and are rounded once per output. A line is worked off in chunks, which bounds the memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cudml.cpu.convert import convert, wide
from cudml.plan.spec import Scan, SegmentedScan

_BLOCK = 32
_CHUNK = 1 << 18
"""Elements converted and scanned at once."""

_COMBINE = {"sum": np.add, "product": np.multiply}
_COMBINE_BOOL = {"sum": np.logical_or, "product": np.logical_and}
_IDENTITY = {"sum": 0, "product": 1}


def scan(spec: Scan, input: np.ndarray, output: np.ndarray) -> None:
    """Running sums or products of `input` along the spec's axis."""
    if spec.axis is None:
        source, target = input.reshape(1, -1), output.reshape(1, -1)
    else:
        source, target = np.moveaxis(input, spec.axis, -1), np.moveaxis(output, spec.axis, -1)
    if spec.reverse:
        source, target = source[..., ::-1], target[..., ::-1]
    if spec.initial:
        target[..., :1] = _IDENTITY[spec.operation]
        target = target[..., 1:]
    if source.size:
        _scan_lines(spec, source, target)


def segmented_scan(spec: SegmentedScan, input: np.ndarray, offsets: np.ndarray, output: np.ndarray) -> None:
    """Running sums or products in every segment; segments of one length are the lines of a matrix."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    for length in np.unique(lengths[lengths > 0]):
        index = starts[lengths == length, None] + np.arange(length)
        if spec.reverse:
            index = index[:, ::-1]
        lines = input[index]
        result = np.empty_like(lines, dtype=output.dtype)
        _scan_lines(spec, lines, result)
        output[index] = result


def _scan_lines(spec: Scan | SegmentedScan, source: np.ndarray, target: np.ndarray) -> None:
    """Scans the last axis forwards, a batch of lines and a chunk of each at a time."""
    combine = (_COMBINE_BOOL if spec.dtype.name == "bool" else _COMBINE)[spec.operation]
    for lines in _batches(source.shape):
        carry = None
        for start in range(0, source.shape[-1], _CHUNK):
            part = (*lines, slice(start, start + _CHUNK))
            running = _scan_blocks(combine, _wide_copy(source[part], spec.dtype))
            if carry is not None:
                combine(carry, running, out=running)
            if spec.exclusive:
                first = np.full_like(running[..., :1], _IDENTITY[spec.operation]) if carry is None else carry
                carry, running = running[..., -1:], np.concatenate([first, running[..., :-1]], axis=-1)
            else:
                carry = running[..., -1:]
            target[part] = convert(convert(running, spec.dtype), target.dtype)


def _batches(shape: tuple[int, ...]) -> Iterator[tuple]:
    """Indices that cut the axes before the last into batches of lines, each of about a chunk's elements."""
    if len(shape) == 1:
        yield ()
        return
    lines_at_once = max(1, _CHUNK // max(1, shape[-1]))
    inner = 1
    for axis in reversed(range(len(shape) - 1)):
        if inner * shape[axis] > lines_at_once:
            step = max(1, lines_at_once // inner)
            for outer in np.ndindex(shape[:axis]):
                for start in range(0, shape[axis], step):
                    yield (*outer, slice(start, start + step), ...)
            return
        inner *= shape[axis]
    yield (...,)


def _wide_copy(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A C-contiguous copy in the accumulator's type, by way of `dtype`: the same bits whatever the strides were."""
    return np.array(convert(values, dtype), dtype=wide(dtype), order="C", copy=True)


def _scan_blocks(combine: np.ufunc, values: np.ndarray) -> np.ndarray:
    """Inclusive scan of the last axis."""
    length = values.shape[-1]
    if length <= _BLOCK:
        return combine.accumulate(values, axis=-1, dtype=values.dtype)
    whole = length - length % _BLOCK
    blocks = values[..., :whole].reshape(*values.shape[:-1], whole // _BLOCK, _BLOCK)
    blocks = combine.accumulate(blocks, axis=-1, dtype=values.dtype)
    totals = _scan_blocks(combine, blocks[..., -1])
    combine(totals[..., :-1, None], blocks[..., 1:, :], out=blocks[..., 1:, :])
    scanned = blocks.reshape(*values.shape[:-1], whole)
    if whole == length:
        return scanned
    rest = combine.accumulate(values[..., whole:], axis=-1, dtype=values.dtype)
    return np.concatenate([scanned, combine(totals[..., -1:], rest)], axis=-1)
