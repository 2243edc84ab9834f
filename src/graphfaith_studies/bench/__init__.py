"""``graphfaith bench``: how long explanations take, here and elsewhere, and how that grows (see docs/speed.md)."""
