"""What the site has beside the pages in docs: files of the repository's root, notebooks as pages, and folds."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
# Pages that are files of the root, where people and hosts look for them.
FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}
_UPWARDS = re.compile(r"\[(?P<words>[^\]]+)\]\((?P<up>(?:\.\./)+)[^)]+\)")
_CODE_OR_FOLD = re.compile(r"^(?P<fence>```+).*?^(?P=fence)$|^<details.*?^</details>$", flags=re.M | re.S)
_TABLE = re.compile(r"^\|.*\n\|[-:| ]+\|\n(?P<rows>(?:\|.*(?:\n|\Z))+)", flags=re.M)
_NUMBER = re.compile(r"[*≤≥<>=~ −-]*\d|–$")
LONG = 7  # rows; a longer table of numbers is behind a fold


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs."""
    for page, source in FROM_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace("](docs/", "](")
        for name, other in FROM_ROOT.items():
            text = text.replace(f"]({other})", f"]({name})")
        files.append(File.generated(config, page, content=text))
    for notebook in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        text, pictures = page_of(notebook)
        files.append(File.generated(config, f"tutorials/{notebook.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Name files of the repository that are not on the site, in place of linking them, and fold long tables."""
    return fold(without_outside(markdown, page.file.src_uri.count("/")))


def without_outside(markdown: str, depth: int) -> str:
    """Name what a page in a folder of ``depth`` below docs links outside of docs, and leave its other links.

    >>> without_outside("[models](../models.md), [a file](../../examples/forecast.py)", 1)
    '[models](../models.md), `a file`'
    """
    return _UPWARDS.sub(lambda link: link.group() if link["up"].count("/") <= depth else f"`{link['words']}`", markdown)


def fold(markdown: str) -> str:
    """Put every table of numbers with more than LONG rows behind a fold; what is code or folded already stays.

    >>> print(fold("## Speed\\n\\n| a | b |\\n|---|---|\\n" + 8 * "| x | 1 |\\n").split("|")[0].strip())
    ## Speed
    <BLANKLINE>
    <details markdown>
    <summary>Table: Speed (8 rows)</summary>
    """
    kept = [found.span() for found in _CODE_OR_FOLD.finditer(markdown)]

    def folded(table: re.Match[str]) -> str:
        rows = table["rows"].splitlines()
        cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]
        numbers = sum(_NUMBER.match(cell) is not None for cell in cells)
        if len(rows) <= LONG or 2 * numbers < len(cells) or any(a <= table.start() < b for a, b in kept):
            return table.group()
        first = table.group().split("|")[1].strip()
        summary = f"<summary>Table: {_name(markdown[: table.start()], first)} ({len(rows)} rows)</summary>"
        return f"<details markdown>\n{summary}\n\n{table.group()}\n</details>\n"

    return _TABLE.sub(folded, markdown)


def _name(above: str, first: str) -> str:
    """What a table is called: the short line above it, or else its heading, and what its first column is about."""
    *_, before, last = ["", *re.sub(r"<!--.*?-->", "", above, flags=re.S).strip().split("\n\n")]
    # A line between two tables may belong to the upper one.
    if len(last) > 90 or last.startswith(("#", "`", "-", "|", "<", "!", "    ")) or before.startswith("|"):
        *_, last = re.findall(r"^#+ (.*)$", above, flags=re.M)
        last += f", {first}" if "(" in first else ""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", last).translate(str.maketrans("", "", "*`")).rstrip(":.").strip()


def on_post_page(output: str, **_: Any) -> str:
    """Name the search for those who hear the page; the theme gives its dialog no name."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')


def page_of(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as a page, with what its cells have printed and drawn, and the pictures by name."""
    title, *cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parts = ["".join(title["source"])]
    parts.append(
        f"This page is [a notebook]({notebook.name}), to download; it is shown as it ran, and the tests run it again."
    )
    pictures: dict[str, bytes] = {}
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                parts.append(_printed("".join(output["text"]).rstrip()))
            elif "image/png" in output.get("data", {}):
                name = f"{notebook.stem}-{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(output["data"]["image/png"]))
                parts.append(f"![What the cell above draws]({name})")
    return "\n\n".join(parts) + "\n", pictures


def _printed(text: str) -> str:
    """What a cell printed; sentences are broken where the page ends, and the columns of a table are not."""
    table = re.search(r"^\s*[|┏┡├+]|\S {3,}\S", text, flags=re.M)
    return f"``` {{ .text {'' if table else '.sentences '}}}\n{text}\n```"
