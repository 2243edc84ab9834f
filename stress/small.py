"""The command line of the library with smaller long commands: the same code, on fewer nodes and epochs.

    python stress/small.py reproduce table1 --quick --workers 2 --out results

``reproduce --quick`` takes the nodes of a toy, ``swat run --quick`` an hour of the plant and two attacks, and the
data sets' models are trained for few epochs.
"""

from __future__ import annotations

import graphfaith_studies.paper.request
import graphfaith_studies.swat.run
from graphfaith.cli.application import main
from graphfaith.data import models
from graphfaith_studies.paper.experiment import TOY
from graphfaith_studies.swat.study import Size


def shrink() -> None:
    """Make the long commands small; worker processes import this module too, and so do the same."""
    graphfaith_studies.paper.request.QUICK = TOY
    graphfaith_studies.swat.run.QUICK = Size(
        normal_days=0.1,
        held_out_days=0.05,
        quiet_days=0.05,
        attack_days=0.1,
        attacks=(1, 2),
        epochs=4,
        compared_epochs=2,
        samples=20,
        test_samples=20,
    )
    models.schedule_for = lambda _: models.Schedule(60, 0.01, 0.0)


shrink()

if __name__ == "__main__":
    main()
