"""Waits for calls of a program: on a thread, with signals and a time limit, or on an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, List, Optional

from . import _harn
from ._errors import HarnTimeout

#: Seconds that a cancelled call has for its cleanup.
GRACE = 2.0


def running_loop() -> Optional[asyncio.AbstractEventLoop]:
    """Returns the event loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _timed_out(timeout: Optional[float]) -> HarnTimeout:
    return HarnTimeout(f"not done within {timeout:g} s", category="timeout")


def wait(pending: _harn.Pending, timeout: Optional[float] = None, *, brief: bool = False) -> Any:
    """Waits on this thread; a signal or the time limit cancels the call.

    ``brief`` is for calls that run no function of Python.
    """
    # A wait inside a coroutine blocks its loop, so coroutines of handlers must run on another one.
    loop = None if brief else running_loop()
    if loop is not None:
        loops.block(loop)
    try:
        done = pending.wait(timeout, signals=threading.current_thread() is threading.main_thread())
    except BaseException:
        pending.cancel()
        pending.wait(GRACE)
        raise
    finally:
        if loop is not None:
            loops.unblock(loop)
    if not done:
        pending.cancel()
        pending.wait(GRACE)
        raise _timed_out(timeout)
    return pending.result()


async def wait_async(pending: _harn.Pending, timeout: Optional[float] = None) -> Any:
    """Waits on the running event loop; cancelling the task or the time limit cancels the call."""
    loop = asyncio.get_running_loop()
    done: "asyncio.Future[None]" = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def notify() -> None:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            # The loop is closed.
            pass

    loops.enter(loop)
    try:
        pending.on_done(notify)
        if timeout is None:
            await done
        else:
            await asyncio.wait_for(done, timeout)
    except asyncio.TimeoutError:
        pending.cancel()
        raise _timed_out(timeout) from None
    except BaseException:
        pending.cancel()
        raise
    finally:
        loops.leave(loop)
    return pending.result()


class _Job:
    """A coroutine that has not started."""

    __slots__ = ("loop", "start")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, start: Callable[[asyncio.AbstractEventLoop], None]
    ) -> None:
        self.loop, self.start = loop, start


class Loops:
    """Selects the event loop for coroutines of handlers: one that waits for a program, else one on its own thread."""

    _own: Optional[asyncio.AbstractEventLoop]

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all loops: after a fork their threads do not exist."""
        self._lock = threading.Lock()
        self._waiting: List[asyncio.AbstractEventLoop] = []
        self._blocked: List[asyncio.AbstractEventLoop] = []
        self._jobs: List[_Job] = []
        self._own = None

    def enter(self, loop: asyncio.AbstractEventLoop) -> None:
        """Registers a loop that waits for a program."""
        with self._lock:
            self._waiting.append(loop)

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reverts one ``enter``."""
        with self._lock:
            _remove_last(self._waiting, loop)

    def block(self, loop: asyncio.AbstractEventLoop) -> None:
        """Registers a loop whose thread blocks; coroutines that have not started there start elsewhere."""
        with self._lock:
            self._blocked.append(loop)
            moved = [job for job in self._jobs if job.loop is loop]
            for job in moved:
                job.loop = self._background()
        for job in moved:
            self._send(job)

    def unblock(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reverts one ``block``."""
        with self._lock:
            _remove_last(self._blocked, loop)

    def run(self, start: Callable[[asyncio.AbstractEventLoop], None]) -> None:
        """Calls ``start`` on a loop."""
        with self._lock:
            usable = [loop for loop in self._waiting if loop.is_running() and loop not in self._blocked]
            job = _Job(usable[-1] if usable else self._background(), start)
            self._jobs.append(job)
        self._send(job)

    def _send(self, job: _Job) -> None:
        try:
            job.loop.call_soon_threadsafe(self._begin, job.loop, job)
        except RuntimeError:
            # The loop was closed in the meantime.
            with self._lock:
                job.loop = self._background()
            job.loop.call_soon_threadsafe(self._begin, job.loop, job)

    def _begin(self, loop: asyncio.AbstractEventLoop, job: _Job) -> None:
        with self._lock:
            if job.loop is not loop or job not in self._jobs:
                return
            self._jobs.remove(job)
        job.start(loop)

    def _background(self) -> asyncio.AbstractEventLoop:
        if self._own is None or self._own.is_closed():
            self._own = asyncio.new_event_loop()
            threading.Thread(target=self._own.run_forever, name="harn-loop", daemon=True).start()
        return self._own


def _remove_last(loops: List[asyncio.AbstractEventLoop], loop: asyncio.AbstractEventLoop) -> None:
    for at in range(len(loops) - 1, -1, -1):
        if loops[at] is loop:
            del loops[at]
            return


loops = Loops()
