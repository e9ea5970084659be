"""Tools, agents and runtime specs: wire forms, defaults, errors."""

import json

import pytest

import harn
from harn import define_coordinator, define_executor, define_plan, define_planner, define_specialist, define_tool

PLAN = define_plan("P", schema={"type": "object"})
TENANT = harn.define_tenant("acme", "v1")


@pytest.mark.parametrize(
    "given,wire",
    [
        ("never", {"kind": "never"}),
        ("always", {"kind": "always"}),
        ({"kind": "dynamic", "value": "big"}, {"kind": "dynamic", "value": "big"}),
        (lambda args, ctx: True, {"kind": "dynamic", "value": "t_approval"}),
    ],
    ids=["never", "always", "dynamic", "predicate"],
)
def test_approvals_of_tools(given, wire):
    assert define_tool("t", input_schema={}, approval=given).approval == wire


@pytest.mark.parametrize(
    "given,message",
    [
        ("maybe", "define_tool: approval must be 'never', 'always', or a dynamic policy"),
        ({"kind": "dynamic", "value": ""}, "define_tool: approval dynamic value must be a non-empty binding id"),
    ],
    ids=["word", "value"],
)
def test_wrong_approvals_of_tools(given, message):
    with pytest.raises(harn.HarnSpecError, match=message):
        define_tool("t", input_schema={}, approval=given)


def test_the_wire_form_of_a_tool():
    tool = define_tool(
        "t", description="d", input_schema={"max_count": int}, output_schema={"n": int}, binding_id="b",
        approval=lambda args: True, handler=lambda args: 1,
    )  # fmt: skip
    assert tool.model_dump(by_alias=True) == {
        "name": "t",
        "description": "d",
        "inputSchema": {
            "type": "object",
            "properties": {"max_count": {"type": "integer"}},
            "required": ["max_count"],
        },
        "approval": {"kind": "dynamic", "value": "b"},
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        "bindingId": "b",
    }
    assert json.loads(tool.model_dump_json(by_alias=True)) == tool.model_dump(by_alias=True)


@pytest.mark.parametrize(
    "define,extra,stateful",
    [
        (define_coordinator, {"routes": ["s"]}, True),
        (define_planner, {"plan": PLAN}, True),
        (define_executor, {"plan": PLAN}, False),
        (define_specialist, {}, False),
    ],
    ids=["coordinator", "planner", "executor", "specialist"],
)
def test_defaults_by_role(define, extra, stateful):
    agent = define("a", model="m", prompt="x", **extra)
    assert agent.role == define.__name__[len("define_") :]
    assert agent.stateful is stateful and agent.max_turns is None and agent.toolkits == []
    assert define("a", model="m", prompt="x", stateful=not stateful, **extra).stateful is not stateful
    assert define(name="a", model={"id": "m"}, prompt="x", **extra) == agent


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: define_specialist("", model="m", prompt="x"), "name must be a non-empty string"),
        (lambda: define_specialist("s", model="", prompt="x"), "model"),
        (lambda: define_planner("p", model="m", prompt="x", plan=None), "plan"),
        (lambda: define_specialist("s", model="m", prompt="x", max_turns=0), "max_turns must be an int of at least 1"),
        (
            lambda: define_specialist("s", model="m", prompt="x", tool_approvals={"": "always"}),
            "tool_approvals keys must be non-empty tool names",
        ),
        (lambda: define_specialist("s", model={"id": "m", "x": 1}, prompt="x"), "unknown key 'x'"),
        (lambda: harn.define_tenant("", "v"), "define_tenant"),
        (lambda: define_plan("P", schema={}, display_aliases={"lost": "x"}), "unsupported plan display status `lost`"),
    ],
)
def test_wrong_agents(make, message):
    with pytest.raises(harn.HarnSpecError, match=message):
        make()


def specs(*agents, **parts):
    return harn.define_runtime(tenant=TENANT, agents=list(agents), **parts)


def agent(name, **options):
    return define_specialist(name, model="m", prompt="x", **options)


def boss(*routes, name="boss", **options):
    return define_coordinator(name, model="m", prompt="x", routes=list(routes), **options)


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: specs(agent("a"), agent("a")), "duplicate agent name 'a'"),
        (
            lambda: specs(boss("a"), boss("a", name="b"), agent("a")),
            "multiple coordinator agents are not supported",
        ),
        (lambda: specs(boss("boss")), "agent 'boss' cannot route to itself"),
        (lambda: specs(boss("a", "a"), agent("a")), "agent 'boss' declares duplicate route 'a'"),
        (lambda: specs(boss("z"), agent("a")), "agent 'boss' declares unknown route target 'z'"),
        (
            lambda: specs(agent("a"), approval_overrides={"agents": {"z": {}, "b": {}}}),
            r"approval_overrides references unknown agent\(s\): \[b, z\]",
        ),
        (lambda: specs(plans=[PLAN, PLAN]), "duplicate plan spec name: P"),
        (
            lambda: specs(references=[harn.define_reference("R", schema={})] * 2),
            "duplicate reference spec name: R",
        ),
        (lambda: specs(approval_policies={"x": "always"}), "unknown key 'x'"),
    ],
)
def test_wrong_runtimes(make, message):
    with pytest.raises(harn.HarnSpecError, match=f"^define_runtime: {message}"):
        make()


def test_plans_and_toolkits_of_agents_are_collected():
    planner = define_planner("p", model="m", prompt="x", plan=PLAN, toolkits=["references", "references"])
    spec = specs(planner)
    assert [plan.name for plan in spec.plans] == ["P"]
    assert [toolkit.id for toolkit in spec.toolkits] == ["references"] and planner.toolkits == ["references"]


def test_the_wire_form_of_a_runtime():
    tool = define_tool("post", input_schema={}, handler=lambda args: 1)
    executor = define_executor("e", model="m", prompt="x", plan=PLAN, tools=[tool], max_turns=3)
    spec = specs(
        executor,
        references=[harn.define_reference("R", schema={}, ttl_ms=100)],
        plans=[define_plan("Q", schema={}, display_aliases={"draft": "Proposal"})],
        toolkits=[harn.ToolkitSpec("catalog", {"tools": ["execute_query"]}), harn.ToolkitSpec("plans")],
        approval_policies={"plans": "always", "tools": "never"},
        approval_overrides={"agents": {"e": {"plans": "never"}}, "tools": {"e": {"post": "always"}}},
        providers={"mock": {"base_url": "http://localhost"}},
        storage_factories={"kv": {"kind": "memory"}},
    )
    wire = spec.model_dump(by_alias=True, mode="json")
    assert wire["tenant"] == {"resourceId": "acme", "version": "v1"}
    assert wire["agents"][0]["maxTurns"] == 3 and "tools" not in wire["agents"][0]
    empty = {"type": "object", "properties": {}, "required": []}
    assert wire["references"] == [{"name": "R", "schema": empty, "ttlMs": 100}]
    assert wire["plans"][0] == {
        "name": "Q",
        "schema": empty,
        "displayAliases": [{"status": "draft", "alias": "Proposal"}],
    }
    assert wire["toolkits"] == [
        {"id": "catalog", "config": {"tools": ["execute_query"]}},
        {"id": "plans", "config": None},
    ]
    assert wire["approvalPolicies"] == {"plans": {"kind": "always"}, "tools": {"kind": "never"}}
    assert wire["approvalOverrides"] == {
        "agents": {"e": {"plans": {"kind": "never"}}},
        "tools": {"e": {"post": {"kind": "always"}}},
    }
    assert wire["providers"] == {"mock": {"baseUrl": "http://localhost"}}
    assert wire["storageFactories"]["kv"] == {"kind": "memory"} and wire["storageFactories"]["plans"] is None
    assert list(wire) == sorted(wire)
    assert harn.runtime_spec_json(harn.runtime_spec_parse(wire)) == harn.runtime_spec_json(spec)


def test_overrides_that_are_not_set_are_omitted():
    assert "approvalOverrides" not in specs(agent("a")).model_dump(by_alias=True)


def test_unknown_fields_of_the_wire_form():
    with pytest.raises(harn.HarnSpecError, match="runtime spec: unknown field 'colour'"):
        harn.runtime_spec_parse('{"tenant": {"resourceId": "a", "version": "v"}, "colour": 1}')


def test_dicts_stand_for_specs():
    spec = harn.define_runtime(
        tenant={"resource_id": "acme", "version": "v1"},
        agents=[agent("a")],
        plans=[{"name": "Q", "schema": {"type": "object"}}],
    )
    assert spec.plans[0].name == "Q" and spec.tenant == TENANT


@pytest.mark.parametrize("mode", ["python", "json"])
def test_the_modes_of_a_dump(mode):
    spec = specs(agent("a"))
    assert spec.model_dump(mode=mode)["agents"][0]["system_prompt"] == "x"
    assert spec.model_dump(by_alias=True, mode=mode)["agents"][0]["systemPrompt"] == "x"
    with pytest.raises(ValueError, match="mode must be 'python' or 'json'"):
        spec.model_dump(mode="xml")


def test_chat_programs():
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "system", "content": "later"},
        {"role": "user", "content": "three"},
    ]
    conversation = harn.parse_conversation(messages)
    assert (conversation.prompt, conversation.system) == ("three", "s")
    assert [m["content"] for m in conversation.history] == ["one", "two"]
    program = harn.chat_program(conversation, "m", TENANT)
    other = harn.chat_program_with_system(program, "new")
    assert (program.system_prompt, other.system_prompt) == ("s", "new")
    assert other.conversation == program.conversation and other.tenant == TENANT


def test_conversations_without_a_user_or_text():
    assert harn.parse_conversation([{"role": "user", "content": " "}]).prompt == "Hello"
    with pytest.raises(harn.HarnSpecError, match="Conversation must contain at least one user message"):
        harn.parse_conversation([{"role": "system", "content": "s"}])
