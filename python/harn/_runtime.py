"""Runtimes of agents with roles."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from ._errors import HarnSpecError, HarnThrown
from ._program import Machine
from ._specs import RuntimeSpec, given
from ._values import Function, Stream, opaque
from ._wait import loops, running_loop, wait, wait_async

_CONTEXT = ("tool_use_id", "references", "services")


class _Context:
    """What handlers get besides their arguments."""

    __slots__ = ("_data",)

    def __init__(self, data: Dict[str, Any]) -> None:
        self._data = data

    def _shown(self, value: Any) -> Any:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        try:
            return self._shown(self._data[name])
        except KeyError:
            raise AttributeError(f"the context has no {name!r}; it has {', '.join(sorted(self._data))}") from None

    def __getitem__(self, name: str) -> Any:
        return self._shown(self._data[name])

    def __contains__(self, name: object) -> bool:
        return name in self._data

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._data]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(sorted(self._data))}>"


class ToolContext(_Context):
    """The context of handlers: ``tool_use_id``, ``thread_id``, ``agent``, ``services`` and each service, ``references``
    (``create``, ``resolve``, ``glimpse``), ``progress(label, ...)``, ``emit(type, data)``."""

    __slots__ = ()

    def _shown(self, value: Any) -> Any:
        functions = isinstance(value, dict) and value and all(isinstance(v, Function) for v in value.values())
        return ToolContext(value) if functions else value


class AsyncToolContext(_Context):
    """The same for handlers that are coroutines: its functions are awaited."""

    __slots__ = ()

    def _shown(self, value: Any) -> Any:
        if isinstance(value, Function):
            return value.aio
        functions = isinstance(value, dict) and value and all(isinstance(v, Function) for v in value.values())
        return AsyncToolContext(value) if functions else value


def with_context(args: List[Any], is_async: bool) -> List[Any]:
    """The arguments of a handler, with its context as an object."""
    made = AsyncToolContext if is_async else ToolContext
    return [
        made(arg) if isinstance(arg, dict) and all(key in arg for key in _CONTEXT) else arg
        for arg in args
    ]


class EventStream(Stream):
    """The events of a run: dicts with ``type``. ``for`` and ``async for`` take them.

    Leaving early (``close``, or letting go of it) cancels the run, its tools and its approvals.
    """

    __slots__ = ("_runtime",)

    def __init__(self, handle: Any, runtime: Any, loop: Any) -> None:
        super().__init__(handle)
        # The run goes on for as long as somebody reads it, even if the runtime is not held any more.
        self._runtime = runtime
        self._loop = loop


class _Members:
    """The functions of a runtime; what they give depends on who waits."""

    def _do(self, name: str, *args: Any) -> Any:
        raise NotImplementedError

    def respond_to_approval(
        self, id: str, outcome: str, *, feedback: Optional[str] = None, partial: Any = None  # noqa: A002
    ) -> Any:
        """Answers a request: ``approve``, ``reject`` or ``revise``; each once."""
        return self._do("respond_to_approval", id, outcome, given(feedback=feedback, partial=partial))

    def create_reference(self, ref: Any, value: Any, *, glimpse: Any = None) -> Any:
        """Stores a value under the hash of its content: ``{kind, id, glimpse}``."""
        return self._do("create_reference", ref, value, given(glimpse=glimpse))

    def resolve_reference(self, ref: Mapping[str, Any]) -> Any:
        """The value of a reference."""
        return self._do("resolve_reference", ref)

    def reference_glimpse(self, ref: Mapping[str, Any]) -> Any:
        """The small view of a reference."""
        return self._do("reference_glimpse", ref)

    def program_for(self, agent: str, prompt: str, *, thread_id: Optional[str] = None) -> Any:
        """What the agent would be given."""
        return self._do("program_for", agent, prompt, given(thread_id=thread_id))

    def registrations(self) -> Any:
        """Name, model, prompt and role of all agents."""
        return self._do("registrations")

    def list_traces(self, *, thread_id: Optional[str] = None) -> Any:
        """The last runs."""
        return self._do("list_traces", given(thread_id=thread_id))

    def get_trace(self, id: str) -> Any:  # noqa: A002
        """A run with its events."""
        return self._do("get_trace", id)


class Runtime(_Members):
    """A runtime. ``aio`` has the same functions for coroutines."""

    def __init__(self, machine: Machine, handle: Dict[str, Any]) -> None:
        self._machine = machine
        self._members = {name: value for name, value in handle.items() if isinstance(value, Function)}
        #: Whose runtime it is.
        self.resource_id: str = handle["resource_id"]
        #: The functions of the runtime as coroutines.
        self.aio = AsyncRuntime(self)

    def _ask(self, name: str, args: Sequence[Any]) -> Any:
        return self._members[name]._handle.call(list(args))

    def _do(self, name: str, *args: Any) -> Any:
        try:
            return wait(self._ask(name, args))
        except HarnThrown as error:
            raise _spec_error(error) from None

    def _start(self, name: str, *args: Any) -> EventStream:
        # A run begins at once: its handlers must find the loop that is going to read it.
        loop = running_loop()
        if loop is not None:
            loops.enter(loop)
        try:
            stream = wait(self._ask(name, args), brief=True)
        except BaseException as error:
            if loop is not None:
                loops.leave(loop)
            if isinstance(error, HarnThrown):
                raise _spec_error(error) from None
            raise
        return EventStream(stream._handle, self, loop)

    def query(self, prompt: str, *, thread_id: str) -> EventStream:
        """Runs the coordinator."""
        return self._start("query", prompt, {"thread_id": thread_id})

    def run_specialist(self, name: str, prompt: str, *, thread_id: Optional[str] = None) -> EventStream:
        """Runs a specialist without the coordinator."""
        return self._start("run_specialist", name, prompt, given(thread_id=thread_id))

    def mock(self, *answers: Any) -> None:
        """Queues answers for calls of the provider ``mock``."""
        for answer in answers:
            wait(self._machine.builtin("llm_mock", [answer]))

    def mock_calls(self) -> List[Dict[str, Any]]:
        """What the mock was asked."""
        return wait(self._machine.builtin("llm_mock_calls", []))

    @property
    def errors(self) -> str:
        """What it has written to standard error: warnings about hooks and predicates that failed."""
        return self._machine.output()[1]

    def close(self) -> None:
        """Ends it, and all its runs."""
        self._machine.end()

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Harn runtime of {self.resource_id}>"


class AsyncRuntime(_Members):
    """The functions of a runtime as coroutines."""

    def __init__(self, runtime: Runtime) -> None:
        import weakref

        self._runtime = weakref.ref(runtime)

    async def _do(self, name: str, *args: Any) -> Any:
        runtime = self._runtime()
        if runtime is None:
            raise HarnSpecError("the runtime is gone: keep a reference to it")
        try:
            return await wait_async(runtime._ask(name, args))
        except HarnThrown as error:
            raise _spec_error(error) from None


def _spec_error(error: HarnThrown) -> HarnSpecError:
    made = HarnSpecError(
        error.message, category=error.category, value=error.value, trace=error.trace, notes=error.notes
    )
    made.__cause__ = error.__cause__
    return made


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
    """Makes a runtime of a spec (or its wire form), on a thread of its own.

    The keyword arguments are those of ``deps`` of ``create_runtime`` in Harn. Functions may be coroutines; interpreters may be
    generators and async generators. Services may be any objects. ``mocks`` answer model calls, ``env`` is laid over the
    environment.
    """
    machine = Machine(None, "", mocks=mocks, env=env)
    deps = given(
        tool_bindings=None if tool_bindings is None else list(tool_bindings),
        services=None if services is None else {name: opaque(value) for name, value in services.items()},
        approval_predicates=approval_predicates,
        action_dispatcher=action_dispatcher,
        event_hooks=None if event_hooks is None else list(event_hooks),
        interpreter=interpreter,
        testing=testing,
        data_environment=data_environment,
        stores=stores,
    )
    try:
        machine.ready()
        return Runtime(machine, wait(machine.builtin("create_runtime", [spec, deps])))
    except HarnThrown as error:
        machine.end()
        raise _spec_error(error) from None
    except BaseException:
        machine.end()
        raise
