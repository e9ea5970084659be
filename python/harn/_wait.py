"""Waiting for what was asked of a program: with signals, with a limit, or on an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, List, Optional

from ._errors import HarnTimeout

#: Seconds that a stopped call has for its cleanup.
GRACE = 2.0


def wait(pending: Any, timeout: Optional[float] = None) -> Any:
    """Waits; a signal or a time limit stops the call."""
    try:
        done = pending.wait(timeout)
    except BaseException:
        pending.cancel()
        pending.settle_within(GRACE)
        raise
    if not done:
        pending.cancel()
        pending.settle_within(GRACE)
        raise HarnTimeout(f"not done within {timeout:g} s", category="timeout")
    return pending.result()


async def wait_async(pending: Any, timeout: Optional[float] = None) -> Any:
    """The same on the running event loop."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def settle() -> None:
        if not done.done():
            done.set_result(None)

    def tell() -> None:
        # The loop may be closed by now.
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            pass

    loops.enter(loop)
    try:
        pending.on_done(tell)
        if timeout is None:
            await done
        else:
            await asyncio.wait_for(done, timeout)
    except asyncio.TimeoutError:
        pending.cancel()
        raise HarnTimeout(f"not done within {timeout:g} s", category="timeout") from None
    except BaseException:
        pending.cancel()
        raise
    finally:
        loops.leave(loop)
    return pending.result()


class Loops:
    """On which event loop coroutines of handlers run: the one that waits, else one on a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: List[asyncio.AbstractEventLoop] = []
        self._own: Optional[asyncio.AbstractEventLoop] = None

    def enter(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._waiting.append(loop)

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            for at in range(len(self._waiting) - 1, -1, -1):
                if self._waiting[at] is loop:
                    del self._waiting[at]
                    return

    def current(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            for loop in reversed(self._waiting):
                if loop.is_running():
                    return loop
            if self._own is None or self._own.is_closed():
                self._own = asyncio.new_event_loop()
                threading.Thread(target=self._own.run_forever, name="harn-loop", daemon=True).start()
            return self._own

    def forget(self) -> None:
        """After a fork there are no threads."""
        self.__init__()


loops = Loops()
