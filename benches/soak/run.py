#!/usr/bin/env python3
"""Runs six processes side by side for some minutes, and prints how memory, open files and disk grow.

    python3 benches/soak/run.py --harn target/release/harn --minutes 10

A daemon takes events, an agent loop continues one stored session, a program starts workers of its own, `harn worker` executes a run
per second, an MCP server and the portal answer requests. All models are mocks; it needs nothing but Python on Linux.

A slope is that of a straight line through the samples of the second half of the time. Above the limit per minute the exit code is 1;
runs of less than 5 minutes are too short for that. What conversations and runs store is data: its growth is printed without a limit.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

# The mock records its calls for `llm_mock_calls`, so the programs clear them.
PROGRAMS = {
    "daemon": """
let d = daemon_spawn({task: "Watch.", provider: "mock", persist_path: "${cwd()}/state", max_iterations: 100000000})
var n = 0
while true {
  n = n + 1
  daemon_trigger(d, {n: n})
  while daemon_snapshot(d).queued_event_count > 0 { sleep(5ms) }
  llm_mock_clear()
  sleep(50ms)
}
""",
    "loop": """
let s = agent_session_open("chat", {persist: true})
var n = 0
while true {
  n = n + 1
  agent_loop("Message ${n}", "You are brief.", {provider: "mock", session_id: s})
  llm_mock_clear()
  sleep(200ms)
}
""",
    "spawn": """
while true {
  let w = spawn_agent({task: "One", node: {mode: "llm", model_policy: {provider: "mock"}}})
  wait_agent(w)
  close_agent(w)
  llm_mock_clear()
  sleep(100ms)
}
""",
    "worker": 'append_file("log.txt", "${argv[0]}\\n")\n',
    "mcp": """
/** Adds two numbers. */
pub fn add(a: int, b: int) -> int { return a + b }
""",
}

# These processes store data by design: the growth of their directories is printed, but not limited.
STORES = {"loop", "worker", "spawn", "daemon"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Soak:
    def __init__(self, harn, folder):
        self.harn, self.folder = harn, Path(folder)
        self.mcp, self.portal = free_port(), free_port()
        self.processes, self.counts, self.failures = {}, {}, {}
        self.is_over = threading.Event()

    def start(self):
        commands = {
            "daemon": ["run", "main.harn"],
            "loop": ["run", "main.harn"],
            "spawn": ["run", "main.harn"],
            "worker": ["worker", "--concurrency", "2"],
            "mcp": ["serve", "mcp", "--transport", "http", "--bind", f"127.0.0.1:{self.mcp}", "main.harn"],
            "portal": ["portal", "--port", str(self.portal), "--open", "false", "--no-token", "--dir", "records"],
        }
        for name, command in commands.items():
            here = self.folder / name
            (here / "records").mkdir(parents=True)
            if name in PROGRAMS:
                (here / "main.harn").write_text(PROGRAMS[name])
            (here / "harn.toml").write_text('[runs]\nkeep = "10s"\n')
            out, err = (open(self.folder / f"{name}.{end}", "w") for end in ("out", "err"))
            self.processes[name] = subprocess.Popen(
                [self.harn, *command], cwd=here, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        for act in (self.submit, self.call, self.browse):
            threading.Thread(target=act, daemon=True).start()

    def every(self, seconds, name, act):
        number = 0
        while not self.is_over.wait(seconds):
            number += 1
            try:
                act(number)
                self.counts[name] = self.counts.get(name, 0) + 1
            except Exception as error:
                # The servers need a moment to start.
                if number > 5:
                    self.failures[name] = self.failures.get(name, 0) + 1
                    print(f"{name}: {error!r}"[:200], file=sys.stderr)

    def submit(self):
        def act(number):
            command = [self.harn, "submit", "main.harn", "--", str(number)]
            subprocess.run(command, cwd=self.folder / "worker", check=True, capture_output=True, stdin=subprocess.DEVNULL)

        self.every(1, "submit", act)

    def post(self, body, session=None):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if session:
            headers["Mcp-Session-Id"] = session
        request = urllib.request.Request(f"http://127.0.0.1:{self.mcp}/mcp", json.dumps(body).encode(), headers)
        answer = urllib.request.urlopen(request, timeout=10)
        return answer.headers.get("Mcp-Session-Id"), answer.read()

    def call(self):
        session = None

        def act(number):
            nonlocal session
            if session is None or number % 20 == 0:
                info = {"name": "soak", "version": "1"}
                params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
                session, _ = self.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
                self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
            params = {"name": "add", "arguments": {"a": number, "b": 2}}
            _, body = self.post({"jsonrpc": "2.0", "id": number + 1, "method": "tools/call", "params": params}, session)
            if b'"result"' not in body:
                raise ValueError(body[:200])

        self.every(0.2, "mcp", act)

    def browse(self):
        paths = ["/api/runs?page_size=50", "/api/meta", "/api/costs", "/"]
        act = lambda number: urllib.request.urlopen(f"http://127.0.0.1:{self.portal}{paths[number % 4]}", timeout=10).read()
        self.every(0.3, "portal", act)

    def sample(self):
        """Memory in KiB, open files and disk in KiB of each process that lives; None for one that has ended."""
        found = {}
        for name, process in self.processes.items():
            if process.poll() is not None:
                found[name] = None
                continue
            status = Path(f"/proc/{process.pid}/status").read_text()
            memory = int(status.split("VmRSS:")[1].split()[0])
            files = len(os.listdir(f"/proc/{process.pid}/fd"))
            found[name] = (memory, files, size(self.folder / name) / 1024)
        return found

    def stop(self):
        self.is_over.set()
        codes = {}
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.processes.items():
            try:
                codes[name] = process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = "killed"
        return codes


def size(folder):
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except FileNotFoundError:
            pass
    return total


def slope(points):
    """The growth per minute of a straight line through points of seconds and a figure."""
    count = len(points)
    if count < 2:
        return 0.0
    middle = [sum(axis) / count for axis in zip(*points)]
    over = sum((x - middle[0]) ** 2 for x, _ in points)
    return 60 * sum((x - middle[0]) * (y - middle[1]) for x, y in points) / over if over else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harn", default="target/release/harn")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--limit", type=float, default=100, help="KiB per minute")
    given = parser.parse_args()
    samples, wrong = [], []
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(str(Path(given.harn).resolve()), folder)
        soak.start()
        begin = time.monotonic()
        while time.monotonic() - begin < given.minutes * 60:
            time.sleep(min(5, given.minutes * 3))
            samples.append((time.monotonic() - begin, soak.sample()))
        ended = [name for name, process in soak.processes.items() if process.poll() is not None]
        codes = soak.stop()
        for name in ended:
            error = (Path(folder) / f"{name}.err").read_text()[-500:]
            wrong.append(f"{name} ended with exit code {codes[name]}: {error}")
    half = [sample for sample in samples if sample[0] >= samples[-1][0] / 2]
    print(f"{given.minutes:g} minutes, {len(half)} samples of the second half; actions: {soak.counts}")
    print(f"{'process':<8} {'memory KiB':>11} {'per minute':>11} {'files':>6} {'per minute':>11} {'disk KiB':>9} {'per minute':>11}")
    for name in soak.processes:
        series = [[(at, found[name][n]) for at, found in half if found[name]] for n in range(3)]
        last = samples[-1][1][name]
        if not last:
            continue
        memory, files, disk = map(slope, series)
        is_long = given.minutes >= 5
        print(f"{name:<8} {last[0]:>11,} {memory:>11.0f} {last[1]:>6} {files:>11.2f} {last[2]:>9,.0f} {disk:>11.0f}")
        if is_long and memory > given.limit:
            wrong.append(f"the memory of {name} grows by {memory:.0f} KiB per minute")
        if is_long and files > 1:
            wrong.append(f"{name} opens {files:.1f} files per minute")
        if is_long and disk > given.limit and name not in STORES:
            wrong.append(f"the files of {name} grow by {disk:.0f} KiB per minute")
    wrong += [f"{count} failed requests: {name}" for name, count in soak.failures.items()]
    for text in wrong:
        print(f"error: {text}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
