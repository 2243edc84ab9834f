"""SubgraphX: the connected subgraph with the largest Shapley value that a Monte-Carlo tree search finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch_geometric.explain.config import ModelTaskLevel

from .._base.checks import check_count, check_real
from .._base.errors import InputError, UnsupportedError
from ..model.call import Edges
from ..model.target import Target
from ..sampling.draw import keys, uniform
from ..surrogate.difference import DifferenceModel, SubgraphModel
from .subgraph import Silent, SubgraphExplainer

Order = Literal["low2high", "high2low"]
Bools = NDArray[np.bool_]
Reals = NDArray[np.float64]

_DESCENTS = 2  # the first way down takes at most this part of the budget, so that there is another to choose from


class SubgraphX(SubgraphExplainer):
    r"""SubgraphX of Yuan et al., "On Explainability of Graph Neural Networks via Subgraph Explorations" (2021).

    The explanation is a connected set S of at most ``max_nodes`` nodes around the explained one, v. Its reward is
    the Shapley value of S as one player among the other nodes that F can see, of which there are m:

    .. math:: R(S) = \sum_{T} \frac{|T|!\,(m - |T|)!}{(m + 1)!} \,[\,F(T \cup S) - F(T)\,]

    A Monte-Carlo tree search looks for it. The root has all nodes that F can see; a child drops some, and keeps what
    is still connected with v; a set of at most ``max_nodes`` is a leaf. A rollout goes down to the child with the
    largest :math:`Q + c\,R\,\sqrt{\sum N} / (1 + N)`, N being its visits, the sum that over its siblings too, and Q
    the mean reward of the leaves below that were come to. The leaf with the largest reward is the explanation, the
    smallest of equally good ones. As p it is F on the entries of A between its nodes.

    F of a set has the entries of A between its nodes, and 0 for the others. The outermost node of the computation
    graph, which stands for all further out, is in no set, so that with ``silent="drop"`` the edges from there go, and
    with "keep" they stay. Self-loops that a layer adds stay, as with every mask here; without edges, those of nodes
    outside the set reach nothing. Without v nothing reaches the output either, the loop of v is dropped too, and
    F(T) is F(X, 0), whatever T is. The original sets the features of absent nodes to zero, and leaves their edges.

    Other than in the original, so that a node takes seconds:

    - The nodes of a set are ordered by degree and cut into groups, at most so large that ``max_nodes`` are left, and
      each of at most ``children`` children drops one of the first. Sets of up to ``children`` others than v have
      groups of one node, as in the original. There larger sets drop one node too, which from 350 nodes takes 345
      steps; in groups it takes about 50.
    - T is drawn once for all S (node i is in the j-th T if its number is below that of j, which is uniform), so that
      rewards differ by what S are and not by luck; and F is evaluated on all children of a set in one batch.
      Where there are no more T than would be drawn, all are taken, and R is exact.
    - The budget is a number of evaluations of F. Where ``num_samples`` draws are so many that one way down would take
      more than half of it, fewer are drawn; where one way down would not fit at all, there are fewer children.
    - Where there are rewards below 0, Q and R are taken less the lowest so far: with c R below 0 a rollout would go
      where those before it went.
    - Of children that are equal otherwise, as all are on the first visit, the one with the largest R is taken.
    - F is what is explained here, a logit more often than not, rather than a probability.

    Args:
        max_nodes: how many nodes the explanation has at most, v included.
        num_samples: how many sets T are drawn for a reward, at most.
        rollouts: how often the search goes down the tree, at most.
        children: how many children a set has, at most.
        exploration: c.
        order: whether nodes of low or of high degree come first; it decides which are dropped together.
        max_evaluations: how many times F is evaluated, at most.
        num_hops: M, the reach of the model; counted from its message-passing layers if None.
        seed: names the draws.
        silent: as for GNNExplainer (:class:`SubgraphExplainer`).

    ``edges`` and ``max_memory`` are those of every method here (:class:`FaithfulExplainer`). The explanation has
    ``evaluations`` and ``rollouts``, which were done, and ``budget_spent``, whether the budget ended the search.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    >>> F = Target(GCN(2, 4, num_layers=3, out_channels=3), torch.ones(6, 2), ring, 3)
    >>> p = SubgraphX(max_nodes=2).fit(F)
    >>> kept = p.graph.edge_index[:, (p.edge_mask > 0) & ~p.graph.is_loop]
    >>> set(p.graph.nodes[kept].flatten().tolist()) <= {2, 3}
    True
    """

    method = "SubgraphX"

    def __init__(
        self,
        *,
        max_nodes: int = 5,
        num_samples: int = 100,
        rollouts: int = 20,
        children: int = 12,
        exploration: float = 10.0,
        order: Order = "low2high",
        max_evaluations: int = 20_000,
        seed: int = 0,
        silent: Silent = "drop",
        num_hops: int | None = None,
        edges: Edges = "auto",
        max_memory: int | str | None = None,
    ) -> None:
        super().__init__(seed=seed, silent=silent, num_hops=num_hops, edges=edges, max_memory=max_memory)
        if order not in get_args(Order):
            raise InputError(f"order must be one of {', '.join(get_args(Order))} (got {order!r})")
        self.order = order
        self.max_nodes, self.num_samples = check_count(max_nodes, "max_nodes"), check_count(num_samples, "num_samples")
        self.rollouts, self.children = check_count(rollouts, "rollouts"), check_count(children, "children")
        self.exploration = check_real(exploration, "exploration", least=0.0)
        self.max_evaluations = check_count(max_evaluations, "max_evaluations")
        if self.max_evaluations < 2:
            raise InputError("max_evaluations must be at least 2: a reward is a difference of two")

    def unsupported(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> str | None:
        """Pairs of nodes and graphs have no node that a subgraph is around."""
        if self.model_config.task_level != ModelTaskLevel.node:
            return f"explains nodes: a subgraph is grown around one (the task is of level {self._level})"
        return super().unsupported(model, x, edge_index)

    @property
    def _level(self) -> str:
        return str(self.model_config.task_level.value)

    def fit(self, target: Target) -> FoundSubgraph:
        """Search for the subgraph."""
        if target.task.level != "node" or len(target.computation_graph.seeds) > 1:
            raise UnsupportedError(f"{self.method} explains one node at a time: see explain_nodes")
        game = Game(target, self.weighed(target), self)
        found = Search(game, self).run()
        return FoundSubgraph(target, torch.from_numpy(game.inside(found.best.kept[None])[0]), found)

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """How the search ended."""
        assert isinstance(p, FoundSubgraph)
        found = p.search
        return {"evaluations": found.evaluations, "rollouts": found.rollouts, "budget_spent": found.budget_spent}


@dataclass(eq=False)
class State:
    """A connected set of nodes with v among them."""

    kept: Bools  # [n] whether a node is in the set
    reward: float = 0.0
    visits: int = 0
    total: float = 0.0  # of the rewards of the leaves below that were come to
    children: list[State] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the nodes."""
        self.size = int(self.kept.sum())

    def priority(self, explored: float, lowest: float) -> tuple[float, float]:
        """What a rollout chooses by; ``explored`` is c times the root of the visits of all siblings."""
        mean = self.total / self.visits - lowest if self.visits else 0.0
        return mean + explored * (self.reward - lowest) / (1 + self.visits), self.reward


@dataclass(frozen=True)
class Found:
    """What a search has come to."""

    best: State
    evaluations: int
    rollouts: int
    budget_spent: bool


class FoundSubgraph(SubgraphModel):
    """The p of a subgraph, with the ``search`` that has found it."""

    def __init__(self, target: Target, inside: torch.Tensor, search: Found) -> None:
        super().__init__(target, None, inside.to(target.computation_graph.weight.dtype))
        self.search = search


class Game:
    """Nodes as players: F of sets of nodes, and the rewards of sets."""

    def __init__(self, target: Target, weighed: torch.Tensor, options: SubgraphX) -> None:
        graph = target.computation_graph
        self.target, self.seed, self.evaluations = target, options.seed, 0
        self.source, self.sink = graph.edge_index.numpy()
        self.weighed = weighed.numpy()
        self.num_nodes, self.centre = graph.num_visible, int(graph.seeds[0])
        ends = np.stack((self.source, self.sink))[:, : graph.num_plain]
        ends = ends[:, (ends < self.num_nodes).all(axis=0)]
        both = np.concatenate((ends, ends[::-1]), axis=1)
        shape = self.num_nodes, self.num_nodes
        self.adjacency = scipy.sparse.csr_array((np.ones(both.shape[1], dtype=np.float32), both), shape=shape)
        self.adjacency.data[:] = 1  # parallel edges, and both directions, are one neighbour
        self.hop = graph.hop.numpy()[: self.num_nodes]
        self.max_nodes, self.high_first = options.max_nodes, options.order == "high2low"
        self.children, self.num_samples = self.plan(options)
        # What F takes on a set, as on a sample of a neighbourhood of edges; sets of a level and the draws beside it.
        sample = 8 * (4 * graph.num_edges * target.unit_width() + 6 * graph.num_edges + 6 * graph.num_nodes)
        rows = self.num_samples * self.num_nodes
        fixed = (16 + self.children) * rows + 2 * options.max_evaluations * self.num_nodes // self.num_samples
        what = f"{options.method} on {options.max_evaluations} evaluations"
        self.size = max(1, target.room(fixed, sample, what) // sample)
        self.drawn = self._draw()

    def plan(self, options: SubgraphX) -> tuple[int, int]:
        """How many children a set has and how many draws a reward is of, so that a way down fits in the budget."""
        budget, children = options.max_evaluations - 1, options.children  # one for F(X, 0)
        while (states := self._longest_way(children)) > budget:
            children -= 1
        return children, min(options.num_samples, max(1, budget // (_DESCENTS * states)))

    def _longest_way(self, children: int) -> int:
        """How many sets get a reward on one way down, at most; a set that falls apart may be smaller than planned."""
        longest = [0] * (self.num_nodes + 1)  # by size, or any smaller one
        for size in range(self.max_nodes + 1, self.num_nodes + 1):
            step = self.step(size, children)
            groups = min(children, -(-(size - 1) // step))
            longest[size] = max(longest[size - 1], groups + longest[size - step])
        return max(1, longest[-1])  # a root that is a leaf gets one too

    def step(self, size: int, children: int) -> int:
        """How many nodes a child of a set of that size drops."""
        return min(-(-(size - 1) // children), size - self.max_nodes)

    def _draw(self) -> Bools:
        """The sets T, [J, n]: each node has a number, and is in T if that is below the one of T.

        That is Shapley's distribution: the nodes before S, if all come in an order drawn at random. The numbers of
        the T are spread evenly.
        """
        rows = keys(self.seed, "coalition", np.arange(self.num_samples))
        names = keys(self.seed, "player", self.target.computation_graph.nodes.numpy()[: self.num_nodes])
        level = uniform(rows, keys(self.seed, "level", np.zeros(1, dtype=np.int64)))
        level = (level + np.arange(self.num_samples)[:, None]) / self.num_samples
        return uniform(rows, names) < level

    def inside(self, sets: Bools) -> Bools:
        """[S, e] the entries of A that S sets [S, n] have: those between their nodes, and all that masks leave."""
        outermost = np.zeros((len(sets), self.target.computation_graph.num_nodes - self.num_nodes), dtype=bool)
        sets = np.concatenate((sets, outermost), axis=1)
        inside: Bools = (sets[:, self.source] & sets[:, self.sink]) | ~self.weighed
        return inside

    def values(self, sets: Bools) -> Reals:
        """F of S sets of nodes with v among them, [S]."""
        weight, found = self.target.computation_graph.weight, []
        for start in range(0, len(sets), self.size):
            inside = torch.from_numpy(self.inside(sets[start : start + self.size]))
            found.append(self.target.evaluate(None, weight * inside).double().numpy())
        self.evaluations += len(sets)
        return np.concatenate(found)

    def of_nothing(self) -> float:
        """F(X, 0)."""
        self.evaluations += 1
        return float(self.target.evaluate(None, torch.zeros_like(self.target.computation_graph.weight)))

    def coalitions(self, kept: Bools) -> tuple[Bools, Reals]:
        """Unions of a set and T, [J, n], and the weight of each in the reward, [J]: all, or those drawn."""
        others = np.flatnonzero(~kept)
        count = len(others)
        if count >= 63 or 1 << count > self.num_samples:
            return self.drawn | kept, np.full(self.num_samples, 1 / self.num_samples)
        chosen = (np.arange(1 << count)[:, None] >> np.arange(count)) & 1 > 0
        sets = np.repeat(kept[None], 1 << count, axis=0)
        sets[:, others] = chosen
        weights = [1 / ((count + 1) * math.comb(count, size)) for size in range(count + 1)]
        return sets, np.asarray(weights)[chosen.sum(axis=1)]

    def rewards(self, kept: Sequence[Bools], nothing: float) -> list[float]:
        """The rewards of several sets, in one batch."""
        drawn = [self.coalitions(one) for one in kept]
        values = self.values(np.concatenate([sets for sets, _ in drawn]))
        parts = np.split(values, np.cumsum([len(sets) for sets, _ in drawn])[:-1])
        # Rounding must not decide which of two equal sets is the better one: it differs with the size of a chunk.
        unit = 256 * torch.finfo(self.target.computation_graph.weight.dtype).eps * max(self.target.scale, 1e-30)
        found = [float(part @ weights) - nothing for part, (_, weights) in zip(parts, drawn, strict=True)]
        return [round(reward / unit) * unit for reward in found]

    def drops(self, kept: Bools) -> Bools:
        """The children of a set, [c, n]."""
        degree = self.adjacency @ kept.astype(np.float32)
        nodes = np.flatnonzero(kept)
        nodes = nodes[nodes != self.centre]
        # Of one degree, the farthest first.
        nodes = nodes[np.lexsort((nodes, -self.hop[nodes], -degree[nodes] if self.high_first else degree[nodes]))]
        step = self.step(len(nodes) + 1, self.children)
        groups = [nodes[start : start + step] for start in range(0, len(nodes), step)][: self.children]
        left = np.repeat(kept[None], len(groups), axis=0)
        for row, group in zip(left, groups, strict=True):
            row[group] = False
        return self.connected(left)

    def connected(self, sets: Bools) -> Bools:
        """What of each set [S, n] is connected with v within it."""
        reached = np.zeros_like(sets)
        reached[:, self.centre] = True
        while True:
            further = ((self.adjacency @ reached.T.astype(np.float32)).T > 0) & sets | reached
            if (further == reached).all():
                return reached
            reached = further


class Search:
    """The tree. Sets that are come to in several ways are one state."""

    def __init__(self, game: Game, options: SubgraphX) -> None:
        self.game, self.options = game, options
        self.nothing = game.of_nothing()
        self.states: dict[bytes, State] = {}
        self.lowest = 0.0  # of the rewards so far, and 0

    def run(self) -> Found:
        """Go down as often as it was asked for, or until the budget is spent."""
        everything = self.game.connected(np.ones((1, self.game.num_nodes), dtype=bool))
        root, done = State(everything[0]), 0
        if root.size <= self.options.max_nodes:
            root = self._states(everything)[0]
        while done < self.options.rollouts and self._rollout(root):
            done += 1
        leaves = [state for state in self.states.values() if state.size <= self.options.max_nodes]
        best = max(leaves, key=lambda state: (state.reward, -state.size))  # the first of equal ones
        return Found(best, self.game.evaluations, done, done < self.options.rollouts)

    def _rollout(self, state: State) -> bool:
        """Go down to a leaf; False if there are not enough evaluations left for it."""
        way = [state]
        while state.size > self.options.max_nodes:
            if state.children is None:
                state.children = self._states(self.game.drops(state.kept)) or None
                if state.children is None:
                    return False
            explored = self.options.exploration * math.sqrt(sum(child.visits for child in state.children))
            state = max(state.children, key=lambda child: child.priority(explored, self.lowest))
            way.append(state)
        for passed in way:
            passed.visits += 1
            passed.total += state.reward
        return True

    def _states(self, sets: Bools) -> list[State]:
        """The states of sets, with the rewards of those that are new; none if there are not enough evaluations."""
        names = [np.packbits(kept).tobytes() for kept in sets]
        new = {name: kept for name, kept in zip(names, sets, strict=True) if name not in self.states}
        if new:
            if self.game.evaluations + len(new) * self.game.num_samples > self.options.max_evaluations:
                return []
            for name, reward in zip(new, self.game.rewards(list(new.values()), self.nothing), strict=True):
                self.states[name] = State(new[name], reward)
                self.lowest = min(self.lowest, reward)
        return [self.states[name] for name in dict.fromkeys(names)]
