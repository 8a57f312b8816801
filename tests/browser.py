"""A headless Chromium on a pipe: the part of its DevTools protocol that tests of a page need."""

import base64
import fcntl
import json
import os
import select
import subprocess
import time

OPTIONS = [
    "--headless=new",
    "--remote-debugging-pipe",
    # Its sandbox does not work for root; these tests show it pages of a gateway of their own.
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
]
# For an answer of the browser.
PATIENCE_S = 60


class Browser:
    """A page of a browser of its own."""

    def __init__(self, folder):
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        # The browser reads descriptor 3 and writes 4. Its ends are first copied above these
        # numbers, so that neither is overwritten before it is moved.
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]
        shell = f'exec 3<&{high[0]} 4>&{high[1]}; exec chromium "$@"'
        command = ["bash", "-c", shell, "chromium", *OPTIONS, f"--user-data-dir={folder}/profile", "about:blank"]
        with open(f"{folder}/chromium.log", "w") as log:
            self.process = subprocess.Popen(command, pass_fds=high, stdout=log, stderr=log)
        for end in (commands, answers, *high):
            os.close(end)
        self.rest, self.number, self.session, self.events = b"", 0, None, []
        self.session = self.call("Target.attachToTarget", targetId=self.first_page(), flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def first_page(self):
        """The page that the browser opens; it answers commands before it has one."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for target in self.call("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    return target["targetId"]
            time.sleep(0.1)
        raise AssertionError(f"the browser has no page after {PATIENCE_S} s; see chromium.log")

    def call(self, method, **parameters):
        """Sends a command and waits for its result; events that come meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def receive(self):
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self.rest:
            readable, _, _ = select.select([self.answers], [], [], max(0, end - time.monotonic()))
            assert readable, f"the browser is silent for {PATIENCE_S} s; see chromium.log"
            more = os.read(self.answers, 1 << 16)
            assert more, "the browser has ended; see chromium.log"
            self.rest += more
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait_until(self, what, expression, patience=60):
        """Waits until an expression holds; returns how long that took, in seconds."""
        began = time.monotonic()
        while not self.evaluate(expression):
            if time.monotonic() - began > patience:
                raise AssertionError(f"{what} is not so after {patience} s: {self.evaluate('document.body.innerText')}")
            time.sleep(0.02)
        return time.monotonic() - began

    def size(self, width, height, is_phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone)

    def is_dark(self, is_dark):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path):
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))

    def requests(self):
        """The addresses that the page has asked for."""
        sent = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return {request["request"]["url"] for request in sent}

    def faults(self):
        """Exceptions of the script, and what the browser has blocked or warned of."""
        found = [event["params"] for event in self.events if event["method"] == "Runtime.exceptionThrown"]
        logged = [event["params"]["entry"] for event in self.events if event["method"] == "Log.entryAdded"]
        return found + [entry for entry in logged if entry["source"] != "network"]

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
