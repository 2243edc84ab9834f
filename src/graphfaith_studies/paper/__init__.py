"""The reproduction of the paper: one module per table or figure, each an experiment that can be interrupted."""
