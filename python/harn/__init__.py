"""Harn for Python: run programs, call their functions, build runtimes of agents."""

from __future__ import annotations

import datetime as _datetime
import os as _os

from . import _calls, _errors, _harn, _specs, _values, _wait

_harn.set_factories(
    {
        "adapt": _values.adapt,
        "dispatch": _calls.dispatch,
        "duration": lambda ms: _datetime.timedelta(milliseconds=ms),
        "error": _errors.make_error,
        "function": _values.Function,
        "pair": _values.Pair,
        "range": range,
        "record": _values.make_record,
        "remote": _values.Remote,
        "set": _values.make_set,
        "stream": _values.Stream,
        "variant": _values.EnumValue,
    }
)

from ._errors import (  # noqa: E402
    Frame,
    HarnCancelled,
    HarnClosed,
    HarnError,
    HarnExit,
    HarnNameError,
    HarnRuntimeError,
    HarnSpecError,
    HarnSyntaxError,
    HarnThrown,
    HarnTimeout,
    HarnTypeError,
    HarnValueError,
)
from ._program import Program, RunResult, aload, arun, load, run  # noqa: E402
from ._runtime import (  # noqa: E402
    AsyncRuntime,
    AsyncToolContext,
    EventStream,
    Runtime,
    ToolContext,
    acreate_runtime,
    create_runtime,
)
from ._specs import (  # noqa: E402
    AgentSpec,
    ChatProgram,
    Conversation,
    LayeredPrompt,
    PlanSpec,
    ReferenceSpec,
    RuntimeSpec,
    Tenant,
    ToolkitSpec,
    ToolSpec,
    augment_prompt_tools,
    chat_program,
    chat_program_with_system,
    define_coordinator,
    define_executor,
    define_plan,
    define_planner,
    define_reference,
    define_runtime,
    define_specialist,
    define_tenant,
    define_tool,
    define_toolkit,
    layered_prompt,
    parse_conversation,
    prompt_explain,
    runtime_spec_json,
    runtime_spec_parse,
    tagged_union,
)
from ._values import EnumValue, Function, Pair, Record, Remote, Stream  # noqa: E402

__version__ = _harn.__version__


def _after_fork() -> None:
    _harn.after_fork()
    _calls.threads.reset()
    _wait.loops.reset()
    _specs.reset()


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_after_fork)

__all__ = [
    "AgentSpec",
    "AsyncRuntime",
    "AsyncToolContext",
    "ChatProgram",
    "Conversation",
    "EnumValue",
    "EventStream",
    "Frame",
    "Function",
    "HarnCancelled",
    "HarnClosed",
    "HarnError",
    "HarnExit",
    "HarnNameError",
    "HarnRuntimeError",
    "HarnSpecError",
    "HarnSyntaxError",
    "HarnThrown",
    "HarnTimeout",
    "HarnTypeError",
    "HarnValueError",
    "LayeredPrompt",
    "Pair",
    "PlanSpec",
    "Program",
    "Record",
    "ReferenceSpec",
    "Remote",
    "RunResult",
    "Runtime",
    "RuntimeSpec",
    "Stream",
    "Tenant",
    "ToolContext",
    "ToolSpec",
    "ToolkitSpec",
    "acreate_runtime",
    "aload",
    "arun",
    "augment_prompt_tools",
    "chat_program",
    "chat_program_with_system",
    "create_runtime",
    "define_coordinator",
    "define_executor",
    "define_plan",
    "define_planner",
    "define_reference",
    "define_runtime",
    "define_specialist",
    "define_tenant",
    "define_tool",
    "define_toolkit",
    "layered_prompt",
    "load",
    "parse_conversation",
    "prompt_explain",
    "run",
    "runtime_spec_json",
    "runtime_spec_parse",
    "tagged_union",
]
