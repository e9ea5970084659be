"""Many runtimes, threads and loops: nothing leaks, nothing blocks, and the interpreter ends cleanly."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import pytest

import harn
from conftest import results, runtime, script
from harn import _harn

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")


def python(*args, **options):
    return subprocess.run(
        [sys.executable, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **options
    )


def test_a_thousand_runtimes():
    done = python(str(pathlib.Path(__file__).with_name("stress.py")), "500", "500", "100")
    assert (done.stderr, done.returncode) == ("", 0)
    report = json.loads(done.stdout)
    print(done.stdout)
    assert report["runtimes"] == 1000 and report["alive_at_once"] >= 1000
    assert len(set(report["machines"])) == 1, "a machine survived its runtime"
    assert max(report["threads"][1:]) <= report["threads"][0] + 8, "a thread survived its runtime"
    assert max(report["handles"][1:]) <= report["handles"][0] + 2, "a handle survived its runtime"
    assert report["peak_machines"] <= 120 and report["peak_threads"] <= 2 * 120
    before, after = report["memory_kib"]
    assert after - before < 64 * 1024, "memory grows with the number of runtimes"


def test_calls_and_callbacks_do_not_deadlock():
    """Programs call Python that calls programs, on many threads at once."""
    with harn.load(code="fn down(n, f) { if n == 0 { return 0 }\nreturn 1 + f(n - 1) }") as program:

        def back(n):
            return program.down(n, back)

        got = []
        workers = [threading.Thread(target=lambda: got.append(program.down(20, back))) for _ in range(16)]
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join(60)
        assert got == [20] * 16


def test_idle_threads_end():
    tool = harn.define_tool("meet", input_schema={}, handler=lambda args: barrier.wait())
    barrier = threading.Barrier(40, timeout=60)
    with runtime(tool) as rt:
        readers = [
            threading.Thread(target=lambda: results(rt.run_specialist("s", script(("meet", {}))))) for _ in range(40)
        ]
        for thread in readers:
            thread.start()
        for thread in readers:
            thread.join(60)
    assert sum(thread.name == "harn-call" for thread in threading.enumerate()) <= 8 + 40
    harn.run(code="return f()", globals={"f": lambda: 1})
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("harn-call") <= 9


def test_a_closed_machine_has_no_thread():
    before = _harn.running_machines()
    programs = [harn.load(code="fn f() { return 1 }") for _ in range(5)]
    assert _harn.running_machines() == before + 5
    for program in programs:
        program.close()
    assert _harn.running_machines() == before


HEAD = """
import asyncio, contextlib, threading, time
import harn

def start(code, **names):
    def run():
        # The program ends with the interpreter.
        with contextlib.suppress(harn.HarnError):
            harn.run(code=code, globals=names)

    threading.Thread(target=run, daemon=True).start()
"""

EXITS = {
    "a program that runs": """
        start("while true { }")
        time.sleep(0.2)
    """,
    "a handler that waits": """
        def wait():
            time.sleep(3600)
        start("f()", f=wait)
        time.sleep(0.2)
    """,
    "a coroutine that waits": """
        async def wait():
            await asyncio.sleep(3600)
        start("f()", f=wait)
        time.sleep(0.2)
    """,
    "programs that call Python all the time": """
        for _ in range(8):
            start("while true { f() }", f=int)
        time.sleep(0.3)
    """,
    "runtimes that are open": """
        spec = harn.define_runtime(
            tenant=harn.define_tenant("a", "v"), agents=[harn.define_specialist("s", model="m", prompt="x")]
        )
        open_ones = [harn.create_runtime(spec, interpreter="scripted") for _ in range(20)]
        streams = [rt.run_specialist("s", "hi") for rt in open_ones]
        next(streams[0])
    """,
    "a stream that is half read": """
        program = harn.load(code="gen fn f() { defer { println(\\"ended\\") }\\nwhile true { emit 1 } }", capture=False)
        stream = program.f()
        next(stream)
    """,
    "an exception": """
        program = harn.load(code="fn f() { return 1 }")
        raise SystemExit(0)
    """,
    "a loop that was closed": """
        async def main():
            rt = harn.create_runtime(harn.define_runtime(
                tenant=harn.define_tenant("a", "v"), agents=[harn.define_specialist("s", model="m", prompt="x")]
            ), interpreter="scripted")
            stream = rt.run_specialist("s", "hi")
            await stream.__anext__()
            return rt, stream
        kept = asyncio.run(main())
    """,
}


@pytest.mark.parametrize("case", EXITS)
def test_the_interpreter_ends_cleanly(case):
    done = python("-c", HEAD + textwrap.dedent(EXITS[case]), env={**os.environ, "PYTHONFAULTHANDLER": "1"})
    assert (done.stderr, done.returncode) == ("", 0)


def test_cleanup_runs_at_exit():
    code = 'defer { println("cleaned up") }\neprintln("ready")\nsleep(1h)'
    done = python("-c", f"{HEAD}\nprogram = harn._program.Machine(None, {code!r}, capture=False)\nprogram.native.begin()\ntime.sleep(0.5)")
    assert (done.stdout, done.returncode) == ("cleaned up\n", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_runtimes_after_a_fork():
    program = textwrap.dedent(
        """
        import harn, os
        def answer():
            spec = harn.define_runtime(
                tenant=harn.define_tenant("a", "v"), agents=[harn.define_specialist("s", model="m", prompt="x")]
            )
            with harn.create_runtime(spec, interpreter="scripted") as rt:
                return [e["text"] for e in rt.run_specialist("s", "hi") if e["type"] == "text"]
        kept = harn.load(code="fn f() { return 1 }")
        assert answer() == ["hi"]
        child = os.fork()
        if child == 0:
            os._exit(0 if answer() == ["hi"] and harn._harn.running_machines() <= 1 else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert kept.f() == 1
        raise SystemExit(code)
        """
    )
    done = python("-W", "ignore", "-c", program)
    assert (done.stderr, done.returncode) == ("", 0)
