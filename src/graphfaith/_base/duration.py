"""Times in words."""

from __future__ import annotations

_LONGEST = 359_999_999.0  # seconds; nobody waits for more, and an estimate may be infinite


def in_words(seconds: float) -> str:
    """Return a time as one would say it.

    >>> in_words(0.2), in_words(1), in_words(48.6), in_words(130), in_words(3700)
    ('less than a second', '1 second', '49 seconds', '2 minutes', '1 hour 2 minutes')
    """
    whole = round(max(0.0, min(seconds, _LONGEST)))
    if whole == 0:
        return "less than a second"
    if whole < 100:
        return _count(whole, "second")
    minutes = round(whole / 60)
    if minutes < 60:
        return _count(minutes, "minute")
    hours, minutes = divmod(minutes, 60)
    return _count(hours, "hour") + (f" {_count(minutes, 'minute')}" if minutes and hours < 10 else "")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' if number != 1 else ''}"
