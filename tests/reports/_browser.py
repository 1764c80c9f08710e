"""A real browser without a screen, where one is installed: one process for all pages that a run looks at."""

import base64
import json
import os
import select
import shutil
import subprocess

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
]  # fmt: skip
_SECONDS = 60  # without a word: it hangs


class Browser:
    """Speaks the DevTools protocol over the pipes that the browser reads as 3 and writes as 4."""

    def __init__(self, folder):
        read, self._out = os.pipe()
        self._in, write = os.pipe()
        self._process = subprocess.Popen(
            [BROWSER, *_FLAGS, f"--user-data-dir={folder}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=lambda: _become(read, write),
        )  # fmt: skip
        os.close(read)
        os.close(write)
        self._n_asked, self._rest, self._session = 0, b"", {}
        self.errors = []  # that the page shown wrote to its console, or raised
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for part in ("Page", "Runtime", "Log"):
            self._ask(f"{part}.enable")

    def show(self, page, width=1280, height=900):
        """Open a page in a window of that size, and wait until it is there."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        self.errors.clear()
        self._ask("Page.navigate", url=page.as_uri())
        while self._heard().get("method") != "Page.loadEventFired":
            pass

    def value(self, script):
        """Value of an expression in the page that is shown."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"]["value"]

    def width(self):
        """Pixels that the page needs from left to right."""
        return self.value("document.documentElement.scrollWidth")

    def picture(self):
        """Bytes of a PNG file of the window."""
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])

    def close(self):
        """End the process."""
        self._session = {}
        self._ask("Browser.close")
        self._process.wait(_SECONDS)
        os.close(self._in)
        os.close(self._out)

    def _ask(self, method, **params):
        self._n_asked += 1
        message = {"id": self._n_asked, "method": method, "params": params, **self._session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (heard := self._heard()).get("id") != self._n_asked:
            pass
        assert "error" not in heard, heard
        return heard["result"]

    def _heard(self):
        """The next answer or event."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], _SECONDS)
            piece = os.read(self._in, 1 << 16) if ready else b""
            if not piece:
                raise TimeoutError(f"{BROWSER} says nothing any more.")
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        heard = json.loads(message)
        self.errors += _errors_in(heard.get("method"), heard.get("params", {}))
        return heard


def _errors_in(event, about):
    """What an event says of an error of the page."""
    if event == "Runtime.exceptionThrown":
        yield str(about["exceptionDetails"])
    if event == "Runtime.consoleAPICalled" and about["type"] in ("error", "assert"):
        yield str(about["args"])
    if event == "Log.entryAdded" and about["entry"]["level"] == "error":
        yield about["entry"]["text"]


def _become(read, write):
    """Where the browser looks for its pipes; moved up first, lest one lies where the other has to go."""
    import fcntl

    for number, pipe in enumerate([fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (read, write)], start=3):
        os.dup2(pipe, number)
