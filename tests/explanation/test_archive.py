"""Explanations in files: the same again to the last bit, and nothing a file holds is ever executed."""

from __future__ import annotations

import base64
import dataclasses
import inspect
import io
import json
import math
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.explain import Explanation, HeteroExplanation
from torch_geometric.explain.config import ModelConfig

import graphfaith as gf
from explaining import METHODS, explain, explainer_of
from graphfaith._base.checksum import checksum_of
from graphfaith.explanation import archive
from graphfaith.explanation.archive import FORMAT, load, save
from graphfaith.explanation.faithfulness import faithfulness_of
from graphfaith.explanation.signed import SignedExplanation
from graphfaith.surrogate import AnchoredModel, KHopModel, SubgraphModel
from reference import make_case

NEAR = "U(X,0.2r)xU(A,0.5)"
DTYPES = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)


def bits(value: float) -> bytes:
    return struct.pack(">d", value)


def same(a, b) -> bool:
    """Whether two values are the same to the last bit and of the same types."""
    if isinstance(a, torch.Tensor):
        if type(b) is not torch.Tensor or a.dtype != b.dtype or a.shape != b.shape:
            return False
        if not a.numel():
            return True
        left, right = (torch.empty(t.shape, dtype=t.dtype).copy_(t.detach()).view(-1).view(torch.uint8) for t in (a, b))
        return torch.equal(left, right)
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return bits(a) == bits(b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if dataclasses.is_dataclass(a) and not isinstance(a, ModelConfig):
        return same(vars(a), vars(b))
    if isinstance(a, gf.LinearModel):
        return same(vars(a), vars(b))
    if isinstance(a, KHopModel):  # The gradient that the fit has found by the way is found again.
        return same(*({name: value for name, value in vars(one).items() if name != "_gradient_a"} for one in (a, b)))
    if isinstance(a, AnchoredModel):
        names = inspect.signature(AnchoredModel).parameters
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    return a == b


def again(explanation, folder):
    file = folder / "explanation.safetensors"
    save(explanation, file)
    return load(file)


@pytest.fixture
def kec():
    return explain(make_case(seed=31), METHODS["kec"](NEAR))


@pytest.fixture
def file(kec, tmp_path):
    save(kec[1].name(nodes={0: "pump"}), tmp_path / "good.safetensors")
    return tmp_path / "good.safetensors"


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("node", "dtype"),
    [
        *((node, torch.float64) for node in ("attributes", "object", "common_attributes", None)),
        ("attributes", torch.float32),
        *(
            pytest.param(node, torch.float32, marks=pytest.mark.nightly)
            for node in ("object", "common_attributes", None)
        ),
    ],
)
def test_every_method_scores_the_same_after_loading(name, node, dtype, tmp_path):
    near = NEAR if node == "attributes" else "U(A,0.5)"
    case = make_case(seed=35, dtype=dtype)
    call, explanation = explain(case, METHODS[name](near), node=node)
    before = gf.general_unfaithfulness(call, explanation, near, num_samples=30, seed=9)
    assert before.value > 0
    assert same(before, explanation.unfaithfulness)
    loaded = again(explanation, tmp_path)
    assert type(loaded) is SignedExplanation
    assert same(before, loaded.unfaithfulness)
    assert faithfulness_of(loaded) == faithfulness_of(explanation) is not None
    assert same(before, gf.general_unfaithfulness(call, loaded, near, num_samples=30, seed=9))
    kept = explanation.to_dict()
    if isinstance(explanation.difference_model, SubgraphModel):
        del kept["difference_model"]
        bound = [gf.subgraph_lower_bound(call, one, near, num_samples=30) for one in (explanation, loaded)]
        assert bits(bound[0]) == bits(bound[1])
    assert same(kept, loaded.to_dict())
    assert loaded._model_config == explanation._model_config
    assert loaded._model_args == ["edge_weight"]


@pytest.mark.parametrize("name", ["kec", "saliency", "gnnexplainer-soft"])
def test_edited_scores_are_scored_as_they_stand_after_loading(name, tmp_path):
    call, explanation = explain(make_case(seed=35), METHODS[name](NEAR))
    fresh = gf.general_unfaithfulness(call, explanation, NEAR, num_samples=30)
    edited = explanation.threshold("topk", 3)
    before = gf.general_unfaithfulness(call, edited, NEAR, num_samples=30)
    assert before != fresh
    assert same(before, gf.general_unfaithfulness(call, again(edited, tmp_path), NEAR, num_samples=30))


@pytest.mark.parametrize("name", ["kec", "gnnexplainer-soft"])
def test_a_file_whose_scores_were_changed_shows_no_number(name, tmp_path):
    call, explanation = explain(make_case(seed=35), METHODS[name](NEAR))
    gf.general_unfaithfulness(call, explanation, NEAR, num_samples=30)
    file = tmp_path / "a.safetensors"
    save(explanation, file)
    assert faithfulness_of(load(file)) is not None
    place = int(explanation.edge_mask.abs().argmax())
    assert faithfulness_of(load(rewrite(file, change("edge_mask", set_at(place, -7.0))))) is None


def test_a_matrix_stored_by_columns_stays_so(tmp_path):
    # A product with it differs in the last digit from one with the same matrix stored by rows.
    case = make_case(seed=36, nodes=9, edges=40, features=40, dtype=torch.float32)
    case.x = case.x.T.contiguous().T
    call, explanation = explain(case, METHODS["kec"]("U(A,0.5)"))
    loaded = again(explanation, tmp_path)
    assert loaded.x.stride() == case.x.stride() != case.x.contiguous().stride()
    assert same(explanation.x, loaded.x)
    before, after = (gf.general_unfaithfulness(call, one, "U(A,0.5)", num_samples=40) for one in (explanation, loaded))
    assert same(before, after)
    cube = torch.arange(24).view(2, 3, 4)
    for order in ((2, 0, 1), (1, 2, 0), (0, 2, 1)):
        turned = again(SignedExplanation(cube=cube.permute(order)), tmp_path).cube
        assert same(turned, cube.permute(order))
        assert turned.stride() == cube.permute(order).stride()


def test_loaded_memory_is_torchs_own(file):
    # Libraries for products may take another way, with other last digits, where memory is not aligned.
    loaded = load(file)
    for value in (loaded.x, loaded.edge_index, loaded.difference_model.weights, loaded.difference_model.graph.x):
        assert value.data_ptr() % 64 == 0
        value.add_(1)  # and writable


numbers = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.integers(), st.integers(-(2**200), 2**200))
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.text(), numbers),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(), inner, max_size=3),
    ),
    max_leaves=8,
)


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = dtype.itemsize * math.prod(shape)
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype == torch.bool:
        raw = bytes(byte % 2 for byte in raw)
    flat = torch.frombuffer(bytearray(raw), dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    tensor = flat.view(shape)
    if draw(st.booleans()):
        tensor = tensor.permute(draw(st.permutations(range(len(shape)))))
    if shape and draw(st.booleans()):
        tensor = tensor[::2]
    return tensor


@st.composite
def explanations(draw):
    nodes, columns = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    edges = draw(st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2), max_size=6))
    scores = st.floats(width=32)
    explanation = SignedExplanation(
        x=torch.tensor(draw(st.lists(scores, min_size=nodes * columns, max_size=nodes * columns))).view(nodes, -1),
        edge_index=torch.tensor(edges, dtype=torch.int64).view(-1, 2).T,
    )
    if draw(st.booleans()):
        explanation.edge_mask = torch.tensor(draw(st.lists(scores, min_size=len(edges), max_size=len(edges))))
        explanation.index = torch.tensor(draw(st.lists(st.integers(-nodes, nodes - 1), max_size=3)), dtype=torch.int64)
    if draw(st.booleans()):
        explanation.node_names = draw(st.lists(st.text(), min_size=nodes, max_size=nodes))
        explanation.self_loop_score = torch.rand(nodes)
    for name, value in draw(st.dictionaries(st.text().map("extra ".__add__), st.one_of(plain, tensors()))).items():
        explanation[name] = value
    return explanation


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(explanations())
def test_what_is_loaded_is_what_was_saved(tmp_path, explanation):
    assert same(explanation.to_dict(), again(explanation, tmp_path).to_dict())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensors())
def test_every_kind_of_tensor_is_kept_bit_for_bit(tmp_path, tensor):
    loaded = again(SignedExplanation(one=tensor, more=[tensor, (tensor, {"it": tensor})]), tmp_path)
    assert same(tensor, loaded.one)
    assert loaded.one is loaded.more[0] is loaded.more[1][1]["it"]


def test_numbers_are_kept_exactly(tmp_path):
    odd = struct.unpack(">d", bytes.fromhex("fff8000000000abc"))[0]  # a NaN with a sign and a payload
    values = [0.1, -0.0, 5e-324, math.inf, -math.inf, math.nan, odd, 1e308, 3.0, 3, 2**63, -(2**80), True, None, ""]
    assert same(values, again(SignedExplanation(numbers=values), tmp_path).numbers)
    weird = {"type": "tensor", "name": "x", "\ud800": "\ud800", "": {"items": ()}}
    assert same(weird, again(SignedExplanation(weird=weird), tmp_path)["weird"])


def test_names_of_fields_do_not_collide(tmp_path):
    one, two, three = torch.ones(1), torch.zeros(2), torch.ones(3)
    explanation = SignedExplanation(a={"b": one})
    explanation["a.b"], explanation["__metadata__"], explanation["größe"] = two, three, one + 1
    explanation["\ud800"] = one + 2  # half a character, which no file can spell
    assert same(explanation.to_dict(), again(explanation, tmp_path).to_dict())


def test_tensors_that_share_memory_are_each_kept(tmp_path):
    base = torch.arange(12.0).view(3, 4)
    explanation = SignedExplanation(
        whole=base, rows=base[1:], column=base[:, 1], turned=base.T, flat=base.view(-1), wide=base[:1].expand(5, 4)
    )
    explanation.grad = base.clone().requires_grad_() * 2
    explanation.parameter = torch.nn.Parameter(base)
    loaded = again(explanation, tmp_path)
    assert type(loaded.parameter) is torch.Tensor
    assert not loaded.grad.requires_grad
    explanation.parameter = base
    assert same(explanation.to_dict(), loaded.to_dict())
    z = torch.tensor([1 + 2j])
    assert again(SignedExplanation(z=z.conj(), i=z.conj().imag), tmp_path).to_dict() == {"z": z.conj(), "i": -z.imag}


def test_the_file_is_the_same_every_time_and_plain_to_read(kec, tmp_path):
    explanation = kec[1]
    for name in ("one", "two"):
        save(explanation, tmp_path / f"{name}.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    with safetensors.safe_open(tmp_path / "one.safetensors", "pt") as opened:
        document = json.loads(opened.metadata()["graphfaith"])
        assert torch.equal(opened.get_tensor("edge_mask"), explanation.edge_mask)
        assert "difference_model.graph.edge_index" in opened.keys()  # noqa: SIM118
    assert document["format"] == FORMAT
    assert document["written_by"] == gf.__version__
    assert document["explanation"]["method"] == "KEC"


@pytest.mark.parametrize("normalization", ["symmetric", "row", "none"])
def test_options_of_a_difference_model_are_kept(normalization, kec, tmp_path):
    call, explanation = kec
    p = explanation.difference_model
    explanation.difference_model = KHopModel(p.graph, p.weights, 0.5, normalization)
    loaded = again(explanation, tmp_path)
    assert loaded.difference_model.normalization == normalization
    assert loaded.difference_model.in_sample_error == 0.5
    before, after = (gf.general_unfaithfulness(call, one, NEAR, num_samples=20) for one in (explanation, loaded))
    assert same(before, after)


@pytest.mark.parametrize("name", ["kec", "linear", "gnnexplainer-soft"])
@pytest.mark.parametrize("index", [None, torch.tensor([2, 5])])
def test_explanations_of_several_nodes_can_be_saved(name, index, tmp_path):
    case = make_case(seed=35)
    call = explainer_of(case.model, METHODS[name](NEAR))
    explanation = call(case.x, case.edge_index, index=index, **case.kwargs)
    loaded = again(explanation, tmp_path)
    before, after = (gf.general_unfaithfulness(call, one, NEAR, num_samples=20) for one in (explanation, loaded))
    assert same(before, after)


def test_explanations_of_pyg_come_back_signed(tmp_path):
    plain_one = Explanation(edge_index=torch.tensor([[0], [1]]), edge_mask=torch.tensor([-1.0]))
    loaded = again(plain_one, tmp_path)
    assert loaded.top_edges() == [(0, 1, -1.0)]
    assert same(plain_one.to_dict(), loaded.to_dict())


def test_excerpts_and_names_can_be_saved(kec, tmp_path):
    part = kec[1].name(nodes={0: "pump"}, features=list("abcd")).signed_subgraph(3)
    loaded = again(part, tmp_path)
    assert same(part.to_dict(), loaded.to_dict())
    assert loaded.top_edges()[0].names == part.top_edges()[0].names


class Unknown:
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Unknown(), "'extra' cannot be saved: it holds .*Unknown"),
        ([1, {"a": (lambda: 1)}], "'extra.1.a' cannot be saved"),
        (np.float64(1.0), "'extra' cannot be saved"),
        (np.ones(3), "'extra' cannot be saved"),
        ({1: "a"}, "'extra' cannot be saved: its key 1"),
        ({1, 2}, "'extra' cannot be saved"),
        (b"bytes", "'extra' cannot be saved"),
        (torch.ones(2, dtype=torch.complex128), "'extra' cannot be saved: a tensor of torch.complex128"),
        (torch.eye(3).to_sparse(), "'extra' cannot be saved: a tensor of .*sparse"),
        (torch.ones(2, device="meta"), "'extra' cannot be saved"),
        (gf.UniformEdges(0.5), "'extra' cannot be saved"),
    ],
)
def test_what_cannot_be_saved_is_named_and_nothing_is_written(value, message, tmp_path):
    target = tmp_path / "kept.safetensors"
    target.write_bytes(b"what was there")
    with pytest.raises(gf.UnsupportedError, match=message):
        save(SignedExplanation(extra=value), target)
    assert target.read_bytes() == b"what was there"
    assert os.listdir(tmp_path) == ["kept.safetensors"]


def test_lists_in_lists_have_an_end(tmp_path):
    endless = []
    endless.append(endless)
    with pytest.raises(gf.InputError, match="nested too deeply"):
        save(SignedExplanation(extra=endless), tmp_path / "a.safetensors")
    deep = []
    for _ in range(archive._DEPTH - 1):
        deep = [deep]
    assert again(SignedExplanation(extra=deep), tmp_path).extra == deep


def test_a_p_of_ones_own_cannot_be_saved_but_the_rest_can(kec, tmp_path):
    explanation = kec[1]
    explanation.difference_model = Unknown()
    with pytest.raises(gf.UnsupportedError, match=r"'difference_model' cannot be saved.*set the field to None"):
        save(explanation, tmp_path / "a.safetensors")
    explanation.difference_model = None
    assert again(explanation, tmp_path).method == "KEC"


def test_a_subgraph_needs_the_masks_it_is_made_again_from(tmp_path):
    _, explanation = explain(make_case(seed=35), METHODS["pgexplainer"](), edge=None)
    with pytest.raises(gf.UnsupportedError, match="edge_mask_type"):
        save(explanation, tmp_path / "a.safetensors")


def test_where_it_cannot_be_saved(tmp_path, kec):
    with pytest.raises(gf.InputError, match=r"\.safetensors"):
        save(kec[1], tmp_path / "a.pt")
    with pytest.raises(gf.OutputError, match="does not exist"):
        save(kec[1], tmp_path / "none" / "a.safetensors")
    for other in (HeteroExplanation(), {"x": torch.ones(1)}):
        with pytest.raises(gf.GraphfaithError):
            save(other, tmp_path / "a.safetensors")
    assert os.listdir(tmp_path) == []


def test_a_header_that_nobody_could_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "_HEADER", 1000)
    with pytest.raises(gf.InputError, match="more than 1,000 bytes"):
        save(SignedExplanation(names=["a name"] * 200), tmp_path / "a.safetensors")
    assert os.listdir(tmp_path) == []


def file_with(file, content):
    file.write_bytes(content)
    return file


def rewrite(file, edit):
    """Change the description and the tensors of a file, and its checksum with them."""
    content = file.read_bytes()
    found = safetensors.torch.load(content)
    document = json.loads(
        json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]["graphfaith"]
    )
    changed = edit(document, found)
    if changed is None:
        del document["checksum"]
        document["checksum"] = checksum_of(json.dumps(document), found)
    text = json.dumps(document if changed is None else changed) if not isinstance(changed, str) else changed
    file.write_bytes(safetensors.torch.save(found, {"graphfaith": text}))
    return file


@pytest.mark.parametrize(
    ("version", "cure"),
    [
        (3, "upgrade"),
        (1, "save the explanation again"),
        (10**30, "upgrade"),
        (0, "save the explanation again"),
        (-1, ""),
        ("1", ""),
        (None, ""),
        (1.0, ""),
        (True, ""),
    ],
)
def test_another_format_is_refused_in_one_clear_line(file, version, cure):
    def edit(document, _):
        document["format"], document["written_by"] = version, "9.8.7"
        document["explanation"] = {"anything": {"type": "of the future"}}

    with pytest.raises(gf.DataError) as refused:
        load(rewrite(file, edit))
    line = str(refused.value)
    assert "\n" not in line
    assert (
        f"it has format {str(version)[:20]}, written by graphfaith 9.8.7; this graphfaith reads format {FORMAT}" in line
    )
    assert cure in line
    assert file.name in line


def header_of(tensors, metadata=None, data=b""):
    table = {**tensors, **({} if metadata is None else {"__metadata__": metadata})}
    text = json.dumps(table).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


DAMAGED = {
    "empty": b"",
    "short": b"abc",
    "random": bytes(np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8)),
    "a header of 2^60 bytes": (1 << 60).to_bytes(8, "little") + b"{}",
    "a header of 2^64 - 1 bytes": b"\xff" * 8 + b"{}",
    "a header past the end": (100).to_bytes(8, "little") + b"{}",
    "no JSON": (4).to_bytes(8, "little") + b"{{{{",
    "JSON that is no table": (2).to_bytes(8, "little") + b"[]",
    "not even text": (4).to_bytes(8, "little") + b"\xff\xfe\xfd\xfc",
    "deep JSON": (50_000).to_bytes(8, "little") + b"[" * 50_000,
    "offsets past the end": header_of({"a": entry(offsets=(0, 400), shape=(100,))}, data=b"abcd"),
    "offsets backwards": header_of({"a": entry(offsets=(4, 0))}, data=b"abcd"),
    "offsets below zero": header_of({"a": entry(offsets=(-4, 0))}, data=b"abcd"),
    "offsets that overlap": header_of({"a": entry(), "b": entry()}, data=b"abcd"),
    "offsets with a hole": header_of({"a": entry(offsets=(4, 8))}, data=b"abcdefgh"),
    "offsets that overflow": header_of({"a": entry(offsets=(0, 1 << 70))}, data=b"abcd"),
    "a shape that is too large": header_of({"a": entry(shape=(1 << 62, 1 << 62))}, data=b"abcd"),
    "a shape that wraps around": header_of({"a": entry(shape=(1 << 32, 1 << 32, 0, 1 << 62), offsets=(0, 0))}),
    "an unknown type": header_of({"a": entry(dtype="OBJECT")}, data=b"abcd"),
    "a type torch lacks here": header_of({"a": entry(dtype="F8_E8M0", shape=(4,))}, {"graphfaith": "{}"}, data=b"abcd"),
    "metadata that is no text": header_of({}, {"graphfaith": {"format": 1}}),
    "twice the same name": (lambda text: len(text).to_bytes(8, "little") + text + b"abcd")(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F64","shape":[9],"data_offsets":[0,72]}}'
    ),
    "a model's weights": safetensors.torch.save({"weight": torch.ones(2)}),
    "another program's file": safetensors.torch.save({"weight": torch.ones(2)}, {"format": "pt"}),
    "null metadata": (lambda text: len(text).to_bytes(8, "little") + text)(b'{"__metadata__":null}'),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_and_foreign_files_are_refused(name, tmp_path):
    file = tmp_path / "bad.safetensors"
    file.write_bytes(DAMAGED[name])
    with pytest.raises(gf.DataError, match=r"cannot load '.*bad\.safetensors': ") as refused:
        load(file)
    assert "\n" not in str(refused.value)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(gf.DataError, match="no such file"):
        load(tmp_path / "none.safetensors")
    with pytest.raises(gf.DataError, match="folder"):
        load(tmp_path)
    with pytest.raises(gf.DataError, match="not a regular file"):
        load("/dev/zero")  # reading it would never end


def test_files_cut_short_or_with_a_wrong_byte_never_surprise(file):
    content = file.read_bytes()
    for length in range(0, len(content), 97):
        file.write_bytes(content[:length])
        with pytest.raises(gf.DataError):
            load(file)
    generator = np.random.default_rng(1)
    header, refused, whole = int.from_bytes(content[:8], "little"), 0, load(file_with(file, content))
    for _ in range(400):
        wrong = bytearray(content)
        place = int(generator.integers(0, 8 + header if generator.random() < 0.8 else len(content)))
        wrong[place] = int(generator.integers(0, 256))
        file.write_bytes(wrong)
        try:
            found = load(file)
        except gf.DataError:
            refused += 1
        else:  # a space within the header, say
            assert same(found.to_dict(), whole.to_dict())
    assert refused > 300


def test_a_wrong_number_in_a_tensor_is_noticed(file):
    content = file.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little")
    for place in range(header, len(content), 41):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(gf.DataError, match="checksum"):
            load(file)


def set_in(*keys):
    """An edit of one value deep in the description; the last argument is the value."""
    *steps, last, value = keys

    def edit(document, _):
        place = document
        for step in steps:
            place = place[step]
        place[last] = value

    return edit


def change(name, value):
    """An edit of one tensor by a function of it."""

    def edit(_, tensors):
        tensors[name] = value(tensors[name].clone())

    return edit


def set_at(place, number):
    def put(tensor):
        tensor[place] = number
        return tensor

    return put


P, G = ("explanation", "difference_model", "items"), ("explanation", "difference_model", "items", "graph", "items")
HOSTILE = {
    "broken JSON": lambda *_: '{"format": 1,',
    "endless JSON": lambda *_: "[" * 100_000,
    "a list": lambda *_: [1, 2],
    "a number": lambda *_: 7,
    "no format": lambda document, _: {"explanation": document["explanation"]},
    "no explanation": lambda document, _: {"format": 1},
    "explanation is a list": set_in("explanation", [1]),
    "unknown type": set_in("explanation", "method", {"type": "pickle", "data": "gASVIQ=="}),
    "type of a module": set_in("explanation", "method", {"type": "os.system", "items": ["true"]}),
    "type that is no text": set_in("explanation", "method", {"type": ["tensor"], "name": "x"}),
    "no type": set_in("explanation", "method", {"a": 1}),
    "missing tensor": set_in("explanation", "x", {"type": "tensor", "name": "nothing"}),
    "tensor left out": set_in("explanation", "x", None),
    "tensor without a name": set_in("explanation", "x", {"type": "tensor"}),
    "tensor with more": set_in("explanation", "x", {"type": "tensor", "name": "x", "device": "cuda"}),
    "tensor with a bad order": set_in("explanation", "x", {"type": "tensor", "name": "x", "order": [0, 0]}),
    "tensor with an order of texts": set_in("explanation", "x", {"type": "tensor", "name": "x", "order": ["a", "b"]}),
    "name that is a list": set_in("explanation", "x", {"type": "tensor", "name": ["x"]}),
    "tuple of a text": set_in("explanation", "method", {"type": "tuple", "items": "KEC"}),
    "dict of a list": set_in("explanation", "method", {"type": "dict", "items": []}),
    "bad float": set_in("explanation", "in_sample_error", {"type": "float", "hex": "zz"}),
    "short float": set_in("explanation", "in_sample_error", {"type": "float", "hex": "00"}),
    "bad int": set_in("explanation", "num_hops", {"type": "int", "hex": "x"}),
    "bad config": set_in("explanation", "_model_config", {"type": "ModelConfig", "items": {"mode": "evil"}}),
    "config that is a text": set_in("explanation", "_model_config", "raw"),
    "arguments that are a text": set_in("explanation", "_model_args", "raw"),
    "bad unfaithfulness": set_in("explanation", "score", {"type": "Unfaithfulness", "items": {"value": "low"}}),
    "unfaithfulness that is a text": set_in("explanation", "unfaithfulness", "0 % unexplained"),
    "estimate that is a text": set_in("explanation", "estimate", "0 % unexplained"),
    "digest that is a number": set_in("explanation", "scored_digest", 7),
    "graph as p": set_in("explanation", "difference_model", "type", "ComputationGraph"),
    "p of another kind": set_in("explanation", "difference_model", "type", "LinearModel"),
    "p without a graph": set_in(*P, "graph", None),
    "p with an unknown option": set_in(*P, "hook", "os.system"),
    "p with weights of another width": change("difference_model.weights", lambda t: t[:, :1].clone()),
    "num_nodes of a text": set_in("explanation", "num_nodes", "many"),
    "num_nodes too large": set_in("explanation", "num_nodes", 10**15),
    "num_nodes too small": set_in("explanation", "num_nodes", 1),
    "names of another number": set_in("explanation", "node_names", ["a"]),
    "names that are a text": set_in("explanation", "node_names", "abcdefgh"),
    "index of a text": set_in("explanation", "index", "all"),
    "index past the end": change("index", set_at(0, 10**6)),
    "index of reals": change("index", lambda t: t.double()),
    "x that is a text": set_in("explanation", "x", "x"),
    "x of no dimension": change("x", lambda t: t.sum()),
    "x with fewer rows": change("x", lambda t: t[1:].clone()),
    "edge_index past the end": change("edge_index", set_at((0, 0), 10**9)),
    "edge_index below zero": change("edge_index", set_at((1, 2), -1)),
    "edge_index of reals": change("edge_index", lambda t: t.double()),
    "edge_index of three rows": change("edge_index", lambda t: torch.cat([t, t[:1]])),
    "edge_mask too short": change("edge_mask", lambda t: t[1:].clone()),
    "node_mask too short": change("node_mask", lambda t: t[1:].clone()),
    "self_loop_score too short": change("self_loop_score", lambda t: t[1:].clone()),
    "edge_weight too short": change("edge_weight", lambda t: t[1:].clone()),
    "nodes past the end": change("difference_model.graph.nodes", set_at(0, 10**9)),
    "nodes of reals": change("difference_model.graph.nodes", lambda t: t.double()),
    "ends past the end": change("difference_model.graph.edge_index", set_at((0, 0), 10**9)),
    "ends below zero": change("difference_model.graph.edge_index", set_at((0, 0), -2)),
    "edge ids past the end": change("difference_model.graph.edge_id", set_at(0, 10**9)),
    "edge ids below -1": change("difference_model.graph.edge_id", set_at(0, -2)),
    "hops past the end": change("difference_model.graph.hop", set_at(0, 10**9)),
    "fewer weights": change("difference_model.graph.weight", lambda t: t[1:].clone()),
    "whole weights": change("difference_model.graph.weight", lambda t: t.long()),
    "fewer features": change("difference_model.graph.x", lambda t: t[1:].clone()),
    "felt as numbers": change("difference_model.graph.felt", lambda t: t.long()),
    "felt too short": change("difference_model.graph.felt", lambda t: t[1:].clone()),
    "size of another graph": set_in(*G, "size", {"type": "tuple", "items": [10**6, 10**6]}),
    "size of texts": set_in(*G, "size", {"type": "tuple", "items": ["8", "9"]}),
    "size of three": set_in(*G, "size", {"type": "tuple", "items": [8, 9, 10]}),
    "seeds past the end": change("difference_model.graph.seeds", set_at(0, 10**9)),
    "seeds without e": change("difference_model.graph.e", lambda t: t[:0].clone()),
    "e of whole numbers": change("difference_model.graph.e", lambda t: t.long()),
    "p of an unknown normalization": set_in(*P, "normalization", "evil"),
    "num_visible past the end": set_in(*G, "num_visible", 10**6),
    "num_visible that is true": set_in(*G, "num_visible", True),
    "num_hops of a text": set_in(*G, "num_hops", "2"),
    "no hops": set_in(*G, "num_hops", 0),
    "a field too many": set_in(*G, "evil", 1),
    "a tensor that is a number": set_in(*G, "weight", 3.5),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_descriptions_are_refused(name, file):
    load(file)
    with pytest.raises(gf.DataError) as refused:
        load(rewrite(file, HOSTILE[name]))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("seeds past the end", "seeds of the computation graph holds"),
        ("ends past the end", "edge_index of the computation graph holds"),
        ("ends below zero", "edge_index of the computation graph holds"),
        ("tensor with a bad order", "order of dimensions"),
    ],
)
def test_a_linear_p_is_checked_though_nothing_is_computed_on_its_graph(name, message, tmp_path):
    file = tmp_path / "linear.safetensors"
    save(explain(make_case(seed=31), gf.Saliency())[1], file)
    with pytest.raises(gf.DataError, match=message):
        load(rewrite(file, HOSTILE[name]))


def test_truth_values_of_two_are_refused(file):
    content = bytearray(file.read_bytes())
    header = int.from_bytes(content[:8], "little")
    start, _ = json.loads(content[8 : 8 + header])["difference_model.graph.felt"]["data_offsets"]
    content[8 + header + start] = 2
    document = json.loads(json.loads(content[8 : 8 + header])["__metadata__"]["graphfaith"])
    wrong = document.pop("checksum")
    right = checksum_of(json.dumps(document), safetensors.torch.load(bytes(content)))
    file.write_bytes(content.replace(wrong.encode(), right.encode()))
    with pytest.raises(gf.DataError, match="truth values"):
        load(file)


def test_a_batch_that_would_fill_memory_is_refused(tmp_path):
    explanation = SignedExplanation(x=torch.ones(2, 1), batch=torch.tensor([0, 2**40]))
    with pytest.raises(gf.InputError, match="batch holds numbers outside"):
        save(explanation, tmp_path / "a.safetensors")
    explanation.prediction, explanation.batch = torch.zeros(7, 1), torch.tensor([0, 6])  # empty graphs between
    assert again(explanation, tmp_path).batch.tolist() == [0, 6]


class Bomb:
    """Unpickled, it makes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def safetensors_with(text):
    return safetensors.torch.save({"x": torch.ones(2, 1)}, {"graphfaith": text})


def npz(marker):
    buffer = io.BytesIO()
    np.savez(buffer, x=np.array([Bomb(marker)], dtype=object))
    return buffer.getvalue()


def torch_file(marker, **options):
    buffer = io.BytesIO()
    torch.save({"x": Bomb(marker)}, buffer, **options)
    return buffer.getvalue()


def described(marker):
    """A good description but for one field, which holds a pickle."""
    load_it = base64.b64encode(pickle.dumps(Bomb(marker))).decode()
    fields = {"x": {"type": "tensor", "name": "x"}, "method": {"type": "pickle", "data": load_it}}
    return safetensors_with(json.dumps({"format": FORMAT, "explanation": fields}))


def unpickle_text(content):
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    pickle.loads(base64.b64decode(header["__metadata__"]["graphfaith"]))


def unpickle_field(content):
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    document = json.loads(header["__metadata__"]["graphfaith"])
    pickle.loads(base64.b64decode(document["explanation"]["method"]["data"]))


def unzip(content):
    with zipfile.ZipFile(io.BytesIO(content)) as opened:
        pickle.loads(opened.read("data.pkl"))


# How to make the file, how a careless reader would open it, and what it is called.
MALICIOUS = {
    "a pickle": (lambda m: pickle.dumps(Bomb(m)), pickle.loads, "e.safetensors"),
    "a pickle of protocol 0": (lambda m: pickle.dumps(Bomb(m), protocol=0), pickle.loads, "e.safetensors"),
    "a pickle by its own name": (lambda m: pickle.dumps({"x": Bomb(m)}), pickle.loads, "e.pkl"),
    "torch.save": (torch_file, lambda c: torch.load(io.BytesIO(c), weights_only=False), "e.pt"),
    "torch.save, renamed": (torch_file, lambda c: torch.load(io.BytesIO(c), weights_only=False), "e.safetensors"),
    "torch.save, old": (
        lambda m: torch_file(m, _use_new_zipfile_serialization=False),
        lambda c: torch.load(io.BytesIO(c), weights_only=False),
        "e.safetensors",
    ),
    "npz of objects": (npz, lambda c: np.load(io.BytesIO(c), allow_pickle=True)["x"], "e.npz"),
    "npz, renamed": (npz, lambda c: np.load(io.BytesIO(c), allow_pickle=True)["x"], "e.safetensors"),
    "description is a pickle": (
        lambda m: safetensors_with(base64.b64encode(pickle.dumps(Bomb(m))).decode()), unpickle_text, "e.safetensors",
    ),
    "field is a pickle": (described, unpickle_field, "e.safetensors"),
    "a pickle behind a good header": (
        lambda m: header_of({}, {"graphfaith": "{}"}) + pickle.dumps(Bomb(m)),
        lambda c: pickle.loads(c[8 + int.from_bytes(c[:8], "little"):]),
        "e.safetensors",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MALICIOUS)
def test_malicious_files_are_refused_and_never_executed(name, tmp_path):
    make, careless, called = MALICIOUS[name]
    marker, file = tmp_path / "executed", tmp_path / called
    content = make(marker)
    file.write_bytes(content)
    with pytest.raises(gf.DataError):
        load(file)
    assert not marker.exists()
    careless(content)  # the file is a live one
    assert marker.exists()


@pytest.mark.parametrize("near", ["U(A,0.5)", "U(X,0.2r)xU(A,0.5)"])
@pytest.mark.parametrize(
    "name", ["weights", "degree_weights", "phi_x", "phi_a", "stiffness", "along_x", "along_a", "bend"]
)
def test_coefficients_of_an_anchored_p_have_to_fit(name, near, tmp_path):
    _, explanation = explain(make_case(seed=31), METHODS["anchored-kec"](near))
    p = explanation.difference_model
    value = getattr(p, name)
    if value is None or not value.numel():
        assert name in ("along_x", "along_a", "bend")
        return
    for wrong in (value[1:], value.unsqueeze(0), value[..., :-1]):
        setattr(p, name, wrong)
        with pytest.raises(gf.GraphfaithError, match=r"do not fit|dimension"):
            again(explanation, tmp_path)
    setattr(p, name, value)
    assert same(p, again(explanation, tmp_path).difference_model)


def test_an_anchored_p_without_a_known_normalization_is_refused(tmp_path):
    _, explanation = explain(make_case(seed=31), METHODS["anchored-kec"]())
    explanation.difference_model.normalization = "magic"
    with pytest.raises(gf.GraphfaithError, match="do not fit"):
        again(explanation, tmp_path)


@pytest.mark.parametrize("name", ["entries", "weight", "rho", "seen", "alpha"])
def test_the_function_of_removed_edges_is_kept_and_has_to_fit(name, tmp_path):
    _, explanation = explain(make_case(seed=31, nodes=14, edges=60), gf.AnchoredKEC("R(A,3)"))
    p = explanation.difference_model
    found = p.kriging
    loaded = again(explanation, tmp_path).difference_model
    assert same(found, loaded.kriging)
    eps = torch.diag(p.graph.weight.double())
    assert torch.equal(found.change(eps), loaded.kriging.change(eps))
    value = getattr(found, name)
    outside = [torch.full_like(value, p.graph.num_edges)] if name == "entries" else [value.float()]
    for wrong in (value[1:], value.unsqueeze(0), *outside):
        p.kriging = dataclasses.replace(found, **{name: wrong})
        with pytest.raises(gf.GraphfaithError, match="do not fit"):
            again(explanation, tmp_path)


@pytest.mark.parametrize("name", ["change", "left_out", "fitted", "strength"])
def test_what_a_fit_has_seen_has_to_fit(name, tmp_path):
    _, explanation = explain(make_case(seed=31, nodes=14, edges=60), gf.AnchoredKEC("R(A,3)"))
    p = explanation.difference_model
    seen = p.evidence
    assert same(seen, again(explanation, tmp_path).difference_model.evidence)
    for wrong in (getattr(seen, name)[1:], getattr(seen, name).long()):
        p.evidence = dataclasses.replace(seen, **{name: wrong})
        with pytest.raises(gf.GraphfaithError, match="do not fit"):
            again(explanation, tmp_path)
