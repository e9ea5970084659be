"""The examples of the prompt guide as they stand, and the same in Harn: equal specs, equal events."""

import json
import re

import harn
from harn import create_runtime, define_coordinator, define_executor, define_plan, define_planner, define_runtime, define_tenant

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

GUIDE_TOOLKIT = 'ToolkitSpec(id="catalog", config={"tools": ["execute_query"]})'

GUIDE_JSON = 'json.dumps(runtime_spec.model_dump(by_alias=True, mode="json"))'

IN_HARN = '''
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


def guide():
    """Runs the examples; gives their names."""
    names = {
        "define_planner": define_planner,
        "define_executor": define_executor,
        "scenario_plan": define_plan("ScenarioPlan", schema={"type": "object", "required": ["actions"]}),
    }
    exec(GUIDE, names)
    exec(GUIDE_AGENTS, names)
    return names


def spec_of(names):
    coordinator = define_coordinator(
        name="coordinator",
        model="claude-sonnet-4-6",
        prompt=names["coordinator_prompt"],
        routes=["scenario_planner", "scenario_executor"],
    )
    agents = [coordinator, names["planner"], names["executor"]]
    return define_runtime(tenant=define_tenant("acme", "v1"), agents=agents)


def program(rest):
    head = 'import { runtime_spec_json } from "std/harness"\n'
    return head + IN_HARN + rest


def test_the_guide_runs_as_it_stands():
    names = guide()
    assert isinstance(names["coordinator_prompt"], harn.LayeredPrompt)
    assert names["coordinator_prompt"].text.startswith("# Identity\nYou coordinate scenario planning")
    assert "| search_products | Search products by query. | never |" in names["coordinator_prompt"].text
    assert names["planner"].stateful and not names["executor"].stateful
    runtime_spec = spec_of(names)
    wire = json.loads(eval(GUIDE_JSON))
    assert wire["agents"][1]["systemPrompt"] == names["planner"].system_prompt
    assert "maxTurns" not in wire["agents"][1] and "promptCacheKey" not in wire["agents"][1]
    toolkit = eval(GUIDE_TOOLKIT, {"ToolkitSpec": harn.ToolkitSpec})
    assert (toolkit.id, toolkit.config) == ("catalog", {"tools": ["execute_query"]})


def test_prompts_are_equal():
    told = harn.run(code=program("return [coordinator_prompt.text, coordinator_prompt.cache_key]")).value
    prompt = guide()["coordinator_prompt"]
    assert told == [prompt.text, prompt.cache_key]


def test_specs_are_equal():
    spec = spec_of(guide())
    result = harn.run(code=program("return [runtime_spec_json(spec), spec]"))
    wire, record = result.value
    assert harn.runtime_spec_json(spec) == wire
    assert spec.model_dump() == record.model_dump()


def scripts():
    body = {"actions": [{"kind": "price", "sku": "a", "to": 9}]}
    store = {"tool": "storePlan", "args": {"specName": "ScenarioPlan", "planId": "1", "body": body}}
    search = {"tool": "search_products", "args": {"query": "lamp", "limit": 2}}
    wrong = {"tool": "search_products", "args": {"query": "lamp"}}
    execute = {"tool": "executePlan", "args": {"planId": "1"}}
    route = lambda agent, *calls: {  # noqa: E731
        "tool": "call_agent",
        "args": {"agent": agent, "prompt": json.dumps({"script": list(calls)})},
    }
    calls = [
        route("scenario_planner", store),
        route("scenario_executor", search, wrong, execute),
        route("nobody", search),
    ]
    return [json.dumps({"script": calls}), "hello"]


def told(events):
    """Events without what differs from run to run: ids that are made up, and times."""
    ids = {}

    def shown(value, key=""):
        if isinstance(value, dict):
            return {name: shown(part, name) for name, part in value.items()}
        if isinstance(value, list):
            return [shown(part) for part in value]
        if key == "durationMs" or (key.endswith("At") and value is not None):
            return 0
        if isinstance(value, str) and "T" in value:
            value = re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", value)
        if key in ("id", "toolInvocationId") and isinstance(value, str) and len(value) == 36:
            return ids.setdefault(value, f"id-{len(ids)}")
        return value

    return [shown(event) for event in events]


def test_events_are_equal():
    async def dispatch(actions, ctx):
        return None

    rt = create_runtime(spec_of(guide()), interpreter="scripted", action_dispatcher=dispatch)
    own = []
    for prompt in scripts():
        for event in rt.query(prompt, thread_id="t"):
            own.append(event)
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
    others = harn.run(code=program(rest), globals={"prompts": scripts()}).value
    assert told(own) == told(others)
    assert {e["type"] for e in own} >= {"approval-required", "plan-status-change", "finish", "data-tool-agent"}


def test_the_prompt_reaches_the_model_unchanged():
    prompt = guide()["coordinator_prompt"]
    agent = harn.define_specialist("s", model={"id": "mock", "provider": "mock"}, prompt=prompt)
    rt = create_runtime(define_runtime(tenant=define_tenant("acme", "v1"), agents=[agent]), mocks=[{"text": "ok"}])
    list(rt.run_specialist("s", "hi"))
    assert rt.mock_calls()[0]["system"] == prompt.text
