#!/usr/bin/env python3
"""What durable runs cost: the journal per effect, agent turns with and without it, resuming, and the size.

    python3 benches/runs/run.py --harn target/release/harn

It needs nothing but Python. A model server runs on this machine, in a process of its own. Each figure is the best of --rounds
runs, because other work on the machine only ever adds time. `effects`, `turns`, `resume` name groups.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import subprocess
import tempfile
import time
from pathlib import Path

ASKING = 'provider: "local", model: "gpt-4o", tool_format: "native", llm_retries: 0, timeout: 600, stream: false'


def program(folder, text):
    (Path(folder) / "main.harn").write_text(text)


def run(harn, folder, args, code=0, environment=None):
    """Runs harn; gives the seconds that it took."""
    begin = time.perf_counter()
    environment = {**os.environ, **(environment or {})}
    ran = subprocess.run([harn, *args], cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    took = time.perf_counter() - begin
    if ran.returncode != code:
        raise SystemExit(f"harn {' '.join(args)}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return took


def best(rounds, harn, text, args, code=0, environment=None):
    """The shortest time of some runs, each in a folder of its own, and the bytes of its store."""
    took, size = [], 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            program(folder, text)
            took.append(run(harn, folder, [*args, "main.harn"], code, environment))
            size = stored(folder)
    return min(took), size


def stored(folder):
    return sum(path.stat().st_size for path in Path(folder, ".harn").glob("state.db*")) if Path(folder, ".harn").exists() else 0


DURABLE = ["run", "--durable", "--run-id", "r"]


def effects(harn, rounds):
    print("the journal, per effect                  effects   plain s  durable s   each     bytes each")
    cases = [
        ("buffered: a random number", 50_000, "for n in 1 to {n} {{ random_int(1, 9) }}"),
        ("buffered: a file is read", 20_000, 'write_file("a", "text")\nfor n in 1 to {n} {{ read_file("a") }}'),
        ("with commit: a file is appended to", 1_000, 'for n in 1 to {n} {{ append_file("a", "line") }}'),
        ("with commit: a program is run", 200, 'for n in 1 to {n} {{ exec("true") }}'),
    ]
    for name, count, text in cases:
        text = text.format(n=count)
        plain, _ = best(rounds, harn, text, ["run"])
        durable, size = best(rounds, harn, text, DURABLE)
        each = (durable - plain) / count * 1e6
        print(f"{name:<40} {count:>7,} {plain:>9.3f} {durable:>10.3f} {each:>6.1f} µs {size / count:>8.0f}")


async def answer(reader, writer, delay):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length"))
            await reader.readexactly(length)
            await asyncio.sleep(delay)
            call = {"id": f"c{time.perf_counter_ns()}", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
            message = {"role": "assistant", "content": "I look further.", "tool_calls": [call]}
            body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"prompt_tokens": 4, "completion_tokens": 3}}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def serve(delay, address):
    async def main():
        server = await asyncio.start_server(lambda reader, writer: answer(reader, writer, delay), "127.0.0.1", 0, backlog=4096)
        address.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def turns(harn, rounds):
    print("agent turns, each with a call of a tool   loops  turns  reply ms   plain /s  durable /s   durable costs")
    for loops, count, delay in [(1, 200, 0), (100, 10, 0.2), (1000, 5, 0.2)]:
        here, there = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(delay, there), daemon=True)
        server.start()
        environment = {"LOCAL_LLM_BASE_URL": f"http://127.0.0.1:{here.recv()}"}
        text = f"""
let tools = tool_define(tool_registry(), "look", "Looks at a place.", {{parameters: {{at: "int"}}, handler: {{ args -> "seen" }}}})
let done = parallel {loops} {{ n -> agent_loop("Look around.", nil, {{{ASKING}, tools: tools, max_iterations: {count}}}).iterations }}
assert(done.all({{ n -> n == {count} }}))
"""
        plain, _ = best(rounds, harn, text, ["run"], environment=environment)
        durable, size = best(rounds, harn, text, DURABLE, environment=environment)
        server.terminate()
        server.join()
        all_turns = loops * count
        print(
            f"{'':<40} {loops:>6,} {count:>6} {delay * 1000:>9.0f} {all_turns / plain:>10.0f} {all_turns / durable:>11.0f}"
            f" {(durable / plain - 1) * 100:>10.1f} %   {size / all_turns:.0f} bytes a turn"
        )


def resume(harn, rounds):
    with tempfile.TemporaryDirectory() as folder:
        program(folder, "println(1)")
        start = min(run(harn, folder, ["run", "main.harn"]) for _ in range(rounds))
    print(f"resuming                                  effects   seconds   of it to start harn: {start:.3f}")
    for count in [10_000, 100_000]:
        text = f'for n in 1 to {count} {{ random_int(1, 9) }}\nask_user("Go on?")'
        with tempfile.TemporaryDirectory() as folder:
            program(folder, text)
            run(harn, folder, [*DURABLE, "main.harn"], code=75)
            took = min(run(harn, folder, ["resume", "r"], code=75) for _ in range(rounds))
            print(f"{'':<40} {count:>8,} {took:>9.3f}   {stored(folder) / count:.0f} bytes each")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=[], help="effects, turns, resume")
    parser.add_argument("--harn", default="target/release/harn")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    harn = str(Path(given.harn).resolve())
    known = {"effects": effects, "turns": turns, "resume": resume}
    for name in given.groups or known:
        if name not in known:
            parser.error(f"unknown group {name}: there are {', '.join(known)}")
        known[name](harn, given.rounds)
        print(flush=True)


if __name__ == "__main__":
    main()
