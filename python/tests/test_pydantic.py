"""Pydantic models as schemas, as sections of prompts and as values; other types of Python as schemas."""

import dataclasses
import enum
import typing

import pytest

import harn
from conftest import results, runtime, script
from harn import define_plan, define_reference, define_tool, layered_prompt, tagged_union

pydantic = pytest.importorskip("pydantic")


class Money(pydantic.BaseModel):
    amount: float
    currency: typing.Literal["EUR", "USD"] = "EUR"


class Order(pydantic.BaseModel):
    id: str
    total: Money
    tags: typing.List[str] = []


class Price(pydantic.BaseModel):
    kind: typing.Literal["price"]
    sku: str
    to: float


class Ship(pydantic.BaseModel):
    kind: typing.Literal["ship"]
    order: Order


class Scenario(pydantic.BaseModel):
    actions: typing.List[typing.Union[Price, Ship]]
    note: typing.Optional[str] = None


def test_a_model_as_input_schema():
    schema = define_tool("t", input_schema=Order).input_schema
    assert schema["properties"]["id"] == {"title": "Id", "type": "string"}
    assert schema["properties"]["total"]["properties"]["currency"]["enum"] == ["EUR", "USD"]
    assert "$defs" not in schema and schema["required"] == ["id", "total"]


def test_a_model_within_a_dict():
    schema = define_tool("t", input_schema={"order": Order, "n": int}).input_schema
    assert schema["properties"]["order"]["properties"]["id"]["type"] == "string"
    assert sorted(schema["required"]) == ["n", "order"]


def test_arguments_are_validated_against_the_model():
    seen = []
    tool = define_tool("t", input_schema=Order, handler=lambda args: seen.append(Order(**args)) or "ok")
    valid = {"id": "1", "total": {"amount": 2.5}}
    invalid = {"id": "1", "total": {"amount": 2.5, "currency": "GBP"}}
    with runtime(tool) as rt:
        one, two = results(rt.run_specialist("s", script(("t", valid), ("t", invalid))))
    assert one == "ok" and two["error"].startswith("Invalid input: ")
    assert seen == [Order(id="1", total=Money(amount=2.5))]


def test_a_handler_returns_a_model():
    tool = define_tool("t", input_schema={}, handler=lambda args: Order(id="1", total=Money(amount=2)))
    with runtime(tool) as rt:
        (result,) = results(rt.run_specialist("s", script(("t", {}))))
    assert Order(**result) == Order(id="1", total=Money(amount=2))


def test_an_instance_as_a_section():
    instance = Order(id="1", total=Money(amount=2))
    assert layered_prompt(identity="x", domain_knowledge=instance) == layered_prompt(
        identity="x", domain_knowledge=instance.model_dump(mode="json")
    )
    assert layered_prompt(identity="x", examples=[{"order": instance}]).text.count('"currency": "EUR"') == 1


def test_a_model_as_a_section():
    prompt = layered_prompt(identity="x", output_format=Money)
    assert '"enum": [\n        "EUR",\n        "USD"\n      ]' in prompt.text
    assert prompt == layered_prompt(identity="x", output_format=Money.model_json_schema())


def test_a_model_as_a_plan():
    plan = define_plan("Scenario", schema=Scenario)
    assert plan.schema["properties"]["actions"]["type"] == "array"


def test_a_union_of_models():
    union = tagged_union([Price, Ship])
    assert [s["properties"]["kind"]["const"] for s in union["oneOf"]] == ["price", "ship"]


def test_a_model_as_a_reference():
    kind = define_reference("Order", schema=Order)
    with runtime(references=[kind]) as rt:
        ref = rt.create_reference("Order", Order(id="1", total=Money(amount=2)))
        assert Order(**rt.resolve_reference(ref)).total.currency == "EUR"
        with pytest.raises(harn.HarnSpecError, match="schema validation failed for kind 'Order'"):
            rt.create_reference("Order", {"id": 1})


def test_an_instance_as_a_value(echo):
    assert echo.same(Money(amount=1)) == {"amount": 1.0, "currency": "EUR"}


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: int
    label: "typing.Optional[str]"


class Options(typing.TypedDict):
    limit: int
    sort: typing.Literal["asc", "desc"]


TYPES = [
    (typing.Literal["a", "b"], {"type": ["string"], "enum": ["a", "b"]}),
    (typing.Literal["a", 1, None], {"type": ["string", "integer", "null"], "enum": ["a", 1, None]}),
    (Color, {"type": ["string"], "enum": ["red", "blue"]}),
    (Level, {"type": ["integer"], "enum": [1, 2]}),
    (
        Point,
        {
            "type": "object",
            "properties": {
                "x": {"type": "integer"},
                "label": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            "required": ["label", "x"],
        },
    ),
    (
        Options,
        {
            "type": "object",
            "properties": {"limit": {"type": "integer"}, "sort": {"type": ["string"], "enum": ["asc", "desc"]}},
            "required": ["limit", "sort"],
        },
    ),
    (typing.Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}], "type": ["integer", "string"]}),
    (typing.Tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
    (typing.Mapping[str, int], {"type": "object"}),
]


@pytest.mark.parametrize("given,expected", TYPES, ids=lambda v: str(v)[:30])
def test_types_as_schemas(given, expected):
    schema = define_tool("t", input_schema={"x": given}).input_schema["properties"]["x"]
    if "required" in expected:
        schema["required"].sort()
    assert schema == expected


@pytest.mark.parametrize("given", [Color, Options, Point, typing.Union[int, str]], ids=str)
def test_types_are_validated(given):
    valid = {Color: "red", Options: {"limit": 1, "sort": "asc"}, Point: {"x": 1, "label": None}}.get(given, 5)
    tool = define_tool("t", input_schema={"x": given}, handler=lambda args: args["x"])
    with runtime(tool) as rt:
        one, two = results(rt.run_specialist("s", script(("t", {"x": valid}), ("t", {"x": [1]}))))
    assert one == valid and two["error"].startswith("Invalid input: ")
