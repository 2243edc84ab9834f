"""Explanations to look at: one layout, drawn as a figure, as a page, and in a notebook."""

from .figure import figure, show
from .page import Page, page

__all__ = ["Page", "figure", "page", "show"]
