"""Every rule of `validate`: a desc that just breaks it, and a neighbour that just does not."""

from __future__ import annotations

import pickle
from itertools import permutations

import pytest

from cudml import dml
from cudml.dml import BufferTensorDesc, DescriptorError, FeatureLevel, TensorDataType, TensorFlags, validate
from cudml.dml.lowering import lower
from cudml.memory import may_repeat_elements

L1_0, L2_1, L3_0, L3_1 = (FeatureLevel[f"FL_{label}"] for label in ("1_0", "2_1", "3_0", "3_1"))
L4_0, L5_1, L5_2, L6_3, L6_4 = (FeatureLevel[f"FL_{label}"] for label in ("4_0", "5_1", "5_2", "6_3", "6_4"))
FLOAT32, FLOAT16, INT8 = TensorDataType.FLOAT32, TensorDataType.FLOAT16, TensorDataType.INT8
BIG = 2**32


def tensor(sizes=(2, 3, 4, 5), data_type=FLOAT32, **options):
    return BufferTensorDesc(data_type=data_type, sizes=sizes, **options)


def summation(**changes):
    return dml.CumulativeSummationOperatorDesc(
        **{"input_tensor": tensor(), "output_tensor": tensor(), "axis": 1} | changes
    )


def cumulative_product(**changes):
    return dml.CumulativeProductOperatorDesc(
        **{"input_tensor": tensor(), "output_tensor": tensor(), "axis": 1} | changes
    )


def modulus(**changes):
    tensors = {"a_tensor": tensor(), "b_tensor": tensor(), "output_tensor": tensor()}
    return dml.ElementWiseModulusTruncateOperatorDesc(**tensors | changes)


def mvn(**changes):
    fields = {"input_tensor": tensor(), "output_tensor": tensor(), "cross_channel": False, "normalize_variance": True}
    return dml.MeanVarianceNormalizationOperatorDesc(**fields | changes)


def mvn1(**changes):
    fields = {"input_tensor": tensor(), "output_tensor": tensor(), "axes": (2, 3), "normalize_variance": True}
    return dml.MeanVarianceNormalization1OperatorDesc(**fields | changes)


def both(**options):
    """Scale and bias alike."""
    return {"scale_tensor": tensor(**options), "bias_tensor": tensor(**options)}


def fused(name, **parameters):
    return {"fused_activation": getattr(dml, f"Activation{name}OperatorDesc")(**parameters)}


def violations(desc, level):
    with pytest.raises(DescriptorError) as caught:
        validate(desc, level)
    return caught.value.violations


BUILDERS = [summation, cumulative_product, modulus, mvn, mvn1]


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("level", [level for level in FeatureLevel if level >= L3_1], ids=lambda level: level.name)
def test_good_descs_pass(build, level):
    assert validate(build(), level) is None


# (desc, level, the fields of all its violations, in order, and words of the first rule)
BAD = {
    # availability
    "sum too early": (summation(), FeatureLevel.FL_2_0, ["feature_level"], "at least 2_1"),
    "product too early": (cumulative_product(), L3_0, ["feature_level"], "at least 3_1"),
    "modulus too early": (modulus(), FeatureLevel.FL_2_0, ["feature_level"], "at least 2_1"),
    "mvn1 too early": (mvn1(), FeatureLevel.FL_2_0, ["feature_level"], "at least 2_1"),
    # sizes
    "size 0": (
        summation(input_tensor=tensor((2, 0, 4, 5))),
        L6_4,
        ["input_tensor.sizes", "output_tensor.sizes"],
        "from 1 to",
    ),
    "size negative": (
        mvn1(**both(sizes=(2, 3, 4, -1))),
        L6_4,
        ["scale_tensor.sizes", "bias_tensor.sizes"] * 2,
        "from 1",
    ),
    "size past UINT": (
        summation(input_tensor=tensor((BIG,)), output_tensor=tensor((BIG,)), axis=0),
        L6_4,
        ["input_tensor.sizes", "output_tensor.sizes"],
        "from 1 to 2**32 - 1",
    ),
    "too many elements": (
        summation(input_tensor=tensor((65536, 65536)), output_tensor=tensor((65536, 65536))),
        L6_4,
        ["input_tensor.sizes", "output_tensor.sizes"],
        "at most 2**32 - 1, not 4294967296",
    ),
    "far too many dimensions": (
        summation(input_tensor=tensor((3,) * 10000)),
        L6_4,
        ["input_tensor.sizes", "output_tensor.dimension_count"],
        "not 10000",
    ),
    "far too many bytes": (
        modulus(
            a_tensor=tensor((BIG - 1,), TensorDataType.INT64, strides=(BIG - 1,)),
            b_tensor=tensor((BIG - 1,), TensorDataType.INT64),
            output_tensor=tensor((BIG - 1,), TensorDataType.INT64),
        ),
        L6_4,
        ["a_tensor.strides"],
        "2**64 - 1 bytes",
    ),
    # strides
    "stride missing": (modulus(b_tensor=tensor(strides=(20, 5, 1))), L6_4, ["b_tensor.strides"], "each of the 4 sizes"),
    "stride negative": (modulus(b_tensor=tensor(strides=(60, 20, -5, 1))), L6_4, ["b_tensor.strides"], "from 0"),
    "stride past UINT": (modulus(b_tensor=tensor(strides=(BIG, 20, 5, 1))), L6_4, ["b_tensor.strides"], "2**32 - 1"),
    "output stride 0": (modulus(output_tensor=tensor(strides=(60, 0, 5, 1))), L6_4, ["output_tensor.strides"], "share"),
    "output rows overlap": (
        summation(output_tensor=tensor(strides=(60, 20, 4, 1))),
        L6_4,
        ["output_tensor.strides"],
        "share memory",
    ),
    # total size
    "total size too small": (
        modulus(a_tensor=tensor(total_tensor_size_in_bytes=476)),
        L6_4,
        ["a_tensor.total_tensor_size_in_bytes"],
        "from 480",
    ),
    "total size too small for strides": (
        modulus(a_tensor=tensor(strides=(100, 20, 5, 1), total_tensor_size_in_bytes=480)),
        L6_4,
        ["a_tensor.total_tensor_size_in_bytes"],
        "from 640",
    ),
    "total size no multiple of 4": (
        modulus(a_tensor=tensor(total_tensor_size_in_bytes=482)),
        L6_4,
        ["a_tensor.total_tensor_size_in_bytes"],
        "multiple of 4",
    ),
    "total size not rounded up": (
        summation(
            input_tensor=tensor((3,), FLOAT16, total_tensor_size_in_bytes=6),
            output_tensor=tensor((3,), FLOAT16),
            axis=0,
        ),
        L6_4,
        ["input_tensor.total_tensor_size_in_bytes"] * 2,
        "from 8",
    ),
    "total size past UINT64": (
        modulus(a_tensor=tensor(total_tensor_size_in_bytes=2**64)),
        L6_4,
        ["a_tensor.total_tensor_size_in_bytes"],
        "2**64 - 1",
    ),
    # alignment
    "alignment no power of two": (
        modulus(a_tensor=tensor(guaranteed_base_offset_alignment=24)),
        L6_4,
        ["a_tensor.guaranteed_base_offset_alignment"],
        "power of two",
    ),
    "alignment below the element": (
        modulus(a_tensor=tensor(guaranteed_base_offset_alignment=2)),
        L6_4,
        ["a_tensor.guaranteed_base_offset_alignment"],
        "element size, 4",
    ),
    "alignment negative": (
        modulus(a_tensor=tensor(guaranteed_base_offset_alignment=-16)),
        L6_4,
        ["a_tensor.guaranteed_base_offset_alignment"],
        "power of two",
    ),
    "alignment past UINT": (
        modulus(a_tensor=tensor(guaranteed_base_offset_alignment=BIG)),
        L6_4,
        ["a_tensor.guaranteed_base_offset_alignment"],
        "2**31",
    ),
    # flags
    "output owned": (
        summation(output_tensor=tensor(flags=TensorFlags.OWNED_BY_DML)),
        L6_4,
        ["output_tensor.flags"],
        "only an input",
    ),
    "unknown flag": (summation(input_tensor=tensor(flags=TensorFlags(2))), L6_4, ["input_tensor.flags"], "only flag"),
    # equality between tensors
    "types differ": (summation(output_tensor=tensor(data_type=FLOAT16)), L6_4, ["output_tensor.data_type"], "FLOAT32"),
    "bias type differs": (
        mvn1(scale_tensor=tensor(), bias_tensor=tensor(data_type=FLOAT16)),
        L6_4,
        ["bias_tensor.data_type"],
        "data type of input_tensor",
    ),
    "mvn types differ": (mvn(output_tensor=tensor(data_type=FLOAT16)), L6_4, ["output_tensor.data_type"], "FLOAT32"),
    "modulus types differ": (
        modulus(b_tensor=tensor(data_type=TensorDataType.INT32)),
        L6_4,
        ["b_tensor.data_type"],
        "data type of a_tensor, FLOAT32",
    ),
    "dimension counts differ": (
        modulus(b_tensor=tensor((3, 4, 5))),
        L6_4,
        ["b_tensor.dimension_count"],
        "dimension count of a_tensor, 4",
    ),
    "scale's dimension count differs": (
        mvn1(**both(sizes=(3, 1, 1))),
        L6_4,
        ["scale_tensor.dimension_count", "bias_tensor.dimension_count"],
        "of input_tensor, 4",
    ),
    "scan sizes differ": (
        cumulative_product(output_tensor=tensor((2, 3, 4, 6))),
        L6_4,
        ["output_tensor.sizes"],
        "sizes of input_tensor, (2, 3, 4, 5)",
    ),
    "modulus sizes differ": (
        modulus(b_tensor=tensor((1, 1, 1, 5))),
        L6_4,
        ["b_tensor.sizes"],
        "sizes of a_tensor, (2, 3, 4, 5)",
    ),
    "mvn sizes differ": (mvn(output_tensor=tensor((2, 3, 4, 1))), L6_4, ["output_tensor.sizes"], "of input_tensor"),
    "mvn1 sizes differ": (mvn1(output_tensor=tensor((2, 3, 4, 1))), L6_4, ["output_tensor.sizes"], "of input_tensor"),
    # axes
    "axis past the end": (summation(axis=4), L6_4, ["axis"], "less than the dimension count of input_tensor, 4"),
    "axis negative": (cumulative_product(axis=-1), L6_4, ["axis"], "at least 0"),
    "axes past the end": (mvn1(axes=(0, 4)), L6_4, ["axes"], "dimension count of input_tensor, 4"),
    "axes negative": (mvn1(axes=(-1,)), L6_4, ["axes"], "at least 0"),
    "axes twice": (mvn1(axes=(2, 3, 2)), L6_4, ["axes"], "once"),
    "axes empty": (mvn1(axes=()), L6_4, ["axes"], "at least one"),
    # presence of scale and bias
    "scale alone": (mvn1(scale_tensor=tensor()), L5_1, ["bias_tensor"], "required with scale_tensor"),
    "bias alone": (mvn1(bias_tensor=tensor()), L5_1, ["scale_tensor"], "required with bias_tensor"),
    "mvn scale alone": (mvn(scale_tensor=tensor()), L1_0, ["bias_tensor"], "below feature level 5_2"),
    "mvn bias alone": (mvn(bias_tensor=tensor()), L5_1, ["scale_tensor"], "below feature level 5_2"),
    # broadcast of scale and bias
    "scale of another size": (
        mvn1(**both(sizes=(1, 3, 2, 1))),
        L6_4,
        ["scale_tensor.sizes", "bias_tensor.sizes"],
        "1 or that of input_tensor",
    ),
    "mvn bias of another size": (
        mvn(scale_tensor=tensor(), bias_tensor=tensor((1, 2, 1, 1))),
        L1_0,
        ["bias_tensor.sizes"],
        "1 or that of input_tensor",
    ),
    "channel broadcast too early": (
        mvn1(**both(sizes=(1, 1, 4, 5))),
        L3_1,
        ["scale_tensor.sizes", "bias_tensor.sizes"],
        "the channels",
    ),
    # epsilon
    "epsilon negative": (mvn1(epsilon=-1e-30), L6_4, ["epsilon"], "not negative"),
    "epsilon NaN": (mvn(epsilon=float("nan")), L6_4, ["epsilon"], "finite"),
    "epsilon infinite": (mvn1(epsilon=float("inf")), L6_4, ["epsilon"], "finite"),
    "epsilon past FLOAT": (mvn1(epsilon=3.5e38), L6_4, ["epsilon"], "finite FLOAT"),
    # fused activations
    "activation too early": (
        mvn1(**fused("Gelu")),
        FeatureLevel.FL_5_0,
        ["fused_activation"],
        "below feature level 5_1",
    ),
    "activation with a tensor": (
        mvn1(**fused("Relu", input_tensor=tensor(), output_tensor=tensor())),
        L6_4,
        ["fused_activation.input_tensor", "fused_activation.output_tensor"],
        "must be None",
    ),
    "activation not fusable": (mvn1(fused_activation=summation()), L6_4, ["fused_activation"], "can fuse"),
    "steepness below 1": (
        mvn1(**fused("Softplus", steepness=0.999)),
        L6_3,
        ["fused_activation.steepness"],
        "at least 1",
    ),
    "steepness NaN": (
        mvn(**fused("Softplus", steepness=float("nan"))),
        L1_0,
        ["fused_activation.steepness"],
        "at least 1",
    ),
    "activation alone, steepness": (
        fused("Softplus", steepness=0.5)["fused_activation"],
        L6_3,
        ["steepness"],
        "at least 1",
    ),
    "activation alone, tensor": (
        fused("Tanh", input_tensor=tensor())["fused_activation"],
        L6_4,
        ["input_tensor"],
        "must be None",
    ),
}


@pytest.mark.parametrize(("desc", "level", "fields", "words"), BAD.values(), ids=BAD)
def test_bad(desc, level, fields, words):
    found = violations(desc, level)
    assert [violation.field for violation in found] == fields
    assert words in found[0].rule


GOOD = {
    "sum at 2_1": (summation(), L2_1),
    "product at 3_1": (cumulative_product(), L3_1),
    "modulus at 2_1": (modulus(), L2_1),
    "mvn1 at 2_1": (mvn1(), L2_1),
    "mvn at 1_0": (mvn(), L1_0),
    "most elements": (summation(input_tensor=tensor((BIG - 1,)), output_tensor=tensor((BIG - 1,)), axis=0), L6_4),
    "most elements in two dimensions": (
        summation(input_tensor=tensor((65535, 65537)), output_tensor=tensor((65535, 65537))),
        L6_4,
    ),
    "largest stride": (modulus(b_tensor=tensor(strides=(BIG - 1, 20, 5, 1))), L6_4),
    "input stride 0": (modulus(b_tensor=tensor(strides=(0, 0, 0, 1))), L6_4),
    "input rows overlap": (summation(input_tensor=tensor(strides=(60, 20, 4, 1))), L6_4),
    "output permuted": (summation(output_tensor=tensor(strides=(1, 2, 6, 24))), L6_4),
    "output padded": (summation(output_tensor=tensor(strides=(64, 20, 5, 1))), L6_4),
    "output stride 0 of size 1": (
        summation(input_tensor=tensor((1, 3, 4, 5)), output_tensor=tensor((1, 3, 4, 5), strides=(0, 20, 5, 1))),
        L6_4,
    ),
    "strides differ": (summation(input_tensor=tensor(strides=(1, 2, 6, 24))), L6_4),
    "total size exact": (modulus(a_tensor=tensor(total_tensor_size_in_bytes=480)), L6_4),
    "total size larger": (modulus(a_tensor=tensor(total_tensor_size_in_bytes=2**64 - 4)), L6_4),
    "alignment of the element": (modulus(a_tensor=tensor(guaranteed_base_offset_alignment=4)), L6_4),
    "alignment of a page": (modulus(output_tensor=tensor(guaranteed_base_offset_alignment=4096)), L6_4),
    "largest alignment": (modulus(output_tensor=tensor(guaranteed_base_offset_alignment=2**31)), L6_4),
    "inputs owned": (
        modulus(a_tensor=tensor(flags=TensorFlags.OWNED_BY_DML), b_tensor=tensor(flags=TensorFlags.OWNED_BY_DML)),
        L6_4,
    ),
    "axis last": (summation(axis=3), L6_4),
    "axis first": (summation(axis=0), L6_4),
    "axes unsorted": (mvn1(axes=(3, 1)), L6_4),
    "axes all": (mvn1(axes=(0, 1, 2, 3)), L6_4),
    "scale and bias at 2_1": (mvn1(**both()), L2_1),
    "scale alone at 5_2": (mvn1(scale_tensor=tensor()), L5_2),
    "bias alone at 5_2": (mvn1(bias_tensor=tensor()), L5_2),
    "mvn scale alone at 5_2": (mvn(scale_tensor=tensor()), L5_2),
    "mvn bias alone at 5_2": (mvn(bias_tensor=tensor()), L5_2),
    "scale of ones but the channels at 2_1": (mvn1(**both(sizes=(1, 3, 1, 1))), L2_1),
    "scale of ones at 4_0": (mvn1(**both(sizes=(1, 1, 1, 1))), L4_0),
    "mvn scale of ones at 1_0": (mvn(**both(sizes=(1, 1, 1, 1))), L1_0),
    "one channel at 2_1": (
        mvn1(input_tensor=tensor((2, 1, 4, 5)), output_tensor=tensor((2, 1, 4, 5)), **both(sizes=(1, 1, 1, 1))),
        L2_1,
    ),
    "channel by stride 0 at 2_1": (mvn1(**both(sizes=(2, 3, 4, 5), strides=(0, 0, 5, 1))), L2_1),
    "three dimensions name no channel at 3_1": (
        mvn1(input_tensor=tensor((3, 4, 5)), output_tensor=tensor((3, 4, 5)), axes=(2,), **both(sizes=(1, 1, 5))),
        L3_1,
    ),
    "scale and bias differ": (mvn1(scale_tensor=tensor((1, 3, 1, 1)), bias_tensor=tensor((2, 1, 4, 1))), L4_0),
    "epsilon 0": (mvn1(epsilon=0), L6_4),
    "epsilon -0.0": (mvn1(epsilon=-0.0), L6_4),
    "epsilon large": (mvn1(epsilon=3e38), L6_4),
    "epsilon as NumPy writes the largest FLOAT": (mvn1(epsilon=3.4028235e38), L6_4),
    "gelu at 5_1": (mvn1(**fused("Gelu")), L5_1),
    "steepness that is 1 as a FLOAT": (mvn1(**fused("Softplus", steepness=1 - 2**-26)), L2_1),
    "steepness 1": (mvn1(**fused("Softplus", steepness=1)), L2_1),
    "steepness below 1 at 6_4": (mvn1(**fused("Softplus", steepness=0.1)), L6_4),
    "parameters not finite": (mvn1(**fused("Linear", alpha=float("inf"), beta=float("nan"))), L6_4),
    "activation alone": (fused("Relu")["fused_activation"], L1_0),
}


@pytest.mark.parametrize(("desc", "level"), GOOD.values(), ids=GOOD)
def test_good(desc, level):
    assert validate(desc, level) is None


def test_all_violations_are_reported_at_once():
    desc = mvn1(
        input_tensor=tensor(guaranteed_base_offset_alignment=3),
        bias_tensor=tensor((1, 3, 9, 1), strides=(0, 1)),
        output_tensor=tensor((2, 3, 4, 0), INT8, flags=TensorFlags.OWNED_BY_DML, total_tensor_size_in_bytes=7),
        axes=(1, 1, 9),
        epsilon=-1,
        **fused("Softplus", steepness=0, input_tensor=tensor()),
    )
    assert sorted({violation.field for violation in violations(desc, L2_1)}) == [
        "axes",
        "bias_tensor.sizes",
        "bias_tensor.strides",
        "epsilon",
        "fused_activation.input_tensor",
        "fused_activation.steepness",
        "input_tensor.guaranteed_base_offset_alignment",
        "output_tensor.data_type",
        "output_tensor.flags",
        "output_tensor.sizes",
        "scale_tensor",
    ]


def test_messages_name_operator_field_value_rule_level_and_fix():
    with pytest.raises(DescriptorError) as caught:
        validate(summation(axis=-1), L5_2)
    assert str(caught.value) == (
        "CUMULATIVE_SUMMATION at feature level 5_2: axis is -1, but must be at least 0 and less than the dimension "
        "count of input_tensor, 4; write 3."
    )


@pytest.mark.parametrize("name", BAD)
def test_every_message_carries_its_violation(name):
    desc, level, _, _ = BAD[name]
    with pytest.raises(ValueError, match=level.label) as caught:
        validate(desc, level)
    error = caught.value
    for violation in error.violations:
        assert violation.operator == desc.operator_type.name
        assert violation.feature_level is level
        for part in (violation.field, violation.rule, violation.fix):
            assert part
            assert part in str(error)
            assert part in str(violation)
    first = error.violations[0]
    assert (error.operator, error.field, error.rule, error.value, error.feature_level) == (
        first.operator,
        first.field,
        first.rule,
        first.value,
        first.feature_level,
    )


def test_several_violations_are_listed():
    with pytest.raises(DescriptorError) as caught:
        validate(mvn1(axes=(), epsilon=-1.0), L6_4)
    heading, *lines = str(caught.value).splitlines()
    assert heading == "MEAN_VARIANCE_NORMALIZATION1 breaks 2 rules of feature level 6_4:"
    assert [line[:10] for line in lines] == ["  - epsilo", "  - axes i"]


def test_values_are_given_as_they_are():
    assert violations(summation(axis=7), L6_4)[0].value == 7
    assert violations(mvn1(axes=(2, 2)), L6_4)[0].value == (2, 2)
    assert violations(summation(input_tensor=tensor(data_type=INT8)), L6_4)[0].value is INT8


def test_a_later_level_is_advised_where_it_helps():
    sixty_four = tensor(data_type=TensorDataType.INT64)
    rule = violations(modulus(a_tensor=sixty_four, b_tensor=sixty_four, output_tensor=sixty_four), L5_2)[0]
    assert rule.fix.startswith("use feature level 6_0 or above")
    assert "feature level" not in violations(summation(input_tensor=tensor(data_type=INT8)), L2_1)[0].fix


@pytest.mark.parametrize(
    ("desc", "fix"),
    [
        (mvn1(axes=(3, -1)), "name dimensions that input_tensor has"),
        (mvn1(axes=(2, -1)), "write 2, 3"),
        (modulus(a_tensor=tensor(total_tensor_size_in_bytes=482)), "round it up to 484"),
        (modulus(a_tensor=tensor(total_tensor_size_in_bytes=2**64 - 1)), "leave it out to have it computed"),
        (modulus(a_tensor=tensor(total_tensor_size_in_bytes=-3)), "leave it out to have it computed"),
    ],
)
def test_fixes_work(desc, fix):
    assert {violation.fix for violation in violations(desc, L6_4)} == {fix}


def test_errors_about_huge_numbers_can_be_read():
    many, huge = tensor(sizes=(1,) * 1000), tensor(sizes=(10**5000, 2, 3, 4))
    for desc in (
        summation(axis=10**5000),
        modulus(a_tensor=tensor(total_tensor_size_in_bytes=10**5000)),
        modulus(a_tensor=many, output_tensor=many),
        modulus(a_tensor=huge, b_tensor=tensor(sizes=(2**32 - 1,) * 4)),
        mvn1(input_tensor=huge, scale_tensor=tensor(sizes=(1, 1, 1, 5)), bias_tensor=tensor(sizes=(1, 1, 1, 5))),
    ):
        with pytest.raises(DescriptorError) as caught:
            validate(desc, L6_4)
        assert all(len(line) < 400 for line in str(caught.value).splitlines())


@pytest.mark.parametrize("call", [validate, lambda desc, _: lower(desc)], ids=["validate", "lower"])
def test_what_is_no_desc_is_shown_in_brief(call):
    with pytest.raises(TypeError, match=r"^desc is ") as caught:
        call([1.0] * 100_000, L6_4)
    assert len(str(caught.value)) < 400


def test_operators_can_be_keys():
    one, other = (dml.Device(L6_4).create_operator(summation(axis=axis)) for axis in (1, 2))
    assert {one: 1, other: 2}[dml.Device(L6_4).create_operator(summation(axis=1))] == 1


def test_errors_can_be_pickled():
    with pytest.raises(DescriptorError) as caught:
        validate(summation(axis=9), L6_4)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.violations == caught.value.violations
    assert str(copy) == str(caught.value)


@pytest.mark.parametrize("desc", [None, 3, tensor(), dml.CumulativeSummationOperatorDesc])
def test_what_is_no_operator_desc(desc):
    with pytest.raises(TypeError, match="operator descs"):
        validate(desc, L6_4)


@pytest.mark.parametrize("level", [0x5050, "FL_5_0", None])
def test_what_is_no_feature_level(level):
    with pytest.raises(ValueError, match="FeatureLevel"):
        validate(summation(), level)


def test_feature_levels_may_be_the_headers_numbers():
    assert validate(summation(), 0x2100) is None


@pytest.mark.parametrize("sizes", [(2, 3), (3, 1, 2), (2, 2, 2)])
def test_overlap_is_never_missed_and_permuted_layouts_pass(sizes):
    """Against all offsets written out: nothing that overlaps passes."""
    import numpy as np

    for strides in np.ndindex(*(7,) * len(sizes)):
        offsets = [int(np.dot(place, strides)) for place in np.ndindex(*sizes)]
        if len(set(offsets)) < len(offsets):
            assert may_repeat_elements(sizes, strides, 1)
    for order in permutations(range(len(sizes))):
        strides = dict(zip(order, np.cumprod([1, *(sizes[axis] for axis in order[:-1])]), strict=True))
        assert not may_repeat_elements(sizes, [strides[axis] for axis in range(len(sizes))], 1)
