"""Neighbourhoods of a graph, and the counter-based draws that make their samples depend on nothing but the seed."""
