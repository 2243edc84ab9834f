"""Explanations of graph neural networks, with a number and an error bar that say how far to trust them."""

__version__ = "0.1.0"
