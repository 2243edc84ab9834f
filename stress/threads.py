"""Eight threads that explain with one model at the same time.

Right is what one thread gets, bit for bit, or a typed refusal. Wrong is any other result, any other exception, and a
model that is left in another mode than it was in.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from brief import PREFIX, brief_methods
from families import WEIGHTED, Model, make_model
from originals import make_graph
from table import Outcome, Row, summarise
from torch_geometric.data import Data
from torch_geometric.explain import Explainer

import graphfaith as gf
from graphfaith.explainers.methods import method_named

THREADS, SECONDS = 8, 150.0
FAMILIES = ("GCN", "GAT", "GIN", "SAGE")
NODES = 12
SAME, REFUSED = "as one thread gets it", "refused in one line"
WRONG, RAW, MODE = "another result in silence", "raw exception", "mode of the model lost"
FIELDS = ("node_mask", "edge_mask", "self_loop_score", "prediction", "target")
NEAR = "B(A,0.5)"


def explain_here(model: Model, data: Data, method: str, node: int, seed: int) -> Any:
    """Explain through :func:`graphfaith.explain`."""
    words = {"mode": "multiclass_classification", "return_type": "raw", "samples": 40, "test_samples": 20}
    return gf.explain(model, data, node, method=method, neighborhood=NEAR, seed=seed, **words)


def explain_through_pyg(model: Model, data: Data, method: str, node: int, seed: int) -> Any:
    """Explain through PyG's Explainer."""
    explainer = Explainer(
        model,
        method_named(method).make_for(NEAR, 40, seed),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    weights = {"edge_weight": data.edge_weight} if model.family in WEIGHTED else {}
    explanation = explainer(data.x, data.edge_index, index=node, **weights)
    gf.general_unfaithfulness(explainer, explanation, NEAR, num_samples=20, seed=seed + 1)
    return explanation


WAYS = {"gf.explain": explain_here, "PyG's Explainer": explain_through_pyg}


def fingerprint(explanation: Any) -> tuple[Any, ...]:
    """Return everything of an explanation that must not depend on what other threads do."""
    tensors = [explanation.get(name) for name in FIELDS]
    score = explanation.unfaithfulness
    return (*(None if t is None else t.double().numpy().tobytes() for t in tensors), score.value, score.delta_zero)


def try_together(family: str, way: str, method: str, seed: int) -> dict[str, Outcome]:
    """Explain each node in eight threads at once, and compare with what one thread gets."""
    data, train = make_graph(NODES), (seed + FAMILIES.index(family)) % 2 == 1
    # Dropout makes a thread that runs in another's training mode get another result.
    model = make_model(family, "node", 3, 3, 2, seed, dropout=0.5).train(train)
    explain = partial(WAYS[way], model, data, method)
    alone = {node: fingerprint(explain(node, seed)) for node in range(THREADS)}
    begin = threading.Barrier(THREADS)

    def work(place: int) -> list[tuple[str, Outcome]]:
        begin.wait(timeout=60)
        found = []
        for step in range(2):
            node = (place + 3 * step) % THREADS
            name = f"{family} {method.removeprefix(PREFIX)} node {node} thread {place}"
            found.append((name, _judge(explain, node, seed, alone[node])))
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        outcomes = dict(pair for pairs in pool.map(work, range(THREADS)) for pair in pairs)
    if any(module.training != train for module in model.modules()):
        outcomes[f"{family} {method.removeprefix(PREFIX)}"] = Outcome(MODE, True)
    for name, outcome in outcomes.items():
        if outcome.failed:
            print(f"  {outcome.kind}: {way}, {name}, seed {seed} {outcome.detail[:200]}", file=sys.stderr, flush=True)
    return outcomes


def _judge(explain: Any, node: int, seed: int, alone: tuple[Any, ...]) -> Outcome:
    try:
        found = fingerprint(explain(node, seed))
    except gf.GraphfaithError as error:
        return Outcome(REFUSED) if str(error).isprintable() else Outcome(RAW, True, str(error))
    except Exception as error:
        return Outcome(RAW, True, f"{type(error).__name__}: {error}")
    return Outcome(SAME) if found == alone else Outcome(WRONG, True)


def run(quick: bool, seed: int, seconds: float = SECONDS) -> list[Row]:
    """Try every family, way and method, and return a row for each way."""
    warnings.simplefilter("ignore")
    methods = brief_methods()[:: 5 if quick else 1]
    end, rows = time.monotonic() + seconds, []
    for number, way in enumerate(WAYS, start=1):
        outcomes: dict[str, Outcome] = {}
        done = 0
        # The time is shared by the two ways, so that neither is left out.
        until = end - seconds * (1 - number / len(WAYS))
        for method in methods:
            for family in FAMILIES:
                if time.monotonic() < until:
                    outcomes |= try_together(family, way, method, seed)
                    done += 1
        promised = len(methods) * len(FAMILIES)
        lost = sum(outcome.kind == MODE for outcome in outcomes.values())
        row = summarise(
            f"{THREADS} threads on one model, {way}", 0, outcomes, (WRONG, RAW, MODE), order=(SAME, REFUSED)
        )
        count = f"{len(outcomes) - lost:,}" + f" (time ran out after {done} of {promised} batches)" * (done < promised)
        rows.append(row._replace(count=count))
    return rows
