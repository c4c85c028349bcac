"""A real browser for tests, without a window and without a network, driven through a pipe."""

import base64
import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from child import PATIENCE_S, next_of
from rqps.engines.sources.programs import installed, private

NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chrome", "chromium-browser")
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{tree}/usr/share/fonts</dir>
  <include ignore_missing="yes">{tree}/etc/fonts/conf.d</include>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # it needs root's setuid bit or user namespaces, and only pages of our own are looked at
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)
LAUNCH = "import os, sys; a = sys.argv; os.dup2(int(a[1]), 3); os.dup2(int(a[2]), 4); os.execv(a[3], a[3:])"
DESKTOP, PHONE = 1280, 390

each_width = pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["desktop", "phone"])


def fonts_of(tree: Path) -> dict[str, str]:
    """The variable that leads a browser of the cache to the fonts beside it."""
    file = tree / "fonts.conf"
    # Where they really are: the cache may be seen through a link that will be gone.
    text = FONTS.format(tree=tree.resolve())
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    return {"FONTCONFIG_FILE": str(file)}


class Navigated(Exception):
    """A link led on to another page before an expression of this one had its value."""


class Browser:
    """Chromium's own protocol: one JSON message, one zero byte."""

    def __init__(self) -> None:
        fix = "install Chromium or Chrome (Debian: apt install chromium) and try again"
        # Ubuntu's chromium-browser is only a script that wants to install something else.
        tool = installed(*NAMES) or private("chromium", "usr/lib/chromium/chromium", print, fix, fonts_of)
        self._profile = tempfile.TemporaryDirectory(prefix="rqps-browser-", ignore_cleanup_errors=True)
        profile = f"--user-data-dir={self._profile.name}"
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # It takes 3 and 4, which may be anybody's here.
        high = [fcntl.fcntl(file, fcntl.F_DUPFD, 20) for file in (theirs_in, theirs_out)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, high), *tool.argv, *FLAGS, profile],
            env={**os.environ, **tool.environment},
            pass_fds=high,
            stderr=subprocess.DEVNULL,
        )
        for file in (theirs_in, theirs_out, *high):
            os.close(file)
        self._in, self._out = os.fdopen(ours_in, "rb", buffering=0), os.fdopen(ours_out, "wb", buffering=0)
        self._numbers = itertools.count(1)
        self._rest = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._out.close()  # that makes it end
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._in.close()
        self._profile.cleanup()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            text = self._next()
            if text.get("id") == number:
                if "navigated" in text.get("error", {}).get("message", ""):
                    raise Navigated
                assert "error" not in text, f"{method}: {text['error']}"
                answer: dict[str, Any] = text["result"]
                return answer
            self.events.append(text)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = next_of(self._in.fileno(), 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        text: dict[str, Any] = json.loads(message)
        return text


FAINT = """(() => {
  const inverts = getComputedStyle(document.documentElement).filter !== "none";  // as page.css does in the dark
  const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const over = ([r, g, b, a = 1], below) => [r, g, b].map((part, i) => part * a + below[i] * (1 - a));
  const turned = ([r, g, b]) => [-0.574 * r + 1.43 * g + 0.144 * b, 0.426 * r + 0.43 * g + 0.144 * b,
    0.426 * r + 1.43 * g - 0.856 * b].map((part) => Math.min(255, Math.max(0, part)));
  const shown = (colour) => (inverts ? turned(colour.map((part) => 255 * 0.92 - 0.84 * part)) : colour);
  const linear = (part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const weights = [0.2126, 0.7152, 0.0722];
  const light = (colour) => shown(colour).reduce((sum, part, i) => sum + linear(part) * weights[i], 0.05);
  const style = (node) => getComputedStyle(node);
  const parent = (node) => node.parentElement ?? node.getRootNode().host;
  const papers = new Map([[undefined, [255, 255, 255]]]);
  const paper = (node) => {
    if (!papers.has(node)) papers.set(node, over(parts(style(node).backgroundColor), paper(parent(node))));
    return papers.get(node);
  };
  const opacity = (node) => (node instanceof SVGElement ? style(node).opacity * opacity(node.parentElement) : 1);
  const painted = (node) => {  // its fill: red, green, blue and opacity; nothing if it has none
    const { fill, fillOpacity } = style(node);
    if (fill === "none") return null;
    const [r, g, b, a = 1] = parts(fill);
    return [r, g, b, a * fillOpacity * opacity(node)];
  };
  const shapes = new Map();
  const shapesOf = (drawing) => shapes.get(drawing) ?? shapes.set(drawing,
    [...drawing.querySelectorAll("path, rect, circle")].filter((shape) => shape.checkVisibility() && painted(shape))
      .map((shape) => ({ shape, box: shape.getBoundingClientRect(), inverse: shape.getScreenCTM().inverse() })),
  ).get(drawing);
  const middle = ({ left, right, top, bottom }) => new DOMPoint((left + right) / 2, (top + bottom) / 2);
  const under = (text, drawing) => {  // the paper and all shapes below the middle of a text, in their order
    const at = middle(text.getBoundingClientRect());
    const isUnder = ({ shape, box, inverse }) => box.left <= at.x && at.x <= box.right && box.top <= at.y
      && at.y <= box.bottom && shape.isPointInFill(at.matrixTransform(inverse))
      && shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING;
    const below = shapesOf(drawing).filter(isUnder);
    return below.reduce((sum, { shape }) => over(painted(shape), sum), paper(drawing));
  };
  const faint = new Set();
  const look = (root) => {
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const { data, parentElement: node } = texts.currentNode;
      if (!data.trim() || node.closest("script, style, option, :disabled") || !node.checkVisibility()) continue;
      const drawing = node.closest("svg"), colour = drawing ? painted(node) : parts(style(node).color);
      if (!colour || colour[3] === 0) continue;
      const below = drawing ? under(node, drawing) : paper(node);
      const [least, most] = [light(over(colour, below)), light(below)].sort((a, b) => a - b);
      const contrast = most / least;
      if (contrast < 4.5) faint.add(`${node.tagName} ${colour} on ${below}: ${contrast.toFixed(2)}`);
    }
  };
  look(document.body);
  for (const { shadowRoot } of document.querySelectorAll("*")) if (shadowRoot) look(shadowRoot);
  return [...faint];
})()"""


@dataclass
class Tab:
    """One opened page and what it did."""

    browser: Browser
    session: str
    seen: list[dict[str, Any]] = field(default_factory=list)

    def run(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def wait_for(self, expression: str) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with suppress(Navigated):
                if value := self.run(expression):
                    return value
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.05)

    def go_to(self, address: str, width: int) -> None:
        """Loads an address in place of the present page, on a screen of this width."""
        self.call("Page.navigate", url="about:blank")  # or the present page would draw its charts for that width
        self.wait_for("location.protocol === 'about:'")
        self.resize(width)
        self.call("Page.navigate", url=address)
        self.wait_for("document.readyState === 'complete' && location.protocol !== 'about:'")

    def resize(self, width: int) -> None:
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)

    def wait_for_charts(self) -> int:
        """The number of charts, once each is a drawing and no picture stands in for one."""
        self.wait_for("document.documentElement.dataset.charts")
        done, _, every = self.run("document.documentElement.dataset.charts").partition(" of ")
        assert done == every
        assert self.run("document.querySelectorAll('.chart img').length") == 0
        return int(every)

    def must_fit(self, width: int) -> None:
        """The page is not wider; what is wider scrolls inside its own box."""
        assert self.run("document.documentElement.scrollWidth") <= width
        loose = (
            "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, .table, pre, svg')"
            f" && e.getBoundingClientRect().right > {width} + 1).map(e => e.outerHTML.slice(0, 80))"
        )
        assert self.run(loose) == []

    def faint(self, scheme: str) -> list[str]:
        """Visible texts, in charts too, with a contrast below 4.5; `scheme` is `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        result: list[str] = self.run(FAINT)
        return result

    def box(self, element: str) -> dict[str, float]:
        """The place of an element, scrolled into sight."""
        self.run(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        result: dict[str, float] = self.run(
            f"(({{x, y, width, height}}) => ({{x, y, width, height}}))({element}.getBoundingClientRect())"
        )
        return result

    def mouse(self, x: float, y: float, *kinds: str, **more: Any) -> None:
        for kind in kinds:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def requests(self) -> list[str]:
        """Addresses that the page asked for, beside what lies inside it."""
        events = self._events("Network.requestWillBeSent")
        return [url for event in events if not (url := event["request"]["url"]).startswith(("data:", "blob:"))]

    def complaints(self) -> list[str]:
        """Exceptions and errors in the console."""
        thrown = [str(event["exceptionDetails"]) for event in self._events("Runtime.exceptionThrown")]
        lines = [
            str(e["args"]) for e in self._events("Runtime.consoleAPICalled") if e["type"] in ("error", "warning")
        ]
        logged = [str(e["entry"]) for e in self._events("Log.entryAdded") if e["entry"]["level"] == "error"]
        return thrown + lines + logged

    def screenshot(self, file: Path, height: int = 16_000) -> Path:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height), "scale": 1}
        taken = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(taken["data"]))
        return file

    def _events(self, method: str) -> list[dict[str, Any]]:
        mine = [event for event in self.browser.events if event.get("sessionId") == self.session]
        return [event["params"] for event in mine if event["method"] == method]


@contextmanager
def opened(browser: Browser, page: Path, width: int, *, scripts: bool = True, fragment: str = "") -> Iterator[Tab]:
    """A page in a tab of its own, loaded."""
    with visited(browser, page.resolve().as_uri() + fragment, width, scripts=scripts) as tab:
        yield tab


@contextmanager
def visited(browser: Browser, address: str, width: int, *, scripts: bool = True) -> Iterator[Tab]:
    """An address in a tab of its own, loaded."""
    with empty(browser, scripts=scripts) as tab:
        tab.go_to(address, width)
        yield tab


@contextmanager
def empty(browser: Browser, *, scripts: bool = True) -> Iterator[Tab]:
    """A tab for one page after the other: a new one takes 0.2 s of CPU."""
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    tab = Tab(browser, browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
    for domain in ("Page", "Runtime", "Network", "Log"):
        tab.call(f"{domain}.enable")
    tab.call("Emulation.setScriptExecutionDisabled", value=not scripts)
    try:
        yield tab
    finally:
        browser.call("Target.closeTarget", targetId=target)
