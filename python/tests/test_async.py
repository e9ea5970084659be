"""The package on an event loop."""

import asyncio
import threading
import time

import pytest

import harn
from conftest import kinds, results, runtime, script, spec_of, specialist, texts
from harn import acreate_runtime, define_tool


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def adder():
    @define_tool("add", input_schema={"a": int, "b": int})
    async def add(args, ctx):
        await asyncio.sleep(0)
        return args["a"] + args["b"]

    return add


def test_a_program():
    async def main():
        async with await harn.aload(code="var n = 0\nfn next() { n = n + 1; return n }") as program:
            return [await program.next.aio(), await program.acall("next"), program.exports]

    assert run(main()) == [1, 2, ["next"]]


def test_a_program_that_fails_to_load():
    async def main():
        with pytest.raises(harn.HarnThrown) as caught:
            await harn.aload(code='println("before")\nthrow "no"')
        return caught.value.output

    assert run(main()) == "before\n"


def test_a_run_that_fails():
    async def main():
        with pytest.raises(harn.HarnThrown) as caught:
            await harn.arun(code='println("before")\nthrow {message: "no", category: "busy"}')
        return caught.value.output, caught.value.category

    assert run(main()) == ("before\n", "busy")


def test_a_run_that_exits():
    assert run(harn.arun(code='println("x")\nexit(3)'))[1:] == ("x\n", "", 3)


def test_a_runtime():
    async def main():
        async with await acreate_runtime(spec_of(specialist(tools=[adder()])), interpreter="scripted") as rt:
            stream = await rt.aio.run_specialist("s", script(("add", {"a": 1, "b": 2})))
            events = [event async for event in stream]
            return rt.resource_id, events

    tenant, events = run(main())
    assert tenant == "acme" and results(events) == [3] and kinds(events)[-1] == "data-latency-summary"


def test_the_coordinator():
    boss = harn.define_coordinator("boss", model="m", prompt="Lead.", routes=["s"])

    async def main():
        rt = await acreate_runtime(spec_of(boss, specialist(tools=[adder()])), interpreter="scripted")
        inner = script(("add", {"a": 1, "b": 1}))
        stream = await rt.aio.query(script(("call_agent", {"agent": "s", "prompt": inner})), thread_id="t")
        events = [event async for event in stream]
        program = await rt.aio.program_for("boss", "next", thread_id="t")
        await rt.aclose()
        return events, program

    events, program = run(main())
    assert results(events)[-1]["response"] == "2"
    assert [m["role"] for m in program.conversation.history] == ["user", "assistant"]


def test_references_and_traces():
    kind = harn.define_reference("Set", schema={"ids": [str]}, glimpse=lambda value: {"count": len(value["ids"])})

    async def main():
        rt = await acreate_runtime(spec_of(specialist(), references=[kind]), interpreter="scripted")
        ref = await rt.aio.create_reference("Set", {"ids": ["a"]})
        assert await rt.aio.resolve_reference(ref) == {"ids": ["a"]}
        assert await rt.aio.reference_glimpse(ref) == {"count": 1}
        assert [r["name"] for r in await rt.aio.registrations()] == ["s"]
        events = [e async for e in await rt.aio.run_specialist("s", "hi", thread_id="t")]
        (trace,) = await rt.aio.list_traces(thread_id="t")
        assert (await rt.aio.get_trace(trace["id"]))["events"] == events
        with pytest.raises(harn.HarnSpecError, match="unknown reference kind: Nope"):
            await rt.aio.create_reference("Nope", {})

    run(main())


@pytest.mark.parametrize("outcome,expected", [("approve", "sent"), ("reject", "approval_rejected")])
def test_approvals(outcome, expected):
    tool = define_tool("send", input_schema={}, approval="always", handler=lambda args: "sent")

    async def main():
        rt, events = runtime(tool), []
        async for event in rt.run_specialist("s", script(("send", {}))):
            events.append(event)
            if event["type"] == "approval-required":
                await rt.aio.respond_to_approval(event["data"]["id"], outcome)
        return results(events)[0]

    result = run(main())
    assert (result if isinstance(result, str) else result["error"]) == expected


def test_errors_of_the_runtime():
    async def main():
        with pytest.raises(harn.HarnSpecError, match="unknown toolkit id: nope"):
            await acreate_runtime(spec_of(specialist(toolkits=["nope"])))
        rt = await acreate_runtime(spec_of(specialist()))
        with pytest.raises(harn.HarnSpecError, match="thread_id must be a non-empty string"):
            await rt.aio.query("x", thread_id="")
        await rt.aclose()
        with pytest.raises(harn.HarnClosed):
            await rt.aio.registrations()

    run(main())


def test_a_runtime_that_was_dropped():
    aio = runtime().aio

    async def main():
        with pytest.raises(harn.HarnClosed, match="keep a reference"):
            await aio.registrations()

    run(main())


def test_the_loop_is_free_while_a_program_works():
    async def main():
        ticks = 0
        task = asyncio.ensure_future(harn.arun(code="var n = 0\nwhile n < 3000000 { n = n + 1 }\nreturn n"))
        while not task.done():
            ticks += 1
            await asyncio.sleep(0.001)
        return ticks

    assert run(main()) > 10


def test_async_handlers_share_the_loop_with_the_reader():
    loops = set()

    @define_tool("where", input_schema={})
    async def where(args, ctx):
        loops.add(asyncio.get_running_loop())

    async def one(rt):
        return [e async for e in rt.run_specialist("s", script(("where", {}), ("where", {})))]

    async def main():
        rt = runtime(where)
        await asyncio.gather(*(one(rt) for _ in range(10)))
        return loops == {asyncio.get_running_loop()}

    assert run(main())


def test_two_loops_on_two_threads():
    def worker(n):
        async def main():
            rt = await acreate_runtime(spec_of(specialist(tools=[adder()])), interpreter="scripted")
            stream = await rt.aio.run_specialist("s", script(("add", {"a": n, "b": 1})))
            seen[n] = results([e async for e in stream])
            await rt.aclose()

        run(main())

    seen = {}
    workers = [threading.Thread(target=worker, args=(n,)) for n in range(4)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    assert seen == {n: [n + 1] for n in range(4)}


def test_a_cancelled_query_cancels_its_handler():
    stopped = threading.Event()
    begun = threading.Event()

    @define_tool("wait", input_schema={})
    async def wait(args, ctx):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def main():
        async with await acreate_runtime(spec_of(specialist(tools=[wait])), interpreter="scripted") as rt:

            async def read():
                async for _ in await rt.aio.run_specialist("s", script(("wait", {})), thread_id="t"):
                    pass

            task = asyncio.ensure_future(read())
            await asyncio.to_thread(begun.wait, 20) if hasattr(asyncio, "to_thread") else None
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while not stopped.is_set():
                await asyncio.sleep(0.005)
            while (await rt.aio.list_traces(thread_id="t"))[0]["status"] == "running":
                await asyncio.sleep(0.005)
            return (await rt.aio.list_traces(thread_id="t"))[0]["status"]

    assert run(main()) == "cancelled"


def test_a_handler_that_raises_cancelled_error():
    @define_tool("give_up", input_schema={})
    async def give_up(args, ctx):
        raise asyncio.CancelledError("stop")

    async def main():
        return [e async for e in runtime(give_up).run_specialist("s", script(("give_up", {})))]

    assert results(run(main())) == [{"error": "CancelledError: stop"}]


def test_a_time_limit_of_the_caller():
    async def main():
        rt = runtime(interrupted())
        start = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_drain(rt.run_specialist("s", script(("wait", {})))), 0.2)
        return time.monotonic() - start

    assert run(main()) < 10


def interrupted():
    return define_tool("wait", input_schema={}, handler=_forever)


async def _forever(args, ctx):
    await asyncio.Event().wait()


async def _drain(stream):
    return [event async for event in stream]


def test_an_async_generator_interpreter_with_a_model_of_its_own():
    async def interpret(program, cancel, call):
        for word in program.conversation.prompt.split():
            await asyncio.sleep(0)
            yield {"type": "text", "text": word.upper()}
        yield {"type": "text", "text": str(await call.aio("add", {"a": 1, "b": 2}))}

    async def main():
        spec = spec_of(specialist(tools=[adder()]))
        async with await acreate_runtime(spec, interpreter=interpret) as rt:
            return await _drain(await rt.aio.run_specialist("s", "a b"))

    assert texts(run(main())) == "AB3"


def test_stores_and_hooks_that_are_coroutines():
    stored, seen = {}, []

    async def get(key):
        await asyncio.sleep(0)
        return stored.get(key)

    async def put(key, value):
        await asyncio.sleep(0)
        stored[key] = value

    async def hook(event):
        await asyncio.sleep(0)
        seen.append(event["type"])

    async def main():
        spec = spec_of(specialist(stateful=True), storage_factories={"memory": {"kind": "mine"}})
        stores = {"mine": {"get": get, "put": put}}
        async with await acreate_runtime(spec, interpreter="scripted", stores=stores, event_hooks=[hook]) as rt:
            for prompt in ("one", "two"):
                await _drain(await rt.aio.run_specialist("s", prompt, thread_id="t"))
            program = await rt.aio.program_for("s", "x", thread_id="t")
            return [m["content"] for m in program.conversation.history]

    assert run(main()) == ["one", "one", "two", "two"] and stored and seen.count("finish") == 2


def test_streams_of_programs():
    async def main():
        async with await harn.aload(code="gen fn f() { for i in 1 to 3 { emit i } }") as program:
            stream = await program.f.aio()
            async with stream:
                return [item async for item in stream]

    assert run(main()) == [1, 2, 3]


def test_async_generators_are_streams():
    async def numbers():
        for n in range(3):
            await asyncio.sleep(0)
            yield n

    async def main():
        async with await harn.aload(code="fn f(s) { var items = []\nfor x in s { items = items + [x] }\nreturn items }") as program:
            return await program.f.aio(numbers())

    assert run(main()) == [0, 1, 2]
