"""Any plant: its tags and neighbours from a file, recordings, a monitor that raises alarms, and their causes.

`Plant.named` and `read_plant` give a plant. `load` reads a recording of it from a file.
"""

from .loader import load
from .plant import Kind, Plant, Tag, read_plant
from .recording import Gap, Recording

__all__ = ["Gap", "Kind", "Plant", "Recording", "Tag", "load", "read_plant"]
