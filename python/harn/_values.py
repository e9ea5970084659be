"""Values of programs that Python has no type for, and what becomes of objects that Harn has no type for."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import types
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from typing import Any, Dict, List, Optional, Tuple, Type

from . import _harn
from ._errors import HarnTypeError, HarnValueError
from ._wait import loops, running_loop, wait, wait_async


class Remote:
    """A value that stays with its program."""

    __slots__ = ("_handle", "__weakref__")

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    @property
    def type_name(self) -> str:
        """Its type in Harn."""
        return self._handle.type_name

    def __repr__(self) -> str:
        return self._handle.text


class Function(Remote):
    """A function of a program. Keyword arguments travel in one dict behind the others, as usual in Harn."""

    __slots__ = ()

    def __call__(self, *args: Any, **options: Any) -> Any:
        return wait(self._ask(args, options))

    async def aio(self, *args: Any, **options: Any) -> Any:
        """Calls it on the running event loop."""
        return await wait_async(self._ask(args, options))

    def _ask(self, args: Sequence[Any], options: Dict[str, Any]) -> Any:
        return self._handle.call([*args, options] if options else list(args))


class Stream(Remote):
    """Something of a program that gives items, once: a generator, an iterator, a stream, a channel.

    ``for`` and ``async for`` take them. Closing it, or letting go of it, ends what makes them.
    """

    __slots__ = ("_loop",)

    def __init__(self, handle: Any) -> None:
        super().__init__(handle)
        self._loop: Any = None

    def __iter__(self) -> "Stream":
        return self

    def __next__(self) -> Any:
        if self._handle is None:
            raise StopIteration
        try:
            item = wait(self._handle.next())
        except BaseException:
            self.close()
            raise
        if item is None:
            self.close()
            raise StopIteration
        return item[0]

    def _enter(self) -> None:
        """From now on coroutines of handlers run on the event loop of this thread."""
        loop = None if self._loop is not None else running_loop()
        if loop is not None:
            self._loop = loop
            loops.enter(loop)

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Any:
        if self._handle is None:
            raise StopAsyncIteration
        self._enter()
        try:
            item = await wait_async(self._handle.next())
        except BaseException:
            self.close()
            raise
        if item is None:
            self.close()
            raise StopAsyncIteration
        return item[0]

    def close(self) -> None:
        """Ends it."""
        self._handle = None
        loop, self._loop = self._loop, None
        if loop is not None:
            loops.leave(loop)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_loop", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return "<stream (done)>" if self._handle is None else self._handle.text


class Pair(tuple):
    """A pair of Harn."""

    __slots__ = ()

    def __new__(cls, first: Any, second: Any) -> "Pair":
        return super().__new__(cls, (first, second))

    @property
    def first(self) -> Any:
        """The first part."""
        return self[0]

    @property
    def second(self) -> Any:
        """The second part."""
        return self[1]

    def __repr__(self) -> str:
        return f"Pair({self[0]!r}, {self[1]!r})"


class EnumValue:
    """A value of an enum: ``type_name``, ``variant``, ``fields``."""

    __slots__ = ("type_name", "variant", "fields", "_handle")

    type_name: str
    variant: str
    fields: Tuple[Any, ...]
    _handle: Any

    def __init__(self, type_name: str, variant: str, fields: Sequence[Any], handle: Any) -> None:
        for name, value in zip(self.__slots__, (type_name, variant, tuple(fields), handle)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("values of enums never change")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EnumValue):
            return NotImplemented
        return (self.type_name, self.variant, self.fields) == (other.type_name, other.variant, other.fields)

    def __hash__(self) -> int:
        return hash((self.type_name, self.variant, repr(self.fields)))

    def __repr__(self) -> str:
        fields = ", ".join(map(repr, self.fields))
        return f"{self.type_name}.{self.variant}({fields})" if fields else f"{self.type_name}.{self.variant}"


class Record:
    """An instance of a struct. It never changes; fields are attributes."""

    __slots__ = ("_name", "_fields", "_origin")

    _name: str
    _fields: Dict[str, Any]
    _origin: Any

    @classmethod
    def _make(cls, name: str, fields: Dict[str, Any], origin: Any) -> "Record":
        made = object.__new__(cls)
        object.__setattr__(made, "_name", name)
        object.__setattr__(made, "_fields", fields)
        object.__setattr__(made, "_origin", origin)
        return made

    @property
    def type_name(self) -> str:
        """The name of the struct."""
        return self._name

    def _to_harn(self) -> Any:
        return _harn.RecordData(self._name, self._fields, self._origin)

    def _asdict(self) -> Dict[str, Any]:
        """The fields."""
        return dict(self._fields)

    def model_dump(self, *, by_alias: bool = False, mode: str = "python") -> Dict[str, Any]:
        """The fields as plain data; ``by_alias`` gives the names of the wire form (camelCase)."""
        if mode not in ("python", "json"):
            raise HarnValueError(f"mode must be 'python' or 'json', got {mode!r}")
        return _dump(self, by_alias)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f"{self._name} has no field {name!r}; it has {', '.join(self._fields)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self._name} never changes")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self._name} never changes")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self._name == other._name and self._fields == other._fields

    def __hash__(self) -> int:
        return hash((self._name, repr(self._fields)))

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._fields]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"{self._name}({fields})"


#: Fields that stay in the process.
_PRIVATE = {
    "AgentSpec": ("plan", "tools", "approval_policies", "tool_approval_policies", "prompt_cache_key"),
    "ToolSpec": ("handler", "approval_predicate"),
    "ReferenceSpec": ("glimpse",),
    "ToolkitSpec": ("tools",),
}


def camel(name: str) -> str:
    """The name of a field in the wire form."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _dump(value: Any, by_alias: bool) -> Any:
    if isinstance(value, Record):
        out = {}
        for name, field in value._fields.items():
            if by_alias and name in _PRIVATE.get(value._name, ()):
                continue
            if by_alias and value._name == "AgentSpec" and name == "max_turns" and field is None:
                continue
            if callable(field):
                continue
            plain = field if by_alias and name in ("input_schema", "output_schema", "schema") else _dump(field, by_alias)
            out[camel(name) if by_alias else name] = plain
        return out
    if isinstance(value, dict):
        return {key: _dump(item, by_alias) for key, item in value.items()}
    if isinstance(value, list):
        return [_dump(item, by_alias) for item in value]
    return value


_RECORDS: Dict[str, Type[Record]] = {}


def record_class(cls: Type[Record]) -> Type[Record]:
    """A class for the structs of its name."""
    _RECORDS[cls.__name__] = cls
    return cls


def make_record(name: str, fields: Dict[str, Any], origin: Any) -> Record:
    """The object of a struct instance."""
    return _RECORDS.get(name, Record)._make(name, fields, origin)


def make_set(items: List[Any]) -> Any:
    """The set of these items."""
    try:
        return set(items)
    except TypeError as why:
        raise HarnTypeError(f"a set of Harn holds what no set of Python can hold: {why}; return a list") from None


_DATETIMES = (datetime.datetime, datetime.date, datetime.time)


def adapt(value: Any) -> Any:
    """What stands for an object of a type that the border does not know."""
    if isinstance(value, Remote):
        if value._handle is None:
            raise HarnValueError("the stream is closed")
        return value._handle
    if isinstance(value, Record):
        return value._to_harn()
    if isinstance(value, EnumValue):
        return _harn.VariantData(value.type_name, value.variant, list(value.fields), value._handle)
    if isinstance(value, Pair):
        return _harn.Wrapped("pair", (value[0], value[1]))
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, _DATETIMES):
        raise HarnTypeError(
            f"Harn has no type for {type(value).__name__}: pass value.isoformat(), or a number of seconds"
        )
    if isinstance(value, type) and hasattr(value, "model_json_schema"):
        return value.model_json_schema()
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (memoryview,)):
        return bytes(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return set(value)
    if isinstance(value, (AsyncIterator, types.AsyncGeneratorType)):
        return _harn.Wrapped("pull", _pull_async(value))
    if isinstance(value, Iterator):
        return _harn.Wrapped("pull", _pull(value))
    if callable(value):
        return _harn.Wrapped("callable", value)
    if isinstance(value, Sequence):
        return list(value)
    raise HarnTypeError(f"Harn has no type for {type(value).__module__}.{type(value).__qualname__}: {_short(value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _duration(value: datetime.timedelta) -> Any:
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    if micros % 1000:
        raise HarnValueError(f"a duration of Harn has milliseconds, and {value} has a part of one")
    return _harn.Wrapped("duration", micros // 1000)


def _pull(source: Iterator) -> Any:
    def pull() -> Optional[List[Any]]:
        try:
            return [next(source)]
        except StopIteration:
            return None

    return pull


def _pull_async(source: AsyncIterator) -> Any:
    async def pull() -> Optional[List[Any]]:
        try:
            return [await source.__anext__()]
        except StopAsyncIteration:
            return None

    return pull


def opaque(value: Any) -> Any:
    """An object that programs only hand on."""
    return _harn.Wrapped("opaque", value)


def plain_json(text: str) -> Any:
    """What a JSON text says."""
    return json.loads(text)
