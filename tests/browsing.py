"""A real browser for tests of pages: Chromium without a screen, and what a page asks for or complains of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    for name in (os.environ.get("GRAPHFAITH_CHROMIUM", NAMES[0]), *NAMES):
        found = shutil.which(name)
        if found is not None:
            return found
    raise RuntimeError("no Chromium on this machine: tests/install_browser.sh, which make test runs, installs it")


@contextmanager
def started() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # A container's root may not make Chromium's own sandbox; what is opened here was made here.
        options = ["--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"]
        yield playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", *options])


class Watched:
    """A page with everything that it asked for and complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))

    def open(self, path: Path) -> Page:
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".panel")
        return self.page


@contextmanager
def watched(browser: Browser, **options: object) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    try:
        yield Watched(context.new_page())
    finally:
        context.close()


def serious(page: Page) -> list[str]:
    """What axe-core finds serious or critical, as 'rule: element'."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
