"""Calls of Python functions by programs: functions on threads of this module, coroutines on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from typing import Any, Awaitable, Callable, List, Optional, Tuple

from . import _harn
from ._errors import HarnThrown
from ._wait import loops

#: Idle threads that are retained for further calls.
IDLE_LIMIT = 8

_Job = Tuple[Callable[..., Any], List[Any], _harn.Reply]


class CallThreads:
    """Threads for calls. A call never waits for a thread, so that it may wait for another call."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all threads: after a fork they do not exist."""
        self._lock = threading.Lock()
        self._jobs: "queue.SimpleQueue[_Job]" = queue.SimpleQueue()
        self._idle = 0

    def submit(self, job: _Job) -> None:
        """Runs a job on an idle thread, else on a new one."""
        with self._lock:
            start = self._idle == 0
            if not start:
                self._idle -= 1
        if start:
            threading.Thread(target=self._work, name="harn-call", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            _call(*self._jobs.get())
            with self._lock:
                if self._idle >= IDLE_LIMIT:
                    return
                self._idle += 1


threads = CallThreads()


def dispatch(function: Callable[..., Any], args: List[Any], reply: _harn.Reply) -> None:
    """Calls a function for a program; ``reply`` receives the result."""
    if is_async(function):
        # The call only creates the coroutine.
        _call(function, args, reply)
    else:
        threads.submit((function, args, reply))


def is_async(function: Any) -> bool:
    """Whether calling it makes a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def _call(function: Callable[..., Any], args: List[Any], reply: _harn.Reply) -> None:
    from ._runtime import with_context

    try:
        result = function(*with_context(accepted_args(function, args), is_async(function)))
        if inspect.isawaitable(result):
            _await(result, reply)
        else:
            reply.resolve(result)
    except BaseException as error:  # noqa: BLE001 - the program receives any exception
        _reject(reply, error)


def _await(awaitable: Awaitable[Any], reply: _harn.Reply) -> None:
    def start(loop: asyncio.AbstractEventLoop) -> None:
        task = loop.create_task(_finish(awaitable, reply))

        def cancel() -> None:
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                # The loop is closed, which also ended the task.
                pass

        reply.on_cancel(cancel)

    loops.run(start)


async def _finish(awaitable: Awaitable[Any], reply: _harn.Reply) -> None:
    try:
        reply.resolve(await awaitable)
    except asyncio.CancelledError as error:
        _reject(reply, error)
        raise
    except BaseException as error:  # noqa: BLE001 - the program receives any exception
        _reject(reply, error)


def _reject(reply: _harn.Reply, error: BaseException) -> None:
    value = error.value if isinstance(error, HarnThrown) else None
    message = error.message if isinstance(error, HarnThrown) else str(error)
    reply.reject(error, type(error).__name__, message, value)


def accepted_args(function: Callable[..., Any], args: List[Any]) -> List[Any]:
    """Returns as many of the arguments as a function takes: handlers may omit the context."""
    limit = _positional_limit(function)
    return args if limit is None else args[:limit]


def _positional_limit(function: Callable[..., Any]) -> Optional[int]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
