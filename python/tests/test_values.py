"""Values between Python and Harn."""

import collections
import dataclasses
import datetime
import decimal
import enum
import math

import pytest

import harn

SAME = [
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    0.0,
    1.5,
    math.inf,
    "",
    "ünïcode 😀 \0 end",
    b"",
    b"\x00\xff",
    [],
    [1, [2, [3]]],
    {},
    {"b": 1, "a": {"c": [None]}},
    {1, 2, 3},
    set(),
    range(0, 5),
    datetime.timedelta(milliseconds=1500),
    datetime.timedelta(days=-1),
]


@pytest.mark.parametrize("value", SAME, ids=lambda v: f"{type(v).__name__}-{str(v)[:12]!r}")
def test_values_come_back_as_they_are(echo, value):
    back = echo.same(value)
    assert back == value
    assert type(back) is type(value)


def test_nan_comes_back(echo):
    assert math.isnan(echo.same(math.nan))


KINDS = [
    (None, "nil"),
    (True, "bool"),
    (1, "int"),
    (1.0, "float"),
    ("x", "string"),
    (b"x", "bytes"),
    (bytearray(b"x"), "bytes"),
    (memoryview(b"x"), "bytes"),
    ((1, 2), "list"),
    (frozenset([1]), "set"),
    (datetime.timedelta(seconds=1), "duration"),
    (harn.Pair(1, 2), "pair"),
    (range(3), "range"),
    (range(0, 9, 2), "list"),
    (collections.OrderedDict(a=1), "dict"),
    (collections.deque([1, 2]), "list"),
    (lambda: 1, "closure"),
    (iter([1]), "stream"),
]


@pytest.mark.parametrize("value,kind", KINDS, ids=lambda v: str(v)[:16])
def test_types_in_harn(echo, value, kind):
    assert echo.kind(value) == kind


def test_the_order_of_keys_stays(echo):
    assert list(echo.same({"z": 1, "a": 2})) == ["z", "a"]


def test_subclasses_of_plain_types(echo):
    class Colour(enum.Enum):
        RED = "red"

    class Level(enum.IntEnum):
        HIGH = 3

    class Name(str):
        pass

    assert echo.same([Colour.RED, Level.HIGH, Name("x")]) == ["red", 3, "x"]


def test_dataclasses_and_models_are_dicts(echo):
    @dataclasses.dataclass
    class Point:
        x: int
        tags: list

    class Model:
        def model_dump(self, mode):
            return {"mode": mode}

    assert echo.same(Point(1, ["a"])) == {"x": 1, "tags": ["a"]}
    assert echo.same(Model()) == {"mode": "json"}


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**40])
def test_large_ints_are_refused(echo, value):
    with pytest.raises(harn.HarnValueError, match="64 bits.*pass it as str or float"):
        echo.same([{"deep": value}])
    with pytest.raises(ValueError):
        echo.same(value)


@pytest.mark.parametrize(
    "value,message",
    [
        ({1: "x"}, "keys of dicts must be str, got int: 1"),
        (datetime.datetime(2026, 1, 1), "no type for datetime: pass value.isoformat"),
        (datetime.date(2026, 1, 1), "no type for date: pass value.isoformat"),
        (decimal.Decimal("1.5"), "no type for decimal.Decimal"),
        (1j, "no type for builtins.complex"),
        (object(), "no type for builtins.object"),
    ],
    ids=lambda v: str(v)[:20],
)
def test_what_harn_has_no_type_for_is_refused(echo, value, message):
    with pytest.raises(TypeError, match=message):
        echo.same(value)


def test_text_without_a_form_in_utf8_is_refused(echo):
    with pytest.raises(harn.HarnValueError, match="surrogates"):
        echo.same("\ud800")


def test_parts_of_milliseconds_are_refused(echo):
    with pytest.raises(harn.HarnValueError, match="a millisecond"):
        echo.same(datetime.timedelta(microseconds=1))


def test_data_that_holds_itself_is_refused(echo):
    loop = []
    loop.append(loop)
    with pytest.raises(harn.HarnValueError, match="nested too deeply"):
        echo.same(loop)


def test_a_set_of_lists_cannot_come_back():
    with harn.load(code="fn f() { return set([[1], [2]]) }") as program:
        with pytest.raises(TypeError, match="return a list"):
            program.f()


STRUCTS = """
struct Point { x: int, y: int }
enum Shape { Circle(r), Empty }
fn point() { return Point { x: 1, y: 2 } }
fn circle() { return Shape.Circle(3) }
fn empty() { return Shape.Empty }
fn sum(p) { return p.x + p.y }
fn radius(s) { match s { Shape.Circle(r) -> { return r } Shape.Empty -> { return 0 } } }
fn name(p) { return type_of(p) }
"""


def test_structs_are_records():
    with harn.load(code=STRUCTS) as program:
        point = program.point()
        assert (point.x, point.y, point.type_name) == (1, 2, "Point")
        assert point == program.point() and hash(point) == hash(program.point())
        assert repr(point) == "Point(x=1, y=2)"
        assert point.model_dump() == {"x": 1, "y": 2}
        assert program.sum(point) == 3
        with pytest.raises(AttributeError, match="Point has no field 'z'; it has x, y"):
            point.z
        with pytest.raises(AttributeError, match="is immutable"):
            point.x = 3


def test_values_of_enums():
    with harn.load(code=STRUCTS) as program:
        circle = program.circle()
        assert (circle.type_name, circle.variant, circle.fields) == ("Shape", "Circle", (3,))
        assert program.radius(circle) == 3 and program.radius(program.empty()) == 0
        assert repr(program.empty()) == "Shape.Empty"


def test_values_of_other_programs_are_refused(echo):
    with harn.load(code=STRUCTS) as program:
        with pytest.raises(harn.HarnValueError, match="belongs to another program"):
            echo.same(program.circle())


def test_results_cross_programs(echo):
    with harn.load(code="fn f() { return Ok(1) }\nfn g() { return Err(\"no\") }") as program:
        assert echo.same(program.f()).variant == "Ok"
        assert echo.same(program.g()).fields == ("no",)


def test_functions_come_back_as_they_are(echo):
    def own():
        return 1

    assert echo.same(own) is own
    assert echo.same([own])[0] is own


def test_functions_of_programs_are_called():
    with harn.load(code="fn adder(n) { return { x, o -> x + n + (o?.extra ?? 0) } }") as program:
        add = program.adder(10)
        assert isinstance(add, harn.Function) and add.type_name == "closure"
        assert add(1, None) == 11
        assert add(1, extra=5) == 16


def test_generators_of_programs_are_taken_one_by_one():
    code = "var made = 0\ngen fn numbers() { for i in 1 to 1000000 { made = i; emit i } }\nfn count() { return made }"
    with harn.load(code=code) as program:
        numbers = program.numbers()
        assert [next(numbers), next(numbers)] == [1, 2]
        assert program.count() == 2
        numbers.close()
        with pytest.raises(StopIteration):
            next(numbers)


def test_generators_of_python_are_streams():
    taken = []

    def numbers():
        for n in range(5):
            taken.append(n)
            yield n

    code = "fn first(s) { for x in s { if x == 2 { return x } }\nreturn nil }"
    with harn.load(code=code) as program:
        assert program.first(numbers()) == 2
        assert taken == [0, 1, 2]
