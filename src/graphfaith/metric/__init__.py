"""Figures of merit: how far an explanation follows the model, with an error bar."""
