"""The part of a run that holds the rows of one block: a Parquet file that says what it belongs to."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._base.files import write_parts
from .extra import import_extra

PLAN, BLOCK, PIECES, FAILED = b"graphfaith.plan", b"graphfaith.block", b"graphfaith.pieces", b"graphfaith.failed"
DRAFTS, PARTS = "_tmp", "explanations"
STATUS, FAILURE = "status", "failed"


@dataclass(frozen=True)
class Found:
    """What a part says of itself: its rows, how many of them failed, and how its block was cut into pieces."""

    rows: int
    failed: int
    pieces: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """The file of one block of a plan, in the folder of a run. It is small enough to be sent to a worker."""

    folder: Path
    plan: str
    block: int
    rows: int

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.folder / PARTS / f"part-{self.block:08}.parquet"

    def write(self, table: Any, pieces: tuple[int, ...] = ()) -> Found:
        """Write the rows of the block: to a draft, which is flushed and then renamed.

        ``pieces`` are the numbers of rows that were explained together, if it was not the whole block.
        """
        assert table.num_rows == self.rows, f"block {self.block} has {self.rows} nodes, not {table.num_rows}"
        parquet = import_extra("pyarrow.parquet")
        found = Found(table.num_rows, count_failed(table), pieces or (self.rows,))
        about = {
            PLAN: self.plan.encode(),
            BLOCK: str(self.block).encode(),
            PIECES: ",".join(map(str, found.pieces)).encode(),
            FAILED: str(found.failed).encode(),
        }
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **about})
        content = io.BytesIO()
        # Each page has a checksum, because a damaged number would be another number.
        parquet.write_table(table, content, compression="zstd", write_page_checksum=True)
        write_parts(self.path, (content.getvalue(),), drafts=self.folder / DRAFTS)
        return found

    def read_footer(self) -> Found | None:
        """Return what the part says of itself; None if it is damaged, or the part of another plan or block."""
        arrow, parquet = import_extra("pyarrow"), import_extra("pyarrow.parquet")
        try:
            footer = parquet.read_metadata(self.path)
            about = footer.metadata or {}
            pieces = tuple(int(size) for size in about[PIECES].split(b","))
            found = Found(footer.num_rows, int(about[FAILED]), pieces)
            own = about[PLAN] == self.plan.encode() and int(about[BLOCK]) == self.block
        except (arrow.ArrowException, OSError, KeyError, ValueError):
            return None
        return found if own and found.rows == self.rows == sum(pieces) else None


def count_failed(table: Any) -> int:
    """Return how many rows of a table say that their node could not be explained."""
    return sum(status == FAILURE for status in table.column(STATUS).to_pylist())
