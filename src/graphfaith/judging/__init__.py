"""The judge: figures of merit of anybody's explainers on the same predictions, the same samples, with error bars."""

from .hearing import judge
from .measures import MEASURES
from .peers import PEERS
from .verdict import Difference, Row, Verdict

__all__ = ["MEASURES", "PEERS", "Difference", "Row", "Verdict", "judge"]
