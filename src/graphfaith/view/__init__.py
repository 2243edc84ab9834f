"""Explanations to look at: one layout, drawn as a figure (a page and a notebook view share it)."""

from graphfaith.view.figure import figure, show

__all__ = ["figure", "show"]
