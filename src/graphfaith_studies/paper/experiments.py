"""All experiments by name, in the order of the page of results."""

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
EXPERIMENTS: dict[str, Experiment] = {kind.name: kind() for kind in _ORDER}
