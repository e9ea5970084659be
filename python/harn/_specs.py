"""Layered prompts and the specs of role agents, with the names and keyword arguments of the prompt guide."""

from __future__ import annotations

import dataclasses
import enum
import json
import os
import threading
import types
import typing
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union, overload

from ._errors import HarnSpecError, HarnThrown, HarnTypeError, spec_error
from ._program import Machine
from ._values import Record, record_class
from ._wait import wait

_lock = threading.Lock()
_machine: Optional[Machine] = None


def _spec_machine() -> Machine:
    """Returns the machine on which all prompts and specs are made. It ignores the project of the working directory."""
    global _machine
    with _lock:
        if _machine is None:
            machine = Machine(None, "", project=False)
            machine.ready()
            _machine = machine
        return _machine


def reset() -> None:
    """Forgets the machine: after a fork its thread does not exist."""
    global _lock, _machine
    _lock, _machine = threading.Lock(), None


def call_builtin(name: str, *args: Any) -> Any:
    """Calls a builtin that makes a prompt or a spec."""
    try:
        return wait(_spec_machine().native.builtin(name, list(args)), brief=True)
    except HarnThrown as error:
        raise spec_error(error) from None


def without_none(**options: Any) -> Dict[str, Any]:
    """Returns the options that are not ``None``."""
    return {name: value for name, value in options.items() if value is not None}


#: A function that handles calls of a tool: ``handler(args, ctx)``, or a coroutine function. It may omit parameters.
Handler = Callable[..., Any]


@record_class
class LayeredPrompt(Record):
    """A rendered prompt."""

    __slots__ = ()

    #: The prompt.
    text: str
    #: The SHA-256 of the prompt in hexadecimal digits.
    cache_key: str

    def __str__(self) -> str:
        return self.text


@record_class
class ToolSpec(Record):
    """A tool.

    A tool without a handler is a decorator: calling it with a function returns a copy with that handler. Calling a tool with
    a handler calls the handler.
    """

    __slots__ = ()

    name: str
    description: str
    #: A JSON Schema.
    input_schema: Dict[str, Any]
    #: ``{"kind": "never"}``, ``{"kind": "always"}`` or ``{"kind": "dynamic", "value": id}``.
    approval: Dict[str, Any]
    output_schema: Optional[Dict[str, Any]]
    binding_id: Optional[str]

    @property
    def handler(self) -> Optional[Handler]:
        """The handler."""
        handler: Optional[Handler] = self._fields.get("handler")
        return handler

    @overload
    def __call__(self, handler: Handler, /) -> "ToolSpec": ...

    @overload
    def __call__(self, *args: Any, **options: Any) -> Any: ...

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self.handler is not None:
            return self.handler(*args, **options)
        if len(args) != 1 or options or not callable(args[0]):
            raise HarnTypeError(f"tool {self.name!r} has no handler yet: call it with a function")
        return call_builtin("tool_bind", self, args[0])


@record_class
class AgentSpec(Record):
    """An agent."""

    __slots__ = ()

    name: str
    #: ``coordinator``, ``planner``, ``executor`` or ``specialist``.
    role: str
    #: Whether the agent remembers its turns per thread.
    stateful: bool
    #: ``{"id": ..., "provider": ...}``.
    model: Dict[str, Optional[str]]
    system_prompt: str
    #: The agents that it may call.
    routes: List[str]
    toolkits: List[str]
    max_turns: Optional[int]
    plan: Optional["PlanSpec"]
    tools: List[ToolSpec]
    approval_policies: Optional[Dict[str, Any]]
    tool_approval_policies: Dict[str, Any]
    #: The ``cache_key`` of a layered prompt. It is not part of the wire form.
    prompt_cache_key: Optional[str]


@record_class
class PlanSpec(Record):
    """A kind of plan."""

    __slots__ = ()

    name: str
    #: A JSON Schema.
    schema: Dict[str, Any]
    #: ``{"status": ..., "alias": ...}`` per status.
    display_aliases: List[Dict[str, str]]


@record_class
class ReferenceSpec(Record):
    """A kind of stored value."""

    __slots__ = ()

    name: str
    #: A JSON Schema.
    schema: Dict[str, Any]
    #: The lifetime in milliseconds.
    ttl_ms: Optional[int]


@record_class
class Tenant(Record):
    """The owner of a runtime."""

    __slots__ = ()

    resource_id: str
    version: str


@record_class
class Conversation(Record):
    """Messages, split into prompt, system text and history."""

    __slots__ = ()

    messages: List[Dict[str, Any]]
    #: The content of the last user message.
    prompt: str
    system: Optional[str]
    #: All messages but system messages and the last user message.
    history: List[Dict[str, Any]]


@record_class
class ChatProgram(Record):
    """The input of an interpreter."""

    __slots__ = ()

    conversation: Conversation
    system_prompt: str
    model: str
    tenant: Tenant


@record_class
class ToolkitSpec(Record):
    """A toolkit of a runtime: ``ToolkitSpec(id="catalog", config={"tools": ["execute_query"]})``."""

    __slots__ = ()

    id: str
    config: Optional[Dict[str, Any]]

    def __init__(self, id: str, config: Optional[Mapping[str, Any]] = None) -> None:  # noqa: A002 - the guide's name
        if not isinstance(id, str) or not id:
            raise HarnTypeError("ToolkitSpec: id must be a non-empty str")
        object.__setattr__(self, "_name", "ToolkitSpec")
        object.__setattr__(self, "_fields", {"id": id, "config": None if config is None else dict(config)})
        object.__setattr__(self, "_origin", None)


@record_class
class RuntimeSpec(Record):
    """A runtime."""

    __slots__ = ()

    tenant: Tenant
    agents: List[AgentSpec]
    references: List[ReferenceSpec]
    plans: List[PlanSpec]
    toolkits: List[ToolkitSpec]
    approval_policies: Dict[str, Any]
    approval_overrides: Dict[str, Any]
    storage_factories: Dict[str, Any]
    providers: Dict[str, Any]
    tool_bindings: List[ToolSpec]

    def model_dump(self, *, by_alias: bool = False, mode: str = "python") -> Dict[str, Any]:
        """Returns the fields as plain data; ``by_alias`` selects the wire form (camelCase)."""
        if not by_alias or mode not in ("python", "json"):
            return super().model_dump(mode=mode)
        wire: Dict[str, Any] = json.loads(runtime_spec_json(self))
        return wire


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
    """Renders a prompt from named layers in a fixed order.

    ``identity`` is a string. ``communication``, ``operational_rules`` and ``safety`` are strings or sequences of strings,
    ``tools`` an iterable of tools, dicts or names, the others any data: strings, dicts, lists, Pydantic models.
    """
    return typing.cast(
        LayeredPrompt,
        call_builtin(
            "layered_prompt",
            without_none(
                identity=identity,
                communication=communication,
                operational_rules=operational_rules,
                tools=tools if tools is None or isinstance(tools, (str, Mapping)) else list(tools),
                domain_knowledge=domain_knowledge,
                safety=safety,
                output_format=output_format,
                examples=examples,
            ),
        ),
    )


def augment_prompt_tools(prompt: Union[str, LayeredPrompt], tools: Iterable[Any]) -> LayeredPrompt:
    """Adds rows to the tools table of a prompt."""
    return typing.cast(LayeredPrompt, call_builtin("augment_prompt_tools", prompt, list(tools)))


def prompt_explain(options: Optional[Mapping[str, Any]] = None, **more: Any) -> Dict[str, Any]:
    """Assembles the system prompt of the options of a model call and explains each fragment. Calls no model."""
    return typing.cast(Dict[str, Any], call_builtin("prompt_explain", {**(options or {}), **more}))


_NAMES: Dict[Any, str] = {
    str: "string",
    int: "int",
    float: "float",
    bool: "bool",
    list: "list",
    dict: "dict",
    Any: "any",
    None: "nil",
    type(None): "nil",
}

_SUPPORTED = (
    "str, int, float, bool, list, dict, list[T], dict[str, T], Optional[T], unions, Literal, enums, dataclasses, TypedDicts, "
    "Pydantic models, dicts of them, and JSON Schemas"
)


def schema_of(schema: Any) -> Any:
    """Returns a schema as Harn takes it: types of Python become type names, or JSON Schemas."""
    if schema is None or isinstance(schema, str):
        return schema
    if isinstance(schema, Mapping):
        if _is_json_schema(schema):
            return dict(schema)
        return {name: schema_of(part) for name, part in schema.items()}
    if isinstance(schema, list):
        return [schema_of(part) for part in schema]
    return _schema_of_type(schema)


def _schema_of_type(schema: Any) -> Any:
    if isinstance(schema, type) and hasattr(schema, "model_json_schema"):
        return schema.model_json_schema()
    try:
        if schema in _NAMES:
            return _NAMES[schema]
    except TypeError:
        # Not hashable, so not a type.
        pass
    origin, parts = typing.get_origin(schema), typing.get_args(schema)
    if origin is typing.Literal:
        return {"type": _json_types(parts), "enum": list(parts)}
    if origin is not None and origin in (Union, getattr(types, "UnionType", Union)):
        return _union(parts)
    if isinstance(origin, type) and issubclass(origin, (list, set, frozenset, tuple, Sequence)):
        return [schema_of(parts[0])] if parts else "list"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "dict"
    if isinstance(schema, type) and issubclass(schema, enum.Enum):
        values = [member.value for member in schema]
        return {"type": _json_types(values), "enum": values}
    if isinstance(schema, type) and dataclasses.is_dataclass(schema):
        hints = typing.get_type_hints(schema)
        return {field.name: schema_of(hints[field.name]) for field in dataclasses.fields(schema)}
    if isinstance(schema, type) and issubclass(schema, dict) and hasattr(schema, "__required_keys__"):
        return {name: schema_of(part) for name, part in typing.get_type_hints(schema).items()}
    raise HarnSpecError(f"unsupported schema: {schema!r}; expected {_SUPPORTED}")


def _json_types(values: Iterable[Any]) -> List[str]:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    found = []
    for value in values:
        name = names.get(type(value))
        if name is None:
            raise HarnSpecError(f"unsupported schema: the value {value!r}; expected str, int, float, bool or None")
        if name not in found:
            found.append(name)
    return found


def _union(parts: Sequence[Any]) -> Any:
    inner = [schema_of(part) for part in parts if part is not type(None)]
    nullable = len(inner) < len(parts)
    if nullable and len(inner) == 1 and isinstance(inner[0], str):
        return f"{inner[0]}?"
    names = {"string": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}
    members: List[Any] = []
    for part in inner:
        if isinstance(part, str) and part in names:
            members.append({"type": names[part]})
        elif isinstance(part, dict) and _is_json_schema(part):
            members.append(part)
        else:
            raise HarnSpecError(f"unsupported schema: a union of {part!r}; use a Pydantic model")
    # `type` makes it a JSON Schema for Harn.
    return {"anyOf": [*members, {"type": "null"}] if nullable else members, "type": _union_types(members, nullable)}


def _union_types(members: Sequence[Mapping[str, Any]], nullable: bool) -> List[str]:
    found: List[str] = []
    for member in members:
        own = member.get("type", "object")
        found += [name for name in ([own] if isinstance(own, str) else own) if name not in found]
    return [*found, "null"] if nullable and "null" not in found else found


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
    handler: Optional[Handler] = None,
) -> ToolSpec:
    """Describes a tool. Without ``handler`` the result is also a decorator: ``@define_tool(name=...)``.

    ``approval`` is ``"never"``, ``"always"``, ``{"kind": "dynamic", "value": id}`` or a function ``(args, ctx) -> bool``.
    The runtime calls handlers with the validated arguments and a context; they may be coroutine functions.
    """
    return typing.cast(
        ToolSpec,
        call_builtin(
            "define_tool",
            without_none(
                name=name,
                description=description,
                input_schema=schema_of(input_schema),
                approval=approval,
                output_schema=schema_of(output_schema),
                binding_id=binding_id,
                handler=handler,
            ),
        ),
    )


def _define_agent(builtin: str, prompt: Any, options: Dict[str, Any]) -> AgentSpec:
    if not isinstance(prompt, (str, LayeredPrompt)):
        raise HarnTypeError("prompt must be a string or LayeredPrompt")
    for name in ("routes", "tools", "toolkits"):
        if options.get(name) is not None:
            if isinstance(options[name], (str, Mapping)):
                raise HarnTypeError(f"{name} must be a list")
            options[name] = list(options[name])
    return typing.cast(AgentSpec, call_builtin(builtin, {"prompt": prompt, **without_none(**options)}))


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
    """Describes the agent that talks to the user and calls the agents in its routes."""
    return _define_agent(
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
    return _define_agent(
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
    """Describes an agent that executes approved plans."""
    return _define_agent(
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
    """Describes an agent for one task, which other agents or the host call."""
    return _define_agent(
        "define_specialist",
        prompt,
        dict(name=name, model=model, routes=routes, tools=tools, toolkits=toolkits, stateful=stateful,
             max_turns=max_turns, approval=approval, tool_approvals=tool_approvals),
    )


def define_plan(name: str, *, schema: Any, display_aliases: Any = None) -> PlanSpec:
    """Describes a kind of plan: the schema of its body, and the names under which its statuses are shown."""
    options = without_none(name=name, schema=schema_of(schema), display_aliases=display_aliases)
    return typing.cast(PlanSpec, call_builtin("define_plan", options))


def define_reference(
    name: str, *, schema: Any, ttl_ms: Optional[int] = None, glimpse: Optional[Callable[[Any], Any]] = None
) -> ReferenceSpec:
    """Describes a kind of stored value that tools pass by reference. ``glimpse`` makes a summary of a value."""
    options = without_none(name=name, schema=schema_of(schema), ttl_ms=ttl_ms, glimpse=glimpse)
    return typing.cast(ReferenceSpec, call_builtin("define_reference", options))


def define_tenant(resource_id: str, version: str) -> Tenant:
    """Describes the owner of a runtime, and the version of its configuration."""
    return typing.cast(Tenant, call_builtin("define_tenant", resource_id, version))


def define_toolkit(id: str, *, tools: Sequence[ToolSpec]) -> ToolkitSpec:  # noqa: A002
    """Describes a custom toolkit."""
    return typing.cast(ToolkitSpec, call_builtin("define_toolkit", id, {"tools": list(tools)}))


def tagged_union(schemas: Sequence[Any], discriminator: str = "kind") -> Dict[str, Any]:
    """Builds a schema that accepts one of several object schemas, which a constant field distinguishes."""
    members = [schema_of(schema) for schema in schemas]
    return typing.cast(Dict[str, Any], call_builtin("tagged_union", members, discriminator))


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
    """Collects agents, plans, references, toolkits and policies into one spec and validates it."""
    return typing.cast(
        RuntimeSpec,
        call_builtin(
            "define_runtime",
            without_none(
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
        ),
    )


def runtime_spec_json(spec: Any) -> str:
    """Returns the wire form of a runtime spec: JSON with sorted keys."""
    return typing.cast(str, call_builtin("__runtime_spec_json", spec))


def runtime_spec_parse(wire: Union[str, Mapping[str, Any]]) -> RuntimeSpec:
    """Parses the wire form of a runtime spec."""
    return typing.cast(RuntimeSpec, call_builtin("__runtime_spec_parse", wire))


def parse_conversation(messages: Sequence[Mapping[str, Any]]) -> Conversation:
    """Splits messages into prompt, system text and history."""
    return typing.cast(Conversation, call_builtin("__parse_conversation", list(messages)))


def chat_program(conversation: Conversation, model: str, tenant: Tenant) -> ChatProgram:
    """Makes the input of an interpreter."""
    return typing.cast(ChatProgram, call_builtin("__chat_program", conversation, model, tenant))


def chat_program_with_system(program: ChatProgram, text: str) -> ChatProgram:
    """Returns a copy of a program with another system prompt."""
    return typing.cast(ChatProgram, call_builtin("__chat_program_with_system", program, text))
