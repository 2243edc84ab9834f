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
UNSET = "unset GRAPHFAITH_DATA"

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
        source: the address of the folder it is published in, which ends in a slash.
    """

    name: str
    folder: str
    cached: str
    sha256: str
    source: str

    def read(self) -> bytes:
        """Return the content of the file, after checking that its checksum is the published one.

        If the environment variable `GRAPHFAITH_DATA` names a folder, the file is read from there, and nothing is
        written to it. Otherwise it is read from the cache folder, to which it is downloaded if it is missing.
        """
        given = os.environ.get("GRAPHFAITH_DATA")
        if given:
            path = Path(given) / self.folder / self.name
            return self.check(read_given(path), path, f"replace it with {self.source}{self.name}, or {UNSET}")
        path = cache_folder() / self.cached / self.name
        if os.path.isfile(path):
            return self.check(read_given(path), path, "delete it, and the next run downloads it again")
        content = _download(self.source + self.name)
        self.check(content, self.source + self.name, "the download was cut short or altered: try again")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
        except OSError as error:
            log.warning("cannot store %s (%s): the next run will download it again", path, error)
        return content

    def check(self, content: bytes, origin: Path | str, remedy: str) -> bytes:
        """Return ``content`` if it is the published one; the error says where it is from and what would be right."""
        return check_sum(content, self.name, self.sha256, origin, remedy)


def check_sum(content: bytes, name: str, sha256: str, origin: Path | str, remedy: str) -> bytes:
    """Return ``content`` if its checksum is ``sha256``; the error says where it is from and what would be right."""
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise DataError(
            f"{origin} is not the published {name}: its sha256 should be {sha256} and is {digest}; {remedy}"
        )
    return content


def cache_folder() -> Path:
    """Return the folder for files that graphfaith can compute or download again; it need not exist.

    Example:
        >>> cache_folder().name
        'graphfaith'
    """
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "graphfaith"


def read_given(path: Path) -> bytes:
    """Return the content of a file of the user's, no more of it than the largest published one has."""
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise DataError(
            f"cannot read {path} ({error.strerror}); {UNSET} to download missing files to the cache"
        ) from error


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
