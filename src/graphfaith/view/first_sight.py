"""What a figure draws of a layout: the nodes and edges that are in no fold, and one mark for each fold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .layout import Layout


def at_first_sight(layout: Layout) -> Layout:
    """Return the layout without the members of folds; the folds stay, as marks at the nodes they belong to.

    Scores of a kind that nothing was measured of are left out beside others that were: in a picture, they would look
    as good.
    """
    are_drawn = [panel.is_drawn("edges") for panel in layout.panels]
    folds = tuple(
        replace(fold, sums=tuple(total if drawn else None for total, drawn in zip(fold.sums, are_drawn, strict=True)))
        for fold in layout.folds
    )
    layout = replace(layout, panels=tuple(panel.drawn for panel in layout.panels), folds=folds)
    if not layout.folds:
        return layout
    nodes, edges = np.flatnonzero(layout.visible), np.flatnonzero(layout.visible_edges)
    number = np.full(len(layout.nodes), -1)
    number[nodes] = np.arange(len(nodes))
    panels = tuple(
        replace(
            panel,
            explained=tuple(int(number[place]) for place in panel.explained),
            nodes=panel.nodes[nodes],
            edges=panel.edges[edges],
            loops=panel.loops[nodes],
        )
        for panel in layout.panels
    )
    return replace(
        layout,
        nodes=layout.nodes[nodes],
        names=tuple(layout.names[node] for node in nodes),
        positions=layout.positions[nodes],
        relevance=layout.relevance[nodes],
        edges=number[layout.edges[edges]],
        panels=panels,
        stars=tuple(int(number[place]) for place in layout.stars),
        hops=layout.hops[nodes],
        folds=tuple(replace(fold, parent=int(number[fold.parent]), members=(), edges=()) for fold in layout.folds),
        kinds=None if layout.kinds is None else tuple(layout.kinds[node] for node in nodes),
        type_of=tuple(layout.type_of[node] for node in nodes) if layout.types else (),
        orders=None if layout.orders is None else tuple(layout.orders[edge] for edge in edges),
    )
