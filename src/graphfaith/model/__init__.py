"""The model: what it is known to do, how it is called, and F(X, A), evaluated on many perturbed graphs at once."""
