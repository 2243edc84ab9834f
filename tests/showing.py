"""How a page writes numbers."""

from __future__ import annotations


def as_shown(value: float) -> str:
    """The text of a score: its sign and three digits, as ``short`` in parts.js writes it.

    >>> as_shown(-0.12345), as_shown(0.0), as_shown(12), as_shown(0.0002)
    ('\u22120.123', '0', '+12.0', '+2.00e\u22124')
    """
    if value == 0:
        return "0"
    size = abs(value)
    if 1e-3 <= size < 1e5:
        text = f"{value:#.3g}".rstrip(".")
    else:
        digits, power = f"{value:.2e}".split("e")
        text = f"{digits}e{'-' if int(power) < 0 else '+'}{abs(int(power))}"
    return ("+" if value > 0 else "") + text.replace("-", "\u2212")
