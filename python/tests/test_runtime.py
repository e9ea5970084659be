"""Runtimes of agents."""

import asyncio
import gc
import threading
import time

import pytest

import harn
from conftest import kinds, results, runtime, script
from harn import create_runtime, define_coordinator, define_runtime, define_specialist, define_tenant, define_tool


def adder(**options):
    return define_tool("add", input_schema={"a": int, "b": int}, **options)(lambda args, ctx: args["a"] + args["b"])


def test_events_of_a_run():
    events = list(runtime(adder()).run_specialist("s", script(("add", {"a": 1, "b": 2}))))
    assert kinds(events) == [
        "tool-agent",
        "step-start",
        "tool-invocation",
        "tool-invocation",
        "text",
        "finish",
        "tool-agent",
        "data-cost-summary",
        "data-latency-summary",
    ]
    assert results(events) == [3] and events[4]["text"] == "3"


def test_events_on_an_event_loop():
    async def collect():
        return [e async for e in runtime(adder()).run_specialist("s", script(("add", {"a": 1, "b": 2})))]

    assert results(asyncio.run(collect())) == [3]


def test_coroutines_run_on_the_loop_that_waits():
    loops = []

    @define_tool("where", input_schema={})
    async def where(args, ctx):
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return None

    async def collect():
        async for _ in runtime(where).run_specialist("s", script(("where", {}))):
            pass
        return asyncio.get_running_loop()

    for _ in range(20):
        assert asyncio.run(collect()) is loops.pop()
    loops.append(None)
    list(runtime(where).run_specialist("s", script(("where", {}))))
    assert loops[1] is not loops[0]


def test_waiting_inside_of_a_coroutine_holds_up_nothing():
    @define_tool("nap", input_schema={})
    async def nap(args, ctx):
        await asyncio.sleep(0.001)
        return "rested"

    async def block():
        rt = runtime(nap)
        return list(rt.run_specialist("s", script(("nap", {}), ("nap", {}))))

    assert results(asyncio.run(block())) == ["rested", "rested"]


def test_the_context_of_handlers():
    seen = {}

    class Database:
        pass

    database = Database()

    @define_tool("look", input_schema={})
    def look(args, ctx):
        seen.update(thread=ctx.thread_id, agent=ctx.agent, id=ctx.tool_use_id, db=ctx.db, services=ctx.services)
        ctx.progress("half", phase_index=1, total_phases=2, milestone="m")
        ctx.emit("note", {"n": 1})
        ref = ctx.references.create("Set", {"ids": ["a"]})
        assert ctx["agent"] == "s" and "db" in ctx
        with pytest.raises(AttributeError, match="the context has no 'nope'"):
            ctx.nope
        return ctx.references.resolve(ref)

    rt = runtime(
        look, deps={"services": {"db": database}}, references=[harn.define_reference("Set", schema={"ids": [str]})]
    )
    events = list(rt.run_specialist("s", script(("look", {})), thread_id="t"))
    assert results(events) == [{"ids": ["a"]}]
    assert seen["db"] is database and seen["services"] == {"db": database}
    assert (seen["thread"], seen["agent"], seen["id"]) == ("t", "s", "scripted-tool-1")
    progress = next(e for e in events if e["type"] == "tool-progress")
    assert (progress["label"], progress["phaseIndex"], progress["totalPhases"]) == ("half", 1, 2)
    assert next(e for e in events if e["type"] == "custom")["data"] == {"n": 1}


def test_the_context_of_coroutines():
    @define_tool("look", input_schema={})
    async def look(args, ctx):
        await ctx.progress("half")
        ref = await ctx.references.create("Set", {"ids": ["a"]})
        return await ctx.references.resolve(ref)

    async def collect():
        rt = runtime(look, references=[harn.define_reference("Set", schema={"ids": [str]})])
        return [e async for e in rt.run_specialist("s", script(("look", {})))]

    events = asyncio.run(collect())
    assert results(events) == [{"ids": ["a"]}] and "tool-progress" in kinds(events)


def test_handlers_may_leave_out_the_context():
    tool = define_tool("one", input_schema={}, handler=lambda args: 1)
    none = define_tool("none", input_schema={}, handler=lambda: 2)
    assert results(runtime(tool, none).run_specialist("s", script(("one", {}), ("none", {})))) == [1, 2]


def test_exceptions_of_handlers_are_results():
    @define_tool("fail", input_schema={})
    def fail(args, ctx):
        raise ValueError("no such product")

    events = list(runtime(fail).run_specialist("s", script(("fail", {}))))
    assert results(events) == [{"error": "ValueError: no such product"}]
    assert kinds(events)[-1] == "data-latency-summary"


def test_arguments_are_checked_first():
    called = []
    tool = define_tool("t", input_schema={"n": int}, handler=lambda args, ctx: called.append(args))
    (result,) = results(runtime(tool).run_specialist("s", script(("t", {"n": "x"}))))
    assert result["error"].startswith("Invalid input: ") and called == []


def test_approvals():
    called = []
    tool = define_tool("send", input_schema={}, approval="always", handler=lambda args, ctx: called.append(1) or "sent")
    rt = runtime(tool)
    outcomes = []
    for outcome in ("approve", "reject"):
        events = []
        for event in rt.run_specialist("s", script(("send", {}))):
            events.append(event)
            if event["type"] == "approval-required":
                assert len(called) == len(outcomes)
                rt.respond_to_approval(event["data"]["id"], outcome, feedback="because")
                with pytest.raises(harn.HarnSpecError, match="approval already resolved"):
                    rt.respond_to_approval(event["data"]["id"], outcome)
        outcomes += results(events)
    assert outcomes[0] == "sent" and outcomes[1]["reason"] == "because" and called == [1]
    with pytest.raises(harn.HarnSpecError, match="approval not found: x"):
        rt.respond_to_approval("x", "approve")


def test_approvals_on_an_event_loop():
    tool = define_tool("send", input_schema={}, approval="always", handler=lambda args, ctx: "sent")

    async def collect():
        rt, events = runtime(tool), []
        async for event in rt.run_specialist("s", script(("send", {}))):
            events.append(event)
            if event["type"] == "approval-required":
                await rt.aio.respond_to_approval(event["data"]["id"], "approve")
        return events

    assert results(asyncio.run(collect())) == ["sent"]


def test_predicates():
    asked = []

    def large(args, ctx):
        asked.append((args, ctx.target, ctx.kind))
        return args["n"] > 10

    own = define_tool("own", input_schema={"n": int}, approval=large, handler=lambda args, ctx: "ok")
    named = define_tool(
        "named", input_schema={"n": int}, approval={"kind": "dynamic", "value": "big"}, handler=lambda args, ctx: "ok"
    )
    rt = runtime(own, named, deps={"approval_predicates": {"big": large}})
    assert results(rt.run_specialist("s", script(("own", {"n": 1}), ("named", {"n": 2})))) == ["ok", "ok"]
    assert asked == [({"n": 1}, "own", "tool"), ({"n": 2}, "named", "tool")]
    with rt.run_specialist("s", script(("own", {"n": 11}))) as events:
        assert any(event["type"] == "approval-required" for event in events)


def test_hooks_see_events_first():
    seen = []

    async def late(event):
        await asyncio.sleep(0)
        seen.append(("late", event["type"]))

    def broken(event):
        raise RuntimeError("hook")

    rt = runtime(deps={"event_hooks": [lambda event: seen.append(("first", event["type"])), broken, late]})
    events = kinds(rt.run_specialist("s", "hello"))
    assert [kind for who, kind in seen if who == "first"] == events
    assert [kind for who, kind in seen if who == "late"] == events
    assert "RuntimeError: hook" in rt.errors


def test_own_interpreters():
    seen = []

    def interpret(program, cancel, call):
        seen.append(program.system_prompt)
        yield {"type": "text", "text": program.conversation.prompt}
        yield {"type": "text", "text": str(call("add", {"a": 2, "b": 3}))}
        assert cancel() is False

    events = list(runtime(adder(), deps={"interpreter": interpret}).run_specialist("s", "hi"))
    assert [e["text"] for e in events if e["type"] == "text"] == ["hi", "5"]
    assert seen[0].startswith("You help.\n\n# Tools\n")


def test_interpreters_that_are_async_generators():
    async def interpret(program, cancel, call):
        yield {"type": "text", "text": "a"}
        await asyncio.sleep(0)
        yield {"type": "text", "text": str(await call.aio("add", {"a": 2, "b": 3}))}

    events = list(runtime(adder(), deps={"interpreter": interpret}).run_specialist("s", "hi"))
    assert [e["text"] for e in events if e["type"] == "text"] == ["a", "5"]


def test_interpreters_by_provider():
    def interpret(program):
        return [{"type": "text", "text": "mine"}]

    events = runtime(deps={"interpreter": {"mock": interpret}}).run_specialist("s", "hi")
    assert [e["text"] for e in events if e["type"] == "text"] == ["mine"]


def test_events_arrive_while_an_interpreter_works():
    go_on = threading.Event()

    def interpret(program):
        yield {"type": "text", "text": "first"}
        assert go_on.wait(20)
        yield {"type": "text", "text": "second"}

    events = runtime(deps={"interpreter": interpret}).run_specialist("s", "hi")
    for event in events:
        if event.get("text") == "first":
            break
    go_on.set()
    assert [e["text"] for e in events if e["type"] == "text"] == ["second"]


def test_the_mock():
    rt = runtime(adder(), deps={"interpreter": "live"})
    rt.mock({"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}, {"text": "It is 3."})
    events = list(rt.run_specialist("s", "1 + 2?"))
    assert results(events) == [3]
    assert "".join(e["text"] for e in events if e["type"] == "text") == "It is 3."
    assert rt.mock_calls()[0]["system"].startswith(rt.registrations()[0]["system_prompt"])


def test_a_fixed_answer():
    rt = runtime(deps={"interpreter": None, "testing": {"mock_response": "canned"}})
    assert [e["text"] for e in rt.run_specialist("s", "x") if e["type"] == "text"] == ["canned"]


@pytest.mark.parametrize(
    "deps,message",
    [
        ({"testing": {"mock_response": "x"}}, "accepts either testing or a non-default interpreter"),
        ({"interpreter": "magic"}, "interpreter must be"),
        ({"services": {"references": 1}}, "services key 'references' is reserved"),
        ({"event_hooks": [1]}, "event_hooks must be a list of closures"),
        ({"data_environment": {"nope": print}}, "the catalog has no tool 'nope'"),
        ({"stores": {"memory": {"get": print, "put": print}}}, "'memory' is built in"),
    ],
    ids=lambda v: str(v)[:24],
)
def test_wrong_deps(deps, message):
    with pytest.raises(harn.HarnSpecError, match=message):
        runtime(deps=deps)


def test_a_tool_without_a_handler():
    with pytest.raises(harn.HarnSpecError, match="tool binding 't' for agent 's' has no handler"):
        runtime(define_tool("t", input_schema={}))
    bound = define_tool("t", input_schema={}, handler=lambda args, ctx: 1)
    rt = runtime(define_tool("t", input_schema={}), deps={"tool_bindings": [bound]})
    assert results(rt.run_specialist("s", script(("t", {})))) == [1]


def test_the_wire_form_is_a_spec():
    spec = define_runtime(
        tenant=define_tenant("acme", "v1"), agents=[define_specialist("s", model="m", prompt="You help.")]
    )
    for wire in (harn.runtime_spec_json(spec), spec.model_dump(by_alias=True, mode="json")):
        rt = create_runtime(wire, interpreter="scripted")
        assert rt.resource_id == "acme"
        assert [e["text"] for e in rt.run_specialist("s", "hi") if e["type"] == "text"] == ["hi"]


def test_sub_agents_and_memory():
    boss = define_coordinator("boss", model="m", prompt="Lead.", routes=["s"])
    rt = runtime(adder(), agents=[boss])
    inner = script(("add", {"a": 1, "b": 1}))
    events = list(rt.query(script(("call_agent", {"agent": "s", "prompt": inner})), thread_id="t"))
    assert results(events)[0] == 2 and results(events)[1]["response"] == "2"
    history = rt.program_for("boss", "next", thread_id="t").conversation.history
    assert [m["role"] for m in history] == ["user", "assistant"]
    with pytest.raises(harn.HarnSpecError, match="thread_id must be a non-empty string"):
        rt.query("x", thread_id=" ")


def test_plans():
    done = []

    async def dispatch(actions, ctx):
        done.append(actions)
        return {"entitiesAffected": len(actions)}

    plan = harn.define_plan("P", schema={"type": "object"})
    planner = harn.define_planner("p", model="m", prompt="Plan.", plan=plan)
    executor = harn.define_executor("e", model="m", prompt="Do.", plan=plan)
    boss = define_coordinator("boss", model="m", prompt="Lead.", routes=["p", "e"])
    rt = runtime(agents=[planner, executor, boss], deps={"action_dispatcher": dispatch})
    store = script(("storePlan", {"specName": "P", "planId": "1", "body": {"actions": [{"kind": "price", "to": 9}]}}))
    execute = script(("executePlan", {"planId": "1"}))
    calls = script(("call_agent", {"agent": "p", "prompt": store}), ("call_agent", {"agent": "e", "prompt": execute}))
    states = []
    for event in rt.query(calls, thread_id="t"):
        if event["type"] == "plan-status-change":
            states.append(event["data"]["to"])
        if event["type"] == "approval-required":
            assert event["data"]["kind"] == "plan" and done == []
            rt.respond_to_approval(event["data"]["id"], "approve")
    assert states[-1] == "executed" and len(done) == 1
    assert done[0] == [{"kind": "price", "payload": {"to": 9}, "references": []}]


def test_references():
    glimpsed = []
    kind = harn.define_reference(
        "Set", schema={"ids": [str]}, glimpse=lambda value: glimpsed.append(1) or {"count": len(value["ids"])}
    )
    rt = runtime(references=[kind])
    ref = rt.create_reference("Set", {"ids": ["a", "b"]})
    assert ref["glimpse"] == {"count": 2} and rt.reference_glimpse(ref) == {"count": 2} and glimpsed == [1]
    assert rt.resolve_reference(ref) == {"ids": ["a", "b"]}
    assert rt.create_reference(kind, {"ids": ["a", "b"]})["id"] == ref["id"]
    with pytest.raises(harn.HarnSpecError, match="unknown reference kind: Nope"):
        rt.create_reference("Nope", {})


def test_stores_of_python():
    kept = {}
    stores = {"mine": {"get": lambda key: kept.get(key), "put": lambda key, value: kept.update({key: value})}}
    agent = define_specialist("s", model="m", prompt="x", stateful=True)
    spec = define_runtime(
        tenant=define_tenant("acme", "v1"), agents=[agent], storage_factories={"memory": {"kind": "mine"}}
    )
    for prompt in ("one", "two"):
        with create_runtime(spec, interpreter="scripted", stores=stores) as rt:
            list(rt.run_specialist("s", prompt, thread_id="t"))
    with create_runtime(spec, interpreter="scripted", stores=stores) as rt:
        history = rt.program_for("s", "x", thread_id="t").conversation.history
    assert [m["content"] for m in history] == ["one", "one", "two", "two"] and len(kept) >= 1


def waits():
    """A tool that waits, and says when it begins and when it is stopped."""
    begun, stopped = threading.Event(), threading.Event()

    @define_tool("wait", input_schema={})
    async def wait(args, ctx):
        begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stopped.set()
            raise

    return wait, begun, stopped


def test_leaving_early_stops_the_run_and_its_tools():
    tool, begun, stopped = waits()
    rt = runtime(tool)
    for event in rt.run_specialist("s", script(("wait", {})), thread_id="t"):
        if event["type"] == "tool-invocation":
            break
    assert begun.wait(20)
    del event
    gc.collect()
    assert stopped.wait(20)
    deadline = time.monotonic() + 20
    while rt.list_traces(thread_id="t")[0]["status"] != "cancelled" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert rt.list_traces(thread_id="t")[0]["status"] == "cancelled"


def test_a_cancelled_task_stops_the_run():
    tool, begun, stopped = waits()

    async def read():
        async for _ in runtime(tool).run_specialist("s", script(("wait", {}))):
            pass

    async def give_up():
        task = asyncio.ensure_future(read())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not stopped.is_set():
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(give_up(), 30))


def test_a_request_of_a_cancelled_run_is_resolved():
    tool = define_tool("send", input_schema={}, approval="always", handler=lambda args, ctx: "sent")
    rt = runtime(tool)
    with rt.run_specialist("s", script(("send", {})), thread_id="t") as events:
        asked = next(e for e in events if e["type"] == "approval-required")["data"]["id"]
    deadline = time.monotonic() + 20
    while rt.list_traces(thread_id="t")[0]["status"] == "running" and time.monotonic() < deadline:
        time.sleep(0.01)
    with pytest.raises(harn.HarnSpecError, match="approval already resolved"):
        rt.respond_to_approval(asked, "approve")


def test_many_runs_at_the_same_time():
    rt = runtime(adder())

    async def one(n):
        events = [e async for e in rt.run_specialist("s", script(("add", {"a": n, "b": 1})))]
        return results(events)

    async def all_of_them():
        return await asyncio.gather(*(one(n) for n in range(50)))

    assert asyncio.run(all_of_them()) == [[n + 1] for n in range(50)]


def test_tenants_do_not_see_each_other():
    def tenant(name):
        kind = harn.define_reference("Set", schema={})
        return create_runtime(define_runtime(tenant=define_tenant(name, "v"), references=[kind]))

    one, two = tenant("one"), tenant("two")
    ref = one.create_reference("Set", {"a": 1})
    with pytest.raises(harn.HarnSpecError, match="reference not found"):
        two.resolve_reference(ref)


def test_traces():
    rt = runtime(adder())
    events = list(rt.run_specialist("s", script(("add", {"a": 1, "b": 2})), thread_id="t"))
    (trace,) = rt.list_traces(thread_id="t")
    assert (trace["status"], trace["event_count"]) == ("done", len(events))
    assert rt.get_trace(trace["id"])["events"] == events
    with pytest.raises(harn.HarnError):
        rt.get_trace("nope")


def test_a_closed_runtime():
    rt = runtime()
    stream = rt.run_specialist("s", "x")
    rt.close()
    with pytest.raises(harn.HarnClosed):
        rt.registrations()
    with pytest.raises(harn.HarnClosed):
        next(stream)


def test_a_missing_coordinator_is_an_event():
    events = list(runtime().query("x", thread_id="t"))
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["message"] == "no coordinator agent registered in the spec"
