"""Test C-Town: its plant file is the one that its network gives, its attacks, and the competition's score."""

from __future__ import annotations

import json
import os
import pickle
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

from graphfaith._base.errors import DataError
from graphfaith.cli.application import app
from graphfaith_studies.batadal.attacks import ATTACKED, attacked_tags, compare_with_readings, count_broken
from graphfaith_studies.batadal.network import Control, find_edges, format_plant, list_tags, read_network
from graphfaith_studies.batadal.run import QUICK, TEST, load_case, run
from graphfaith_studies.plant import Plant
from graphfaith_studies.plant.causes import METHODS
from graphfaith_studies.plant.measures import score_competition
from graphfaith_studies.plant.series import Series

DATA = Path(os.environ.get("GRAPHFAITH_DATA", "")) / "batadal"
needs_data = pytest.mark.skipif(not (DATA / TEST).is_file(), reason="GRAPHFAITH_DATA has no batadal")
PLANT = Plant.named("batadal")
KEPT = Path(__file__).parents[3] / "docs/batadal/results.json"


def test_the_plant() -> None:
    assert (len(PLANT), PLANT.step, list(PLANT.names)) == (43, 3600, list_tags())
    graph = nx.Graph(PLANT.edges)
    assert len(graph) == 43
    assert nx.is_connected(graph)
    assert all(tag in PLANT.names for number in ATTACKED for tag in attacked_tags(number))


@needs_data
def test_its_file_is_the_one_that_the_network_gives() -> None:
    network = read_network(DATA / "ctown_map.inp")
    written = Path(__file__).parents[3] / "src/graphfaith_studies/plant/plants/batadal.toml"
    assert format_plant(network) == written.read_text()
    edges = find_edges(network)
    assert ("S_PU10", "L_T7") in edges["control"]  # LINK PU10 OPEN IF NODE T7 BELOW 2.5
    assert ("F_PU2", "P_J280") in edges["pump or valve"]  # PU2 runs from J280 to J269
    assert ("L_T5", "P_J306") in edges["pipe"]
    assert ("S_PU3", "L_T1") in edges["control"]  # by its PLC, because the model has no control for it
    assert ("S_PU7", "S_PU8") not in edges["same station"]


@pytest.mark.parametrize("text", ["", "[PIPES]\n P1 J1 J2 100\n[PUMPS]\n[VALVES]\n[CONTROLS]\n"])
def test_another_network_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.inp").write_text(text)
    with pytest.raises(DataError, match=r"other.inp': it is not an? .*model of C-Town"):
        read_network(tmp_path / "other.inp")


@needs_data
def test_the_case() -> None:
    case = load_case(PLANT, DATA)
    assert [event.number for event in case.events] == list(range(1, 15))
    assert len(case.attacked) == 4177 + 2089
    assert not case.attacked.follows[4177]  # the two recordings do not follow each other
    assert case.notices == ()
    assert len(case.normal) + len(case.held_out) + len(case.quiet) == 8761
    # Readings of both are rounded alike, or the range of a nearly constant pressure would be left all the time.
    assert len(np.unique(case.normal.values[:, PLANT.column("P_J280")])) < 10
    rows = compare_with_readings(PLANT, case.attacked, case.normal, read_network(DATA / "ctown_map.inp").controls)
    assert rows[9]["outside"]["S_PU3"] == 30  # attack 10 starts a pump that never ran
    assert "PU10" in rows[0]["broken"]  # attack 1 keeps it from starting


@needs_data
def test_a_run_can_have_workers(tmp_path: Path, monkeypatch) -> None:
    """Data and options are sent to worker processes, and can make the tables of the competition afterwards."""
    sent = []

    def note(_folder: Path, *what: Any, **_options: Any) -> tuple[dict[str, Any], list[Path]]:
        sent.extend(pickle.loads(pickle.dumps(what)))
        return {}, []

    monkeypatch.setattr("graphfaith_studies.batadal.run.run_studies", note)
    run(tmp_path, DATA, quick=True)
    case, options = sent
    (competition, _), (attacks, (_, rows)) = options.more(case, {"seeds": []}, [])
    assert (competition, attacks) == ("The competition's score", "The attacks, and what the readings show")
    assert [row[0] for row in rows] == [str(number) for number in range(1, 15)]


def run_command(folder: Path, *options: str) -> dict[str, Any]:
    """Run the study by its command, look at what it wrote, and return its results."""
    command = ["plant", "run", "--plant", "batadal", "--data", str(DATA), "--out", str(folder), *options]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, (done.stderr, done.exception)
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    detectors = results["detectors"]
    assert {scores["events"] for scores in detectors.values()} == {14}
    assert detectors["monitor"]["f1"] > detectors["always"]["f1"]
    assert set(METHODS) < set(results["causes"]["all"]["rankings"])
    text = (folder / "results.md").read_text()
    assert "The competition's score" in text
    assert "The attacks, and what the readings show" in text
    page = (folder / "report.html").read_text()
    assert len(page) < 1_500_000
    assert "<script" not in page
    assert "attack" not in page.lower()
    assert page.count("<section class='alarm'") == len(list((folder / "seed-0" / "alarms").iterdir()))
    assert "L_T7 F_PU10 S_PU10 F_PU11 S_PU11" in text
    assert "attack" in (folder / "answers.html").read_text().lower()
    return results


def score_on_test(results: dict[str, Any]) -> dict[str, float]:
    """Return the mean S of every detector on the test data."""
    return {
        name: float(np.mean([row["detectors"][name]["parts"][TEST]["s"] for row in results["seeds"]]))
        for name in results["detectors"]
    }


@needs_data
def test_a_short_run(tmp_path: Path, monkeypatch) -> None:
    little = replace(QUICK, epochs=3, samples=100, test_samples=20, thorough=0)
    monkeypatch.setattr("graphfaith_studies.batadal.run.QUICK", little)
    results = run_command(tmp_path, "--quick", "--no-compare")
    assert "tuned network" not in results["detectors"]
    assert results["detectors"]["monitor"]["events_detected"] >= 9


@pytest.mark.nightly
@needs_data
def test_the_whole_run_is_that_of_the_page(tmp_path: Path) -> None:
    """The five trainings of docs/batadal.md; another processor rounds otherwise, so that numbers are near the kept."""
    begun = time.monotonic()
    results, kept = run_command(tmp_path), json.loads(KEPT.read_text())
    assert time.monotonic() - begun < 600 * max(2 / (os.cpu_count() or 1), 1)  # ten minutes on two cores
    assert score_on_test(results) == pytest.approx(score_on_test(kept), abs=0.03)
    assert list(results["detectors"]) == list(kept["detectors"])
    monitor, before = results["detectors"]["monitor"], kept["detectors"]["monitor"]
    assert monitor["events_detected"] == before["events_detected"] == 14
    for name in ("f1", "etapr_f1", "pa_k", "vus_pr", "coverage"):
        assert monitor[name] == pytest.approx(before[name], abs=0.03)
    others = {name: scores for name, scores in results["detectors"].items() if name not in ("monitor", "nowcaster")}
    assert all(scores["f1"] < monitor["f1"] for scores in others.values())
    hits = {name: row["attacked_hit3"]["mean"] for name, row in results["causes"]["all"]["rankings"].items()}
    wanted = {name: row["attacked_hit3"]["mean"] for name, row in kept["causes"]["all"]["rankings"].items()}
    assert hits == pytest.approx(wanted, abs=0.1)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no dataset03\.csv"):
        load_case(PLANT, tmp_path)


def test_broken_controls() -> None:
    values = np.zeros((6, 43))
    level, state = PLANT.column("L_T7"), PLANT.column("S_PU10")
    values[:, level] = [2.0, 2.0, 2.0, 5.0, 5.0, 3.0]
    values[:, state] = [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    times = np.datetime64("2016-01-01T00", "s") + 3600 * np.arange(6)
    flags = np.zeros(6, dtype=bool)
    series = Series(PLANT, times, values, flags, np.zeros((6, 43), bool), np.zeros(6, np.int64), flags)
    # It is idle at the second low reading, and runs on at the second high one.
    assert count_broken(series, (Control("PU10", "T7", 2.5, 4.8),)) == {"PU10": 2}


def test_the_competitions_score() -> None:
    labels = np.zeros(100, dtype=bool)
    labels[10:30] = labels[50:60] = True
    perfect = score_competition([(10, 30), (50, 60)], labels, labels)
    assert (perfect["s"], perfect["events_detected"]) == (1.0, 2)
    never = score_competition([(10, 30), (50, 60)], labels, np.zeros(100, dtype=bool))
    assert (never["s_ttd"], never["s_clf"]) == (0.0, 0.5)
    always = score_competition([(10, 30), (50, 60)], labels, np.ones(100, dtype=bool))
    assert (always["s_ttd"], always["s_clf"], always["s"]) == (1.0, 0.5, 0.75)
    late = np.zeros(100, dtype=bool)
    late[15:30] = True
    assert score_competition([(10, 30), (50, 60)], labels, late)["s_ttd"] == (0.75 + 0.0) / 2
