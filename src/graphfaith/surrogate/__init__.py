"""Difference models p, whose change approximates F's change in a neighbourhood, and the least squares that fit them."""
