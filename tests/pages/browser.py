"""Chromium without a window, driven over a pipe by its DevTools protocol: no package, no port."""

import json
import os
import select
import shutil
import subprocess
import time

SECONDS = 60  # for an answer; a loaded machine is slow


def find():
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    """One page at a time. `errors`: what its console and scripts complained of; `requests`: the addresses it asked for."""

    def __init__(self, program, folder):
        to_browser, ours = os.pipe()
        theirs_in, from_browser = os.pipe()

        def hand_over():
            os.dup2(to_browser, 63)
            os.dup2(from_browser, 64)
            os.dup2(63, 3)
            os.dup2(64, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", f"--user-data-dir={folder}", "--remote-debugging-pipe"],
            preexec_fn=hand_over, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.out, self.read_end = ours, theirs_in
        self.last, self.buffer, self.session = 0, b"", None
        self.errors, self.requests, self.events = [], [], []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(domain + ".enable")

    def close(self):
        self.process.terminate()
        self.process.wait()

    def message(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.read_end], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self.read_end, 1 << 16)
            if not chunk:
                raise ConnectionError("the browser ended")
            self.buffer += chunk
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def notice(self, event):
        method, values = event.get("method"), event.get("params", {})
        self.events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(values["exceptionDetails"].get("exception", {}).get("description", values["exceptionDetails"]["text"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(argument.get("value", argument.get("description"))) for argument in values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.errors.append(values["entry"]["text"])

    def send(self, method, **values):
        self.last += 1
        message = {"id": self.last, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message(SECONDS)
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer.get("result", {})
            self.notice(answer)

    def look(self, width, dark, height=900):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, address):
        self.errors, self.requests, self.events = [], [], []
        self.send("Page.navigate", url=address)
        while "Page.loadEventFired" not in self.events:
            self.notice(self.message(SECONDS))
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def ask(self, script):
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "a script failed"))
        return answer["result"].get("value")

    def key(self, name):
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27}
        more = {"text": name} if len(name) == 1 else {"windowsVirtualKeyCode": codes[name], "code": name}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=name, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name, **more)

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
