"""How functions of Python are called by programs: on threads of this module, coroutines on an event loop."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from typing import Any, Callable, List, Optional, Tuple

from ._errors import HarnThrown
from ._wait import loops


class Pool:
    """Threads that call. There is always one for the next call, so that a call may wait for another one."""

    def __init__(self) -> None:
        self.forget()

    def submit(self, work: Callable[..., None], *args: Any) -> None:
        with self._lock:
            fresh = self._idle == 0
            if not fresh:
                self._idle -= 1
        if fresh:
            threading.Thread(target=self._work, name="harn-call", daemon=True).start()
        self._jobs.put((work, args))

    def _work(self) -> None:
        while True:
            work, args = self._jobs.get()
            work(*args)
            del work, args
            with self._lock:
                self._idle += 1

    def forget(self) -> None:
        """After a fork there are no threads."""
        self._lock = threading.Lock()
        self._jobs: "queue.SimpleQueue[Tuple[Callable[..., None], Tuple[Any, ...]]]" = queue.SimpleQueue()
        self._idle = 0


pool = Pool()


def dispatch(function: Callable[..., Any], args: List[Any], reply: Any) -> None:
    """Calls a function for a program; ``reply`` gets the result."""
    pool.submit(_call, function, args, reply)


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


def _call(function: Callable[..., Any], args: List[Any], reply: Any) -> None:
    from ._runtime import with_context

    try:
        result = function(*with_context(fitting(function, args), is_async(function)))
        if inspect.isawaitable(result):
            _await(result, reply)
        else:
            reply.resolve(result)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the program gets it
        _reject(reply, error)


def _await(awaitable: Any, reply: Any) -> None:
    def start(loop: asyncio.AbstractEventLoop) -> None:
        task = loop.create_task(_finish(awaitable, reply))

        def stop() -> None:
            try:
                loop.call_soon_threadsafe(task.cancel)
            except RuntimeError:
                # The loop is closed, and with it the task is gone.
                pass

        reply.on_cancel(stop)

    loops.run(start)


async def _finish(awaitable: Any, reply: Any) -> None:
    try:
        reply.resolve(await awaitable)
    except asyncio.CancelledError as error:
        _reject(reply, error)
        raise
    except BaseException as error:  # noqa: BLE001
        _reject(reply, error)


def _reject(reply: Any, error: BaseException) -> None:
    value = error.value if isinstance(error, HarnThrown) else None
    message = error.message if isinstance(error, HarnThrown) else str(error)
    reply.reject(error, type(error).__name__, message, value)


def fitting(function: Callable[..., Any], args: List[Any]) -> List[Any]:
    """As many of the arguments as a function takes: handlers may leave out the context."""
    most = _most(function)
    return args if most is None else args[:most]


def _most(function: Callable[..., Any]) -> Optional[int]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
