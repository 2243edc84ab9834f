"""Explanations to look at: one layout, drawn as a figure, as a page, and in a notebook."""

from graphfaith.view.figure import figure, show
from graphfaith.view.page import Page, page

__all__ = ["Page", "figure", "page", "show"]
