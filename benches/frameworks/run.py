#!/usr/bin/env python3
"""Measures one agent in Harn and in agent frameworks, against one loopback server.

    make bench-frameworks

README.md next to this file says what is measured and how. The frameworks are installed below the target directory; one that
cannot be installed is reported as skipped.
"""

import argparse
import ctypes
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
TURNS = 200
CROWD = 100
CROWD_TURNS = 10
CROWD_DELAY_MS = 100
# The shortest measurement is repeated in each round.
STARTS = 3
LIMIT_S = 120

# Name: agents, turns, delay of a reply in ms, measurements per round.
SCENARIOS = {
    "start": (1, 1, 0, STARTS),
    "loop": (1, TURNS, 0, 1),
    "crowd": (CROWD, CROWD_TURNS, CROWD_DELAY_MS, 1),
}


class Skip(Exception):
    """A contender cannot be installed; the message says why."""


def install(command, **options):
    """Runs an installer. The last line that it prints is the reason for a failure."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    except FileNotFoundError:
        raise Skip(f"{command[0]} is not installed") from None
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if "error" in line.lower()] or done.stdout.splitlines()
        raise Skip(f"{Path(command[0]).name} failed: {lines[0] if lines else done.returncode}")


def up_to_date(folder, sources):
    """Reports whether `folder` was installed from these files, and a function that notes that it was."""
    text = "".join(source.read_text() for source in sources) + sys.version
    mark = folder / "installed-from.txt"
    return mark.exists() and mark.read_text() == text, lambda: mark.write_text(text)


class Python:
    """A framework from PyPI, in a virtual environment of its own."""

    def __init__(self, name, package, folder):
        self.name, self.package, self.folder = name, package, HERE / folder

    def prepare(self, target):
        venv = target / self.folder.name
        self.python = venv / "bin" / "python"
        requirements = self.folder / "requirements.txt"
        done, note = up_to_date(venv, [requirements])
        if not done:
            shutil.rmtree(venv, ignore_errors=True)
            install([sys.executable, "-m", "venv", venv])
            install([self.python, "-m", "pip", "install", "--quiet", "-r", requirements])
            note()
        pins = dict(line.split("==") for line in requirements.read_text().split())
        self.version = f"{pins[self.package]}, Python {platform.python_version()}"

    def command(self, url, agents, turns):
        return [self.python, self.folder / "agent.py", url, agents, turns]


class Node:
    """A framework from npm, with the pinned Node.js."""

    def __init__(self, name, package, folder):
        self.name, self.package, self.folder = name, package, HERE / folder

    def prepare(self, target):
        home = target / self.folder.name
        home.mkdir(parents=True, exist_ok=True)
        sources = [self.folder / file for file in ("package.json", "package-lock.json")]
        done, note = up_to_date(home, sources)
        if not done:
            for file in sources:
                shutil.copy(file, home)
            install(["npm", "ci", "--no-audit", "--no-fund"], cwd=home)
            note()
        # Modules are resolved relative to the program.
        self.program = shutil.copy(self.folder / "agent.mjs", home)
        self.node = home / "node_modules" / ".bin" / "node"
        pins = json.loads(sources[0].read_text())["dependencies"]
        self.version = f"{pins[self.package]}, Node.js {pins['node']}"

    def command(self, url, agents, turns):
        return [self.node, self.program, url, agents, turns]


class Rust:
    """A framework from crates.io, in a program built here."""

    def __init__(self, name, package, folder):
        self.name, self.package, self.folder = name, package, HERE / folder

    def prepare(self, target):
        self.program = build(self.folder, target)
        lock = (self.folder / "Cargo.lock").read_text()
        version = lock.partition(f'name = "{self.package}"\nversion = "')[2].partition('"')[0]
        compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True, cwd=self.folder).stdout.split()[1]
        self.version = f"{version}, Rust {compiler}"

    def command(self, url, agents, turns):
        return [self.program, url, agents, turns]


def build(folder, target):
    """Builds a Rust program of this directory and returns its path."""
    out = target / folder.name
    install(["cargo", "build", "--release", "--locked", "--quiet", "--target-dir", out], cwd=folder)
    return out / "release" / f"bench-{folder.name}"


class Harn:
    name = "Harn"

    def __init__(self, harn):
        self.harn = Path(harn).resolve()

    def prepare(self, _target):
        self.version = subprocess.run([self.harn, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]

    def command(self, _url, agents, turns):
        return [self.harn, "run", HERE / "harn" / "agent.harn", "--", agents, turns]


def environment(url, home):
    """The variables of a contender: nothing of the caller's, and no tracing to outside."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "LANG": "C.UTF-8",
        "LOCAL_LLM_BASE_URL": url.removesuffix("/v1"),
        "LANGSMITH_TRACING": "false",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "NODE_ENV": "production",
    }


class Server:
    """The model server, a process of its own."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"
        self.count = 0

    def plan(self, **what):
        self.count += 1
        name = f"run-{self.count}"
        urllib.request.urlopen(f"{self.url}/{name}/plan", json.dumps(what).encode()).close()
        return f"{self.url}/{name}"

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def adopt_orphans():
    """Makes this process the parent of processes whose parent ends (prctl PR_SET_CHILD_SUBREAPER)."""
    if platform.system() != "Linux" or ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) != 0:
        raise SystemExit("bench-frameworks needs Linux: it reads CPU time and peak memory from the kernel")


def run(contender, server, scenario):
    """Runs a contender once. Returns what it took, or raises RuntimeError when it did not do the work.

    A process starts with the peak memory of the process that started it, and this one is larger than some contenders. So a
    shell starts the contender and ends.
    """
    agents, turns, delay_ms, _ = SCENARIOS[scenario]
    url = server.plan(agents=agents, turns=turns, delay_ms=delay_ms)
    expected = [f"Agent {number} saw {turns} places." for number in range(agents)]
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryFile() as errors:
        command = [str(part) for part in contender.command(f"{url}/v1", agents, turns)]
        served = server.cpu()
        begin = time.perf_counter()
        reader, writer = os.pipe()
        shell = subprocess.Popen(
            ["/bin/sh", "-c", f'"$@" & echo "$!" >/dev/fd/{writer}', "sh", *command], pass_fds=[writer],
            cwd=home, env=environment(f"{url}/v1", home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
        os.close(writer)
        with open(reader) as told:
            pid = int(told.readline())
        shell.wait()
        watch = threading.Timer(LIMIT_S, os.kill, (pid, signal.SIGKILL))
        watch.start()
        answers, wall = [], None
        for line in shell.stdout:
            answers.append(line.decode().rstrip())
            if len(answers) == agents:
                wall = time.perf_counter() - begin
        _, status, usage = os.wait4(pid, 0)
        watch.cancel()
        shell.stdout.close()
        result = json.load(urllib.request.urlopen(f"{url}/result"))
        errors.seek(0)
        problems = result["errors"] or errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    code = os.waitstatus_to_exitcode(status)
    if code != 0 or answers != expected or result["errors"] or result["requests"] != agents * (turns + 1):
        raise RuntimeError(
            f"{contender.name}, {scenario}: exit code {code}, {len(answers)} of {agents} answers,"
            f" {result['requests']} of {agents * (turns + 1)} requests: {problems[0] if problems else 'no error message'}"
        )
    assert result["finished"] == agents
    return {
        "wall_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mib": usage.ru_maxrss / 1024,
        "server_cpu_s": server.cpu() - served,
        "request_bytes": result["bytes"],
        "connections": result["connections"],
        "open_at_once": result["most_open"],
    }


def spread(values):
    """Median, least and most of some measurements."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def figures(took):
    """The figures of a contender from its measurements."""

    def of(scenario, field):
        return [one[field] for one in took[scenario]]

    # Startup is measured separately: the CPU time of a turn is that of the turns after the first.
    started = statistics.median(of("start", "cpu_s"))
    found = {
        "start_ms": spread([1000 * value for value in of("start", "wall_s")]),
        "start_cpu_ms": spread([1000 * value for value in of("start", "cpu_s")]),
        "turn_cpu_ms": spread([1000 * (value - started) / (TURNS - 1) for value in of("loop", "cpu_s")]),
        "loop_peak_mib": spread(of("loop", "peak_mib")),
        "loop_wall_s": spread(of("loop", "wall_s")),
        "crowd_wall_s": spread(of("crowd", "wall_s")),
        "crowd_cpu_s": spread(of("crowd", "cpu_s")),
        "crowd_peak_mib": spread(of("crowd", "peak_mib")),
    }
    found = {name: {key: round(value, 3) for key, value in one.items()} for name, one in found.items()}
    # The server's measurements.
    for scenario in ("loop", "crowd"):
        for field in ("server_cpu_s", "request_bytes", "connections", "open_at_once"):
            found[f"{scenario}_{field}"] = round(statistics.median(of(scenario, field)), 3)
    return found


COLUMNS = [
    ("first answer, ms", "start_ms", "{:.0f}"),
    ("CPU per turn, ms", "turn_cpu_ms", "{:.2f}"),
    ("peak, MiB", "loop_peak_mib", "{:.0f}"),
    (f"{CROWD} agents: wall, s", "crowd_wall_s", "{:.2f}"),
    ("CPU, s", "crowd_cpu_s", "{:.2f}"),
    ("peak, MiB", "crowd_peak_mib", "{:.0f}"),
]


def table(results):
    """The results as a Markdown table: medians, and the range of the rounds."""
    rows = [["", *(title for title, _, _ in COLUMNS)]]
    for name, found in results.items():
        cells = [f"{name} ({found['version']})"]
        for _, field, form in COLUMNS:
            low, middle, high = (form.format(found[field][key]) for key in ("min", "median", "max"))
            cells.append(f"{middle} ({low}–{high})" if low != high else middle)
        rows.append(cells)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [" | ".join(cell.ljust(width) if not column else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(row, widths))) for row in rows]  # fmt: skip
    rule = "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])])
    return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])])


def processor():
    text = Path("/proc/cpuinfo").read_text()
    return text.partition("model name")[2].partition(":")[2].partition("\n")[0].strip() or platform.machine()


def main():
    target = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target")).resolve()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--harn", default=target / "release" / "harn", help="the harn binary (default: the release build)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--only", metavar="NAMES", help="names of contenders, separated by commas")
    parser.add_argument("--json", metavar="FILE", help="also write the results as JSON")
    options = parser.parse_args()

    adopt_orphans()
    target = target / "frameworks"
    target.mkdir(parents=True, exist_ok=True)
    wanted = [
        Harn(options.harn),
        Rust("rig", "rig", "rig"),
        Node("AI SDK", "ai", "ai-sdk"),
        Python("OpenAI Agents SDK", "openai-agents", "openai-agents"),
        Python("Pydantic AI", "pydantic-ai-slim", "pydantic-ai"),
        Python("LangGraph", "langgraph", "langgraph"),
    ]
    names = [contender.name for contender in wanted]
    only = options.only.split(",") if options.only else names
    if unknown := set(only) - set(names):
        parser.error(f"unknown contender: {', '.join(unknown)} (expected some of: {', '.join(names)})")

    contenders, skipped = [], {}
    for contender in wanted:
        if contender.name not in only:
            continue
        try:
            contender.prepare(target)
            contenders.append(contender)
        except Skip as reason:
            skipped[contender.name] = str(reason)
            print(f"skipped: {contender.name}: {reason}", flush=True)

    server = Server(build(HERE / "server", target))
    # A first run without a measurement fills the file cache, and Python compiles its modules.
    for contender in list(contenders):
        try:
            run(contender, server, "start")
        except RuntimeError as error:
            if isinstance(contender, Harn):
                raise
            skipped[contender.name] = str(error)
            print(f"skipped: {error}", flush=True)
            contenders.remove(contender)
    took = {contender.name: {scenario: [] for scenario in SCENARIOS} for contender in contenders}
    load = os.getloadavg()[0]
    begin = time.perf_counter()
    for number in range(options.rounds):
        # Each round begins with another contender.
        order = contenders[number % len(contenders):] + contenders[: number % len(contenders)]
        for scenario, (_, _, _, times) in SCENARIOS.items():
            for contender in order * times:
                took[contender.name][scenario].append(run(contender, server, scenario))
    seconds = time.perf_counter() - begin
    results = {
        contender.name: {"version": contender.version, **figures(took[contender.name])} for contender in contenders
    }

    agents = f"{CROWD} agents at once, {CROWD_TURNS} turns each, replies after {CROWD_DELAY_MS} ms"
    print(f"One loop of {TURNS} turns; {agents}.")
    print(f"Medians of {options.rounds} rounds (least–most), {processor()}, {os.cpu_count()} cores.\n")
    print(table(results))
    print(f"\n{seconds:.0f} s; load average before the first round: {load:.2f}")
    if options.json:
        whole = {
            "processor": processor(), "cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}",
            "rounds": options.rounds, "load_before": round(load, 2), "loop_turns": TURNS,
            "crowd": {"agents": CROWD, "turns": CROWD_TURNS, "delay_ms": CROWD_DELAY_MS},
            "results": results, "skipped": skipped,
        }  # fmt: skip
        Path(options.json).parent.mkdir(parents=True, exist_ok=True)
        Path(options.json).write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, Skip) as error:
        raise SystemExit(f"bench-frameworks: {error}") from None
