"""Studies that use graphfaith as a user would: the paper, the water-treatment plant, the benchmark, further tasks."""
