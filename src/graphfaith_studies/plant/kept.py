"""The alarms of a run in a small file, from which the tables about causes can be computed again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from graphfaith._base.files import write_file

from .localisation import NUMBERS, RANKINGS
from .summary import pool_causes

_FORMAT: Final = 1


def write_alarms(path: Path, studies: Sequence[dict[str, Any]]) -> None:
    """Write what is known of every alarm of these studies: an object in JSON, with a line for each alarm.

    The scores of an alarm are a list for each of ``rankings``, of ``numbers`` in this order.
    """
    head = {
        "format": _FORMAT,
        "rankings": list(RANKINGS),
        "numbers": list(NUMBERS),
        "drawn_above": {str(study["marks"]["seed"]): study["drawn_above"] for study in studies},
    }
    rows = [
        {
            "seed": study["marks"]["seed"],
            "first": alarm["alarm"]["first"],
            "accused": alarm["alarm"]["accused"],
            "event": alarm["event"],
            "clears": {
                where: [name for name, verdict in alarm["verdicts"].items() if verdict[where]]
                for where in ("model", "plant")
            },
            "found": [[alarm["found"][ranking][number] for number in NUMBERS] for ranking in RANKINGS],
        }
        for study in studies
        for alarm in study["alarms"]
    ]
    lines = [json.dumps(row, separators=(",", ":"), allow_nan=False) for row in rows]
    # All of it is one object, whose last entry has a line for each alarm.
    text = json.dumps(head, indent=1)[:-2] + ',\n "alarms": [\n' + ",\n".join(lines) + "\n]}\n"
    write_file(path, text.encode())


def pool_kept(path: Path) -> dict[str, Any]:
    """Return the scores of rankings over the alarms of a file of `write_alarms`, as ``causes`` of results.json."""
    kept = json.loads(path.read_text())
    alarms = [
        (
            row["seed"],
            {
                "alarm": {"first": row["first"], "accused": row["accused"]},
                "event": row["event"],
                "found": {
                    ranking: dict(zip(kept["numbers"], scores, strict=True))
                    for ranking, scores in zip(kept["rankings"], row["found"], strict=True)
                },
            },
        )
        for row in kept["alarms"]
    ]
    return pool_causes(alarms, {int(seed): above for seed, above in kept["drawn_above"].items()})
