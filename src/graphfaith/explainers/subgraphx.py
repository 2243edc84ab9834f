"""SubgraphX: a Monte Carlo tree search for the connected subgraph with the largest Shapley value."""

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

_DESCENTS = 2  # the budget must suffice for this many descents of the tree, so that there are leaves to choose from


class SubgraphX(SubgraphExplainer):
    r"""SubgraphX of Yuan et al., "On Explainability of Graph Neural Networks via Subgraph Explorations" (2021).

    The explanation is a connected set S of at most ``max_nodes`` nodes that contains the explained node v. Its reward
    is the Shapley value of S as one player, where the other players are the m other nodes that F depends on:

    .. math:: R(S) = \sum_{T} \frac{|T|!\,(m - |T|)!}{(m + 1)!} \,[\,F(T \cup S) - F(T)\,]

    A Monte Carlo tree search looks for the set with the largest reward. The root is the set of all nodes that F depends
    on. A child removes some nodes, and then all nodes that are no longer connected with v. A set of at most
    ``max_nodes`` nodes is a leaf. A rollout descends from the root to a leaf, always to the child with the largest
    :math:`Q + c\,R\,\sqrt{\sum N} / (1 + N)`. Here N is the number of visits of the child, the sum is over all
    children of the same set, and Q is the mean reward of the leaves that rollouts through the child have reached. The
    explanation is the leaf with the largest reward; if rewards are equal, the smallest leaf. The difference model p is
    F on the entries of A between its nodes.

    To evaluate F on a set, the entries of A between its nodes are kept, and the others are 0. The outermost node of the
    computation graph represents all nodes further away. It is in no set, so its edges are removed with
    ``silent="drop"``, and kept with ``silent="keep"``. Self-loops that a layer adds are kept, as with all masks; those
    of nodes outside the set have no effect, because these nodes have no edges. A set without v has no edge to v, and
    the loop of v is removed too, so F(T) = F(X, 0) for every T. The original method instead sets the features of absent
    nodes to zero and keeps their edges.

    The following differs from the original, mostly so that a node takes only seconds:

    - The nodes of a set are sorted by degree and divided into groups, and each child removes one of the first
      ``children`` groups. A group is never so large that fewer than ``max_nodes`` nodes remain. If a set has at most
      ``children`` nodes other than v, each group is one node, as in the original. The original also removes one node at
      a time from larger sets, which takes 345 steps from 350 nodes; with groups it takes about 50.
    - The sets T are drawn once and used for all S, so that rewards differ because of S and not by chance. (Node i is in
      the j-th T if the number of node i is below the number of T; both are uniform.) F is evaluated on all children of
      a set in one batch. If there are no more possible T than would be drawn, all of them are used, and R is exact.
    - The budget is a number of evaluations of F. If one descent with ``num_samples`` draws would take more than half of
      it, fewer sets T are drawn. If one descent would exceed the budget even so, sets have fewer children.
    - If there are rewards below 0, the lowest reward so far is subtracted from Q and R. Otherwise c R would be
      negative, and rollouts would prefer children that were visited before.
    - If the priorities of children are equal, as on the first visit, the child with the largest R is taken.
    - F is the explained number, which is usually a logit and not a probability.

    Args:
        max_nodes: the largest number of nodes of the explanation, including v.
        num_samples: the largest number of sets T that are drawn for a reward.
        rollouts: the largest number of descents of the tree.
        children: the largest number of children of a set.
        exploration: the constant c.
        order: whether nodes of low or of high degree come first, which decides which nodes are removed together.
        max_evaluations: the largest number of evaluations of F.
        num_hops: M, the reach of the model; counted from its message-passing layers if None.
        seed: the seed of the draws.
        silent, edges, max_memory: see :class:`~graphfaith.explainers.subgraph.SubgraphExplainer`.

    The explanation has the fields ``evaluations`` and ``rollouts``, the numbers that were done, and ``budget_spent``,
    which is True if the budget ended the search.

    >>> from torch_geometric.nn import GCN
    >>> ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    >>> F = Target(GCN(2, 4, num_layers=3, out_channels=3), torch.ones(6, 2), ring, 3)
    >>> p = SubgraphX(max_nodes=2).fit(F)
    >>> kept = p.graph.edge_index[:, (p.edge_mask > 0) & ~p.graph.is_loop]
    >>> set(p.graph.nodes[kept].flatten().tolist()) <= {2, 3}
    True
    """

    method = "SubgraphX"
    explains_types = False

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
            raise InputError("max_evaluations must be at least 2: a reward is the difference of two values of F")

    def unsupported(self, model: torch.nn.Module | None = None, x: Any = None, edge_index: Any = None) -> str | None:
        """Return why the model cannot be explained, or None; for an edge or a graph, no single node is explained."""
        if self.model_config.task_level != ModelTaskLevel.node:
            return f"explains nodes, because the subgraph must contain one node (the task is of level {self._level})"
        return super().unsupported(model, x, edge_index)

    @property
    def _level(self) -> str:
        return str(self.model_config.task_level.value)

    def fit(self, target: Target) -> FoundSubgraph:
        """Search for the subgraph with the largest reward, and return F on it."""
        if target.task.level != "node" or len(target.computation_graph.seeds) > 1:
            raise UnsupportedError(f"{self.method} explains one node at a time: see explain_nodes")
        game = Game(target, self.weighed(target), self)
        search = Search(game, self).run()
        return FoundSubgraph(target, torch.from_numpy(game.inside(search.best.kept[None])[0]), search)

    def details(self, p: DifferenceModel) -> dict[str, Any]:
        """Return the number of evaluations and rollouts, and whether the budget ended the search."""
        assert isinstance(p, FoundSubgraph)
        search = p.search
        return {"evaluations": search.evaluations, "rollouts": search.rollouts, "budget_spent": search.budget_spent}


@dataclass(eq=False)
class State:
    """A node of the search tree: a connected set of graph nodes that contains v."""

    kept: Bools  # [n] whether a node is in the set
    reward: float = 0.0
    visits: int = 0
    total: float = 0.0  # the sum of the rewards of the leaves that rollouts through this state have reached
    children: list[State] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the nodes of the set."""
        self.size = int(self.kept.sum())

    def priority(self, explored: float, lowest: float) -> tuple[float, float]:
        """Return the key by which a rollout chooses a child; ``explored`` is c times the root of all visits."""
        mean = self.total / self.visits - lowest if self.visits else 0.0
        return mean + explored * (self.reward - lowest) / (1 + self.visits), self.reward


@dataclass(frozen=True)
class SearchResult:
    """The result of a search: the best leaf, and how the search ended."""

    best: State
    evaluations: int
    rollouts: int
    budget_spent: bool


class FoundSubgraph(SubgraphModel):
    """The p of a subgraph, with the result of the ``search`` for it."""

    def __init__(self, target: Target, inside: torch.Tensor, search: SearchResult) -> None:
        super().__init__(target, None, inside.to(target.computation_graph.weight.dtype))
        self.search = search


class Game:
    """The game whose players are the nodes: F on sets of nodes, and the rewards of sets."""

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
        self.adjacency.data[:] = 1  # Parallel edges, or edges in both directions, count as one neighbour.
        self.hop = graph.hop.numpy()[: self.num_nodes]
        self.max_nodes, self.high_first = options.max_nodes, options.order == "high2low"
        self.children, self.num_samples = self.plan(options)
        # A set needs as much memory as a sample of a neighbourhood of edges. The fixed part is for the draws, the
        # children of a set and all states of the tree.
        sample = 8 * (4 * graph.num_edges * target.unit_width(drops=True) + 6 * graph.num_edges + 6 * graph.num_nodes)
        rows = self.num_samples * self.num_nodes
        fixed = (16 + self.children) * rows + 2 * options.max_evaluations * self.num_nodes // self.num_samples
        purpose = f"{options.method} on {options.max_evaluations} evaluations"
        self.size = max(1, target.room(fixed, sample, purpose) // sample)
        self.drawn = self._draw()

    def plan(self, options: SubgraphX) -> tuple[int, int]:
        """Return how many children a set has and how many T are drawn, so that a descent fits in the budget."""
        budget, children = options.max_evaluations - 1, options.children  # One evaluation is for F(X, 0).
        while (states := self._longest_way(children)) > budget:
            children -= 1
        return children, min(options.num_samples, max(1, budget // (_DESCENTS * states)))

    def _longest_way(self, children: int) -> int:
        """Return the most rewards that one descent can need; a set that falls apart may be smaller than planned."""
        longest = [0] * (self.num_nodes + 1)  # for a set of this size or any smaller size
        for size in range(self.max_nodes + 1, self.num_nodes + 1):
            step = self.step(size, children)
            groups = min(children, -(-(size - 1) // step))
            longest[size] = max(longest[size - 1], groups + longest[size - step])
        return max(1, longest[-1])  # A root that is a leaf needs a reward too.

    def step(self, size: int, children: int) -> int:
        """Return how many nodes a child of a set of size ``size`` removes."""
        return min(-(-(size - 1) // children), size - self.max_nodes)

    def _draw(self) -> Bools:
        """Return the sets T, [J, n]: a node is in T if its random number is below the number of T.

        This is the distribution of Shapley's value: T are the nodes that come before S in a random order of the
        players. The numbers of the sets T are spread evenly over [0, 1], which reduces the variance of the rewards.
        """
        rows = keys(self.seed, "coalition", np.arange(self.num_samples))
        names = keys(self.seed, "player", self.target.computation_graph.nodes.numpy()[: self.num_nodes])
        level = uniform(rows, keys(self.seed, "level", np.zeros(1, dtype=np.int64)))
        level = (level + np.arange(self.num_samples)[:, None]) / self.num_samples
        return uniform(rows, names) < level

    def inside(self, sets: Bools) -> Bools:
        """Return the entries of A that S sets [S, n] keep, [S, e]: those between their nodes and those without mask."""
        outermost = np.zeros((len(sets), self.target.computation_graph.num_nodes - self.num_nodes), dtype=bool)
        sets = np.concatenate((sets, outermost), axis=1)
        inside: Bools = (sets[:, self.source] & sets[:, self.sink]) | ~self.weighed
        return inside

    def values(self, sets: Bools) -> Reals:
        """Return F on S sets of nodes that contain v, [S]."""
        weight, values = self.target.computation_graph.weight, []
        for start in range(0, len(sets), self.size):
            inside = torch.from_numpy(self.inside(sets[start : start + self.size]))
            values.append(self.target.evaluate(None, weight * inside).double().numpy())
        self.evaluations += len(sets)
        return np.concatenate(values)

    def of_nothing(self) -> float:
        """Return F(X, 0), the value of every set that does not contain v."""
        self.evaluations += 1
        return float(self.target.evaluate(None, torch.zeros_like(self.target.computation_graph.weight)))

    def coalitions(self, kept: Bools) -> tuple[Bools, Reals]:
        """Return the unions of a set with all T, or with those drawn, [J, n], and their weights in the reward, [J]."""
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
        """Return the rewards of several sets, computed in one batch; ``nothing`` is F(X, 0)."""
        coalitions = [self.coalitions(members) for members in kept]
        values = self.values(np.concatenate([sets for sets, _ in coalitions]))
        parts = np.split(values, np.cumsum([len(sets) for sets, _ in coalitions])[:-1])
        # Rewards are rounded to multiples of a unit. Otherwise the rounding errors of F, which depend on the chunk
        # size, would decide which of two equally good sets is chosen.
        unit = 256 * torch.finfo(self.target.computation_graph.weight.dtype).eps * max(self.target.scale, 1e-30)
        rewards = [float(part @ weights) - nothing for part, (_, weights) in zip(parts, coalitions, strict=True)]
        return [round(reward / unit) * unit for reward in rewards]

    def drops(self, kept: Bools) -> Bools:
        """Return the children of a set, [c, n]."""
        degree = self.adjacency @ kept.astype(np.float32)
        nodes = np.flatnonzero(kept)
        nodes = nodes[nodes != self.centre]
        # Among nodes of equal degree, the farthest from v comes first.
        nodes = nodes[np.lexsort((nodes, -self.hop[nodes], -degree[nodes] if self.high_first else degree[nodes]))]
        step = self.step(len(nodes) + 1, self.children)
        groups = [nodes[start : start + step] for start in range(0, len(nodes), step)][: self.children]
        left = np.repeat(kept[None], len(groups), axis=0)
        for row, group in zip(left, groups, strict=True):
            row[group] = False
        return self.keep_connected(left)

    def keep_connected(self, sets: Bools) -> Bools:
        """Return the nodes of each set [S, n] that are connected with v within the set."""
        reached = np.zeros_like(sets)
        reached[:, self.centre] = True
        while True:
            further = ((self.adjacency @ reached.T.astype(np.float32)).T > 0) & sets | reached
            if (further == reached).all():
                return reached
            reached = further


class Search:
    """The search tree. A set that can be reached in several ways is one state."""

    def __init__(self, game: Game, options: SubgraphX) -> None:
        self.game, self.options = game, options
        self.nothing = game.of_nothing()
        self.states: dict[bytes, State] = {}
        self.lowest = 0.0  # the minimum of 0 and all rewards so far

    def run(self) -> SearchResult:
        """Do the rollouts, until all are done or the budget is spent, and return the result."""
        everything = self.game.keep_connected(np.ones((1, self.game.num_nodes), dtype=bool))
        root, done = State(everything[0]), 0
        if root.size <= self.options.max_nodes:
            root = self._states(everything)[0]
        while done < self.options.rollouts and self._rollout(root):
            done += 1
        leaves = [state for state in self.states.values() if state.size <= self.options.max_nodes]
        best = max(leaves, key=lambda state: (state.reward, -state.size))
        return SearchResult(best, self.game.evaluations, done, done < self.options.rollouts)

    def _rollout(self, state: State) -> bool:
        """Descend to a leaf and update the visits; return False if the budget does not suffice to reach one."""
        path = [state]
        while state.size > self.options.max_nodes:
            if state.children is None:
                state.children = self._states(self.game.drops(state.kept)) or None
                if state.children is None:
                    return False
            explored = self.options.exploration * math.sqrt(sum(child.visits for child in state.children))
            state = max(state.children, key=lambda child: child.priority(explored, self.lowest))
            path.append(state)
        for passed in path:
            passed.visits += 1
            passed.total += state.reward
        return True

    def _states(self, sets: Bools) -> list[State]:
        """Return the states of sets, after new ones got their rewards; an empty list if the budget does not suffice."""
        names = [np.packbits(kept).tobytes() for kept in sets]
        new = {name: kept for name, kept in zip(names, sets, strict=True) if name not in self.states}
        if new:
            if self.game.evaluations + len(new) * self.game.num_samples > self.options.max_evaluations:
                return []
            for name, reward in zip(new, self.game.rewards(list(new.values()), self.nothing), strict=True):
                self.states[name] = State(new[name], reward)
                self.lowest = min(self.lowest, reward)
        return [self.states[name] for name in dict.fromkeys(names)]
