"""The commands as a user types them, in a process of their own where that matters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from rich.console import Console
from torch_geometric.data import Data

from conftest import needs_data
from graphfaith import InputError
from graphfaith.cli import application, notes, source
from graphfaith.cli.arguments import find_edges
from graphfaith.data.models import load_trained
from graphfaith.explainers.methods import method_names
from graphfaith.explanation import archive
from graphfaith.facade.subject import EDGE_NEIGHBORHOODS, expand_neighborhoods

ALL_METHODS = method_names(in_all=True)

ROW = {"dataset", "method", "neighborhood", "unfaithfulness", "stderr", "relative"}
ROW |= {"seconds_per_node", "num_samples", "seed"}


def run(monkeypatch, capsys, *arguments):
    """Run the command in this process; returns exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", ["graphfaith", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(notes, "err", Console(stderr=True, width=120))
    code = 0
    try:
        application.main()
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("count", [2, pytest.param(12, marks=pytest.mark.nightly)])
def test_demo(monkeypatch, capsys, tmp_path, count):
    monkeypatch.chdir(tmp_path)
    demo = sys.modules["graphfaith.cli.demo"]
    assert len(demo.NODES) == 12
    monkeypatch.setattr(demo, "NODES", demo.NODES[:count])
    code, out, _ = run(monkeypatch, capsys, "demo", "--out", "made/demo", "--json", "rows.json")
    assert code == 0
    rows = json.loads((tmp_path / "made/demo/results.json").read_text())
    assert rows == json.loads((tmp_path / "rows.json").read_text())
    assert {(row["method"], row["neighborhood"]) for row in rows} == {
        (method, near) for method in ALL_METHODS for near in ("U(A,0.5)", "B(A,0.5)")
    }
    for row in rows:
        assert set(row) >= ROW | {"nodes"}
        assert row["nodes"] == list(demo.NODES)
        assert row["method"] in out
        assert 0 < row["unfaithfulness"] < float("inf")
        assert 0 < row["stderr"] < float("inf")
    assert (tmp_path / "made/demo/explanations.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (tmp_path / "made/demo").iterdir()) == [
        "explanations.html",
        "explanations.png",
        "results.json",
    ]
    page = (tmp_path / "made/demo/explanations.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "made/demo/explanations.html" in out


def test_score_prints_and_writes_the_same_rows(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ("score", "--dataset", "ba-shapes", "--nodes", "400:420:10", "--method", "kec", "--method", "saliency")
    code, out, _ = run(monkeypatch, capsys, *arguments, "--neighborhood", "all", "--samples", 20, "--json", "r.json")
    assert code == 0
    rows = json.loads((tmp_path / "r.json").read_text())
    assert [row["neighborhood"] for row in rows[::2]] == list(EDGE_NEIGHBORHOODS)
    assert [row["method"] for row in rows[:2]] == ["kec", "saliency"]
    assert all(f"{row['unfaithfulness']:.3g}" in out for row in rows)
    assert rows[0]["nodes"] == [400, 410]
    assert rows[0]["fit_samples"] == 20
    assert rows[0]["num_samples"] == 500
    again = run(monkeypatch, capsys, *arguments, "--neighborhood", "all", "--samples", 20, "--json", "again.json")
    assert again[0] == 0
    for first, second in zip(rows, json.loads((tmp_path / "again.json").read_text()), strict=True):
        assert {**first, "seconds_per_node": 0} == {**second, "seconds_per_node": 0}


def test_explain_writes_json_and_figure(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(
        monkeypatch, capsys, "explain", "--dataset", "ba-shapes", "--node", 503, "--neighborhood", "B(A,0.5)",
        "--method", "kec", "--method", "saliency", "--top", 4,
    )  # fmt: skip
    assert code == 0
    rows = json.loads((tmp_path / "ba-shapes-503.json").read_text())
    assert [row["method"] for row in rows] == ["kec", "saliency"]
    for row in rows:
        assert set(row) >= ROW | {"node", "edges", "features"}
        assert row["node"] == 503
        assert len(row["edges"]) == len(row["features"]) == 4
        strengths = [abs(edge["score"]) for edge in row["edges"]]
        assert strengths == sorted(strengths, reverse=True)
        assert f"{row['edges'][0]['score']:+.4g}" in out
    assert (tmp_path / "ba-shapes-503.png").stat().st_size > 10_000
    code, _, _ = run(
        monkeypatch, capsys, "explain", "--dataset", "ba-shapes", "--node", 503, "--json", "a.json", "--figure", "a.svg"
    )
    assert code == 0
    assert "<svg" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "Missing option '--node'"),
        (["explain", "--node", "x"], "Invalid value for '--node'"),
        (["explain", "--dataset", "ba-shapes", "--node", "700"], "node 700 is out of range"),
        (["explain", "--dataset", "ba-shapes", "--node", "-1"], "node -1 is out of range"),
        (["explain", "--node", "1", "--without", "3"], "--without takes an edge such as 3-42"),
        (["explain", "--node", "1", "--without", "3-4", "--method", "saliency"], "--without needs a p that was fitted"),
        (["explain", "--node", "1", "--top", "0"], "--top must be at least 1"),
        (["explain", "--node", "1", "--method", "lime"], "unknown method 'lime': known are anchored-kec, kec, linear"),
        (["explain", "--node", "1", "--dataset", "pubmed"], "unknown dataset 'pubmed': known are ba-shapes"),
        (["explain", "--node", "355", "--dataset", "hetero-ba-shapes"], "the graph has nodes 0 to 354"),
        (["explain", "--node", "1", "--dataset", "hetero-ba-shapes", "--node-type", "circle"], "for your own model"),
        (["explain", "--node", "1", "--node-type", "circle"], "ba-shapes has one: leave it out"),
        (["explain", "--node", "1", "--dataset", "hetero-ba-shapes", "--neighborhood", "U(X,0.2r)"], "are constant"),
        (["judge", "--nodes", "1", "--dataset", "hetero-ba-shapes"], "graphfaith score compares the methods"),
        (["view", "--dataset", "hetero-ba-shapes"], "graphfaith explain --page FILE writes a page"),
        (["explain-many", "--out", "run", "--dataset", "hetero-ba-shapes"], "graphfaith explain takes a node of it"),
        (["graph", "pack", "run", "--dataset", "hetero-ba-shapes"], "graphfaith explain and score take it"),
        (["explain", "--node", "1", "--neighborhood", "U(A;0.5)"], "cannot read the neighbourhood 'U(A;0.5)'"),
        (["explain", "--node", "1", "--neighborhood", "B(A,2)"], "sigma must be above 0 and at most 1"),
        (["explain", "--node", "1", "--samples", "0"], "samples must be a whole number of at least 1"),
        (["explain", "--node", "1", "--samples", "many"], "--samples must be a number, or auto (got 'many')"),
        (["explain", "--node", "1", "--samples", "auto", "--method", "kec"], "by themselves: kec needs a number"),
        (["score", "--samples", "auto"], "--samples auto is for methods that choose by themselves: kec needs a number"),
        (["explain", "--node", "1", "--seed", "-4"], "seed must be a whole number"),
        (["explain", "--node", "1", "--figure", "x.gif"], "cannot tell the format from 'x.gif'"),
        (["explain", "--node", "1", "--json", "no/such/x.json"], "does not exist"),
        (["explain", "--node", "1", "--save", "x.pt"], "cannot tell the format from 'x.pt'"),
        (["explain", "--node", "1", "--level", "graph"], "--level, --mode and --return-type tell of your own model"),
        (["explain", "--node", "1", "--mode", "regression"], "--level, --mode and --return-type tell of your own"),
        (["explain", "--node", "1", "--num-hops", "0"], "num_hops must be a whole number of at least 1"),
        (["explain", "--node", "1", "--edges", "none"], "edges must be one of auto, weight, removal, mask"),
        (["explain", "--node", "1", "--max-memory", "1 potato"], "max_memory must be a number of bytes"),
        (["explain", "--node", "1", "--model", "m:load"], "--model and --data go together: give --data FILE too"),
        (["explain", "--node", "1", "--data", "g.pt"], "go together: give --model module:function too"),
        (["explain", "--node", "1", "--dataset", "cora", "--data", "g.pt"], "--dataset brings its own model"),
        (["explain", "--node", "1", "--model", "m:load", "--data", "g.pt"], "'g.pt': there is no such file"),
        (["score", "--nodes", "5:1"], "cannot read the nodes '5:1'"),
        (["score", "--nodes", "one"], "cannot read the nodes 'one'"),
        (["score", "--nodes", "1:2:0"], "cannot read the nodes '1:2:0'"),
        (["score", "--nodes", "0,1000"], "node 1000 is out of range: the graph has nodes 0 to 699"),
        (["score", "--neighborhood", "U(X,0.2r)"], "the features of ba-shapes are constant"),
        (["score", "--json", "/"], "cannot tell the format"),
        (["demo", "--out", "taken"], "cannot make the folder 'taken'"),
        (["fly"], "No such command 'fly'"),
        (["demo", "--fast"], "No such option"),
    ],
)  # fmt: skip
def test_bad_arguments_are_one_line_and_exit_code_2(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out == ""
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    assert (tmp_path / "taken").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_options_of_a_data_set_and_saving(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(
        monkeypatch, capsys, "explain", "--dataset", "ba-shapes", "--node", 503, "--edges", "mask", "--num-hops", 3,
        "--max-memory", "1 GB", "--samples", 20, "--test-samples", 20, "--save", "house.safetensors",
    )  # fmt: skip
    assert code == 0
    assert "ba-shapes node 503, class " in out
    assert "and still counted if these become 0; messages go 3 hops far" in out
    row = json.loads((tmp_path / "ba-shapes-503.json").read_text())[0]
    assert (row["route"], row["num_hops"], row["level"], row["index"]) == ("mask", 3, "node", 503)
    assert row["model_seed"] == 0
    saved = archive.load(tmp_path / "house.safetensors")
    assert saved.top_edges(1)[0].score == row["edges"][0]["score"]
    code, _, err = run(monkeypatch, capsys, "explain", "--dataset", "ba-shapes", "--node", 503, "--max-memory", "9 KB")
    assert code == 2
    assert "more than max_memory = 9.0 KB" in err


def test_explain_takes_the_most_faithful_method_and_says_what_it_knows(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ("explain", "--dataset", "ba-shapes", "--node", 503, "--samples", "auto", "--test-samples", 50)
    code, out, _ = run(monkeypatch, capsys, *arguments, "--neighborhood", "B(A,0.5)", "--json", "r.json")
    assert code == 0
    (row,) = json.loads((tmp_path / "r.json").read_text())
    assert row["method"] == "anchored-kec"
    assert row["fit_samples"] in (200, 400, 800, 1600, 3200)
    assert row["chosen"] == "anchored"
    assert 0 < row["estimate"]["relative"] < 0.3
    assert f"({row['fit_samples']} samples)" in out


def test_explain_says_what_would_be_without_an_edge(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    arguments = ("explain", "--dataset", "ba-shapes", "--node", 503, "--neighborhood", "B(A,0.5)", "--test-samples", 20)
    methods = ("--method", "anchored-kec", "--method", "saliency", "--json", "r.json", "--figure", "f.svg")
    code, out, _ = run(monkeypatch, capsys, *arguments, *methods, "--without", "500-503", "--without", "503-502")
    assert code == 0
    row, other = json.loads((tmp_path / "r.json").read_text())
    answer = row["without"]
    assert answer["edges"] == [[500, 503], [503, 502]]
    words = (
        f"F would change by {answer['change']:+.3g} ± {answer['stderr']:.2g}; the model says {answer['actual']:+.3g}"
    )
    assert f"without 500 - 503 and 503 - 502: {words}" in out
    data, target = load_trained("ba-shapes").data, [(500, 503), (503, 500), (502, 503), (503, 502)]
    kept = [i for i, edge in enumerate(zip(*data.edge_index.tolist(), strict=True)) if edge not in target]
    model = load_trained("ba-shapes").model
    with torch.no_grad():
        before, after = (
            model(data.x, edges)[503, row["class"]] for edges in (data.edge_index, data.edge_index[:, kept])
        )
    assert answer["actual"] == pytest.approx(float(after - before), abs=1e-4)
    assert 0 < len(row["interactions"]) <= 3
    assert all(pair["words"] in out for pair in row["interactions"])
    assert other["without"] == {"edges": answer["edges"], "change": None, "stderr": None, "actual": None}
    assert other["interactions"] == []
    assert "Saliency foretells nothing" in out
    code, _, err = run(monkeypatch, capsys, *arguments, "--without", "503-1")
    assert code == 2
    assert "--without 503-1: the graph has no such edge" in err


def test_an_edge_may_be_given_by_names_if_these_are_clear():
    ends = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    named = Data(edge_index=ends, num_nodes=4, node_names=["P-1", "T", "T", "0"])
    assert find_edges(["P-1-1", "1-2", "3-P-1"], named) == [(0, 1), (1, 2), (3, 0)]
    assert find_edges(["3-2"], named) == [(2, 3)]  # the direction that there is
    assert find_edges(["P-1-T", "T-T"], named) == [(0, 1), (1, 2)]  # Of two nodes T, only one is a neighbour of P-1.
    for text, words in [
        ("T-0", "--without T-0 could be 0-1 or 2-3"),  # 0 is the id of P-1 and the name of node 3
        ("P-1-V", "no such edge"),
        ("7-8", "no such edge"),
    ]:
        with pytest.raises(InputError, match=words):
            find_edges([text], named)


def test_an_unwritable_file_is_refused_before_any_work(monkeypatch, capsys, tmp_path):
    (tmp_path / "rows.json").mkdir()
    monkeypatch.setattr(source, "load_trained", lambda *_, **__: pytest.fail("work began"))
    code, _, err = run(monkeypatch, capsys, "score", "--json", tmp_path / "rows.json")
    assert code == 2
    assert "it is a folder" in err


def test_nothing_is_overwritten_that_was_not_named(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ba-shapes-503.json").write_text("mine")
    arguments = ("explain", "--dataset", "ba-shapes", "--node", 503, "--method", "saliency", "--test-samples", 5)
    for _ in range(2):
        code, out, _ = run(monkeypatch, capsys, *arguments)
        assert code == 0
    assert (tmp_path / "ba-shapes-503.json").read_text() == "mine"
    made = {path.name for path in tmp_path.iterdir()} - {"ba-shapes-503.json"}
    assert made == {"ba-shapes-503-2.json", "ba-shapes-503-3.json", "ba-shapes-503.png", "ba-shapes-503-2.png"}
    assert "ba-shapes-503-3.json" in out


def test_an_interrupt_stops_with_130(tmp_path):
    # Started in the background by some shells, a process ignores interrupts, and so do those that it starts.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from graphfaith.cli.application import main; main()"
    command = [sys.executable, "-c", code, "score", "--json", "rows.json"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "test accuracy" in line:
            break
    process.send_signal(signal.SIGINT)
    assert any("stopped" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)  # while the interpreter ends
    assert process.wait(60) == 130
    assert process.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []
    process.stderr.close()


@needs_data
def test_explain_cora_as_in_the_help(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(
        monkeypatch,
        capsys,
        "explain",
        "--dataset",
        "cora",
        "--node",
        42,
        "--method",
        "kec",
        "--neighborhood",
        "U(A,0.5)",
    )
    assert code == 0
    assert "cora node 42" in out
    row = json.loads((tmp_path / "cora-42.json").read_text())[0]
    assert row["relative"] < 0.2


# Output -----------------------------------------------------------------------------------------------------------

SCORE = ("score", "--dataset", "ba-shapes", "--nodes", "400,410", "--method", "saliency", "--test-samples", "20")
EXPLAIN = ("explain", "--dataset", "ba-shapes", "--node", "503", "--method", "saliency", "--test-samples", "20")


@pytest.mark.parametrize(
    ("closed", "arguments", "files"),
    [
        pytest.param("stderr", (*SCORE, "--json", "r.json"), ["r.json"], marks=pytest.mark.nightly),
        (
            "stdout",
            (*EXPLAIN, "--json", "r.json", "--figure", "f.svg", "--page", "p.html", "--save", "s.safetensors"),
            ["f.svg", "p.html", "r.json", "s.safetensors"],
        ),
    ],
)
def test_results_are_kept_if_nobody_reads_the_output(tmp_path, closed, arguments, files):
    reading, writing = os.pipe()
    os.close(reading)  # as head does, when it has enough
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writing}
    command = [sys.executable, "-m", "graphfaith", *arguments]
    done = subprocess.run(command, cwd=tmp_path, text=True, check=False, **streams)
    os.close(writing)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert json.loads((tmp_path / "r.json").read_text())
    if closed == "stdout":
        assert done.returncode == 1
        assert "Error" not in done.stderr
    else:
        assert done.returncode == 0
        assert "r.json" in done.stdout


def test_a_full_disk_behind_the_output_is_one_line(tmp_path):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "graphfaith", *SCORE, "--json", "r.json"]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: the system refused to read or write: OSError: [Errno 28]")
    assert "Traceback" not in done.stderr
    assert json.loads((tmp_path / "r.json").read_text())


@pytest.mark.parametrize(
    "arguments",
    [
        (*SCORE, "--json", "pipe.json"),
        (*EXPLAIN, "--json", "pipe.json"),
        (*EXPLAIN, "--figure", "pipe.svg"),
        (*EXPLAIN, "--page", "pipe.html"),
        (*EXPLAIN, "--save", "pipe.safetensors"),
        ("demo", "--json", "pipe.json"),
        ("demo", "--out", "made"),
        ("bench", "--quick", "--json", "pipe.json"),
        ("bench", "--quick", "--growth", "--figure", "pipe.svg"),
        ("reproduce", "--page", "pipe.md"),
        ("reproduce", "table3", "--quick", "--out", "made"),
        ("swat", "simulate", "--out", "made"),
        ("swat", "run", "--quick", "--out", "made"),
    ],
    ids=lambda arguments: " ".join(arguments[:2] + arguments[-2:]),
)
def test_every_command_refuses_to_write_where_there_is_no_file(monkeypatch, capsys, tmp_path, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "made").mkdir()
    names = ("results.json", "Simulated_Truth.csv", "table3.json")
    pipes = [*(f"pipe.{suffix}" for suffix in ("json", "svg", "html", "safetensors", "md"))]
    pipes += [f"made/{name}" for name in names]
    for name in pipes:
        os.mkfifo(name)
    monkeypatch.setattr(source, "load_trained", lambda *_, **__: pytest.fail("the work has begun"))
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: cannot write '")
    assert err.endswith("it is a FIFO, not a regular file\n")
    assert all((tmp_path / name).is_fifo() for name in pipes)


# Errors -----------------------------------------------------------------------------------------------------------

LONG, DIGITS = "x" * 100_000, "9" * 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "--nodes", "0:10000000000000"], "node 9999999999999 is out of range: the graph has nodes 0 to 699"),
        (["score", "--nodes", "0-10000000000000"], "cannot read the nodes '0-10000000000000'"),
        (["score", "--nodes", f"0:1{'0' * 30}"], f"node {'9' * 30} is out of range"),
        (["score", "--nodes", f"0:{DIGITS}"], "cannot read the nodes"),
        (["score", "--nodes", "400", "--test-samples", "10000000000000"], "test_samples must be at most 1,000,000,000"),
        (["score", "--nodes", "400", "--method", "kec", "--samples", "9" * 30], "samples must be at most"),
        (["explain", "--node", DIGITS], "Invalid value for '--node'"),
        (["explain", "--node", "9" * 400], "is out of range: the graph has nodes 0 to"),
        (["explain", "--node", "1", "--seed", "9" * 30], "seed must be a whole number from 0 to"),
        (["explain", "--node", "1", "--dataset", "a\nb"], r"unknown dataset 'a\nb'"),
        (["explain", "--node", "1", "--method", LONG], "known are anchored-kec, kec"),
        (["explain", "--node", "1", "--neighborhood", LONG], "cannot read the neighbourhood"),
        (["explain", "--node", "1", "--json", f"{LONG}.json"], "bytes, and 255 are possible there"),
        (["explain", "--node", "1", "--json", "no\nsuch/r.json"], r"no\nsuch' does not exist"),
        (["explain", "--node", "1", "--data", "g\nh.pt", "--model", "m:load"], r"'g\nh.pt': there is no such file"),
        (["explain", "--node", "1", f"--{LONG}"], "No such option"),
        ([LONG], "No such command"),
        (["swat", "simulate", "--out", "s", "--days", "1e12"], "--days must be at most 365"),
        (["swat", "run", "--out", "s", "--workers", "9" * 30], "workers must be at most 256"),
        (["reproduce", "table3", "--out", "s", "--workers", "9" * 30], "--workers must be at most 256"),
        (["reproduce", LONG], "known are table1"),
        (["bench", "--dataset", "a\nb"], r"unknown dataset 'a\nb'"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_odd_arguments_are_one_short_line(monkeypatch, capsys, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    if arguments[0] in ("score", "explain") and "--dataset" not in arguments and "--data" not in arguments:
        arguments = [*arguments[:1], "--dataset", "ba-shapes", *arguments[1:]]
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert len(err) < 800
    assert message in err


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc to see when torch is being loaded")
@pytest.mark.parametrize("way", ["python -m", "script"])
def test_an_interrupt_while_torch_is_imported_is_no_traceback(tmp_path, way):
    script = tmp_path / "graphfaith"  # as pip makes it
    script.write_text("import sys\nfrom graphfaith.cli.application import main\nsys.exit(main())\n")
    command = [sys.executable, "-m", "graphfaith"] if way == "python -m" else [sys.executable, str(script)]

    def listen_to_interrupts():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores them

    with subprocess.Popen(
        [*command, "demo", "--out", str(tmp_path / "demo")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listen_to_interrupts,
    ) as process:
        while process.poll() is None:
            with open(f"/proc/{process.pid}/maps") as maps:
                if "libtorch_cpu" in maps.read():
                    break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "stopped\n")


def test_features_that_are_all_alike_can_still_be_dropped():
    assert expand_neighborhoods(["B(X,0.5)"], "ba-shapes", constant=True) == ["B(X,0.5)"]
    with pytest.raises(InputError, match="are constant"):
        expand_neighborhoods(["U(X,0.2r)"], "ba-shapes", constant=True)
