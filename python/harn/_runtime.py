"""Runtimes of role agents."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Union, cast

from . import _harn
from ._errors import HarnClosed, HarnThrown, spec_error
from ._program import Machine
from ._specs import ChatProgram, RuntimeSpec, without_none
from ._values import Function, Stream, opaque
from ._wait import loops, running_loop, wait, wait_async

if TYPE_CHECKING:
    from typing_extensions import Self

#: An event of a run: a dict with the key ``type``.
Event = Dict[str, Any]

#: The keys by which the context of a handler is recognized.
_CONTEXT = ("tool_use_id", "references", "services")


class _Context:
    """The second argument of handlers."""

    __slots__ = ("_data",)

    def __init__(self, data: Dict[str, Any]) -> None:
        self._data = data

    def _wrap(self, value: Any) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        try:
            return self._wrap(self._data[name])
        except KeyError:
            raise AttributeError(f"the context has no {name!r}; it has {', '.join(sorted(self._data))}") from None

    def __getitem__(self, name: str) -> Any:
        return self._wrap(self._data[name])

    def __contains__(self, name: object) -> bool:
        return name in self._data

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._data]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(sorted(self._data))}>"


def _is_namespace(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(v, Function) for v in value.values())


class ToolContext(_Context):
    """The context of handlers: ``tool_use_id``, ``thread_id``, ``agent``, ``services`` and each service, ``references``
    (``create``, ``resolve``, ``glimpse``), ``progress(label, ...)``, ``emit(type, data)``."""

    __slots__ = ()

    def _wrap(self, value: Any) -> Any:
        return ToolContext(value) if _is_namespace(value) else value


class AsyncToolContext(_Context):
    """The context of coroutine handlers: its functions are awaited."""

    __slots__ = ()

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, Function):
            return value.aio
        return AsyncToolContext(value) if _is_namespace(value) else value


def with_context(args: List[Any], is_async: bool) -> List[Any]:
    """Returns the arguments of a handler with its context as an object."""
    context = AsyncToolContext if is_async else ToolContext
    return [context(arg) if isinstance(arg, dict) and all(key in arg for key in _CONTEXT) else arg for arg in args]


class EventStream(Stream):
    """The events of a run, for ``for`` and ``async for``.

    Leaving early (``close``, ``with``, or dropping the last reference) cancels the run, its tools and its approvals.
    """

    __slots__ = ("_runtime",)

    def __init__(self, handle: _harn.Handle, runtime: "Runtime", loop: Optional[asyncio.AbstractEventLoop]) -> None:
        super().__init__(handle)
        # The runtime must outlive the run.
        self._runtime = runtime
        self._loop = loop

    def __next__(self) -> Event:
        return cast(Event, super().__next__())

    async def __anext__(self) -> Event:
        return cast(Event, await super().__anext__())


class Runtime:
    """A runtime. ``aio`` has the same functions as coroutines."""

    def __init__(self, machine: Machine, handle: Dict[str, Any]) -> None:
        self._machine = machine
        self._members = {name: value for name, value in handle.items() if isinstance(value, Function)}
        #: The id of the tenant.
        self.resource_id: str = handle["resource_id"]
        #: The functions of the runtime as coroutines.
        self.aio = AsyncRuntime(self)

    def _start(self, name: str, args: Sequence[Any]) -> _harn.Pending:
        return self._members[name]._open().call(list(args))

    def _call(self, name: str, *args: Any) -> Any:
        try:
            return wait(self._start(name, args))
        except HarnThrown as error:
            raise spec_error(error) from None

    def _stream(self, name: str, *args: Any) -> EventStream:
        # A run starts immediately: its handlers must find the loop that will read the events.
        loop = running_loop()
        if loop is not None:
            loops.enter(loop)
        try:
            stream = wait(self._start(name, args), brief=True)
        except BaseException as error:
            if loop is not None:
                loops.leave(loop)
            if isinstance(error, HarnThrown):
                raise spec_error(error) from None
            raise
        return EventStream(stream._open(), self, loop)

    def query(self, prompt: str, *, thread_id: str) -> EventStream:
        """Runs the coordinator."""
        return self._stream("query", prompt, {"thread_id": thread_id})

    def run_specialist(self, name: str, prompt: str, *, thread_id: Optional[str] = None) -> EventStream:
        """Runs a specialist without the coordinator. The default thread is a new one."""
        return self._stream("run_specialist", name, prompt, without_none(thread_id=thread_id))

    def respond_to_approval(
        self, id: str, outcome: str, *, feedback: Optional[str] = None, partial: Any = None  # noqa: A002
    ) -> None:
        """Answers an approval request with ``approve``, ``reject`` or ``revise``. Each request is answered once."""
        self._call("respond_to_approval", id, outcome, without_none(feedback=feedback, partial=partial))

    def create_reference(self, ref: Any, value: Any, *, glimpse: Any = None) -> Dict[str, Any]:
        """Stores a value under the hash of its content and returns ``{kind, id, glimpse}``."""
        return cast(Dict[str, Any], self._call("create_reference", ref, value, without_none(glimpse=glimpse)))

    def resolve_reference(self, ref: Mapping[str, Any]) -> Any:
        """Returns the value of a reference."""
        return self._call("resolve_reference", ref)

    def reference_glimpse(self, ref: Mapping[str, Any]) -> Any:
        """Returns the summary of a reference."""
        return self._call("reference_glimpse", ref)

    def program_for(self, agent: str, prompt: str, *, thread_id: Optional[str] = None) -> ChatProgram:
        """Returns the input that the agent would receive. Runs nothing."""
        return cast(ChatProgram, self._call("program_for", agent, prompt, without_none(thread_id=thread_id)))

    def registrations(self) -> List[Dict[str, Any]]:
        """Lists name, model, system prompt, role and statefulness of all agents."""
        return cast(List[Dict[str, Any]], self._call("registrations"))

    def list_traces(self, *, thread_id: Optional[str] = None) -> List[Dict[str, Any]]:
        """Lists the last runs."""
        return cast(List[Dict[str, Any]], self._call("list_traces", without_none(thread_id=thread_id)))

    def get_trace(self, id: str) -> Dict[str, Any]:  # noqa: A002
        """Returns a run with its events."""
        return cast(Dict[str, Any], self._call("get_trace", id))

    def mock(self, *replies: Any) -> None:
        """Queues replies of the provider ``mock``."""
        for reply in replies:
            wait(self._machine.native.builtin("llm_mock", [reply]))

    def mock_calls(self) -> List[Dict[str, Any]]:
        """Lists the calls of the provider ``mock``."""
        return cast(List[Dict[str, Any]], wait(self._machine.native.builtin("llm_mock_calls", [])))

    @property
    def errors(self) -> str:
        """The standard error so far: warnings about hooks and predicates that failed."""
        return self._machine.output()[1]

    def close(self) -> None:
        """Ends the runtime and all its runs."""
        self._machine.close()

    async def aclose(self) -> None:
        """As ``close``, on the running event loop."""
        await self._machine.aclose()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Harn runtime of {self.resource_id}>"


class AsyncRuntime:
    """The functions of a runtime as coroutines."""

    def __init__(self, runtime: Runtime) -> None:
        self._weak = weakref.ref(runtime)

    def _runtime(self) -> Runtime:
        runtime = self._weak()
        if runtime is None:
            raise HarnClosed("the runtime does not exist any more; keep a reference to it")
        return runtime

    async def _call(self, name: str, *args: Any) -> Any:
        try:
            return await wait_async(self._runtime()._start(name, args))
        except HarnThrown as error:
            raise spec_error(error) from None

    async def _stream(self, name: str, *args: Any) -> EventStream:
        loop = asyncio.get_running_loop()
        loops.enter(loop)
        try:
            stream = await self._call(name, *args)
            return EventStream(stream._open(), self._runtime(), loop)
        except BaseException:
            loops.leave(loop)
            raise

    async def query(self, prompt: str, *, thread_id: str) -> EventStream:
        """Runs the coordinator."""
        return await self._stream("query", prompt, {"thread_id": thread_id})

    async def run_specialist(self, name: str, prompt: str, *, thread_id: Optional[str] = None) -> EventStream:
        """Runs a specialist without the coordinator. The default thread is a new one."""
        return await self._stream("run_specialist", name, prompt, without_none(thread_id=thread_id))

    async def respond_to_approval(
        self, id: str, outcome: str, *, feedback: Optional[str] = None, partial: Any = None  # noqa: A002
    ) -> None:
        """Answers an approval request with ``approve``, ``reject`` or ``revise``. Each request is answered once."""
        await self._call("respond_to_approval", id, outcome, without_none(feedback=feedback, partial=partial))

    async def create_reference(self, ref: Any, value: Any, *, glimpse: Any = None) -> Dict[str, Any]:
        """Stores a value under the hash of its content and returns ``{kind, id, glimpse}``."""
        return cast(Dict[str, Any], await self._call("create_reference", ref, value, without_none(glimpse=glimpse)))

    async def resolve_reference(self, ref: Mapping[str, Any]) -> Any:
        """Returns the value of a reference."""
        return await self._call("resolve_reference", ref)

    async def reference_glimpse(self, ref: Mapping[str, Any]) -> Any:
        """Returns the summary of a reference."""
        return await self._call("reference_glimpse", ref)

    async def program_for(self, agent: str, prompt: str, *, thread_id: Optional[str] = None) -> ChatProgram:
        """Returns the input that the agent would receive. Runs nothing."""
        return cast(ChatProgram, await self._call("program_for", agent, prompt, without_none(thread_id=thread_id)))

    async def registrations(self) -> List[Dict[str, Any]]:
        """Lists name, model, system prompt, role and statefulness of all agents."""
        return cast(List[Dict[str, Any]], await self._call("registrations"))

    async def list_traces(self, *, thread_id: Optional[str] = None) -> List[Dict[str, Any]]:
        """Lists the last runs."""
        return cast(List[Dict[str, Any]], await self._call("list_traces", without_none(thread_id=thread_id)))

    async def get_trace(self, id: str) -> Dict[str, Any]:  # noqa: A002
        """Returns a run with its events."""
        return cast(Dict[str, Any], await self._call("get_trace", id))


def _deps(
    *, tool_bindings: Optional[Sequence[Any]], services: Optional[Mapping[str, Any]],
    event_hooks: Optional[Sequence[Any]], **others: Any,
) -> Dict[str, Any]:  # fmt: skip
    """Makes the second argument of `create_runtime` in Harn."""
    return without_none(
        tool_bindings=None if tool_bindings is None else list(tool_bindings),
        services=None if services is None else {name: opaque(value) for name, value in services.items()},
        event_hooks=None if event_hooks is None else list(event_hooks),
        **others,
    )


def create_runtime(
    spec: Union[RuntimeSpec, Mapping[str, Any], str],
    *,
    tool_bindings: Optional[Sequence[Any]] = None,
    services: Optional[Mapping[str, Any]] = None,
    approval_predicates: Optional[Mapping[str, Any]] = None,
    action_dispatcher: Any = None,
    event_hooks: Optional[Sequence[Any]] = None,
    interpreter: Any = None,
    testing: Optional[Mapping[str, Any]] = None,
    data_environment: Optional[Mapping[str, Any]] = None,
    stores: Optional[Mapping[str, Any]] = None,
    mocks: Sequence[Any] = (),
    env: Optional[Mapping[str, str]] = None,
) -> Runtime:
    """Makes a runtime of a spec, or of its wire form, on its own thread.

    The keyword arguments up to ``stores`` are the keys of ``deps`` of ``create_runtime`` in Harn. Functions may be coroutine
    functions; interpreters may be generators and async generators. Services may be any objects. ``mocks`` are replies of the
    provider ``mock``; ``env`` are environment variables that shadow those of the process.
    """
    deps = _deps(
        tool_bindings=tool_bindings,
        services=services,
        approval_predicates=approval_predicates,
        action_dispatcher=action_dispatcher,
        event_hooks=event_hooks,
        interpreter=interpreter,
        testing=testing,
        data_environment=data_environment,
        stores=stores,
    )
    machine = Machine(None, "", mocks=mocks, env=env)
    try:
        machine.ready()
        return Runtime(machine, wait(machine.native.builtin("create_runtime", [spec, deps])))
    except HarnThrown as error:
        machine.close()
        raise spec_error(error) from None
    except BaseException:
        machine.close()
        raise


async def acreate_runtime(
    spec: Union[RuntimeSpec, Mapping[str, Any], str],
    *,
    tool_bindings: Optional[Sequence[Any]] = None,
    services: Optional[Mapping[str, Any]] = None,
    approval_predicates: Optional[Mapping[str, Any]] = None,
    action_dispatcher: Any = None,
    event_hooks: Optional[Sequence[Any]] = None,
    interpreter: Any = None,
    testing: Optional[Mapping[str, Any]] = None,
    data_environment: Optional[Mapping[str, Any]] = None,
    stores: Optional[Mapping[str, Any]] = None,
    mocks: Sequence[Any] = (),
    env: Optional[Mapping[str, str]] = None,
) -> Runtime:
    """As ``create_runtime``, on the running event loop."""
    deps = _deps(
        tool_bindings=tool_bindings,
        services=services,
        approval_predicates=approval_predicates,
        action_dispatcher=action_dispatcher,
        event_hooks=event_hooks,
        interpreter=interpreter,
        testing=testing,
        data_environment=data_environment,
        stores=stores,
    )
    machine = Machine(None, "", mocks=mocks, env=env)
    try:
        await machine.aready()
        return Runtime(machine, await wait_async(machine.native.builtin("create_runtime", [spec, deps])))
    except HarnThrown as error:
        await machine.aclose()
        raise spec_error(error) from None
    except BaseException:
        machine.native.close()
        raise
