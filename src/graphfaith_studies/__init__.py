"""Studies built on graphfaith: the paper's experiments, a water-treatment plant, a benchmark and further tasks."""
