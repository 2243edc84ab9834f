"""What the site has beside the pages in docs: files of the repository's root, and notebooks as pages."""

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
_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./(?:[^)]+)\)")


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


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Name files of the repository that are not on the site, in place of linking them."""
    return _OUTSIDE.sub(r"`\1`", markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Name the search for those who hear the page; the theme gives its dialog no name."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')


def page_of(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as a page, with what its cells have printed and drawn, and the pictures by name."""
    title, *cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parts = ["".join(title["source"])]
    parts.append(f"This page is the notebook `docs/tutorials/{notebook.name}`, as it ran; the tests run it again.")
    pictures: dict[str, bytes] = {}
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            elif "image/png" in output.get("data", {}):
                name = f"{notebook.stem}-{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(output["data"]["image/png"]))
                parts.append(f"![What the cell above draws]({name})")
    return "\n\n".join(parts) + "\n", pictures
