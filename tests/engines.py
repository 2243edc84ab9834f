"""Two browser engines behind one small interface, so that the same test runs in both: Chromium and Firefox.

Chromium is driven by Playwright. Debian's Firefox speaks WebDriver BiDi by itself: commands and events are JSON in a
websocket, and nothing else is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from playwright.sync_api import Browser
from websockets.sync.client import ClientConnection, connect

NAMES = ("firefox-esr", "firefox")
# What keeps a new profile from asking questions and from talking to Mozilla while a test runs.
PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.newtabpage.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}
KEYS = {
    "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Delete": "\ue017",
    "Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004",
}  # fmt: skip


class Reader(Protocol):
    """A person at a page: it opens, looks, points and types. What the page asks for and complains of is kept."""

    requests: list[str]
    complaints: list[str]

    def open(self, url: str) -> None: ...
    def look(self, expression: str) -> Any: ...
    def click(self, x: float, y: float) -> None: ...
    def press(self, key: str) -> None: ...
    def resize(self, width: int, height: int) -> None: ...


def wait(reader: Reader, expression: str, seconds: float = 10.0) -> Any:
    """Return the value of an expression once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := reader.look(expression)):
        assert time.monotonic() < deadline, f"not so after {seconds} s: {expression}"
        time.sleep(0.02)
    return found


class ChromiumReader:
    """A page of Chromium."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))

    def open(self, url: str) -> None:
        self.page.goto("about:blank")  # An address that differs after # alone would not load the page anew.
        self.page.goto(url)

    def look(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def click(self, x: float, y: float) -> None:
        self.page.mouse.click(x, y)

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)

    def resize(self, width: int, height: int) -> None:
        self.page.set_viewport_size({"width": width, "height": height})

    def close(self) -> None:
        self.context.close()


class Firefox:
    """A Firefox without a screen, and the websocket to it."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket, self._last = socket, 0
        self.readers: dict[str, FirefoxReader] = {}
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come before it go to the pages that they are of."""
        self._last += 1
        self.socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=30))
            if message.get("id") == self._last:
                break
            if message.get("type") == "event":
                self._hear(message["method"], message["params"])
        if message["type"] != "success":
            raise RuntimeError(f"{method}: {message.get('error')}: {message.get('message')}")
        result: dict[str, Any] = message["result"]
        return result

    def _hear(self, event: str, params: dict[str, Any]) -> None:
        context = params.get("context") or params.get("source", {}).get("context")
        reader = self.readers.get(context)
        if reader is None:
            return
        if event == "log.entryAdded":
            reader.complaints.append(f"{params['level']}: {params['text']}")
        else:
            reader.requests.append(params["request"]["url"])


class FirefoxReader:
    """A page of Firefox."""

    def __init__(self, firefox: Firefox) -> None:
        self.firefox = firefox
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.context: str = firefox.ask("browsingContext.create", type="tab")["context"]
        firefox.readers[self.context] = self
        self.resize(1280, 900)

    def open(self, url: str) -> None:
        for address in ("about:blank", url):
            self.firefox.ask("browsingContext.navigate", context=self.context, url=address, wait="complete")

    def look(self, expression: str) -> Any:
        # What JSON can say is returned as JSON, so that objects need no translation. A promise is waited for, as in
        # Chromium.
        text = f"(async () => JSON.stringify([await ({expression})]))()"
        options = {"target": {"context": self.context}, "awaitPromise": True, "userActivation": False}
        found = self.firefox.ask("script.evaluate", expression=text, **options)
        if found["type"] != "success":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return json.loads(found["result"]["value"])[0]

    def click(self, x: float, y: float) -> None:
        steps = [
            {"type": "pointerMove", "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act("pointer", steps)

    def press(self, key: str) -> None:
        value = KEYS.get(key, key)
        self._act("key", [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}])

    def _act(self, kind: str, steps: list[dict[str, Any]]) -> None:
        actions = [{"type": kind, "id": kind, "actions": steps}]
        self.firefox.ask("input.performActions", context=self.context, actions=actions)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height}
        self.firefox.ask("browsingContext.setViewport", context=self.context, viewport=size)

    def close(self) -> None:
        self.firefox.ask("browsingContext.close", context=self.context)
        self.firefox.readers.pop(self.context)


def find_firefox() -> str:
    for name in (os.environ.get("GRAPHFAITH_FIREFOX", NAMES[0]), *NAMES):
        found = shutil.which(name)
        if found is not None:
            return found
    raise RuntimeError("no Firefox on this machine: tests/install_browser.sh, which make test runs, installs it")


@contextmanager
def started_firefox() -> Iterator[Firefox]:
    """A Firefox with a profile of its own, which ends with the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
        Path(folder, "user.js").write_text("\n".join(lines))
        command = [find_firefox(), "--headless", "--no-remote", "--remote-debugging-port=0", "--profile", folder]
        environment = {**os.environ, "MOZ_HEADLESS": "1", "HOME": folder}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, env=environment, **quiet) as process:
            try:
                found = Path(folder, "WebDriverBiDiServer.json")  # Firefox writes it once it listens.
                deadline = time.monotonic() + 60
                while not (found.exists() and found.read_text().strip().endswith("}")):
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError("Firefox does not listen")
                    time.sleep(0.05)
                where = json.loads(found.read_text())
                address = f"ws://{where['ws_host']}:{where['ws_port']}/session"
                with connect(address, max_size=None, compression=None) as socket:
                    yield Firefox(socket)
            finally:
                process.terminate()
