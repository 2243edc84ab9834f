"""``graphfaith bench`` measures how long explanations take, here and in other libraries, and how that time grows.

The results are discussed in docs/speed.md.
"""
