"""A stress test: runtimes over threads and event loops, and what remains of them. `test_stress.py` runs it.

Usage: python stress.py THREADS_ROUNDS ASYNC_ROUNDS AT_ONCE
Prints one line of JSON.
"""

import asyncio
import gc
import json
import os
import resource
import sys
import threading
import time

import harn
from harn import _harn


def memory():
    """The resident memory in KiB."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def threads():
    return len(os.listdir("/proc/self/task"))


def handles():
    return len(os.listdir("/proc/self/fd"))


class Peaks(threading.Thread):
    """Measures the peak of threads."""

    def __init__(self):
        super().__init__(daemon=True)
        self.threads, self.machines, self.done = 0, 0, threading.Event()

    def run(self):
        while not self.done.wait(0.01):
            self.threads = max(self.threads, threads())
            self.machines = max(self.machines, _harn.running_machines())


def spec():
    @harn.define_tool("add", input_schema={"a": int, "b": int})
    async def add(args, ctx):
        await ctx.progress("adding")
        return args["a"] + args["b"]

    @harn.define_tool("double", input_schema={"n": int})
    def double(args, ctx):
        ctx.progress("doubling")
        return args["n"] * 2

    @harn.define_tool("fail", input_schema={})
    def fail(args, ctx):
        raise ValueError("expected")

    agent = harn.define_specialist(
        "s", model={"id": "mock", "provider": "mock"}, prompt="You help.", tools=[add, double, fail]
    )
    return harn.define_runtime(tenant=harn.define_tenant("acme", "v1"), agents=[agent])


def prompt(n):
    calls = [("add", {"a": n, "b": 1}), ("double", {"n": n}), ("fail", {})]
    return json.dumps({"script": [{"tool": tool, "args": args} for tool, args in calls]})


def check(n, events):
    got = [e["result"] for e in events if e["type"] == "tool-invocation" and e["state"] == "result"]
    assert got == [n + 1, n * 2, {"error": "ValueError: expected"}], got


def over_threads(made, rounds, workers=8):
    """Creates, runs and closes runtimes on several threads."""
    numbers = iter(range(rounds))
    lock, errors = threading.Lock(), []

    def work():
        while True:
            with lock:
                n = next(numbers, None)
            if n is None:
                return
            try:
                with harn.create_runtime(made, interpreter="scripted") as rt:
                    if n % 5 == 4:
                        # Leaves the loop early, which cancels the run.
                        next(rt.run_specialist("s", prompt(n)))
                    else:
                        check(n, list(rt.run_specialist("s", prompt(n))))
            except BaseException as error:  # noqa: BLE001 - reported by the main thread
                errors.append(error)
                return

    pool = [threading.Thread(target=work) for _ in range(workers)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    if errors:
        raise errors[0]


async def over_tasks(made, rounds, at_once):
    """Creates, runs and closes runtimes in tasks of one loop."""
    gate = asyncio.Semaphore(at_once)

    async def one(n):
        async with gate:
            async with await harn.acreate_runtime(made, interpreter="scripted") as rt:
                stream = await rt.aio.run_specialist("s", prompt(n))
                if n % 5 == 4:
                    reader = asyncio.ensure_future(stream.__anext__())
                    await asyncio.sleep(0)
                    reader.cancel()
                    try:
                        await reader
                    except asyncio.CancelledError:
                        pass
                else:
                    check(n, [event async for event in stream])

    await asyncio.gather(*(one(n) for n in range(rounds)))


async def all_alive(made, count):
    """Keeps many runtimes alive at the same time; returns the memory of each in KiB."""
    before = memory()
    runtimes = [await harn.acreate_runtime(made, interpreter="scripted") for _ in range(count)]
    streams = [await rt.aio.run_specialist("s", prompt(n)) for n, rt in enumerate(runtimes)]
    for n, stream in enumerate(streams):
        check(n, [event async for event in stream])
    each = (memory() - before) / count
    alive = _harn.running_machines()
    await asyncio.gather(*(rt.aclose() for rt in runtimes))
    return each, alive


def settled(expected, limit=20):
    """Waits until idle threads have ended; returns the number of threads."""
    end = time.monotonic() + limit
    while threads() > expected and time.monotonic() < end:
        time.sleep(0.02)
    return threads()


def main(thread_rounds, async_rounds, at_once):
    made = spec()
    # The first rounds load code, start the event loop of the package and fill caches.
    over_threads(made, 40)
    asyncio.run(over_tasks(made, 40, at_once))
    gc.collect()
    base = {"threads": threads(), "handles": handles(), "memory": memory(), "machines": _harn.running_machines()}
    peaks = Peaks()
    peaks.start()
    start = time.monotonic()
    over_threads(made, thread_rounds)
    middle = time.monotonic()
    asyncio.run(over_tasks(made, async_rounds, at_once))
    end = time.monotonic()
    peaks.done.set()
    peaks.join()
    gc.collect()
    report = {
        "runtimes": thread_rounds + async_rounds,
        "seconds_threads": round(middle - start, 2),
        "seconds_async": round(end - middle, 2),
        "peak_threads": peaks.threads,
        "peak_machines": peaks.machines,
        "threads": [base["threads"], settled(base["threads"])],
        "handles": [base["handles"], handles()],
        "machines": [base["machines"], _harn.running_machines()],
        "memory_kib": [base["memory"], memory()],
    }
    if at_once >= 100:
        each, alive = asyncio.run(all_alive(made, 1000))
        report["alive_at_once"] = alive
        report["kib_per_runtime"] = round(each)
        report["machines"].append(_harn.running_machines())
        report["threads"].append(settled(base["threads"]))
        report["handles"].append(handles())
    report["peak_memory_kib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
