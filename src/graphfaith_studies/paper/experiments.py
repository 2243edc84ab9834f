"""Every experiment by its name, in the order of the results."""

from __future__ import annotations

from .efficiency import Efficiency
from .experiment import Experiment
from .illustration import Illustration
from .levels import Levels
from .parameters import Parameters
from .propositions import Propositions
from .samples import Samples
from .tables import Table1, Table2, Table3
from .temperature import Temperature

_ORDER: tuple[type[Experiment], ...] = (
    Table1,
    Table2,
    Table3,
    Efficiency,
    Parameters,
    Temperature,
    Samples,
    Illustration,
    Propositions,
    Levels,
)
EXPERIMENTS: dict[str, Experiment] = {one.name: one() for one in _ORDER}
