"""The metric: how far an explanation follows the model, with an error bar."""
