"""Difference models p, which follow F's change in a neighbourhood, and the mathematics that fits them."""
