"""Names of the pieces of our own work that figures are made of: those of their limits and of their profiles."""

from __future__ import annotations

ON_PART = "KEC on the computation graph"
ONE = "KEC"
MANY = "KEC, 1500 samples"
FEATURES = "KEC, U(X,0.2r)"
SLOPE = "AnchoredKEC, slope alone"
ANCHORED = "AnchoredKEC"
ALL = "KEC, all nodes"
ALL_THREADS = "KEC, all nodes, 2 threads"
ALL_MASKS = "KEC, all nodes with their masks"
ALL_ANCHORED = "AnchoredKEC, all nodes"
LARGE_SWEEP = "KEC, all nodes of a large graph"
CITESEER = "KEC on CiteSeer"
MILLION = "KEC in 10^6 nodes"
BA_SHAPES = "KEC on BA-Shapes"
