"""The arena: every explainer of the judge, on data and truths that others have made."""
