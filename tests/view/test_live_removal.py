"""What the live view says about what a reader takes away: it is what the model does, and what p foretells."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import k_hop_subgraph

from graphfaith.facade import Subject
from graphfaith.model.task import Task
from graphfaith.view.live.desk import AbandonedError, Desk
from graphfaith.view.live.removal import MOST_REMOVED, Removal
from graphfaith.view.live.server import Server
from serving import ask, serving, subject

ASKED = {"index": 3, "near": "B(A,0.5)", "method": ["kec", "gnnexplainer", "saliency"]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(Desk(subject(), "plant", samples=40, test_samples=20)) as one:
        yield one


def asked(server: Server, path: str = "/api/what-if", **fields: object) -> tuple[int, dict[str, object]]:
    status, _, body = ask(server, path, **(ASKED | fields))
    return status, json.loads(body)


def without(one: Subject, edges: list[tuple[int, int]], features: list[tuple[int, int]]) -> Tensor:
    """The output at node 3 of the model itself on a graph that was made by hand."""
    data = one.data
    gone = {*edges, *((b, a) for a, b in edges)}
    kept = [i for i, pair in enumerate(zip(*data.edge_index.tolist(), strict=True)) if pair not in gone]
    x = data.x.clone()
    for node, column in features:
        x[node, column] = 0.0
    with torch.no_grad():
        return one.model(x, data.edge_index[:, kept])[3]


def edges_at(one: Subject, node: int) -> list[tuple[int, int]]:
    return [(a, b) for a, b in zip(*one.data.edge_index.tolist(), strict=True) if a == node]


class TestTheModel:
    @pytest.mark.parametrize("kind", ["edge", "node", "feature", "all"])
    def test_is_asked_itself(self, server: Server, kind: str) -> None:
        one = server.desk.subject
        edges = {"edge": edges_at(one, 3)[:1], "node": edges_at(one, 3), "feature": [], "all": edges_at(one, 2)}[kind]
        features = [(3, 1), (3, 2)] if kind in ("feature", "all") else []
        fields = {
            "edges": ",".join(f"{a}-{b}" for a, b in edges),
            "features": ",".join(f"{n}-{c}" for n, c in features),
        }
        status, found = asked(server, **{name: text for name, text in fields.items() if text})
        assert status == 200
        before, after = without(one, [], []), without(one, edges, features)
        label = int(before.argmax())
        assert found["actual"] == pytest.approx(float(after[label] - before[label]), rel=1e-4, abs=1e-6)
        assert (found["before"], found["after"]) == (f"class {label}", f"class {int(after.argmax())}")
        assert found["flips"] is (label != int(after.argmax()))
        assert found["silenced"] is False

    def test_a_node_goes_with_all_its_links_in_the_whole_graph(self, server: Server) -> None:
        by_node, by_edges = (
            asked(server, **fields, features="3-1")[1]
            for fields in (
                {"nodes": "3"},
                {"edges": ",".join(f"{a}-{b}" for a, b in edges_at(server.desk.subject, 3))},
            )
        )
        assert by_node == by_edges
        assert by_node["actual"] != 0
        # What the model does not read changes nothing.
        one = server.desk.subject
        near = k_hop_subgraph(3, 3, one.data.edge_index)[0].tolist()
        far = next(node for node in range(30) if node not in near)
        found = asked(server, nodes=far)[1]
        assert (found["actual"], found["flips"], found["panels"][0]["change"]) == (0, False, 0)

    def test_a_link_goes_in_both_directions_as_far_as_they_exist(self) -> None:
        """One arrow far away makes the whole graph directed; a page of the rest still draws plain lines."""
        one = subject()
        data = one.data.clone()
        data.edge_index = torch.cat([data.edge_index, torch.tensor([[3], [29]])], dim=1)
        desk = Desk(Subject(one.model, data, Task()), "plant", samples=40, test_samples=20)
        question = desk.ask(3, ["saliency"], "U(A,0.5)")
        a, b = edges_at(one, 3)[0]
        label = int(without(desk.subject, [], []).argmax())
        actual = {
            directed: json.loads(desk.judge((question, Removal(((a, b),), directed=directed))))["actual"]
            for directed in (None, True, False)
        }
        # The function `without` takes both directions away.
        change = without(desk.subject, [(a, b)], []) - without(desk.subject, [], [])
        assert actual[False] == pytest.approx(float(change[label]), rel=1e-4, abs=1e-6)
        assert actual[True] == actual[None] != pytest.approx(actual[False], rel=1e-4)
        alone = json.loads(desk.judge((question, Removal(((3, 29),), directed=False))))
        assert alone["panels"] == [{"change": None, "stderr": None}]  # The opposite does not exist, and is not missed.

    def test_a_class_has_its_name(self) -> None:
        one = subject()
        one.data.class_names = ["Genes", "Rules\n", "Nets"]
        desk = Desk(one, "plant", samples=40, test_samples=20)
        question = desk.ask(3, ["saliency"], "U(A,0.5)")
        found = json.loads(desk.judge((question, Removal(nodes=(3,)))))
        before, after = (int(without(one, edges, []).argmax()) for edges in ([], edges_at(one, 3)))
        names = ["class 0 (Genes)", "class 1 (Rules)", "class 2 (Nets)"]
        assert (found["before"], found["after"], found["flips"]) == (names[before], names[after], before != after)

    def test_and_p_foretells_as_in_python(self, server: Server) -> None:
        pair = edges_at(server.desk.subject, 3)[0]
        panels = asked(server, edges="{}-{}".format(*pair), features="3-1")[1]["panels"]
        question = server.desk.question({name: [str(v) for v in _list(values)] for name, values in ASKED.items()})
        explanation = server.desk._explained(question, lambda: True)[0][0]
        foretold = explanation.what_if([pair], {(3, 1): 0.0})
        assert panels[0] == {"change": foretold.change, "stderr": foretold.stderr}
        assert panels[1] == {"change": None, "stderr": None}  # GNNExplainer has masks alone.

    def test_a_regression_has_outputs(self) -> None:
        desk = Desk(subject(mode="regression"), "plant", samples=40, test_samples=20)
        question = desk.ask(3, ["saliency"], "U(A,0.5)")
        found = json.loads(desk.judge((question, Removal(tuple(edges_at(desk.subject, 3)[:1])))))
        assert found["after"] - found["before"] == pytest.approx(found["actual"], abs=1e-6)
        assert found["actual"] != 0
        assert found["flips"] is False  # It has no class that could.


def _list(values: object) -> list[object]:
    return values if isinstance(values, list) else [values]


class TestFlips:
    def test_is_the_counterfactual_of_the_explanation(self) -> None:
        one = subject()
        # A class that wins by a hair at node 3, so that little is needed to flip it.
        with torch.no_grad():
            output = one.model(one.data.x, one.data.edge_index)[3]
            one.model.convs[-1].bias[output.argmin()] += output.max() - output.min() - 1e-3
        with serving(Desk(one, "plant", samples=40, test_samples=20)) as server:
            status, found = asked(server, "/api/flip")
            assert status == 200
            question = server.desk.question({name: [str(v) for v in _list(values)] for name, values in ASKED.items()})
            expected = server.desk._explained(question, lambda: True)[0][0].counterfactual(5)
            assert expected.found
            assert found == {"found": True, "edges": [list(edge) for edge in expected.edges], "text": str(expected)}
            edges = ",".join(f"{a}-{b}" for a, b in found["edges"])
            answer = asked(server, edges=edges)[1]
            assert (answer["before"], answer["after"]) == (f"class {expected.before}", f"class {expected.after}")
            assert answer["flips"] is True

    def test_a_method_with_a_p_is_needed(self, server: Server) -> None:
        status, found = asked(server, "/api/flip", method=["gnnexplainer"])
        assert status == 400
        assert "needs the p of a method" in found["error"]

    def test_a_regression_has_none(self) -> None:
        with serving(Desk(subject(mode="regression"), "plant", samples=40, test_samples=20)) as server:
            status, found = asked(server, "/api/flip", method=["saliency"])
        assert (status, found["error"]) == (400, "a regression has no class that could flip")


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("fields", "words"),
        [
            ({}, "say what to take away"),
            ({"edges": ""}, "say what to take away"),
            ({"edges": "3"}, "'3' is not one of edges"),
            ({"edges": "3-4-5"}, "is not one of edges"),
            ({"edges": "<script>-1"}, "is not one of edges"),
            ({"edges": "3-77"}, "node 77 is out of range"),
            ({"edges": "3-29"}, "the graph has no edge from node 3 to node 29"),
            ({"edges": ["3-2", "3-1"]}, "give edges once"),
            ({"features": "3-9"}, "feature 9 is out of range: there are features 0 to 3"),
            ({"features": "30-1"}, "node 30 is out of range"),
            ({"edges": ",".join(["3-2"] * (MOST_REMOVED + 1))}, f"at most {MOST_REMOVED} edges"),
            (
                {
                    "edges": ",".join(f"{i // 20}-{i % 20}" for i in range(400)),
                    "features": ",".join(f"{i // 4}-{i % 4}" for i in range(120)),
                },
                "at most 500 nodes, edges and features at once (got 520)",
            ),
            ({"nodes": "3-2"}, "'3-2' is not one of nodes, which are written as ids: 3"),
            ({"nodes": "77"}, "node 77 is out of range"),
            ({"edges": "3-2", "directed": "<b>"}, "directed must be yes or no"),
            ({"edges": "3-2", "loops": "4"}, "no field called 'loops'"),
        ],
    )
    def test_is_told(self, server: Server, fields: dict[str, object], words: str) -> None:
        status, found = asked(server, **fields)
        assert status == 400
        assert words in found["error"]

    def test_without_the_token(self, server: Server) -> None:
        for path in ("/api/what-if", "/api/flip", "/api/explanation.html"):
            status, _, body = ask(server, path, "wrong", **ASKED, edges="3-2")
            assert status == 403
            assert "open the address" in json.loads(body)["error"]

    def test_what_nobody_waits_for_is_not_done(self, server: Server) -> None:
        desk = server.desk
        question = desk.ask(5, ["saliency"], "U(A,0.5)")
        for work in (
            lambda gone: desk.judge((question, Removal(((5, 3),))), gone),
            lambda gone: desk.flip(question, gone),
        ):
            with pytest.raises(AbandonedError):
                work(lambda: False)

    def test_the_model_is_used_by_one_thread(self, server: Server, monkeypatch) -> None:
        import graphfaith.view.live.desk as module

        seen = set()
        for name in ("judge", "find_flip"):
            original = getattr(module, name)

            def note(*given: object, whole=original):
                seen.add(threading.get_ident())
                return whole(*given)

            monkeypatch.setattr(module, name, note)
        assert asked(server, edges="{}-{}".format(*edges_at(server.desk.subject, 3)[-1]), method=["saliency"])[0] == 200
        assert asked(server, "/api/flip", method=["saliency"])[0] == 200
        assert len(seen) == 1
        assert threading.get_ident() not in seen


def test_a_link_and_its_removal() -> None:
    """A question about a link is answered like one about a node."""
    one = subject(level="edge")

    class Links(torch.nn.Module):
        def __init__(self, inner: torch.nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor, edge_index: Tensor, edge_label_index: Tensor) -> Tensor:
            z = self.inner(x, edge_index)
            return (z[edge_label_index[0]] * z[edge_label_index[1]]).sum(dim=-1)

    data = one.data.clone()
    data.edge_label_index = torch.tensor([[3], [7]])
    linked = Subject(Links(one.model), data, Task("binary_classification", "raw", "edge"))
    desk = Desk(linked, "plant", samples=40, test_samples=20)
    question = desk.ask(0, ["saliency"], "U(A,0.5)")
    found = json.loads(desk.judge((question, Removal(tuple(edges_at(one, 3)[:1])))))
    assert found["actual"] != 0
    assert found["before"] in ("class 0", "class 1")
