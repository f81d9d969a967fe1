"""Headless Chromium, driven as a person would: open a page, click, drag, type, drop a file, and look at what happens.

Commands and events of the DevTools protocol go through two pipes, as JSON that ends with a zero byte: nothing but the
browser is needed.
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
    "--remote-debugging-pipe",
]
PATIENCE = 120  # seconds: for any one answer, on a busy machine


class Browser:
    """One tab.  `errors` are exceptions and messages of the console, `requests` the addresses that were asked for.

    flags    more of Chromium's, such as those of a camera that is not there
    """

    def __init__(self, *flags):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._out = os.pipe()
        self._in, events = os.pipe()

        def as_the_browser_expects():
            """Commands come from 3, events go to 4; by way of other numbers, as either may be in use."""
            high = [os.dup2(fd, fd + 100) for fd in (commands, events)]
            for fd, number in zip(high, (3, 4), strict=True):
                os.dup2(fd, number)
                os.set_inheritable(number, True)

        self._process = subprocess.Popen(
            [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={self._folder.name}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=as_the_browser_expects,
        )
        os.close(commands)
        os.close(events)
        self._number, self._left, self._session = 0, b"", None
        self.errors, self.requests = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.call(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(OSError):
            os.close(self._out)
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        self._folder.cleanup()

    def call(self, method, **options):
        """The result of a command; what happens meanwhile is noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": options}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def _next(self):
        while b"\0" not in self._left:
            ready, _, _ = select.select([self._in], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            more = os.read(self._in, 1 << 20)
            assert more, "the browser has ended"
            self._left += more
        text, _, self._left = self._left.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method, what):
        if method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.errors.append(what["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            self.errors.append(str(what["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True

    def open(self, page, width=1280, height=900, dark=False):
        """Load a file, at this width, and wait until all of it is there."""
        self.errors, self.requests, self._loaded = [], [], False
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=Path(page).resolve().as_uri())
        while not self._loaded:
            self._next()

    def run(self, script):
        """The value of an expression in the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, condition):
        until = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < until, condition
            time.sleep(0.05)

    # As a person would.

    def place(self, selector):
        """The middle of an element, after scrolling it into view."""
        return self.run(
            f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: "center", behavior: "instant"}});
            const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()"""
        )

    def click(self, selector):
        self._press(*self.place(selector))
        self._release(*self.place(selector))

    def drag(self, selector, across):
        """From the middle of an element to the right, by so many pixels."""
        x, y = self.place(selector)
        self._press(x, y)
        for part in (0.5, 1):
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + part * across, y=y, button="left", buttons=1)
        self._release(x + across, y)

    def _press(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", buttons=1, clickCount=1)

    def _release(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)

    def key(self, name, code):
        for kind in ("keyDown", "keyUp"):
            text = {"text": " "} if name == " " and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **text)

    def choose_file(self, selector, path):
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)

    def screenshot(self, path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        Path(path).write_bytes(base64.b64decode(taken["data"]))


MEASURE = """(() => {
  const root = document.documentElement;
  const sizes = selector => [...document.querySelectorAll(selector)].map(e => {
    const box = e.getBoundingClientRect(); return [Math.round(box.width), Math.round(box.height)];
  });
  return {
    width: innerWidth, scroll: root.scrollWidth, client: root.clientWidth,
    tables: sizes("table"), pictures: sizes("img[src^='data:image/png']"), charts: sizes("img[src^='data:image/svg']"),
    broken: [...document.images].filter(i => !i.complete || !i.naturalWidth).length,
    beyond: [...document.querySelectorAll("body *")].filter(e => !e.closest(".box, .skip, svg, .hidden, nav ul")
      && e.getBoundingClientRect().right > root.clientWidth + 1).map(e => e.outerHTML.slice(0, 80)),
  };
})()"""


def look_at(page, width):
    """How wide a page is, what is visible and what went wrong, at any width, even a phone's."""
    with contextlib.closing(Browser()) as browser:
        browser.open(page, width)
        eager = "document.querySelectorAll('img[loading]').forEach(i => { i.loading = 'eager'; })"
        browser.run(eager)
        browser.run("Promise.allSettled([...document.images].map(i => i.decode()))")
        outside = [u for u in browser.requests if not u.startswith(("data:", "blob:", Path(page).resolve().as_uri()))]
        return browser.run(MEASURE) | {"errors": browser.errors, "outside": outside}
