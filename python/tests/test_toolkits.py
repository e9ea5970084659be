"""Toolkits, approvals, plans and references of runtimes."""

import pytest

import harn
from conftest import kinds, results, runtime, script, spec_of, specialist
from harn import create_runtime, define_coordinator, define_executor, define_plan, define_planner, define_tool


def tool(name="send", **options):
    return define_tool(name, input_schema={}, handler=lambda args, ctx: "sent", **options)


# Toolkits.


def test_an_own_toolkit():
    toolkit = harn.define_toolkit("mail", tools=[tool("send"), tool("drop")])
    agent = specialist(toolkits=["mail"])
    with create_runtime(spec_of(agent, toolkits=[toolkit]), interpreter="scripted") as rt:
        assert results(rt.run_specialist("s", script(("send", {}), ("drop", {})))) == ["sent", "sent"]


def test_a_narrowed_toolkit():
    def query(args, ctx):
        return {"rows": [args["sql"]], "agent": ctx.agent}

    agent = specialist(toolkits=["catalog"])
    spec = spec_of(agent, toolkits=[harn.ToolkitSpec("catalog", {"tools": ["execute_query"]})])
    deps = {"interpreter": "scripted", "data_environment": {"execute_query": query}}
    with create_runtime(spec, **deps) as rt:
        got = results(rt.run_specialist("s", script(
            ("execute_query", {"sql": "SELECT 1"}),
            ("execute_query", {"sql": "DROP TABLE a"}),
        )))  # fmt: skip
    assert got[0] == {"rows": ["SELECT 1"], "agent": "s"}
    assert got[1] == {"error": "execute_query: only a single SELECT or WITH statement is allowed"}


@pytest.mark.parametrize(
    "toolkits,agent_toolkits,deps,message",
    [
        ([], ["nope"], {}, "unknown toolkit id: nope"),
        ([harn.ToolkitSpec("catalog", {"tools": ["x"]})], ["catalog"], {}, "toolkit 'catalog' has no tool named 'x'"),
        (
            [harn.ToolkitSpec("plans", {"tools": ["storePlan"]})],
            ["plans"],
            {},
            "tool 'storePlan' from toolkit 'plans' is not available for specialist agents",
        ),
        ([harn.ToolkitSpec("catalog", {"tools": 1})], ["catalog"], {}, "toolkit 'catalog' config is malformed"),
        (
            [harn.ToolkitSpec("catalog", {"tools": ["execute_query"]})],
            ["catalog"],
            {},
            "toolkit 'catalog' tool 'execute_query' has no closure in data_environment",
        ),
    ],
)
def test_wrong_toolkits(toolkits, agent_toolkits, deps, message):
    with pytest.raises(harn.HarnSpecError, match=message):
        create_runtime(spec_of(specialist(toolkits=agent_toolkits), toolkits=toolkits), **deps)


@pytest.mark.parametrize(
    "spec,deps,message",
    [
        (lambda: spec_of(specialist(tools=[tool(), tool()])), {}, "duplicate tool 'send' for agent 's'"),
        (
            lambda: spec_of(specialist(tools=[tool(approval={"kind": "dynamic", "value": "big"})])),
            {},
            "dynamic approval predicate 'big' is not registered",
        ),
        (
            lambda: spec_of(specialist(), providers={"anthropic": {}}),
            {},
            "agent 's' references provider 'mock' for model 'mock', but no such provider is declared",
        ),
        (lambda: spec_of(specialist()), {"testing": {}}, "testing config requires 'mock_response'"),
        (
            lambda: spec_of(specialist()),
            {"testing": {"mock_response": "x", "y": 1}},
            r"unsupported testing config keys: \[y\]",
        ),
        (lambda: spec_of(specialist()), {"services": {"tool_use_id": 1}}, "services key 'tool_use_id' is reserved"),
    ],
)
def test_runtimes_that_cannot_be_created(spec, deps, message):
    with pytest.raises(harn.HarnSpecError, match=message):
        create_runtime(spec(), **deps)


# Approvals.


def gate(spec, tool_name="send", deps=None):
    """Runs the tool, approves it if asked, and returns whether it was asked."""
    with create_runtime(spec, interpreter="scripted", **(deps or {})) as rt:
        events = []
        for event in rt.run_specialist("s", script((tool_name, {}))):
            events.append(event)
            if event["type"] == "approval-required":
                rt.respond_to_approval(event["data"]["id"], "approve")
    assert results(events) == ["sent"]
    return "approval-required" in kinds(events)


@pytest.mark.parametrize(
    "spec,asked",
    [
        (lambda: spec_of(specialist(tools=[tool()])), False),
        (lambda: spec_of(specialist(tools=[tool()]), approval_policies={"tools": "always"}), True),
        (lambda: spec_of(specialist(tools=[tool()], approval={"tools": "always"})), True),
        (lambda: spec_of(specialist(tools=[tool(approval="always")])), True),
        (
            lambda: spec_of(specialist(tools=[tool(approval="never")]), approval_policies={"tools": "always"}),
            False,
        ),
        (
            lambda: spec_of(specialist(tools=[tool(approval="always")], tool_approvals={"send": "never"})),
            False,
        ),
        (
            lambda: spec_of(
                specialist(tools=[tool(approval="always")]),
                approval_overrides={"tools": {"s": {"send": "never"}}},
            ),
            False,
        ),
        (
            lambda: spec_of(specialist(tools=[tool()]), approval_overrides={"agents": {"s": {"tools": "always"}}}),
            True,
        ),
    ],
    ids=["default", "floor", "agent", "tool", "tool-over-floor", "tool_approvals", "override-tool", "override-agent"],
)
def test_the_most_specific_rule_wins(spec, asked):
    assert gate(spec()) is asked


@pytest.mark.parametrize("answer,asked", [(True, True), (False, False)])
def test_predicates_decide(answer, asked):
    async def predicate(args, ctx):
        return answer

    assert gate(spec_of(specialist(tools=[tool(approval=predicate)]))) is asked
    by_id = spec_of(specialist(tools=[tool(approval={"kind": "dynamic", "value": "p"})]))
    assert gate(by_id, deps={"approval_predicates": {"p": predicate}}) is asked


def test_a_predicate_that_raises_asks():
    def broken(args, ctx):
        raise RuntimeError("no")

    assert gate(spec_of(specialist(tools=[tool(approval=broken)]))) is True


def test_the_events_of_an_approval():
    with runtime(tool(approval="always")) as rt:
        events = []
        for event in rt.run_specialist("s", script(("send", {})), thread_id="t"):
            events.append(event)
            if event["type"] == "approval-required":
                rt.respond_to_approval(event["data"]["id"], "approve", feedback="fine")
    asked = next(e["data"] for e in events if e["type"] == "approval-required")
    assert (asked["kind"], asked["target"], asked["payload"]) == ("tool", "send", {})
    assert (asked["resourceId"], asked["threadId"]) == ("acme", "t")
    decided = next(e["data"] for e in events if e["type"] == "approval-decision")
    assert decided["id"] == asked["id"] and decided["feedback"] == "fine"
    assert decided["outcome"]["outcome"] == "approve"


@pytest.mark.parametrize("outcome", ["reject", "revise"])
@pytest.mark.parametrize("feedback", [None, "too many"])
def test_rejected_tools(outcome, feedback):
    called = []
    gated = define_tool("send", input_schema={}, approval="always", handler=lambda args: called.append(1))
    with runtime(gated) as rt:
        events = []
        for event in rt.run_specialist("s", script(("send", {}))):
            events.append(event)
            if event["type"] == "approval-required":
                rt.respond_to_approval(event["data"]["id"], outcome, feedback=feedback)
    (result,) = results(events)
    assert result["error"] == "approval_rejected" and result["rejected"] is True and result["tool"] == "send"
    assert result["reason"] == (feedback or "Approval rejected") and called == []


def test_an_unknown_outcome():
    with runtime() as rt:
        with pytest.raises(harn.HarnSpecError, match='outcome must be "approve", "reject" or "revise", got "yes"'):
            rt.respond_to_approval("x", "yes")


# Plans.

PLAN = define_plan("P", schema={"type": "object", "properties": {"note": {"type": "string"}}})
ACTIONS = [{"kind": "price", "sku": "a", "to": 9}]


def planning(plan=PLAN, **deps):
    agents = [
        define_planner("p", model="m", prompt="Plan.", plan=plan),
        define_executor("e", model="m", prompt="Do.", plan=plan),
        define_coordinator("boss", model="m", prompt="Lead.", routes=["p", "e"]),
    ]
    return create_runtime(spec_of(*agents), interpreter="scripted", **deps)


def through(agent, *calls):
    return ("call_agent", {"agent": agent, "prompt": script(*calls)})


def store(body, plan_id="1", name="P"):
    return through("p", ("storePlan", {"specName": name, "planId": plan_id, "body": body}))


def execute(plan_id="1"):
    return through("e", ("executePlan", {"planId": plan_id}), ("getPlan", {"planId": plan_id}))


def plan_run(rt, *calls, outcome="approve", **answer):
    events = []
    for event in rt.query(script(*calls), thread_id="t"):
        events.append(event)
        if event["type"] == "approval-required":
            rt.respond_to_approval(event["data"]["id"], outcome, **answer)
    return events


def plan_results(events, name):
    return [
        e["result"] for e in events
        if e["type"] == "tool-invocation" and e["state"] == "result" and e["toolName"].endswith(name)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body,message",
    [
        ({"actions": ACTIONS, "note": 1}, "schema validation failed for spec 'P'"),
        ({"note": "x"}, "planner output for spec 'P' is missing the required `actions` field"),
        ({"actions": {}}, "`actions` for spec 'P' must be a JSON array"),
        ({"actions": []}, "planner output for spec 'P' produced an empty action sequence"),
        ({"actions": [{"sku": "a"}]}, "action #0 for spec 'P' failed to decode"),
    ],
    ids=["schema", "missing", "array", "empty", "decode"],
)
def test_wrong_plans(body, message):
    with planning(action_dispatcher=lambda actions: None) as rt:
        events = plan_run(rt, store(body))
        assert message in str(plan_results(events, "storePlan")[0])


def test_an_unknown_plan():
    with planning(action_dispatcher=lambda actions: None) as rt:
        events = plan_run(rt, store({"actions": ACTIONS}, name="Q"), execute("9"))
        assert "unknown plan spec: Q" in str(plan_results(events, "storePlan")[0])
        assert "plan not found: 9" in str(plan_results(events, "executePlan")[0])


def test_an_executed_plan():
    seen = []

    def dispatch(actions, ctx):
        seen.append(actions)
        return {"entitiesAffected": 1, "summary": "done", "details": {"n": 1}}

    with planning(action_dispatcher=dispatch) as rt:
        events = plan_run(rt, store({"actions": ACTIONS, "note": "x"}), execute())
        plan = plan_results(events, "getPlan")[0]
    assert seen == [[{"kind": "price", "payload": {"sku": "a", "to": 9}, "references": []}]]
    assert plan["status"] == "executed" and plan["context"] == {"note": "x"} and plan["owner"]
    assert plan["outcome"] == {
        "state": "executed", "entitiesAffected": 1, "summary": "done", "details": {"n": 1},
    }  # fmt: skip
    changes = [(e["data"]["from"], e["data"]["to"]) for e in events if e["type"] == "plan-status-change"]
    assert ("draft", "pending_approval") in changes and changes[-1] == ("executing", "executed")


def test_a_plan_is_executed_once():
    seen = []
    with planning(action_dispatcher=lambda actions: seen.append(1)) as rt:
        plan_run(rt, store({"actions": ACTIONS}), execute())
        events = plan_run(rt, execute(), store({"actions": ACTIONS}))
        assert "plan is in terminal state: executed" in str(plan_results(events, "executePlan")[0])
        assert "plan already exists: 1" in str(plan_results(events, "storePlan")[0])
    assert seen == [1]


@pytest.mark.parametrize(
    "returned,message",
    [("no", "entitiesAffected"), ({"entitiesAffected": -1}, "entitiesAffected"), (ValueError("broken"), "broken")],
    ids=["type", "negative", "raises"],
)
def test_a_dispatcher_that_fails(returned, message):
    def dispatch(actions, ctx):
        if isinstance(returned, Exception):
            raise returned
        return returned

    with planning(action_dispatcher=dispatch) as rt:
        events = plan_run(rt, store({"actions": ACTIONS}), execute())
        plan = plan_results(events, "getPlan")[0]
    assert plan["status"] == "failed" and plan["outcome"]["state"] == "failed"
    assert message in plan["outcome"]["message"]


def test_a_rejected_plan():
    with planning(action_dispatcher=lambda actions: None) as rt:
        events = plan_run(rt, store({"actions": ACTIONS}), execute(), outcome="reject", feedback="too dear")
        assert "Plan 1 rejected: too dear" in str(plan_results(events, "executePlan")[0])
        assert plan_results(events, "getPlan")[0]["status"] == "draft"


def test_a_revised_plan():
    with planning(action_dispatcher=lambda actions: None) as rt:
        events = plan_run(rt, store({"actions": ACTIONS}), execute(), outcome="revise", partial={"keep": [0]})
        expected = {"rejected": True, "should_revise": True, "plan_id": "1", "partial": {"keep": [0]}}
        assert plan_results(events, "executePlan")[0] == expected


@pytest.mark.parametrize("schemas", [[], [{"type": "object", "properties": {"kind": {"const": "a"}}}] * 2])
def test_wrong_unions(schemas):
    with pytest.raises(harn.HarnSpecError, match="tagged_union"):
        harn.tagged_union(schemas)


def test_a_schema_that_does_not_compile():
    plan = define_plan("P", schema={"type": "object", "properties": {"a": {"minimum": "x"}}})
    with pytest.raises(harn.HarnSpecError, match="schema compilation failed for spec 'P'"):
        planning(plan, action_dispatcher=lambda actions: None)


# References.


@pytest.fixture
def references():
    kind = harn.define_reference(
        "Set", schema={"ids": [str]}, ttl_ms=60_000, glimpse=lambda value: {"count": len(value["ids"])}
    )
    plain = harn.define_reference("Any", schema={})
    with runtime(references=[kind, plain]) as rt:
        yield rt


def test_equal_values_share_an_id(references):
    one = references.create_reference("Set", {"ids": ["a"]})
    assert references.create_reference("Set", {"ids": ["a"]})["id"] == one["id"] and len(one["id"]) == 64
    assert references.create_reference("Set", {"ids": ["b"]})["id"] != one["id"]


def test_summaries(references):
    ref = references.create_reference("Set", {"ids": ["a", "b"]})
    assert ref["glimpse"] == references.reference_glimpse(ref) == {"count": 2}
    given = references.create_reference("Set", {"ids": ["c"]}, glimpse=lambda value: {"first": value["ids"][0]})
    assert given["glimpse"] == {"first": "c"}
    plain = references.create_reference("Any", {"x": 1})
    assert references.reference_glimpse(plain) == {}


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda rt: rt.create_reference("Nope", {}), "unknown reference kind: Nope"),
        (lambda rt: rt.create_reference("Set", {"ids": 1}), "schema validation failed for kind 'Set'"),
        (lambda rt: rt.resolve_reference({"kind": "Set", "id": "x"}), "reference not found: kind=Set id=x"),
        (lambda rt: rt.reference_glimpse({"kind": "Nope", "id": "x"}), "unknown reference kind: Nope"),
    ],
    ids=["kind", "schema", "missing", "glimpse"],
)
def test_wrong_references(references, call, message):
    with pytest.raises(harn.HarnSpecError, match=message):
        call(references)


def test_tools_of_references():
    kind = harn.define_reference("Set", schema={"ids": [str]})
    agent = specialist(toolkits=["references"])
    with create_runtime(spec_of(agent, references=[kind]), interpreter="scripted") as rt:
        ref = rt.create_reference(kind, {"ids": ["a"]})
        args = {"kind": ref["kind"], "id": ref["id"]}
        (resolved, glimpse) = results(rt.run_specialist("s", script(("resolveRef", args), ("glimpseRef", args))))
    assert resolved["value"] == {"ids": ["a"]} and glimpse == {}


def test_the_dispatcher_gets_resolved_references():
    seen = []
    kind = harn.define_reference("Set", schema={"ids": [str]})
    agents = [
        define_planner("p", model="m", prompt="Plan.", plan=PLAN),
        define_executor("e", model="m", prompt="Do.", plan=PLAN),
        define_coordinator("boss", model="m", prompt="Lead.", routes=["p", "e"]),
    ]

    def dispatch(actions, ctx):
        seen.append(ctx["resolved_refs"])

    with create_runtime(spec_of(*agents, references=[kind]), interpreter="scripted", action_dispatcher=dispatch) as rt:
        ref = rt.create_reference("Set", {"ids": ["a"]})
        action = {"kind": "price", "references": [{"kind": "Set", "id": ref["id"]}]}
        plan_run(rt, store({"actions": [action]}), execute())
    assert seen == [{"Set": {ref["id"]: {"ids": ["a"]}}}]
