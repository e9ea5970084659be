#!/usr/bin/env python3
"""Measures stored sessions: the cost of a turn as a conversation grows, the size on disk, and filling many sessions.

    python3 benches/sessions/run.py --harn target/release/harn --turns 10000

It needs nothing but Python. `turns` continues one stored session with the mock model, which sends no bytes: what is measured is what
Harn itself does per turn. `fill` adds messages to many stored sessions. The exit code is 1 if a turn of the last hundred takes more than
1.5 times one of the first hundred, if the store has more than 3 times the bytes of the messages, or if filling takes more than 60 s.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The mock records its calls for `llm_mock_calls`, so the program clears them.
TURNS = """
let s = agent_session_open("chat", {persist: true})
var begin = elapsed()
for n in 1 to TURNS {
  llm_mock({text: "A sentence of a reply, as an assistant gives it. ".repeat(16)})
  agent_loop("Message ${n}: " + "a user describes what is wrong, ".repeat(6), "You are brief.", {provider: "mock", session_id: s, compaction: false})
  llm_mock_clear()
  if n % 100 == 0 {
    println(elapsed() - begin)
    begin = elapsed()
  }
}
"""

# Like a server: many concurrent conversations, whose writes share transactions.
FILL = """
var ids = []
for n in 1 to SESSIONS { ids = ids + ["s${n}"] }
parallel each ids with {max_concurrent: 200} { id ->
  let s = agent_session_open(id, {persist: true})
  for m in 1 to MESSAGES { agent_session_inject(s, {role: "user", content: "Message ${m} of session ${id}."}) }
  agent_session_close(s)
}
"""


def run(harn, folder, args):
    """Runs harn; gives its output and the seconds that it took."""
    begin = time.perf_counter()
    ran = subprocess.run([harn, *args], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if ran.returncode != 0:
        raise SystemExit(f"harn {' '.join(args)}: exit code {ran.returncode}\n{ran.stdout[-500:]}{ran.stderr}")
    return ran.stdout, time.perf_counter() - begin


def stored(folder):
    return sum(path.stat().st_size for path in (folder / ".harn").glob("state.db*"))


def turns(given, folder):
    (folder / "main.harn").write_text(TURNS.replace("TURNS", str(given.turns)))
    out, took = run(given.harn, folder, ["run", "main.harn"])
    hundreds = [float(line) for line in out.split()]
    exported, _ = run(given.harn, folder, ["sessions", "export", "chat"])
    messages = json.loads(exported)["messages"]
    size = sum(len(json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()) for message in messages)
    disk = stored(folder)
    print(f"{given.turns} turns of one session in {took:.1f} s, {len(messages)} messages")
    for name, hundred in (("first", hundreds[0]), ("middle", hundreds[len(hundreds) // 2]), ("last", hundreds[-1])):
        print(f"  {name:<6} hundred: {hundred / 100:.3f} ms per turn")
    growth, share = hundreds[-1] / hundreds[0], disk / size
    print(f"  last to first: {growth:.2f}; {size:,} bytes of messages, {disk:,} bytes on disk ({share:.2f} times)")
    wrong = []
    if growth > 1.5:
        wrong.append(f"a turn at the end takes {growth:.2f} times one at the beginning")
    if share > 3:
        wrong.append(f"the store has {share:.2f} times the bytes of the messages")
    return wrong


def fill(given, folder):
    each = given.messages // given.sessions
    (folder / "main.harn").write_text(FILL.replace("SESSIONS", str(given.sessions)).replace("MESSAGES", str(each)))
    _, took = run(given.harn, folder, ["run", "main.harn"])
    count = given.sessions * each
    disk = stored(folder)
    print(f"{given.sessions} sessions with {count} messages in {took:.1f} s, {disk:,} bytes on disk")
    return [f"filling takes {took:.0f} s"] if took > 60 else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--harn", default="target/release/harn")
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--only", choices=["turns", "fill"])
    given = parser.parse_args()
    given.harn = str(Path(given.harn).resolve())
    wrong = []
    for group in (turns, fill):
        if given.only in (None, group.__name__):
            with tempfile.TemporaryDirectory() as folder:
                wrong += group(given, Path(folder))
    for text in wrong:
        print(f"error: {text}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
