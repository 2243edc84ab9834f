"""Make the pictures of the README and of docs/view.md: `make pictures`.

The figure is what `graphfaith demo` draws; the page and the live view are opened in Chromium and photographed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from graphfaith.data.models import load_trained
from graphfaith.facade import Subject
from graphfaith.view.live.desk import Desk, Question
from graphfaith.view.live.server import Server

LIVE_NODE = 665  # of Cora: a hundred nodes in reach, which fit in a picture
DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent / "tests"))
from browsing import started  # noqa: E402  (the tests know where the browser is)


@contextmanager
def opened(browser: Browser, address: str, scheme: str, size: tuple[int, int]) -> Iterator[Page]:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=1.5
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".panel")
    page.wait_for_timeout(300)
    yield page
    context.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        subprocess.run([sys.executable, "-m", "graphfaith", "demo", "--out", folder], check=True)
        shutil.copy(Path(folder) / "explanations.png", DOCS / "demo.png")
        with opened(browser, (Path(folder) / "explanations.html").as_uri(), "light", (1280, 980)) as page:
            page.screenshot(path=DOCS / "page.png")
        fit = load_trained("cora")
        desk = Desk(Subject(fit.model, fit.data), "cora")
        first = Question(LIVE_NODE, ("anchored-kec", "kec", "saliency"), "B(A,0.5)")
        with Server(desk, desk.start(first)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            with opened(browser, server.url, "dark", (1280, 980)) as page:
                page.screenshot(path=DOCS / "live.png")
            server.shutdown()
    print(f"made {', '.join(str(DOCS / name) for name in ('demo.png', 'page.png', 'live.png'))}")


if __name__ == "__main__":
    main()
