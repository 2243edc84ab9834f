"""BATADAL: the monitor of `graphfaith_studies.plant` on C-Town, a water network that others simulated and attacked.

The data set was made for a competition (Taormina et al. 2018): hourly readings of 43 tags, a year without attacks and
two recordings with seven attacks each.
"""
