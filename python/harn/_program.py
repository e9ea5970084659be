"""Running programs, and calling what they export."""

from __future__ import annotations

import atexit
import os
import weakref
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from . import _harn
from ._errors import HarnClosed, HarnError, HarnExit, HarnTypeError, HarnValueError
from ._values import EnumValue
from ._wait import wait, wait_async

PathLike = Union[str, "os.PathLike[str]"]

_machines: "weakref.WeakSet[Machine]" = weakref.WeakSet()


class Machine:
    """A program on a thread of its own."""

    def __init__(
        self,
        path: Optional[PathLike],
        code: Optional[str],
        *,
        argv: Sequence[str] = (),
        task: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        globals: Optional[Mapping[str, Any]] = None,
        mocks: Sequence[Any] = (),
        capture: bool = True,
    ) -> None:
        if (path is None) == (code is None):
            raise HarnValueError("give either a path or code=...")
        if isinstance(argv, str) or not all(isinstance(arg, str) for arg in argv):
            raise HarnTypeError("argv must be a sequence of str")
        if path is not None:
            name, text, folder = _harn.read_source(Path(path))
        else:
            name, text, folder = "<inline>", str(code), _harn.work_dir()
        self._own = _harn.Machine(
            name, text, folder, list(argv), task, dict(env or {}), dict(globals or {}), list(mocks), capture
        )
        _machines.add(self)

    def ready(self) -> None:
        """Waits until the program is compiled."""
        wait(self._own.ready())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def end(self, timeout: float = 5.0) -> None:
        """Ends the program and waits for its cleanup."""
        pending = self._own.close()
        if pending.settle_within(timeout):
            try:
                pending.result()
            except (HarnExit, HarnClosed):
                pass


@atexit.register
def _end_all() -> None:
    for machine in list(_machines):
        machine._own.close()


class RunResult(NamedTuple):
    """What came of a run."""

    #: The value of the pipeline, or of the ``return`` of a script.
    value: Any
    #: What the program wrote.
    output: str
    #: What it wrote to standard error.
    errors: str
    #: The exit code that ``harn run`` would give.
    exit_code: int


def _exit_code(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, min(value, 255))
    if isinstance(value, EnumValue) and value.type_name == "Result" and value.variant == "Err":
        return 1
    return 0


class _Run:
    def __init__(self, path: Any, args: Any, code: Any, pipeline: Any, task: Any, rest: Dict[str, Any]) -> None:
        self.pipeline = pipeline
        self.parameters: Dict[str, Any] = {}
        argv: Sequence[str] = ()
        if isinstance(args, Mapping):
            self.parameters = dict(args)
        elif args is not None:
            argv = args
        self.machine = Machine(path, code, argv=argv, task=task, **rest)

    def failed(self, error: HarnError) -> None:
        error.output, error.errors = self.machine.output()

    def exited(self, error: HarnExit) -> RunResult:
        output, errors = self.machine.output()
        return RunResult(None, output, errors, max(0, min(error.code, 255)))

    def done(self, value: Any) -> RunResult:
        output, errors = self.machine.output()
        return RunResult(value, output, errors, _exit_code(value))


def run(
    path: Optional[PathLike] = None,
    args: Union[Mapping[str, Any], Sequence[str], None] = None,
    *,
    code: Optional[str] = None,
    pipeline: Optional[str] = None,
    task: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    globals: Optional[Mapping[str, Any]] = None,
    mocks: Sequence[Any] = (),
    capture: bool = True,
    timeout: Optional[float] = None,
) -> RunResult:
    """Runs a program to its end.

    ``args`` are parameters of the pipeline by name, or a list of texts for ``argv``. ``globals`` are names that the program
    finds, functions of Python among them. ``mocks`` answer its model calls. What it writes is captured, unless ``capture`` is
    false. ``timeout`` is in seconds. Ctrl-C stops the program; its cleanup runs.

    Raises ``HarnError``; its ``output`` and ``errors`` are what was written before.
    """
    own = _Run(path, args, code, pipeline, task, dict(env=env, globals=globals, mocks=mocks, capture=capture))
    import time

    until = None if timeout is None else time.monotonic() + timeout
    left = lambda: None if until is None else max(0.0, until - time.monotonic())  # noqa: E731
    try:
        wait(own.machine._own.ready(), left())
        value = wait(own.machine.begin(), left())
        ran = wait(own.machine.pipeline(own.pipeline, _given(own)), left())
        value = _value_of(own, value, ran)
        own.machine.end()
        return own.done(value)
    except HarnExit as error:
        own.machine.end()
        return own.exited(error)
    except HarnError as error:
        own.machine.end()
        own.failed(error)
        raise
    except BaseException:
        own.machine.end()
        raise


async def arun(
    path: Optional[PathLike] = None,
    args: Union[Mapping[str, Any], Sequence[str], None] = None,
    *,
    code: Optional[str] = None,
    pipeline: Optional[str] = None,
    task: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    globals: Optional[Mapping[str, Any]] = None,
    mocks: Sequence[Any] = (),
    capture: bool = True,
    timeout: Optional[float] = None,
) -> RunResult:
    """As ``run``, on the running event loop."""
    own = _Run(path, args, code, pipeline, task, dict(env=env, globals=globals, mocks=mocks, capture=capture))
    import time

    until = None if timeout is None else time.monotonic() + timeout
    left = lambda: None if until is None else max(0.0, until - time.monotonic())  # noqa: E731
    try:
        await wait_async(own.machine._own.ready(), left())
        value = await wait_async(own.machine.begin(), left())
        ran = await wait_async(own.machine.pipeline(own.pipeline, _given(own)), left())
        value = _value_of(own, value, ran)
        await wait_async(own.machine._own.close())
        return own.done(value)
    except HarnExit as error:
        own.machine._own.close()
        return own.exited(error)
    except HarnError as error:
        own.machine._own.close()
        own.failed(error)
        raise
    except BaseException:
        own.machine._own.close()
        raise


def _given(own: _Run) -> Dict[str, Any]:
    return own.parameters


def _value_of(own: _Run, value: Any, ran: Any) -> Any:
    # A pipeline gives a list of its value; a program without one gives nothing.
    if ran is None:
        if own.parameters:
            raise HarnValueError("the program has no pipeline whose parameters `args` could be: give a list for argv")
        return value
    return ran[0]


class _Export:
    """An exported function."""

    def __init__(self, program: "Program", name: str) -> None:
        self._program, self.__name__ = program, name

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._program.call(self.__name__, *args, **options)

    async def aio(self, *args: Any, **options: Any) -> Any:
        """Calls it on the running event loop."""
        return await self._program.acall(self.__name__, *args, **options)

    def __repr__(self) -> str:
        return f"<function {self.__name__} of a Harn program>"


class Program:
    """A program whose top level has run: ``program.name(...)`` calls what it exports."""

    def __init__(self, machine: Machine, exports: List[str]) -> None:
        self._machine = machine
        self._exports = exports

    @property
    def exports(self) -> List[str]:
        """The names that it exports."""
        return list(self._exports)

    @property
    def output(self) -> str:
        """What it has written so far."""
        return self._machine.output()[0]

    @property
    def errors(self) -> str:
        """What it has written to standard error so far."""
        return self._machine.output()[1]

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Calls an exported function. Keyword arguments travel in one dict behind the others."""
        return wait(self._machine.call(name, [*args, options] if options else list(args)))

    async def acall(self, name: str, *args: Any, **options: Any) -> Any:
        """As ``call``, on the running event loop."""
        return await wait_async(self._machine.call(name, [*args, options] if options else list(args)))

    def call_within(self, timeout: float, name: str, *args: Any, **options: Any) -> Any:
        """As ``call``, for at most so many seconds."""
        return wait(self._machine.call(name, [*args, options] if options else list(args)), timeout)

    def __getattr__(self, name: str) -> _Export:
        if name.startswith("_") or name not in self._exports:
            known = ", ".join(self._exports) or "nothing"
            raise AttributeError(f"the program exports no {name!r}; it exports {known}")
        return _Export(self, name)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._exports]

    def close(self) -> None:
        """Ends the program: its tasks stop, its cleanup runs."""
        self._machine.end()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Harn program: {', '.join(self._exports) or 'exports nothing'}>"


def load(
    path: Optional[PathLike] = None,
    *,
    code: Optional[str] = None,
    argv: Sequence[str] = (),
    env: Optional[Mapping[str, str]] = None,
    globals: Optional[Mapping[str, Any]] = None,
    mocks: Sequence[Any] = (),
    capture: bool = True,
    timeout: Optional[float] = None,
) -> Program:
    """Runs the top level of a program and keeps it, so that its functions can be called."""
    machine = Machine(path, code, argv=argv, env=env, globals=globals, mocks=mocks, capture=capture)
    try:
        machine.ready()
        wait(machine.begin(), timeout)
        return Program(machine, wait(machine.exports()))
    except BaseException as error:
        machine.end()
        if isinstance(error, HarnError):
            error.output, error.errors = machine.output()
        raise
