"""What is written at the nodes, and in which order: first where the weight is."""

from __future__ import annotations

import numpy as np

from .layout import Layout
from .positions import Array


def compute_priority(layout: Layout) -> Array:
    """Return the priorities [n] of the labels: the largest |score| at each node, averaged over the panels.

    The average prevents that one method with high scores everywhere determines the labels alone.
    """
    total = np.zeros(len(layout.nodes))
    for panel in layout.panels:
        strength = np.maximum(np.abs(panel.nodes), np.abs(panel.loops))
        for end in layout.edges.T:
            np.maximum.at(strength, end, np.abs(panel.edges))
        total += strength
    return total / len(layout.panels)


def order_labels(layout: Layout) -> list[int]:
    """Return the nodes in the order in which labels are tried: explained ones, drawn ones by weight, then others."""
    explained = {place for panel in layout.panels for place in panel.explained}
    priority, visible = compute_priority(layout), layout.visible
    nodes = range(len(layout.nodes))
    return sorted(nodes, key=lambda i: (i not in explained, not visible[i], -priority[i], i))


def name_nodes(layout: Layout) -> list[str]:
    """Return the texts at the nodes: names, or elements of atoms without names of their own."""
    if layout.kinds is None:
        return list(layout.names)
    said = {node for panel in layout.panels for nodes in panel.spoken for node in nodes}
    named = zip(layout.names, layout.nodes.tolist(), layout.kinds, strict=True)
    # An atom of which something is said has its number, so that it can be found.
    return [name if kind is None or name != f"{kind}{node}" or node in said else kind for name, node, kind in named]
