"""What is written at the nodes, and in which order: first where the weight is."""

from __future__ import annotations

from .layout import Layout
from .panel import weigh_nodes


def order_labels(layout: Layout) -> list[int]:
    """Return the nodes in the order in which labels are tried: explained ones, drawn ones by weight, then others."""
    explained = {place for panel in layout.panels for place in panel.explained}
    priority, visible = weigh_nodes(layout.panels, layout.edges), layout.visible
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
