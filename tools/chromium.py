"""Headless Chromium for pictures and tests of pages: one process, controlled through two pipes.

Source: Chrome DevTools Protocol, ``--remote-debugging-pipe``: JSON messages that end in a zero byte, to file
descriptor 3 and from 4. Pages are passed as text, so nothing is loaded from a network.

``python tools/chromium.py --install`` looks for the browser, which only tests of pages need, and installs
Debian's package if run as root.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def chromium() -> Path | None:
    """Return the browser that CHROMIUM names, or else the one on the path, or None."""
    named = os.environ.get("CHROMIUM")
    found = named or next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    return None if found is None else Path(found)


class Browser:
    """A browser that shows one page after another, as a context manager."""

    def __init__(self, program: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-")
        asked, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        command = [str(program), *_OPTIONS, f"--user-data-dir={self._folder.name}", "about:blank"]
        # The pipes have to be descriptors 3 and 4 of the browser.
        ends = f'exec "$@" 3<&{asked} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", ends, "bash", *command],
            pass_fds=(asked, answers),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        os.close(asked)
        os.close(answers)
        self._to = os.fdopen(to_browser, "wb", buffering=0)
        self._from = os.fdopen(from_browser, "rb")
        self._number = 0
        self._tab: str | None = None
        self._session: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(timeout=30)
        self._to.close()
        self._from.close()
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command of the protocol and return its result.

        Raises:
            RuntimeError: if the command fails, with the browser's reason.

        """
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def show(self, page: str, *, width: int, dark: bool = False, paper: bool = False) -> None:
        """Lay a page out at a width in pixels, in light or ``dark`` colours, for the screen or ``paper``.

        Each page gets a new tab, as the security policy of an earlier page would apply to it.
        """
        self._session = None
        if self._tab is not None:
            self.call("Target.closeTarget", targetId=self._tab)
        self._tab = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=self._tab, flatten=True)["sessionId"]
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="print" if paper else "screen", features=[scheme])
        frame = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        self.call("Page.setDocumentContent", frameId=frame, html=page)

    def value(self, expression: str) -> Any:
        """Return the awaited value of a JavaScript expression; raise RuntimeError if it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, *, most: int = 4000) -> bytes:
        """Return the page as PNG, at most ``most`` pixels high."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(answer["data"])

    def _message(self) -> bytes:
        found = bytearray()
        while (sign := self._from.read(1)) != b"\0":
            if not sign:
                raise RuntimeError("the browser has ended")
            found += sign
        return bytes(found)


def main() -> int:
    """Report how to get a missing browser. Return 0 in any case, as only some tests need one."""
    command = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
    if chromium() is None and "--install" in sys.argv[1:] and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=environment)
        subprocess.run(command, check=False, env=environment)
    if chromium() is None:
        print(
            "Tests of pages in a browser are skipped: Chromium is not on the path, and CHROMIUM does not name it. "
            f"Install it, for example: sudo apt-get update && sudo {' '.join(command)}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
