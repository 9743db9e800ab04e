"""What is asked for while the launch ahead ends: kernels/ahead.cuh, and which arrays plans name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cuda_on_cpu import Module, device_array, requirement
from plans import F32, layout

from cudml.plan import make_plan
from cudml.plan.device import H200
from cudml.plan.plan import Struct
from cudml.plan.spec import Modulus, Moments, Normalization, Scan

SOURCE = Path(__file__).parent / "cuda_on_cpu" / "kernels" / "ahead.cu"


@pytest.mark.skipif(bool(requirement()), reason=f"kernels cannot run on this CPU: {requirement()}")
@pytest.mark.parametrize(
    ("nbytes", "grid", "block"),
    [
        (0, 3, 32),
        (8, 1, 32),
        (16, 4, 32),  # more blocks than pieces
        (80, 4, 32),  # a block whose share would begin behind the end
        (1000, 7, 32),  # no whole pieces
        (4096, 1, 32),
        (40_000, 2, 32),  # several times as much as all threads ask for at once
        (77_776, 12, 64),  # shares that do not fill all blocks
    ],
)
def test_blocks_ask_for_each_piece_once(nbytes, grid, block):
    words = device_array(np.zeros(nbytes // 4 + 8, np.uint32))
    Module(SOURCE, checking=True).kernel("ask")(grid, block, (words, np.uint32(nbytes)))
    expected = np.arange(words.size) < nbytes // 16 * 4
    np.testing.assert_array_equal(np.asarray(words), expected)


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((3, 4), None, True),
        ((3, 4), (1, 3), True),  # in another order
        ((3, 1, 4), (4, 99, 1), True),
        ((2, 3, 4), (4, 8, 1), True),
        ((), (), True),
        ((0, 3), (0, 1), True),
        ((1, 4), (-4, 1), True),
        ((3, 4), (5, 1), False),  # rows are padded
        ((3, 4), (-4, 1), False),  # the first element is not the first in memory
        ((3, 4), (0, 1), False),
        ((3, 4), (4, 2), False),
        ((3, 3), (2, 2), False),  # as long as a run, with gaps and what lies twice
    ],
)
def test_arrays_that_are_one_run(shape, strides, expected):
    assert layout(shape, strides=strides).is_one_run == expected


def planned(spec, source, device=H200):
    """The first launch of a call, and what its kernel is told to ask for."""
    arrays = {"input": source}
    if isinstance(spec, Moments):
        shape = tuple(1 if axis in spec.axes else size for axis, size in enumerate(source.shape))
        arrays |= {name: layout(shape) for name in ("mean", "variance")}
    else:
        arrays["output"] = layout(source.shape, source.dtype.name)
    launch = make_plan(spec, arrays, device).launches[0]
    ahead = launch.arguments[-1]
    assert isinstance(ahead, Struct)
    return launch.kernel, ahead.values[0] if ahead.dtype == np.uint32 else 0


@pytest.mark.parametrize(
    ("spec", "dtype", "small", "large"),
    [
        (Scan("sum", F32, 0), "float32", (1024, 1024), (4096, 1024)),  # columns
        (Scan("sum", F32, 1), "float32", (40_000, 10), (1 << 21, 10)),  # short lines
        (Scan("sum", F32, 1), "float32", (1000, 12), (1 << 21, 12)),
        (Scan("sum", F32, 1), "float32", (1000, 16), (1 << 21, 16)),
        (Scan("sum", np.dtype(np.uint8), 1), "uint8", (1000, 3), (1 << 25, 3)),
        (Scan("sum", F32, 1), "float32", (1000, 20, 5), (1 << 16, 20, 5)),  # panels
        (Scan("sum", F32, 1), "float32", (1000, 200, 5), (1 << 13, 200, 5)),
        (Normalization((1,)), "float32", (1 << 18, 64), (300_000, 64)),  # lines
        (Normalization((1,)), "float32", (3072, 2048), (3080, 2048)),
        (Normalization((1,)), "float32", (1024, 651), (1 << 15, 651)),
        (Normalization((1,)), "float32", (190_000, 33), (200_000, 33)),  # staged lines
        (Normalization((1,)), "float16", (16, 200_000), (16, 600_000)),
        (Normalization((0,)), "float32", (64, 16384), (64, 65536)),  # columns
        (Normalization((0,)), "float32", (16384, 64), (65536, 64)),
        (Normalization((1,)), "float32", (65536, 5, 3), (1 << 19, 5, 3)),  # panels
        (Normalization((1,)), "float32", (1000, 200, 5), (1 << 13, 200, 5)),
        (Normalization((0, 2, 3)), "float16", (64, 1280, 7, 7), (96, 2048, 7, 7)),  # bundles
        (Normalization((0, 2, 3)), "float16", (2048, 256, 3, 3), (512, 2048, 7, 7)),
        (Moments((1,)), "float32", (1024, 1024), (2048, 1024)),
        (Moments((0,)), "float32", (64, 16384), (64, 1 << 17)),
        (Moments((0,)), "float32", (4096, 1024), (8192, 1024)),
        (Moments((1,)), "float32", (4, 1 << 20), (8, 1 << 20)),
    ],
)
def test_small_inputs_are_asked_for(spec, dtype, small, large):
    source = layout(small, dtype)
    kernel, ahead = planned(spec, source)
    assert ahead == source.size * source.dtype.itemsize
    assert planned(spec, layout(large, dtype)) == (kernel, 0)
    older = H200._replace(compute_capability=(8, 9))
    assert planned(spec, source, older)[-1] == planned(spec, layout(small, dtype, alignment=8))[-1] == 0


@pytest.mark.parametrize("strides", [(2048, 1), (-1024, 1), (0, 1)])
@pytest.mark.parametrize("spec", [Scan("sum", F32, 0), Normalization((1,)), Normalization((0,))])
def test_nobody_asks_for_what_is_no_run(spec, strides):
    """From the first element on there may be no such number of bytes."""
    assert planned(spec, layout((1024, 1024)))[-1] > 0
    assert planned(spec, layout((1024, 1024), strides=strides))[-1] == 0


def test_small_operands_are_asked_for():
    def ahead(dividend, divisor, device=H200) -> tuple[int, ...]:
        arrays = {"dividend": dividend, "divisor": divisor, "output": layout(dividend.shape)}
        (launch,) = make_plan(Modulus(F32), arrays, device).launches
        assert launch.kernel == "modulus_packs"
        return tuple(launch.arguments[-1].values[2:4])

    row, square = layout((1 << 18,)), layout((512, 512))
    assert ahead(row, row) == ahead(square, square) == (1 << 20, 1 << 20)
    assert ahead(row, F32) == (1 << 20, 0)
    assert ahead(layout((1 << 18,), "float16"), row) == (1 << 19, 1 << 20)
    assert ahead(layout((1 << 24,), "float16"), layout((1 << 24,), "float64")) == (1 << 25, 0)
    nothing = (0, 0)
    assert ahead(layout((1 << 25,)), F32) == ahead(row, row, H200._replace(compute_capability=(8, 0))) == nothing
    assert ahead(square, layout((512,))) == ahead(row, layout((1 << 18,), alignment=4)) == nothing
    padded = layout((512, 512), strides=(1024, 1))
    assert ahead(padded, padded) == nothing
