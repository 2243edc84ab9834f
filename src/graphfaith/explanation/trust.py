"""The numbers of trust of an explanation, one beside the other, as a bar shows them.

Each is a share of the model's change that is left unexplained: by the scores that are shown, by the best scores there
could be, by scores and pairs, and by the whole p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch_geometric.explain import Explanation

from ..sampling.neighborhood import describe_neighborhood
from ..surrogate.estimate import Unfaithfulness, format_share, format_share_alone
from .faithfulness import Faithfulness, faithfulness_of

Key = Literal["scores", "best", "pairs", "whole"]


@dataclass(frozen=True)
class Share:
    """One number: what is left unexplained by something; None where the model does not change."""

    key: Key
    name: str
    relative: float | None
    stderr: float | None
    text: str

    @property
    def explained(self) -> str:
        """What is explained, in per cent: '67 %'; '0 %' if what is left is as much as everything, or more."""
        if self.relative is None:
            return ""
        done = max(1 - self.relative, 0.0)
        # As many digits as the error has, but so many that almost everything does not become everything.
        if self.relative <= 0:
            return "100 %"
        if self.relative < 5e-7:
            return "more than 99.9999 %"
        digits = 0 if self.relative >= 0.01 else 1 - math.floor(math.log10(100 * self.relative)) - 1
        return f"{100 * done:.{max(digits, 0)}f} %"


@dataclass(frozen=True)
class Trust:
    """What is known of an explanation's faithfulness, in the order scores, best, pairs, whole, as far as it is known.

    >>> from dataclasses import replace
    >>> record = Unfaithfulness(0.012, 0.001, 0.0071, 0.0009, 0.157, 500, "B(A,0.5)", 1)
    >>> scores = replace(record, relative=0.463, relative_stderr=0.02)
    >>> trust = make_trust(Faithfulness(replace(record, scores=scores, floor=0.448), is_estimate=False))
    >>> [(row.key, row.text) for row in trust.rows]
    [('scores', '46 % ± 2 %'), ('best', '45 %'), ('whole', '0.71 % ± 0.09 %')]
    >>> trust.text
    'These scores explain about 54 % of how the model reacts when every edge is dropped with probability 1/2.'
    """

    rows: tuple[Share, ...]
    is_estimate: bool
    neighborhood: str
    text: str

    @property
    def near(self) -> str:
        """The neighbourhood in words."""
        return describe_neighborhood(self.neighborhood)


def trust_of(explanation: Explanation) -> Trust | None:
    """Return the numbers of trust of an explanation; None if nothing was measured."""
    known = faithfulness_of(explanation)
    return None if known is None else make_trust(known)


def make_trust(known: Faithfulness, *, all_drawn: bool = True) -> Trust:
    """Return the numbers that a record has.

    They are of all scores. Beside a picture that draws a part of them (``all_drawn`` is False) they say so, since
    nobody has measured how much that part explains.
    """
    record, shown = known.record, known.shown
    rows = [_share("scores", "these scores" if all_drawn else "all scores", shown)]
    if record.scores is not None and known.relative is not None:
        if record.floor is not None:
            text = format_share_alone(record.floor, record.scores.relative_stderr)
            rows.append(Share("best", "the best scores possible", record.floor, record.scores.relative_stderr, text))
        if record.pairs is not None and record.num_pairs:
            name = f"with {record.num_pairs} pairs" if record.num_pairs > 1 else "with the pair"
            rows.append(_share("pairs", name, record.pairs))
        if record.delta_zero and math.isfinite(record.relative):
            rows.append(_share("whole", "the whole explanation", record))
    return Trust(tuple(rows), known.is_estimate, known.neighborhood, _say(known, all_drawn))


def _share(key: Key, name: str, record: Unfaithfulness) -> Share:
    if not record.delta_zero or not math.isfinite(record.relative):
        return Share(key, name, None, None, "the model does not change")
    error = record.relative_stderr if math.isfinite(record.relative_stderr) else None
    return Share(key, name, record.relative, error, format_share(record.relative, error))


def _say(known: Faithfulness, all_drawn: bool) -> str:
    """Return a sentence or two for a person who has never heard of Delta."""
    near = describe_neighborhood(known.neighborhood)
    by = ", by the method's own estimate" if known.is_estimate else ""
    if known.is_flattering:
        by += " from few samples, which is likely too good"
    if known.kept is not None:
        by += f"; this is said of all {known.kept[1]} edges, of which the {known.kept[0]} strongest are here"
    if known.relative is None:
        return f"The model's answer does not change {near}{by}, so there is nothing to explain."
    these, rest = ("These scores", "") if all_drawn else ("All scores together", " Only a part of them is drawn.")
    if known.relative >= 1:
        return f"{these} do not explain how the model reacts {near}: they are no better than no scores{by}.{rest}"
    explained = _share("scores", "", known.shown).explained
    return f"{these} explain about {explained} of how the model reacts {near}{by}.{rest}"
