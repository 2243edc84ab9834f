"""Files of published data sets: read from a folder of the user's, the cache or the network, after a check of their sum.

The checksum of every file is pinned in the module that parses it, so that nothing is parsed that was not published.
"""

from __future__ import annotations

import hashlib
import http.client
import logging
import os
import ssl
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from .._base.errors import DataError
from .._base.files import write_file

TIMEOUT_SECONDS = 60

_LARGEST = 64 * 2**20  # bytes; of a longer file, which is not a published one, no more is read

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Published:
    """A published file.

    Attributes:
        name: its name.
        folder: its folder in `GRAPHFAITH_DATA`.
        cached: its folder in the cache.
        sha256: its checksum.
        source: the address of the folder it is published in, which ends in a slash; None if there is no such address.
    """

    name: str
    folder: str
    cached: str
    sha256: str
    source: str | None

    def read(self) -> bytes:
        """Return the content of the file, after checking that its checksum is the published one.

        If the environment variable `GRAPHFAITH_DATA` names a folder, the file is read from there, and nothing is
        written to it. Otherwise it is read from the cache folder, to which it is downloaded if it is missing.
        """
        given = os.environ.get("GRAPHFAITH_DATA")
        if given:
            path = Path(given) / self.folder / self.name
            return self.check(_read(path, self.source), path, self._remedy)
        if self.source is None:
            raise DataError(
                f"{self.name} has no public address to download it from: set GRAPHFAITH_DATA to a folder that has "
                f"{self.folder}/{self.name} (sha256 {self.sha256})"
            )
        path = cache_folder() / self.cached / self.name
        if os.path.isfile(path):
            return self.check(_read(path, self.source), path, "delete it, and the next run downloads it again")
        content = _download(self.source + self.name)
        self.check(content, self.source + self.name, "the download was cut short or altered: try again")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
        except OSError as error:
            log.warning("cannot store %s (%s): the next run will download it again", path, error)
        return content

    @property
    def _remedy(self) -> str:
        if self.source is None:
            return "replace it with the file of that sum"
        return f"replace it with {self.source}{self.name}, or unset GRAPHFAITH_DATA"

    def check(self, content: bytes, origin: Path | str, remedy: str) -> bytes:
        """Return ``content`` if it is the published one; the error says where it is from and what would be right."""
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise DataError(
                f"{origin} is not the published {self.name}: its sha256 should be {self.sha256} and is {digest}; "
                f"{remedy}"
            )
        return content


def cache_folder() -> Path:
    """Return the folder for files that graphfaith can compute or download again; it need not exist."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "graphfaith"


def _read(path: Path, source: str | None) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        remedy = (
            "set GRAPHFAITH_DATA to a folder that has it"
            if source is None
            else "unset GRAPHFAITH_DATA to download missing files to the cache"
        )
        raise DataError(f"cannot read {path} ({error.strerror}); {remedy}") from error


def _download(url: str) -> bytes:
    verified_tls = ssl.create_default_context()
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS, context=verified_tls) as response:
            content: bytes = response.read(_LARGEST)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(
            f"cannot download {url} ({error}); check the network, or set GRAPHFAITH_DATA to a folder that has the file"
        ) from error
    return content
