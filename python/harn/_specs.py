"""Layered prompts and the specs of role agents, with the names and keyword arguments of the prompt guide."""

from __future__ import annotations

import os
import threading
import types
import typing
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Sequence, Union

from ._errors import HarnSpecError, HarnThrown, HarnTypeError
from ._program import Machine
from ._values import Record, plain_json, record_class
from ._wait import wait

_lock = threading.Lock()
_machine: Optional[Machine] = None
_owner = 0


def library() -> Machine:
    """The machine on which prompts and specs are made."""
    global _machine, _owner
    with _lock:
        if _machine is None or _owner != os.getpid():
            machine = Machine(None, "")
            machine.ready()
            _machine, _owner = machine, os.getpid()
        return _machine


def ask(name: str, *args: Any) -> Any:
    """Calls a builtin that makes a prompt or a spec."""
    try:
        return wait(library().builtin(name, list(args)))
    except HarnThrown as error:
        raise HarnSpecError(
            error.message, category=error.category, value=error.value, trace=error.trace, notes=error.notes
        ) from None


def given(**options: Any) -> Dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


@record_class
class LayeredPrompt(Record):
    """A prompt (``text``) and the SHA-256 of its text (``cache_key``)."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.text


@record_class
class ToolSpec(Record):
    """A tool: ``name``, ``description``, ``input_schema``, ``approval``, ``output_schema``, ``binding_id``, ``handler``.

    Without a handler, calling it with a function gives a copy with that handler (so it is a decorator); with one, calling it
    calls the handler.
    """

    __slots__ = ()

    @property
    def handler(self) -> Optional[Callable[..., Any]]:
        """The function behind it."""
        return self._fields.get("handler")

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.handler is not None:
            return self.handler(*args, **options)
        if len(args) != 1 or options or not callable(args[0]):
            raise HarnTypeError(f"tool {self.name!r} has no handler yet: call it with a function")
        return ask("tool_bind", self, args[0])


@record_class
class AgentSpec(Record):
    """An agent: ``name``, ``role``, ``stateful``, ``model``, ``system_prompt``, ``routes``, ``toolkits``, ..."""

    __slots__ = ()


@record_class
class PlanSpec(Record):
    """A kind of plan: ``name``, ``schema``, ``display_aliases``."""

    __slots__ = ()


@record_class
class ReferenceSpec(Record):
    """A kind of stored value: ``name``, ``schema``, ``ttl_ms``."""

    __slots__ = ()


@record_class
class Tenant(Record):
    """Whose runtime it is: ``resource_id``, ``version``."""

    __slots__ = ()


@record_class
class ChatProgram(Record):
    """What an interpreter gets: ``conversation``, ``system_prompt``, ``model``, ``tenant``."""

    __slots__ = ()


@record_class
class Conversation(Record):
    """Messages, split: ``messages``, ``prompt``, ``system``, ``history``."""

    __slots__ = ()


@record_class
class ToolkitSpec(Record):
    """A toolkit that a runtime has: ``ToolkitSpec(id="catalog", config={"tools": ["execute_query"]})``."""

    __slots__ = ()

    def __init__(self, id: str, config: Optional[Mapping[str, Any]] = None) -> None:  # noqa: A002 - the name of the guide
        if not isinstance(id, str) or not id:
            raise HarnTypeError("ToolkitSpec: id must be a non-empty str")
        object.__setattr__(self, "_name", "")
        object.__setattr__(self, "_fields", given(id=id, config=None if config is None else dict(config)))
        object.__setattr__(self, "_origin", None)

    def _to_harn(self) -> Any:
        return super()._to_harn() if self._name else self._fields

    def __repr__(self) -> str:
        return super().__repr__() if self._name else f"ToolkitSpec(id={self.id!r}, config={self._fields.get('config')!r})"


@record_class
class RuntimeSpec(Record):
    """A whole runtime: ``tenant``, ``agents``, ``references``, ``plans``, ``toolkits``, ``providers``, ..."""

    __slots__ = ()

    def model_dump(self, *, by_alias: bool = False, mode: str = "python") -> Dict[str, Any]:
        """The fields as plain data; ``by_alias`` gives the wire form (camelCase)."""
        return plain_json(runtime_spec_json(self)) if by_alias else super().model_dump(mode=mode)


def layered_prompt(
    *,
    identity: Any = None,
    communication: Any = None,
    operational_rules: Any = None,
    tools: Any = None,
    domain_knowledge: Any = None,
    safety: Any = None,
    output_format: Any = None,
    examples: Any = None,
) -> LayeredPrompt:
    """Renders a prompt from named layers in a fixed order, with a hash of its text."""
    return ask(
        "layered_prompt",
        given(
            identity=identity,
            communication=communication,
            operational_rules=operational_rules,
            tools=tools if tools is None or isinstance(tools, (str, Mapping)) else list(tools),
            domain_knowledge=domain_knowledge,
            safety=safety,
            output_format=output_format,
            examples=examples,
        ),
    )


def augment_prompt_tools(prompt: Union[str, LayeredPrompt], tools: Iterable[Any]) -> LayeredPrompt:
    """Adds rows to the table of tools of a prompt."""
    return ask("augment_prompt_tools", prompt, list(tools))


def prompt_explain(options: Optional[Mapping[str, Any]] = None, **more: Any) -> Dict[str, Any]:
    """Assembles the system prompt of the options of a model call and explains each fragment. No model is called."""
    return ask("prompt_explain", {**(options or {}), **more})


_NAMES = {str: "string", int: "int", float: "float", bool: "bool", list: "list", dict: "dict", Any: "any"}


def schema_of(schema: Any) -> Any:
    """A schema as Harn takes it: types of Python stand for their names, also inside of dicts."""
    if schema is None or isinstance(schema, str):
        return schema
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        return schema.model_json_schema()
    try:
        if schema in _NAMES:
            return _NAMES[schema]
    except TypeError:
        pass
    origin, parts = typing.get_origin(schema), typing.get_args(schema)
    if origin in (list, typing.Sequence) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return [schema_of(parts[0])] if parts else "list"
    if origin is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "dict"
    if origin is Union or origin is getattr(types, "UnionType", None):
        inner = [part for part in parts if part is not type(None)]
        if len(inner) == 1 and len(parts) == 2:
            name = schema_of(inner[0])
            if isinstance(name, str):
                return f"{name}?"
    if isinstance(schema, Mapping):
        if _is_json_schema(schema):
            return dict(schema)
        return {name: schema_of(part) for name, part in schema.items()}
    if isinstance(schema, list):
        return [schema_of(part) for part in schema]
    raise HarnSpecError(
        f"unsupported schema: {schema!r}; there are str, int, float, bool, list, dict, list[T], Optional[T], dicts of them, "
        "JSON Schemas and Pydantic models"
    )


def _is_json_schema(schema: Mapping[str, Any]) -> bool:
    if any(key in schema for key in ("$schema", "$ref", "properties", "oneOf", "anyOf")):
        return True
    words = ("object", "array", "string", "integer", "number", "boolean", "null")
    word = schema.get("type")
    return isinstance(word, list) or (isinstance(word, str) and word in words)


def define_tool(
    name: str,
    *,
    input_schema: Any = None,
    description: str = "",
    approval: Any = None,
    output_schema: Any = None,
    binding_id: Optional[str] = None,
    handler: Optional[Callable[..., Any]] = None,
) -> Any:
    """Describes a tool. Without a handler the result is a decorator, too: ``@define_tool(name=...)``.

    ``approval`` is ``"never"``, ``"always"``, ``{"kind": "dynamic", "value": id}`` or a function ``(args, ctx) -> bool``.
    Handlers are called with the arguments and a context; they may be coroutines.
    """
    return ask(
        "define_tool",
        given(
            name=name,
            description=description,
            input_schema=schema_of(input_schema),
            approval=approval,
            output_schema=schema_of(output_schema),
            binding_id=binding_id,
            handler=handler,
        ),
    )


def _agent(builtin: str, prompt: Any, options: Dict[str, Any]) -> AgentSpec:
    if not isinstance(prompt, (str, LayeredPrompt)):
        raise HarnTypeError("prompt must be a string or LayeredPrompt")
    for name in ("routes", "tools", "toolkits"):
        if options.get(name) is not None:
            if isinstance(options[name], (str, Mapping)):
                raise HarnTypeError(f"{name} must be a list")
            options[name] = list(options[name])
    return ask(builtin, {"prompt": prompt, **given(**options)})


def define_coordinator(
    name: str,
    *,
    model: Any,
    prompt: Any,
    routes: Sequence[str] = (),
    tools: Sequence[Any] = (),
    toolkits: Sequence[str] = (),
    stateful: Optional[bool] = None,
    max_turns: Optional[int] = None,
    approval: Any = None,
    tool_approvals: Any = None,
) -> AgentSpec:
    """Describes the agent that talks to the user and hands work to its routes."""
    return _agent(
        "define_coordinator",
        prompt,
        dict(name=name, model=model, routes=routes, tools=tools, toolkits=toolkits, stateful=stateful,
             max_turns=max_turns, approval=approval, tool_approvals=tool_approvals),
    )


def define_planner(
    name: str,
    *,
    model: Any,
    prompt: Any,
    plan: Any,
    routes: Sequence[str] = (),
    tools: Sequence[Any] = (),
    toolkits: Sequence[str] = (),
    stateful: Optional[bool] = None,
    max_turns: Optional[int] = None,
    approval: Any = None,
    tool_approvals: Any = None,
) -> AgentSpec:
    """Describes an agent that writes plans."""
    return _agent(
        "define_planner",
        prompt,
        dict(name=name, model=model, plan=plan, routes=routes, tools=tools, toolkits=toolkits, stateful=stateful,
             max_turns=max_turns, approval=approval, tool_approvals=tool_approvals),
    )


def define_executor(
    name: str,
    *,
    model: Any,
    prompt: Any,
    plan: Any,
    routes: Sequence[str] = (),
    tools: Sequence[Any] = (),
    toolkits: Sequence[str] = (),
    stateful: Optional[bool] = None,
    max_turns: Optional[int] = None,
    approval: Any = None,
    tool_approvals: Any = None,
) -> AgentSpec:
    """Describes an agent that carries out approved plans."""
    return _agent(
        "define_executor",
        prompt,
        dict(name=name, model=model, plan=plan, routes=routes, tools=tools, toolkits=toolkits, stateful=stateful,
             max_turns=max_turns, approval=approval, tool_approvals=tool_approvals),
    )


def define_specialist(
    name: str,
    *,
    model: Any,
    prompt: Any,
    routes: Sequence[str] = (),
    tools: Sequence[Any] = (),
    toolkits: Sequence[str] = (),
    stateful: Optional[bool] = None,
    max_turns: Optional[int] = None,
    approval: Any = None,
    tool_approvals: Any = None,
) -> AgentSpec:
    """Describes a focused agent that others call."""
    return _agent(
        "define_specialist",
        prompt,
        dict(name=name, model=model, routes=routes, tools=tools, toolkits=toolkits, stateful=stateful,
             max_turns=max_turns, approval=approval, tool_approvals=tool_approvals),
    )


def define_plan(name: str, *, schema: Any, display_aliases: Any = None) -> PlanSpec:
    """Describes a kind of plan: the schema of its body and how its states are shown."""
    return ask("define_plan", given(name=name, schema=schema_of(schema), display_aliases=display_aliases))


def define_reference(
    name: str, *, schema: Any, ttl_ms: Optional[int] = None, glimpse: Optional[Callable[[Any], Any]] = None
) -> ReferenceSpec:
    """Describes a kind of stored value that tools pass by reference."""
    return ask("define_reference", given(name=name, schema=schema_of(schema), ttl_ms=ttl_ms, glimpse=glimpse))


def define_tenant(resource_id: str, version: str) -> Tenant:
    """Names whose runtime it is, and the version of its configuration."""
    return ask("define_tenant", resource_id, version)


def define_toolkit(id: str, *, tools: Sequence[ToolSpec]) -> ToolkitSpec:  # noqa: A002
    """Describes a toolkit of one's own."""
    return ask("define_toolkit", id, {"tools": list(tools)})


def tagged_union(schemas: Sequence[Any], discriminator: str = "kind") -> Dict[str, Any]:
    """Builds a schema that accepts one of several object schemas, told apart by a constant field."""
    return ask("tagged_union", [schema_of(schema) for schema in schemas], discriminator)


def define_runtime(
    *,
    tenant: Any,
    agents: Sequence[Any] = (),
    references: Sequence[Any] = (),
    plans: Sequence[Any] = (),
    toolkits: Sequence[Any] = (),
    approval_policies: Any = None,
    approval_overrides: Any = None,
    storage_factories: Any = None,
    providers: Any = None,
    tool_bindings: Sequence[Any] = (),
    prompt_role_tools: Optional[bool] = None,
) -> RuntimeSpec:
    """Collects agents, plans, references, toolkits and policies into one spec, and checks that they fit."""
    return ask(
        "define_runtime",
        given(
            tenant=tenant,
            agents=list(agents),
            references=list(references),
            plans=list(plans),
            toolkits=list(toolkits),
            approval_policies=approval_policies,
            approval_overrides=approval_overrides,
            storage_factories=storage_factories,
            providers=providers,
            tool_bindings=list(tool_bindings),
            prompt_role_tools=prompt_role_tools,
        ),
    )


def runtime_spec_json(spec: Any) -> str:
    """The wire form of a runtime spec: JSON with sorted keys."""
    return ask("__runtime_spec_json", spec)


def runtime_spec_parse(wire: Union[str, Mapping[str, Any]]) -> RuntimeSpec:
    """Reads the wire form of a runtime spec."""
    return ask("__runtime_spec_parse", wire)


def parse_conversation(messages: Sequence[Mapping[str, Any]]) -> Conversation:
    """Splits messages into prompt, system text and history."""
    return ask("__parse_conversation", list(messages))


def chat_program(conversation: Any, model: str, tenant: Any) -> ChatProgram:
    """Makes the program that an interpreter gets."""
    return ask("__chat_program", conversation, model, tenant)
