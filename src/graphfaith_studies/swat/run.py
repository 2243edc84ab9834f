"""The whole case study, on the simulated plant or on files of the genuine one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..plant.causes import What
from ..plant.run import Options, Source, load_case
from ..plant.run import run as run_studies
from .story import STORY, examine, summarise_story
from .study import FULL, QUICK, simulate_case
from .tags import SWAT
from .verdicts import list_further_tables


def run(
    folder: Path,
    *,
    data: Path | None = None,
    quick: bool = False,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    what: What = "deviation",
    compare: bool = True,
    workers: int | None = None,
    max_gap: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Any], list[Path]]:
    """Run the case study in ``folder``, and return the content of results.json and the paths of the written files.

    ``data`` is a folder with two files of the user, one of normal operation and one with attacks. Without ``data`` the
    plant is simulated. A run that was stopped resumes where it stopped.
    """
    # A file may know its attacked tags; the story is told of the simulated plant's attacks all the same.
    options = Options(
        QUICK if quick else FULL, what, compare, examine, STORY, summarise_story, list_further_tables, quick
    )
    source: Source = simulate_case if data is None else load_case(SWAT, data, max_gap, say)
    title = SWAT.title if data is None else str(data)
    return run_studies(folder, source, options, title=title, seeds=seeds, workers=workers, say=say)
