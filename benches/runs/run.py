#!/usr/bin/env python3
"""What durable runs cost: the journal per effect, agent turns with and without it, resuming, and the size.

    python3 benches/runs/run.py --harn target/release/harn

It needs nothing but Python. A model server runs on this machine, in a process of its own. Each figure is the best of --rounds
runs, because other work on the machine only ever adds time. `effects`, `turns`, `resume`, `others` name groups.

`others` puts the same agents in LangGraph (with its SQLite checkpointer) and in DBOS beside Harn's, one after the other, with the same
model server. It needs --others, which installs them from PyPI into an environment below the target folder. With --database, an
empty database of PostgreSQL that may be written into, Harn and DBOS are measured on that, too.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ASKING = 'provider: "local", model: "gpt-4o", tool_format: "native", llm_retries: 0, timeout: 600, stream: false'


def program(folder, text):
    (Path(folder) / "main.harn").write_text(text)


def run(harn, folder, args, code=0, environment=None):
    """Runs harn; gives the seconds and the processor time that it took."""
    begin = used()
    environment = {**os.environ, **(environment or {})}
    ran = subprocess.run([harn, *args], cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    took = [now - then for now, then in zip(used(), begin)]
    if ran.returncode != code:
        raise SystemExit(f"harn {' '.join(args)}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return took


def used():
    """The time, and the processor time of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), usage.ru_utime + usage.ru_stime


def best(rounds, harn, text, args, code=0, environment=None):
    """The shortest time of some runs, each in a folder of its own, its processor time, and the bytes of its store."""
    took, size = [], 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            program(folder, text)
            took.append(run(harn, folder, [*args, "main.harn"], code, environment))
            size = stored(folder)
    return *min(took), size


def stored(folder):
    return sum(path.stat().st_size for path in Path(folder, ".harn").glob("state.db*")) if Path(folder, ".harn").exists() else 0


DURABLE = ["run", "--durable", "--run-id", "r"]


def effects(harn, rounds):
    print("the journal, per effect                  effects   plain s  durable s   each     bytes each")
    cases = [
        ("buffered: a look for a file", 50_000, 'for n in 1 to {n} {{ file_exists("none") }}'),
        ("random numbers, of one draw", 50_000, "for n in 1 to {n} {{ random_int(1, 9) }}"),
        ("buffered: a file is read", 20_000, 'write_file("a", "text")\nfor n in 1 to {n} {{ read_file("a") }}'),
        ("with commit: a file is appended to", 1_000, 'for n in 1 to {n} {{ append_file("a", "line") }}'),
        ("with commit: a program is run", 200, 'for n in 1 to {n} {{ exec("true") }}'),
    ]
    for name, count, text in cases:
        text = text.format(n=count)
        plain, _, _ = best(rounds, harn, text, ["run"])
        durable, _, size = best(rounds, harn, text, DURABLE)
        each = (durable - plain) / count * 1e6
        print(f"{name:<40} {count:>7,} {plain:>9.3f} {durable:>10.3f} {each:>6.1f} µs {size / count:>8.0f}")


def reply():
    """A reply of the model as bytes, with a place for the id of its call."""
    call = {"id": "c%08d", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    message = {"role": "assistant", "content": "I look further.", "tool_calls": [call]}
    usage = {"prompt_tokens": 4, "completion_tokens": 3}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": usage})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body % 0)}\r\n\r\n"
    return (head + body).encode()


class Model(asyncio.Protocol):
    """One connection to the model. It shares the cores with what is measured, so it does as little as it can."""

    REPLY = reply()
    calls = 0

    def __init__(self, delay):
        self.delay, self.came = delay, b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.came += data
        head, end, body = self.came.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        self.came = b""
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, self.answer)
        else:
            self.answer()

    def answer(self):
        Model.calls += 1
        self.transport.write(self.REPLY % Model.calls)


def serve(delay, address):
    async def main():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Model(delay), "127.0.0.1", 0, backlog=4096)
        address.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def model(delay):
    """A model server; gives its address."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(delay, there), daemon=True)
    server.start()
    yield f"http://127.0.0.1:{here.recv()}"
    server.terminate()
    server.join()


def agents(loops, count):
    """So many loops at once, each with so many turns."""
    return f"""
let tools = tool_define(tool_registry(), "look", "Looks at a place.", {{parameters: {{at: "int"}}, handler: {{ args -> "seen" }}}})
let done = parallel {loops} {{ n -> agent_loop("Look around.", nil, {{{ASKING}, tools: tools, max_iterations: {count}}}).iterations }}
assert(done.all({{ n -> n == {count} }}))
"""


def row(name, loops, count, delay, plain, durable):
    """What turns cost: `plain` and `durable` are seconds, processor time and bytes."""
    every = loops * count
    each = [processor / every * 1000 for _, processor, _ in (plain, durable)]
    print(
        f"{name:<24} {loops:>6,} {count:>6} {delay * 1000:>9.0f} {every / plain[0]:>9.0f} {every / durable[0]:>10.0f}"
        f" {(durable[0] / plain[0] - 1) * 100:>7.1f} % {each[0]:>9.2f} {each[1]:>10.2f} {durable[2] / every:>12.0f}",
        flush=True,
    )


def head(name):
    print(f"{name:<24}  loops  turns  reply ms   plain/s  durable/s     costs  plain ms durable ms  bytes a turn")


def turns(harn, rounds):
    head("turns (a model, a tool)")
    for loops, count, delay in [(1, 200, 0), (100, 10, 0.2), (1000, 5, 0.2)]:
        with model(delay) as url:
            environment = {"LOCAL_LLM_BASE_URL": url}
            plain, durable = (best(rounds, harn, agents(loops, count), how, environment=environment) for how in (["run"], DURABLE))
        row("", loops, count, delay, plain, durable)


PACKAGES = ["dbos==3.4.0", "langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2", "aiohttp==3.14.5", "psycopg[binary]==3.3.9"]


def environment_of_others():
    """Python with the packages of others, installed below the target folder."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve() / "runs-others" / "venv"
    python = folder / "bin" / "python"
    known = folder / "packages.txt"
    if not known.exists() or known.read_text() != "\n".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        known.write_text("\n".join(PACKAGES))
    return python


def others(harn, rounds, database=None):
    python = environment_of_others()
    program = Path(__file__).with_name("others.py")

    def best_of(loops, count, url, *args):
        took = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                sized = ["--loops", str(loops), "--turns", str(count), "--url", url, "--store", folder]
                ran = subprocess.run([python, program, *args, *sized], capture_output=True, text=True)
                if ran.returncode != 0:
                    raise SystemExit(f"{' '.join(args)}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
                took.append(tuple(json.loads(ran.stdout.splitlines()[-1])[key] for key in ("seconds", "processor", "bytes")))
        return min(took)

    head("side by side")
    for loops, count, delay in [(100, 10, 0.2), (1000, 5, 0.2)]:
        with model(delay) as url:
            text = agents(loops, count)
            at_model = {"LOCAL_LLM_BASE_URL": url}
            show = lambda name, plain, durable: row(name, loops, count, delay, plain, durable)
            plain = best(rounds, harn, text, ["run"], environment=at_model)
            show("Harn, SQLite", plain, best(rounds, harn, text, DURABLE, environment=at_model))
            if database:
                at_database = {**at_model, "HARN_STORE_URL": database}
                show("Harn, PostgreSQL", plain, best(rounds, harn, text, ["run", "--durable"], environment=at_database))
            plain = best_of(loops, count, url, "langgraph", "--kept", "no")
            for kept in ["sync", "async"]:
                show(f"LangGraph, SQLite, {kept}", plain, best_of(loops, count, url, "langgraph", "--kept", kept))
            plain = best_of(loops, count, url, "plain")
            show("DBOS, SQLite", plain, best_of(loops, count, url, "dbos"))
            if database:
                show("DBOS, PostgreSQL", plain, best_of(loops, count, url, "dbos", "--database", database.replace("postgres://", "postgresql://")))


def resume(harn, rounds):
    with tempfile.TemporaryDirectory() as folder:
        program(folder, "println(1)")
        start = min(run(harn, folder, ["run", "main.harn"])[0] for _ in range(rounds))
    print(f"resuming                                  effects   seconds   of it to start harn: {start:.3f}")
    for count in [10_000, 100_000]:
        text = f'for n in 1 to {count} {{ file_exists("none") }}\nask_user("Go on?")'
        with tempfile.TemporaryDirectory() as folder:
            program(folder, text)
            run(harn, folder, [*DURABLE, "main.harn"], code=75)
            took = min(run(harn, folder, ["resume", "r"], code=75)[0] for _ in range(rounds))
            print(f"{'':<40} {count:>8,} {took:>9.3f}   {stored(folder) / count:.0f} bytes each")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=[], help="effects, turns, resume, others")
    parser.add_argument("--harn", default="target/release/harn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--others", action="store_true", help="install LangGraph and DBOS, and measure them as well")
    parser.add_argument("--database", metavar="URL", help="a database of PostgreSQL, for the group others")
    given = parser.parse_args()
    harn = str(Path(given.harn).resolve())
    if given.database and not given.others:
        parser.error("--database needs --others")
    compare = lambda harn, rounds: others(harn, rounds, given.database)
    known = {"effects": effects, "turns": turns, "resume": resume, "others": compare}
    for name in given.groups or known:
        if name not in known:
            parser.error(f"unknown group {name}: there are {', '.join(known)}")
        if name == "others" and not given.others:
            print("LangGraph and DBOS are left out: --others installs and measures them")
            continue
        known[name](harn, given.rounds)
        print(flush=True)


if __name__ == "__main__":
    main()
