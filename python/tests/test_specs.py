"""Prompts and specs."""

import typing

import pytest

import harn
from harn import define_specialist, define_tenant, define_tool, layered_prompt

EXAMPLE = """# Identity
You coordinate refunds.

# Communication
Be brief.

# Operational Rules
- Ask the planner first.
- Never guess an amount.

# Tools
| Tool | Description | Approval |
| --- | --- | --- |
| lookup_order | Find an order by id. | never |
| send_mail |  |  |

# Domain Knowledge
```json
{
  "currencies": [
    "EUR",
    "USD"
  ],
  "limits": {
    "auto": 50.0
  }
}
```

# Safety
No refunds above the limit."""


def test_a_layered_prompt():
    prompt = layered_prompt(
        identity="You coordinate refunds.",
        communication="Be brief.",
        operational_rules=["Ask the planner first.", "Never guess an amount."],
        tools=["send_mail", {"name": "lookup_order", "description": "Find an order by id.", "approval": "never"}],
        domain_knowledge={"limits": {"auto": 50.0}, "currencies": ["EUR", "USD"]},
        safety="No refunds above the limit.",
    )
    assert prompt.text == EXAMPLE and str(prompt) == EXAMPLE
    assert prompt.cache_key == "c632bdb4352c01be7115c74776077eca161a43191e7ea43ae6d9277aaaabc346"


def test_the_order_of_keys_changes_nothing():
    one = layered_prompt(identity="x", domain_knowledge={"a": 1, "b": {"c": 1, "d": 2}})
    two = layered_prompt(domain_knowledge={"b": {"d": 2, "c": 1}, "a": 1}, identity="x")
    assert one == two and one.cache_key == two.cache_key and hash(one) == hash(two)


def test_models_as_domain_knowledge():
    class Facts:
        def model_dump(self, mode):
            return {"b": 1, "a": 2}

    assert layered_prompt(identity="x", domain_knowledge=Facts()) == layered_prompt(
        identity="x", domain_knowledge={"a": 2, "b": 1}
    )


@pytest.mark.parametrize(
    "layers,message",
    [
        ({}, "layered_prompt: identity is required"),
        ({"identity": "  "}, "layered_prompt: identity is required"),
        ({"identity": 1}, "layered_prompt: identity must be a string"),
        ({"identity": "x", "safety": {"a": 1}}, "safety must be a string or a list of strings"),
        ({"identity": "x", "examples": {1, 2}}, "examples contains an unsupported value of type set"),
        ({"identity": "x", "examples": [float("inf")]}, "examples contains a non-finite float"),
    ],
)
def test_wrong_layers(layers, message):
    with pytest.raises(harn.HarnSpecError, match=message) as caught:
        layered_prompt(**layers)
    assert isinstance(caught.value, ValueError)


def test_unknown_layers():
    with pytest.raises(TypeError):
        layered_prompt(identity="x", mood="good")


def test_a_tool_is_a_decorator():
    @define_tool(name="find", description="Finds.", input_schema={"query": str, "limit": int}, approval="never")
    async def find(args, ctx):
        return args

    assert isinstance(find, harn.ToolSpec)
    assert (find.name, find.description, find.approval) == ("find", "Finds.", {"kind": "never"})
    assert find.input_schema == {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["limit", "query"],
    }
    assert find.handler.__name__ == "find"
    with pytest.raises(StopIteration):
        find({"query": "x"}, None).send(None)


def test_a_tool_without_a_handler():
    tool = define_tool("find", input_schema={})
    assert tool.handler is None
    bound = tool(lambda args, ctx: 5)
    assert tool.handler is None and bound({}, None) == 5
    with pytest.raises(TypeError, match="has no handler yet"):
        tool(1)


@pytest.mark.parametrize(
    "given,expected",
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (typing.Any, {}),
        (typing.List[str], {"type": "array", "items": {"type": "string"}}),
        (list, {"type": "array"}),
        (typing.Dict[str, int], {"type": "object"}),
        (typing.Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("string?", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ],
    ids=str,
)
def test_types_of_schemas(given, expected):
    assert define_tool("t", input_schema={"x": given}).input_schema["properties"]["x"] == expected


def test_models_as_schemas():
    class Query:
        @staticmethod
        def model_json_schema():
            return {"type": "object", "properties": {"q": {"type": "string"}}}

    assert define_tool("t", input_schema=Query).input_schema["properties"] == {"q": {"type": "string"}}


def test_unsupported_schemas():
    with pytest.raises(harn.HarnSpecError, match="unsupported schema"):
        define_tool("t", input_schema={"x": complex})
    with pytest.raises(harn.HarnSpecError, match="approval must be"):
        define_tool("t", input_schema={}, approval="sometimes")


def test_agents():
    prompt = layered_prompt(identity="You look.")
    agent = define_specialist("s", model="m", prompt=prompt)
    assert (agent.role, agent.stateful, agent.system_prompt) == ("specialist", False, prompt.text)
    assert agent.prompt_cache_key == prompt.cache_key
    plain = define_specialist(name="s", model={"id": "m", "provider": "mock"}, prompt="You look.")
    assert plain.prompt_cache_key is None and plain.model == {"id": "m", "provider": "mock"}
    wire = agent.model_dump(by_alias=True, mode="json")
    assert wire == {
        "name": "s",
        "role": "specialist",
        "stateful": False,
        "model": {"id": "m", "provider": None},
        "systemPrompt": "# Identity\nYou look.",
        "routes": [],
        "toolkits": [],
    }
    assert define_specialist("s", model="m", prompt="x", max_turns=3).model_dump(by_alias=True)["maxTurns"] == 3


def test_prompts_are_text_or_layers():
    for prompt in (1, None, {"text": "x"}):
        with pytest.raises(TypeError, match="prompt must be a string or LayeredPrompt"):
            define_specialist("s", model="m", prompt=prompt)


def test_errors_of_agents_and_runtimes():
    with pytest.raises(harn.HarnSpecError, match="define_coordinator requires at least one route"):
        harn.define_coordinator("c", model="m", prompt="x", routes=[])
    twice = [define_specialist("s", model="m", prompt="x")] * 2
    with pytest.raises(harn.HarnSpecError, match="define_runtime: duplicate agent name 's'"):
        harn.define_runtime(tenant=define_tenant("t", "v"), agents=twice)
    with pytest.raises(TypeError, match="tools must be a list"):
        define_specialist("s", model="m", prompt="x", tools="find")


def test_specs_never_change():
    agent = define_specialist("s", model="m", prompt="x")
    with pytest.raises(AttributeError, match="is immutable"):
        agent.name = "t"
    with pytest.raises(AttributeError, match="AgentSpec has no field 'nope'"):
        agent.nope


def test_the_wire_form_makes_the_round_trip():
    spec = harn.define_runtime(
        tenant=define_tenant("t", "v"),
        agents=[define_specialist("s", model="m", prompt="x", max_turns=2)],
        toolkits=[harn.ToolkitSpec(id="references")],
        references=[harn.define_reference("Set", schema={"ids": [str]}, ttl_ms=100)],
        plans=[harn.define_plan("P", schema={"actions": list}, display_aliases={"draft": "Proposal"})],
    )
    wire = harn.runtime_spec_json(spec)
    assert harn.runtime_spec_json(harn.runtime_spec_parse(wire)) == wire
    assert spec.model_dump(by_alias=True, mode="json")["agents"][0]["maxTurns"] == 2


def test_prompt_explain():
    told = harn.prompt_explain(system="You help.", tools=[{"name": "todo", "guidance": "Tick items."}])
    assert told["system"] == "You help.\n\nTick items."
    with pytest.raises(harn.HarnError):
        harn.prompt_explain(tools=5)


def test_conversations():
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]
    conversation = harn.parse_conversation(messages)
    assert (conversation.prompt, conversation.system, conversation.history) == ("hi", "s", [])
    program = harn.chat_program(conversation, "m", define_tenant("t", "v"))
    assert (program.system_prompt, program.model, program.tenant.resource_id) == ("s", "m", "t")


def test_tagged_union():
    one = lambda kind: {"type": "object", "properties": {"kind": {"const": kind}}}  # noqa: E731
    assert len(harn.tagged_union([one("a"), one("b")])["oneOf"]) == 2
