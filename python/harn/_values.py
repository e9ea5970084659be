"""Python classes for values of programs, and the conversion of Python objects that the native module does not know."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import json
import types
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, List, Optional, Tuple, Type, TypeVar

from . import _harn
from ._errors import HarnTypeError, HarnValueError
from ._wait import loops, running_loop, wait, wait_async

if TYPE_CHECKING:
    from typing_extensions import Self


class Remote:
    """A value that stays on the thread of its program."""

    __slots__ = ("_handle", "__weakref__")

    _handle: Optional[_harn.Handle]

    def __init__(self, handle: _harn.Handle) -> None:
        self._handle = handle

    def _open(self) -> _harn.Handle:
        if self._handle is None:
            raise HarnValueError("the stream is closed")
        return self._handle

    @property
    def type_name(self) -> str:
        """Its type in Harn."""
        return self._open().type_name

    def __repr__(self) -> str:
        return f"<closed {type(self).__name__}>" if self._handle is None else self._handle.text


class Function(Remote):
    """A function of a program. Keyword arguments are passed as one dict after the others."""

    __slots__ = ()

    def __call__(self, *args: Any, **options: Any) -> Any:
        return wait(self._start(args, options))

    async def aio(self, *args: Any, **options: Any) -> Any:
        """As a call, on the running event loop."""
        return await wait_async(self._start(args, options))

    def _start(self, args: Sequence[Any], options: Dict[str, Any]) -> _harn.Pending:
        return self._open().call([*args, options] if options else list(args))


class Stream(Remote):
    """A generator, iterator, stream or channel of a program: ``for`` and ``async for`` read its items once.

    Closing it, or dropping the last reference, ends the producer.
    """

    __slots__ = ("_loop",)

    def __init__(self, handle: _harn.Handle) -> None:
        super().__init__(handle)
        self._loop: Optional[asyncio.AbstractEventLoop] = None

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

    def _enter_loop(self) -> None:
        """Makes coroutines of handlers run on the event loop of this thread until the stream ends."""
        loop = None if self._loop is not None else running_loop()
        if loop is not None:
            self._loop = loop
            loops.enter(loop)

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Any:
        if self._handle is None:
            raise StopAsyncIteration
        self._enter_loop()
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
        """Ends the stream."""
        self._handle = None
        loop, self._loop = self._loop, None
        if loop is not None:
            loops.leave(loop)

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_loop", None) is not None:
            self.close()


class Pair(Tuple[Any, Any]):
    """A pair."""

    __slots__ = ()

    def __new__(cls, first: Any, second: Any) -> "Pair":
        return super().__new__(cls, (first, second))

    @property
    def first(self) -> Any:
        """The first value."""
        return self[0]

    @property
    def second(self) -> Any:
        """The second value."""
        return self[1]

    def __repr__(self) -> str:
        return f"Pair({self[0]!r}, {self[1]!r})"


class EnumValue:
    """A value of an enum: ``type_name``, ``variant``, ``fields``."""

    __slots__ = ("type_name", "variant", "fields", "_handle")

    type_name: str
    variant: str
    fields: Tuple[Any, ...]
    _handle: _harn.Handle

    def __init__(self, type_name: str, variant: str, fields: Sequence[Any], handle: _harn.Handle) -> None:
        values = (type_name, variant, tuple(fields), handle)
        for name, value in zip(("type_name", "variant", "fields", "_handle"), values):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("enum values are immutable")

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
    """An immutable instance of a struct: fields are attributes."""

    __slots__ = ("_name", "_fields", "_origin")

    _name: str
    _fields: Dict[str, Any]
    _origin: Optional[_harn.Handle]

    @classmethod
    def _make(cls, name: str, fields: Dict[str, Any], origin: Optional[_harn.Handle]) -> "Self":
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
        """Returns the fields."""
        return dict(self._fields)

    def model_dump(self, *, by_alias: bool = False, mode: str = "python") -> Dict[str, Any]:
        """Returns the fields as plain data; ``by_alias`` selects the names of the wire form (camelCase)."""
        if mode not in ("python", "json"):
            raise HarnValueError(f"mode must be 'python' or 'json', got {mode!r}")
        return _dump_record(self, by_alias)

    def model_dump_json(self, *, by_alias: bool = False, indent: Optional[int] = None) -> str:
        """Returns ``model_dump(mode="json")`` as JSON."""
        dumped = self.model_dump(by_alias=by_alias, mode="json")
        separators = (",", ":") if indent is None else None
        return json.dumps(dumped, ensure_ascii=False, indent=indent, separators=separators)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f"{self._name} has no field {name!r}; it has {', '.join(self._fields)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self._name} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self._name} is immutable")

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


#: Fields that are not part of the wire form.
_PRIVATE = {
    "AgentSpec": ("plan", "tools", "approval_policies", "tool_approval_policies", "prompt_cache_key"),
    "ToolSpec": ("handler", "approval_predicate"),
    "ReferenceSpec": ("glimpse",),
    "ToolkitSpec": ("tools",),
}

#: Fields of the wire form that are omitted when they are not set.
_OPTIONAL = {"AgentSpec": ("max_turns",)}

#: Fields whose keys belong to the user.
_SCHEMAS = ("input_schema", "output_schema", "schema")


def camel(name: str) -> str:
    """Returns the name of a field in the wire form."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _dump_record(record: Record, by_alias: bool) -> Dict[str, Any]:
    fields = {name: value for name, value in record._fields.items() if not callable(value)}
    if not by_alias:
        return {name: _dump(value, False) for name, value in fields.items()}
    private, optional = _PRIVATE.get(record._name, ()), _OPTIONAL.get(record._name, ())
    return {
        camel(name): value if name in _SCHEMAS else _dump(value, True)
        for name, value in fields.items()
        if name not in private and not (name in optional and value is None)
    }


def _dump(value: Any, by_alias: bool) -> Any:
    if isinstance(value, Record):
        return _dump_record(value, by_alias)
    if isinstance(value, dict):
        return {key: _dump(item, by_alias) for key, item in value.items()}
    if isinstance(value, list):
        return [_dump(item, by_alias) for item in value]
    return value


R = TypeVar("R", bound=Record)

_RECORDS: Dict[str, Type[Record]] = {}


def record_class(cls: Type[R]) -> Type[R]:
    """Registers a class for the structs of its name."""
    _RECORDS[cls.__name__] = cls
    return cls


def make_record(name: str, fields: Dict[str, Any], origin: Optional[_harn.Handle]) -> Record:
    """Makes the object of a struct instance."""
    return _RECORDS.get(name, Record)._make(name, fields, origin)


def make_set(items: List[Any]) -> Any:
    """Makes a set."""
    try:
        return set(items)
    except TypeError as why:
        raise HarnTypeError(f"cannot make a Python set: {why}; return a list") from None


_DATETIMES = (datetime.datetime, datetime.date, datetime.time)


def adapt(value: Any) -> Any:
    """Makes an object that the native module knows, for one of a class that it does not know."""
    if isinstance(value, Remote):
        return value._open()
    if isinstance(value, Record):
        return value._to_harn()
    if isinstance(value, EnumValue):
        return _harn.VariantData(value.type_name, value.variant, list(value.fields), value._handle)
    if isinstance(value, Pair):
        return _harn.Adapted("pair", (value[0], value[1]))
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
        raise HarnTypeError(f"Harn has no type for {type(value).__name__}: pass value.isoformat(), or a number of seconds")
    if isinstance(value, type) and hasattr(value, "model_json_schema"):
        return value.model_json_schema()
    if hasattr(value, "model_dump") and not isinstance(value, type):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return set(value)
    if isinstance(value, (AsyncIterator, types.AsyncGeneratorType)):
        return _harn.Adapted("pull", _pull_async(value))
    if isinstance(value, Iterator):
        return _harn.Adapted("pull", _pull(value))
    if callable(value):
        return _harn.Adapted("callable", value)
    if isinstance(value, Sequence):
        return list(value)
    raise HarnTypeError(f"Harn has no type for {type(value).__module__}.{type(value).__qualname__}: {_short(value)}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _duration(value: datetime.timedelta) -> _harn.Adapted:
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    if micros % 1000:
        raise HarnValueError(f"the resolution of durations is a millisecond: cannot convert {value}")
    return _harn.Adapted("duration", micros // 1000)


def _pull(source: "Iterator[Any]") -> Callable[[], Optional[List[Any]]]:
    def pull() -> Optional[List[Any]]:
        try:
            return [next(source)]
        except StopIteration:
            return None

    return pull


def _pull_async(source: "AsyncIterator[Any]") -> Callable[[], Awaitable[Optional[List[Any]]]]:
    async def pull() -> Optional[List[Any]]:
        try:
            return [await source.__anext__()]
        except StopAsyncIteration:
            return None

    return pull


def opaque(value: Any) -> _harn.Adapted:
    """Adapts an object that programs only pass on."""
    return _harn.Adapted("opaque", value)
