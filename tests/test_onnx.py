"""The node tests of ONNX for the operators that cudml has, built in memory by the `onnx` package."""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np
import pytest

from cudml.modulus import fmod
from cudml.normalization import group_norm, instance_norm, layer_norm, mean_variance_normalization
from cudml.scan import cumprod, cumsum

pytestmark = pytest.mark.xdist_group("onnx")  # building the cases takes seconds: one worker is enough
pytest.importorskip("onnx", minversion="1.23", reason="the case counts are those of onnx 1.23")

COUNTS = {
    "CumSum": 9,
    "CumProd": 9,
    "Mod": 19,
    "MeanVarianceNormalization": 1,
    "LayerNormalization": 19,
    "InstanceNormalization": 2,
    "GroupNormalization": 2,
}
MVN_AXES = (0, 2, 3)  # ONNX's default


@lru_cache(maxsize=1)
def all_cases():
    """Single-node cases by operator."""
    from onnx.backend.test.loader import load_model_tests

    cases = {operator: [] for operator in COUNTS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of operators that are not asked for
        for case in load_model_tests(kind="node"):
            nodes = case.model.graph.node
            if len(nodes) == 1 and nodes[0].op_type in cases:
                cases[nodes[0].op_type].append(case)
    return cases


def runs(operator):
    """(name, attributes, inputs, outputs, tolerances) of every case of an operator, which are as many as expected."""
    from onnx.helper import get_attribute_value

    cases = all_cases()[operator]
    assert len(cases) == COUNTS[operator]
    for case in cases:
        attributes = {a.name: get_attribute_value(a) for a in case.model.graph.node[0].attribute}
        assert case.data_sets
        for inputs, outputs in case.data_sets:
            yield case.name, attributes, inputs, outputs, {"rtol": case.rtol, "atol": case.atol}


@pytest.mark.parametrize(("operator", "function"), [("CumSum", cumsum), ("CumProd", cumprod)])
def test_cumulative(xp, operator, function):
    for name, attributes, (x, axis), (expected,), tolerance in runs(operator):
        options = {option: bool(attributes.get(option, 0)) for option in ("exclusive", "reverse")}
        got = xp.to_numpy(function(xp.asarray(x), int(axis), x.dtype, **options))
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, **tolerance, err_msg=name)


def test_mod(xp):
    """Where ONNX asks for the truncated modulus, or signs do not matter, results agree; elsewhere they must not."""
    truncated = floored = 0
    for name, attributes, (x1, x2), (expected,), tolerance in runs("Mod"):
        got = xp.to_numpy(fmod(xp.asarray(x1), xp.asarray(x2)))
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        if attributes.get("fmod", 0) or not ((x1 < 0).any() or (x2 < 0).any() or np.isnan(expected).any()):
            np.testing.assert_allclose(got, expected, **tolerance, err_msg=name)
            truncated += 1
        else:
            assert not np.allclose(got, expected, equal_nan=True), name
            floored += 1
    assert (truncated, floored) == (9, 10)


def test_mean_variance_normalization(xp):
    """ONNX adds its epsilon, 1e-9, to the deviation."""
    for name, attributes, (x,), (expected,), tolerance in runs("MeanVarianceNormalization"):
        axes = tuple(attributes.get("axes", MVN_AXES))
        got = mean_variance_normalization(xp.asarray(x), axes=axes, epsilon=1e-18)
        np.testing.assert_allclose(xp.to_numpy(got), expected, **tolerance, err_msg=name)


def test_layer_normalization(xp):
    for name, attributes, (x, *parameters), outputs, tolerance in runs("LayerNormalization"):
        shape = x.shape[attributes.get("axis", -1) :]
        weight, bias = (xp.asarray(parameter.reshape(shape)) for parameter in parameters)
        got = layer_norm(xp.asarray(x), shape, weight, bias, attributes.get("epsilon", 1e-5))
        np.testing.assert_allclose(xp.to_numpy(got), outputs[0], **tolerance, err_msg=name)


def test_instance_normalization(xp):
    for name, attributes, inputs, (expected,), tolerance in runs("InstanceNormalization"):
        got = instance_norm(*map(xp.asarray, inputs), attributes.get("epsilon", 1e-5))
        np.testing.assert_allclose(xp.to_numpy(got), expected, **tolerance, err_msg=name)


def test_group_normalization(xp):
    for name, attributes, (x, *parameters), (expected,), tolerance in runs("GroupNormalization"):
        arrays = map(xp.asarray, parameters)
        got = group_norm(xp.asarray(x), attributes["num_groups"], *arrays, attributes.get("epsilon", 1e-5))
        np.testing.assert_allclose(xp.to_numpy(got), expected, **tolerance, err_msg=name)
