"""A file that leads a browser to the live view, so that the token is in no command line.

Every user of a machine can read the command lines of all processes, and a browser is started with the address in its
own. So it is started with the name of a file that only this user can read, and the file holds the address. An address
that works only once would not do: somebody else could use it before the browser does.
"""

from __future__ import annotations

import html
import os
import shutil
import tempfile
import webbrowser
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

STAYS = 60.0  # seconds that the browser has to open the file
_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>graphfaith</title></head>
<body><p><a href="{url}">The live view</a></p></body></html>
"""


class Redirect:
    """A file that leads to ``url``, in a directory of its own; it is removed at the end of ``with Redirect(url):``."""

    def __init__(self, url: str) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="graphfaith-"))  # nobody else can enter it
        self.path = self._directory / "view.html"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(_PAGE.format(url=html.escape(url)))

    def open(self, visited: Event) -> bool:
        """Start the browser, and return whether that worked; the file is removed once the page was ``visited``.

        Some browsers keep this waiting until they are closed.
        """
        Thread(target=self._remove_after, args=(visited,), daemon=True).start()
        return webbrowser.open(self.path.as_uri())

    def _remove_after(self, visited: Event) -> None:
        visited.wait(STAYS)
        self.remove()

    def remove(self) -> None:
        """Remove the file, if that was not done yet."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Redirect:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
