"""Layered prompts: sections, the tools table, errors."""

import hashlib

import pytest

import harn
from harn import augment_prompt_tools, define_tool, layered_prompt

SECTIONS = [
    ("communication", "Communication"),
    ("operational_rules", "Operational Rules"),
    ("domain_knowledge", "Domain Knowledge"),
    ("safety", "Safety"),
    ("output_format", "Output Format"),
    ("examples", "Examples"),
]


@pytest.mark.parametrize("key,heading", SECTIONS)
def test_a_string_is_verbatim_without_outer_whitespace(key, heading):
    prompt = layered_prompt(identity="x", **{key: "\n  one\n\n  two  \n"})
    assert prompt.text == f"# Identity\nx\n\n# {heading}\none\n\n  two"


@pytest.mark.parametrize("key,heading", [s for s in SECTIONS if s[0] in ("communication", "operational_rules", "safety")])
def test_a_list_of_strings_is_a_list(key, heading):
    for items in (["a", "b"], ("a", "b")):
        assert layered_prompt(identity="x", **{key: items}).text.endswith(f"# {heading}\n- a\n- b")


@pytest.mark.parametrize("key", [s[0] for s in SECTIONS])
@pytest.mark.parametrize("empty", [None, "", "  ", []], ids=repr)
def test_empty_sections_are_omitted(key, empty):
    assert layered_prompt(identity="x", **{key: empty}).text == "# Identity\nx"


@pytest.mark.parametrize(
    "value,expected",
    [
        ({"b": 1, "a": [True, None]}, '{\n  "a": [\n    true,\n    null\n  ],\n  "b": 1\n}'),
        ([1.0, 0.1, -2.5], "[\n  1.0,\n  0.1,\n  -2.5\n]"),
        ({"x": {}, "y": []}, '{\n  "x": {},\n  "y": []\n}'),
        (["ünïcode"], '[\n  "ünïcode"\n]'),
        ((1, 2), "[\n  1,\n  2\n]"),
    ],
    ids=lambda v: str(v)[:16],
)
def test_structured_values_are_json(value, expected):
    text = layered_prompt(identity="x", domain_knowledge=value).text
    assert text == f"# Identity\nx\n\n# Domain Knowledge\n```json\n{expected}\n```"


def test_the_cache_key_is_the_hash_of_the_text():
    prompt = layered_prompt(identity="Wer? Ich.")
    assert prompt.cache_key == hashlib.sha256(prompt.text.encode()).hexdigest()
    assert layered_prompt(identity="Wer? Ich. ").cache_key == prompt.cache_key
    assert layered_prompt(identity="Wer?").cache_key != prompt.cache_key


def test_rows_of_the_tools_table():
    tools = [
        "send_mail",
        {"name": "pipe", "description": "a | b\nc", "approval": {"kind": "always"}},
        define_tool("find", description="Finds.", input_schema={}),
        {"name": " "},
        {"name": "send_mail", "description": "later"},
    ]
    assert layered_prompt(identity="x", tools=iter(tools)).text.split("| --- | --- | --- |\n")[1].splitlines() == [
        "| find | Finds. | never |",
        "| pipe | a \\| b c | always |",
        "| send_mail |  |  |",
    ]


@pytest.mark.parametrize(
    "layers,message",
    [
        ({"communication": 5}, "communication must be a string or a list of strings"),
        ({"operational_rules": ["a", 1]}, "operational_rules must be a string or a list of strings"),
        ({"tools": "find"}, "tools must be a list of tool specs, dicts or names"),
        ({"tools": [1]}, "tools must be a list of tool specs, dicts or names"),
        ({"tools": [{"name": "a", "approval": 1}]}, "tool approval must be a string or a dict with a string `kind`"),
        ({"domain_knowledge": {"f": print}}, "domain_knowledge contains an unsupported value of type"),
        ({"output_format": [float("nan")]}, "output_format contains a non-finite float"),
    ],
    ids=lambda v: str(v)[:24],
)
def test_errors_name_the_layer(layers, message):
    with pytest.raises(harn.HarnSpecError) as caught:
        layered_prompt(identity="x", **layers)
    assert caught.value.message.startswith(f"layered_prompt: {message}")


def test_a_prompt_without_a_table_gets_one():
    table = "# Tools\n| Tool | Description | Approval |\n| --- | --- | --- |\n| find | Find. |  |"
    tools = [{"name": "find", "description": "Find."}]
    assert augment_prompt_tools("You help.", tools).text == f"You help.\n\n{table}"
    prompt = layered_prompt(identity="x", safety="Never.")
    assert augment_prompt_tools(prompt, tools).text == f"# Identity\nx\n\n{table}\n\n# Safety\nNever."


def test_rows_of_the_prompt_win():
    prompt = layered_prompt(identity="x", tools=[{"name": "find", "description": "Mine."}])
    augmented = augment_prompt_tools(prompt, [{"name": "find", "description": "Other."}, "add"])
    assert "| add |  |  |\n| find | Mine. |  |" in augmented.text
    assert augment_prompt_tools(prompt, []) == prompt


def test_runtimes_merge_bound_tools_into_the_prompt():
    tool = define_tool("find", description="Finds.", input_schema={}, handler=lambda args: 1)
    prompt = layered_prompt(identity="x")
    bound = harn.define_specialist("s", model="m", prompt=prompt, tools=[tool])
    plain = harn.define_specialist("t", model="m", prompt=prompt)
    assert bound.system_prompt == plain.system_prompt == prompt.text
    spec = harn.define_runtime(tenant=harn.define_tenant("a", "v"), agents=[bound, plain])
    assert "| find | Finds. | never |" in spec.agents[0].system_prompt
    assert spec.agents[0].prompt_cache_key == hashlib.sha256(spec.agents[0].system_prompt.encode()).hexdigest()
    assert spec.agents[1].system_prompt == prompt.text and spec.agents[1].prompt_cache_key == prompt.cache_key


def test_toolkit_rows_of_the_prompt():
    agent = harn.define_specialist("s", model="m", prompt="You help.", toolkits=["catalog"])
    toolkit = harn.ToolkitSpec(id="catalog", config={"tools": ["execute_query"]})
    spec = harn.define_runtime(tenant=harn.define_tenant("a", "v"), agents=[agent], toolkits=[toolkit])
    rows = [line for line in spec.agents[0].system_prompt.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 1 and rows[0].startswith("| execute_query | ") and rows[0].endswith(" | runtime |")
