"""Explanations as objects: their scores, how faithful they are, how they are read, named, cut, saved and loaded."""
