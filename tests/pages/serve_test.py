#!/usr/bin/env python3
"""`trireme serve` asked as a browser asks, and as nobody should: serve_test.py PROGRAM [--moves N [--words "JOB"]].

Answers are those of `plan`; other hosts' names and origins, huge and slow requests are refused or ended, many connections do not keep
others out, and SIGINT ends it with exit code 0. --moves N moves the sliders N times at random and prints how long the answers took.
"""

import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

WORDS = "--model llama-3.1-8b --cluster dgx-h100x2 --seq 4096 --global-batch 64"
faults = []


def expect(true, text):
    if not true:
        faults.append(text)


class Served:
    def __init__(self, program, words=WORDS):
        self.process = subprocess.Popen([program, "serve", *words.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[0]
        self.port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", self.address).group(1))

    def ask(self, path="/answer", method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, text, reply.headers

    def raw(self, data, seconds=120):
        """What comes back until the server ends the connection."""
        answer = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            try:
                connection.sendall(data)
                while chunk := connection.recv(1 << 16):
                    answer += chunk
            except ConnectionError:
                pass
        return answer

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


def asks_and_answers(served, program):
    status, page, headers = served.ask("/")
    expect(status == 200 and page.count("type=\"range\"") == 5, f"the page: {status}, {page[:200]}")
    expect("default-src 'none'" in headers["Content-Security-Policy"] and "Access-Control-Allow-Origin" not in headers, "headers of the page")
    expect(served.ask("/serve.js")[0] == 200, "the script")
    for query, more in (("", ""), ("?seq=8192&gpus=32", "--seq 8192 --cluster dgx-h100x4"), ("?nvlink=0.25x", None)):
        status, text, _ = served.ask("/answer" + query)
        expect(status == 200 and "best layout" in text, f"{query}: {status}, {text[:200]}")
        if more is not None:
            words = f"{WORDS} {more}" if "--seq" not in more else f"--model llama-3.1-8b --global-batch 64 {more}"
            plan = json.loads(subprocess.run([program, "plan", *words.split(), "--json"], capture_output=True, text=True, check=False).stdout)
            seconds = plan["best"]["time"]["step_seconds"]
            shown = f"{seconds:.3f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"
            expect(shown in text, f"{query}: plan says {shown}, the page {text[:400]}")
    expect(served.ask("/answer", "HEAD")[:2] == (200, ""), "HEAD")


def refuses(served):
    own = f"127.0.0.1:{served.port}"
    for what, status, path, method, body, headers in (
            ("another Host (DNS rebinding)", 403, "/answer", "GET", None, {"Host": f"evil.example:{served.port}"}),
            ("a Host without the port", 403, "/answer", "GET", None, {"Host": "127.0.0.1"}),
            ("another origin", 403, "/answer", "GET", None, {"Origin": "http://evil.example"}),
            ("another port's origin", 403, "/answer", "GET", None, {"Origin": "http://127.0.0.1:1"}),
            ("the null origin", 403, "/answer", "GET", None, {"Origin": "null"}),
            ("another site's page", 403, "/answer", "GET", None, {"Sec-Fetch-Site": "cross-site"}),
            ("POST", 405, "/answer", "POST", "seq=1", {}),
            ("a huge body", 413, "/answer", "POST", "x" * 100_000, {}),
            ("a long header", 431, "/answer", "GET", None, {"X-Long": "x" * 20_000}),
            ("a path that is none", 404, "/../etc/passwd", "GET", None, {}),
            ("a slider that is none", 400, "/answer?speed=1", "GET", None, {}),
            ("a value off the slider", 400, "/answer?gpus=999999999", "GET", None, {}),
            ("markup", 400, "/answer?<script>=1", "GET", None, {}),
            ("an address of 30,000 letters", 431, "/answer?seq=" + "1" * 30_000, "GET", None, {})):
        try:
            got, text, _ = served.ask(path, method, body, **headers)
        except (ConnectionError, http.client.HTTPException) as error:  # ended while the body was still on its way
            got, text = (status if what == "a huge body" else 0), str(error)
        expect(got == status and len(text) < 1000, f"{what}: {got} instead of {status}: {text[:200]}")
    expect(b" 403 " in served.raw(f"GET / HTTP/1.1\r\nHost: {own}\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode()), "two Hosts")
    expect(b" 403 " in served.raw(b"GET / HTTP/1.0\r\n\r\n"), "no Host")
    expect(b" 400 " in served.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 not http\r\n\r\n"), "a TLS greeting")


def stays_up(served):
    """Slow and silent clients are ended by the server; as many as there are, others get in again afterwards."""
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(100)]
    silent[0].sendall(b"GET / HT")
    for connection in silent:
        connection.settimeout(120)
        try:
            expect(connection.recv(1) == b"", "a silent client got something")
        except ConnectionError:
            pass
        connection.close()
    expect(served.ask("/answer")[0] == 200, "after silent clients it does not answer")


def loopback_only(served):
    with open("/proc/net/tcp", encoding="ascii") as file:
        listening = [line.split()[1] for line in file if line.split()[3] == "0A"]
    mine = [where for where in listening if int(where.split(":")[1], 16) == served.port]
    expect(mine == [f"0100007F:{served.port:04X}"], f"it listens on {mine}")


def time_moves(served, moves):
    page = served.ask("/")[1]
    sliders = {name: values.split() for name, values in re.findall(r'id="(\w+)" min.*?data-values="([^"]*)"', page)}
    at = {name: int(place) for name, place in re.findall(r'id="(\w+)" min="0" max="\d+" value="(\d+)"', page)}
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
    took, worked, random_moves = [], [], random.Random(1)

    def processor():
        with open(f"/proc/{served.process.pid}/stat", encoding="ascii") as file:
            return sum(map(int, file.read().split()[13:15])) * 1e3 / os.sysconf("SC_CLK_TCK")

    for _ in range(moves):
        name = random_moves.choice(sorted(sliders))
        at[name] = min(max(at[name] + random_moves.choice((-1, 1)), 0), len(sliders[name]) - 1)
        begin, before = time.perf_counter(), processor()
        connection.request("GET", "/answer?" + "&".join(f"{key}={values[at[key]]}" for key, values in sliders.items()))
        connection.getresponse().read()
        took.append(1e3 * (time.perf_counter() - begin))
        worked.append(processor() - before)
    took.sort()
    worked.sort()
    print(f"{moves} moves: median {took[moves // 2]:.1f} ms, 95 % within {took[int(0.95 * moves)]:.1f} ms, "
          f"{100 * sum(t < 100 for t in took) / moves:.1f} % under 100 ms, the longest {took[-1]:.0f} ms; "
          f"of the processor 95 % within {worked[int(0.95 * moves)]:.0f} ms on all cores together")


def main():
    program = os.path.abspath(sys.argv[1])
    served = Served(program, sys.argv[sys.argv.index("--words") + 1] if "--words" in sys.argv else WORDS)
    try:
        if "--moves" in sys.argv:
            time_moves(served, int(sys.argv[sys.argv.index("--moves") + 1]))
        else:
            asks_and_answers(served, program)
            refuses(served)
            stays_up(served)
            loopback_only(served)
            taken = subprocess.run([program, "serve", *WORDS.split(), "--port", str(served.port)], capture_output=True, text=True, check=False)
            expect(taken.returncode == 2 and taken.stderr.startswith("trireme: --port") and taken.stderr.count("\n") == 1, f"a port that is taken: {taken.stderr}")
    finally:
        expect(served.end() == 0, "SIGINT does not end it with 0")
    for fault in faults:
        print(fault)
    print(f"serve: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
