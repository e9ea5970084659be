"""The Python examples of the prompt guide, word for word, and the same program in Harn: equal specs, equal events."""

import json
import re

import pytest

import harn
from flowai_harness import create_runtime, define_coordinator, define_executor, define_plan, define_planner
from flowai_harness import LayeredPrompt, ToolkitSpec, define_runtime, define_tenant

GUIDE = '''
from flowai_harness import define_tool, layered_prompt

domain_knowledge = {
    "entities": ["product", "segment", "channel"],
    "metrics": ["revenue", "margin"],
}

@define_tool(
    name="search_products",
    description="Search products by query.",
    input_schema={"query": str, "limit": int},
    approval="never",
)
async def search_products(args, ctx):
    ...

coordinator_prompt = layered_prompt(
    identity="You coordinate scenario planning for Acme customers.",
    communication="Be concise and surface approval points explicitly.",
    operational_rules=[
        "Route plan-building work to the planner.",
        "Route approved materialization work to the executor.",
    ],
    tools=[search_products],
    domain_knowledge=domain_knowledge,
    safety=["Never execute side-effecting tools without approval."],
    output_format={"events": ["plan_proposed", "approval_required", "tool_result"]},
    examples=[{"user": "Branch Q3 pricing into a 5% promotion for top EU SKUs."}],
)
'''

GUIDE_AGENTS = '''
planner = define_planner(
    name="scenario_planner",
    model="claude-sonnet-4-6",
    plan=scenario_plan,
    prompt=layered_prompt(
        identity="You produce typed scenario plans.",
        domain_knowledge=domain_knowledge,
    ),
)
executor = define_executor(
    name="scenario_executor",
    model="claude-sonnet-4-6",
    plan=scenario_plan,
    tools=[search_products],
    prompt=layered_prompt(
        identity="You execute approved scenario plans action by action.",
        operational_rules=["Execute only approved plans."],
        domain_knowledge=domain_knowledge,
        tools=[search_products],
    ),
)
'''

GUIDE_PROMPT_OF = '''
def _prompt_text_and_cache_key(prompt):
    if isinstance(prompt, LayeredPrompt):
        return prompt.text, prompt.cache_key
    if isinstance(prompt, str):
        return prompt, None
    raise TypeError("prompt must be a string or LayeredPrompt")
'''

GUIDE_TOOLKIT = 'ToolkitSpec(id="catalog", config={"tools": ["execute_query"]})'

GUIDE_JSON = 'json.dumps(runtime_spec.model_dump(by_alias=True, mode="json"))'

GUIDE_WIRE = '''
{
  "agents": [
    {
      "name": "scenario_planner",
      "role": "planner",
      "stateful": true,
      "model": {"id": "claude-sonnet-4-6", "provider": null},
      "systemPrompt": "# Identity\\nYou produce typed scenario plans.",
      "routes": [],
      "toolkits": []
    }
  ]
}
'''

PROMPT = """# Identity
You coordinate scenario planning for Acme customers.

# Communication
Be concise and surface approval points explicitly.

# Operational Rules
- Route plan-building work to the planner.
- Route approved materialization work to the executor.

# Tools
| Tool | Description | Approval |
| --- | --- | --- |
| search_products | Search products by query. | never |

# Domain Knowledge
```json
{
  "entities": [
    "product",
    "segment",
    "channel"
  ],
  "metrics": [
    "revenue",
    "margin"
  ]
}
```

# Safety
- Never execute side-effecting tools without approval.

# Output Format
```json
{
  "events": [
    "plan_proposed",
    "approval_required",
    "tool_result"
  ]
}
```

# Examples
```json
[
  {
    "user": "Branch Q3 pricing into a 5% promotion for top EU SKUs."
  }
]
```"""

IN_HARN = '''
import { runtime_spec_json } from "std/harness"
let domain_knowledge = {entities: ["product", "segment", "channel"], metrics: ["revenue", "margin"]}
let search_products = define_tool("search_products", {
  description: "Search products by query.",
  input_schema: {query: "string", limit: "int"},
  approval: "never",
}, { args, ctx -> nil })
let coordinator_prompt = layered_prompt({
  identity: "You coordinate scenario planning for Acme customers.",
  communication: "Be concise and surface approval points explicitly.",
  operational_rules: ["Route plan-building work to the planner.", "Route approved materialization work to the executor."],
  tools: [search_products],
  domain_knowledge: domain_knowledge,
  safety: ["Never execute side-effecting tools without approval."],
  output_format: {events: ["plan_proposed", "approval_required", "tool_result"]},
  examples: [{user: "Branch Q3 pricing into a 5% promotion for top EU SKUs."}],
})
let scenario_plan = define_plan("ScenarioPlan", {schema: {type: "object", required: ["actions"]}})
let planner = define_planner("scenario_planner", {
  model: "claude-sonnet-4-6",
  plan: scenario_plan,
  prompt: layered_prompt({identity: "You produce typed scenario plans.", domain_knowledge: domain_knowledge}),
})
let executor = define_executor("scenario_executor", {
  model: "claude-sonnet-4-6",
  plan: scenario_plan,
  tools: [search_products],
  prompt: layered_prompt({
    identity: "You execute approved scenario plans action by action.",
    operational_rules: ["Execute only approved plans."],
    domain_knowledge: domain_knowledge,
    tools: [search_products],
  }),
})
let coordinator = define_coordinator("coordinator", {
  model: "claude-sonnet-4-6", prompt: coordinator_prompt, routes: ["scenario_planner", "scenario_executor"],
})
let spec = define_runtime({tenant: define_tenant("acme", "v1"), agents: [coordinator, planner, executor]})
let rt = create_runtime(spec, {interpreter: "scripted", action_dispatcher: { actions, ctx -> nil }})

'''


@pytest.fixture(scope="module")
def guide():
    """The names of the examples, and the spec of their agents."""
    names = {
        "define_planner": define_planner,
        "define_executor": define_executor,
        "scenario_plan": define_plan("ScenarioPlan", schema={"type": "object", "required": ["actions"]}),
    }
    exec(GUIDE, names)
    exec(GUIDE_AGENTS, names)
    coordinator = define_coordinator(
        name="coordinator",
        model="claude-sonnet-4-6",
        prompt=names["coordinator_prompt"],
        routes=["scenario_planner", "scenario_executor"],
    )
    agents = [coordinator, names["planner"], names["executor"]]
    names["runtime_spec"] = define_runtime(tenant=define_tenant("acme", "v1"), agents=agents)
    return names


def in_harn(rest):
    return IN_HARN + rest


def test_the_prompt_of_the_guide(guide):
    prompt = guide["coordinator_prompt"]
    assert isinstance(prompt, LayeredPrompt) and prompt.text == PROMPT
    assert len(prompt.cache_key) == 64


def test_the_tool_of_the_guide(guide):
    tool = guide["search_products"]
    assert isinstance(tool, harn.ToolSpec) and tool.handler.__name__ == "search_products"
    assert tool.input_schema["properties"] == {"query": {"type": "string"}, "limit": {"type": "integer"}}


def test_the_agents_of_the_guide(guide):
    assert guide["planner"].stateful and not guide["executor"].stateful
    assert guide["planner"].system_prompt.startswith("# Identity\nYou produce typed scenario plans.\n\n# Domain")
    assert "# Operational Rules\n- Execute only approved plans." in guide["executor"].system_prompt


def test_prompts_are_normalized_as_in_the_guide(guide):
    names = {"LayeredPrompt": LayeredPrompt}
    exec(GUIDE_PROMPT_OF, names)
    text_and_key = names["_prompt_text_and_cache_key"]
    for prompt in (guide["coordinator_prompt"], "You help."):
        agent = harn.define_specialist("s", model="m", prompt=prompt)
        assert (agent.system_prompt, agent.prompt_cache_key) == text_and_key(prompt)
    for wrong in (None, 1, {"text": "x"}):
        for check in (text_and_key, lambda p: harn.define_specialist("s", model="m", prompt=p)):
            with pytest.raises(TypeError, match="^prompt must be a string or LayeredPrompt$"):
                check(wrong)


def test_the_toolkit_of_the_guide():
    toolkit = eval(GUIDE_TOOLKIT, {"ToolkitSpec": ToolkitSpec})
    assert (toolkit.id, toolkit.config) == ("catalog", {"tools": ["execute_query"]})


def test_the_json_of_the_guide(guide):
    text = eval(GUIDE_JSON, {"json": json, "runtime_spec": guide["runtime_spec"]})
    coordinator, planner, executor = json.loads(text)["agents"]
    assert planner["systemPrompt"] == guide["planner"].system_prompt
    assert coordinator["routes"] == ["scenario_planner", "scenario_executor"]
    for agent in (coordinator, planner, executor):
        assert set(agent) == {"name", "role", "stateful", "model", "systemPrompt", "routes", "toolkits"}


def test_the_wire_form_of_the_guide():
    plan = define_plan("ScenarioPlan", schema={"type": "object"})
    prompt = harn.layered_prompt(identity="You produce typed scenario plans.")
    agent = define_planner(name="scenario_planner", model="claude-sonnet-4-6", plan=plan, prompt=prompt)
    wire = define_runtime(tenant=define_tenant("a", "v"), agents=[agent]).model_dump(by_alias=True, mode="json")
    assert wire["agents"] == json.loads(GUIDE_WIRE)["agents"]
    assert agent.model_dump(by_alias=True) == wire["agents"][0]


def test_the_submodules_of_the_guide():
    from flowai_harness.agents import define_planner as of_agents
    from flowai_harness.prompts import layered_prompt as of_prompts

    assert of_agents is harn.define_planner and of_prompts is harn.layered_prompt
    import flowai_harness

    assert all(getattr(flowai_harness, name) is getattr(harn, name) for name in harn.__all__)


def test_prompts_are_equal_in_harn(guide):
    prompt = guide["coordinator_prompt"]
    result = harn.run(code=in_harn("return [coordinator_prompt.text, coordinator_prompt.cache_key]"))
    assert result.value == [prompt.text, prompt.cache_key]


def test_specs_are_equal_in_harn(guide):
    spec = guide["runtime_spec"]
    wire, record = harn.run(code=in_harn("return [runtime_spec_json(spec), spec]")).value
    assert harn.runtime_spec_json(spec) == wire
    assert spec.model_dump() == record.model_dump()


def prompts():
    body = {"actions": [{"kind": "price", "sku": "a", "to": 9}]}
    store = {"tool": "storePlan", "args": {"specName": "ScenarioPlan", "planId": "1", "body": body}}
    search = {"tool": "search_products", "args": {"query": "lamp", "limit": 2}}
    invalid = {"tool": "search_products", "args": {"query": "lamp"}}
    execute = {"tool": "executePlan", "args": {"planId": "1"}}
    route = lambda agent, *calls: {  # noqa: E731
        "tool": "call_agent",
        "args": {"agent": agent, "prompt": json.dumps({"script": list(calls)})},
    }
    calls = [
        route("scenario_planner", store),
        route("scenario_executor", search, invalid, execute),
        route("unknown", search),
    ]
    return [json.dumps({"script": calls}), "hello"]


def comparable(events):
    """Events without generated ids and times."""
    ids = {}

    def plain(value, key=""):
        if isinstance(value, dict):
            return {name: plain(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [plain(part) for part in value]
        if key == "durationMs" or (key.endswith("At") and value is not None):
            return 0
        if isinstance(value, str) and "T" in value:
            value = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", value)
        if key in ("id", "toolInvocationId") and isinstance(value, str) and len(value) == 36:
            return ids.setdefault(value, f"id-{len(ids)}")
        return value

    return [plain(event) for event in events]


def test_events_are_equal_in_harn(guide):
    async def dispatch(actions, ctx):
        return None

    events = []
    with create_runtime(guide["runtime_spec"], interpreter="scripted", action_dispatcher=dispatch) as rt:
        for prompt in prompts():
            for event in rt.query(prompt, thread_id="t"):
                events.append(event)
                if event["type"] == "approval-required":
                    rt.respond_to_approval(event["data"]["id"], "approve")
    rest = """
    var all = []
    for prompt in prompts {
      for event in rt.query(prompt, {thread_id: "t"}) {
        all = all + [event]
        if event.type == "approval-required" { rt.respond_to_approval(event.data.id, "approve") }
      }
    }
    return all
    """
    others = harn.run(code=in_harn(rest), globals={"prompts": prompts()}).value
    assert comparable(events) == comparable(others)
    assert {e["type"] for e in events} >= {"approval-required", "plan-status-change", "finish", "data-tool-agent"}


def test_the_prompt_reaches_the_model_unchanged(guide):
    prompt = guide["coordinator_prompt"]
    agent = harn.define_specialist("s", model={"id": "mock", "provider": "mock"}, prompt=prompt)
    spec = define_runtime(tenant=define_tenant("acme", "v1"), agents=[agent])
    with create_runtime(spec, mocks=[{"text": "ok"}]) as rt:
        assert rt.registrations()[0]["system_prompt"] == prompt.text
        assert rt.program_for("s", "hi").system_prompt == prompt.text
        list(rt.run_specialist("s", "hi"))
        assert rt.mock_calls()[0]["system"] == prompt.text
