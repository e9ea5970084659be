"""Runs programs and calls the functions that they export."""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _harn
from ._errors import HarnClosed, HarnError, HarnExit, HarnTimeout, HarnTypeError, HarnValueError
from ._values import EnumValue
from ._wait import wait, wait_async

PathLike = Union[str, "os.PathLike[str]"]

#: Seconds that a program has for its cleanup when it is closed.
CLOSE_LIMIT = 5.0

#: Seconds that all programs together have for their cleanup when the interpreter ends.
EXIT_LIMIT = 2.0


class Machine:
    """A program on its own thread."""

    def __init__(
        self,
        path: Optional[PathLike],
        code: Optional[str],
        *,
        argv: Sequence[str] = (),
        task: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        globals: Optional[Mapping[str, Any]] = None,  # noqa: A002 - the name of the public functions
        mocks: Sequence[Any] = (),
        capture: bool = True,
        project: bool = True,
    ) -> None:
        if (path is None) == (code is None):
            raise HarnValueError("expected either a path or code=...")
        if isinstance(argv, str) or not all(isinstance(arg, str) for arg in argv):
            raise HarnTypeError("argv must be a sequence of str")
        if path is not None:
            name, text, directory = _harn.read_source(Path(path))
        else:
            name, text, directory = "<inline>", str(code), _harn.work_dir()
        self.native = _harn.Machine(
            name=name,
            text=text,
            directory=directory,
            argv=list(argv),
            task=task,
            env=dict(env or {}),
            globals=dict(globals or {}),
            mocks=list(mocks),
            capture=capture,
            project=project,
        )

    def ready(self) -> None:
        """Waits until the program is compiled."""
        wait(self.native.ready())

    async def aready(self) -> None:
        """As ``ready``, on the running event loop."""
        await wait_async(self.native.ready())

    def output(self) -> Tuple[str, str]:
        """Returns the captured output so far: standard output and standard error."""
        return self.native.output()

    def close(self, timeout: float = CLOSE_LIMIT) -> None:
        """Ends the program and waits for its cleanup."""
        try:
            wait(self.native.close(), timeout)
        except (HarnExit, HarnClosed, HarnTimeout):
            pass

    async def aclose(self, timeout: float = CLOSE_LIMIT) -> None:
        """As ``close``, on the running event loop."""
        try:
            await wait_async(self.native.close(), timeout)
        except (HarnExit, HarnClosed, HarnTimeout):
            pass


@atexit.register
def _close_all() -> None:
    _harn.shutdown(EXIT_LIMIT)


class RunResult(NamedTuple):
    """The result of a run."""

    #: The value of the pipeline, or of the ``return`` of a script.
    value: Any
    #: The standard output.
    output: str
    #: The standard error.
    errors: str
    #: The exit code of ``harn run``.
    exit_code: int


def _exit_code(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, min(value, 255))
    if isinstance(value, EnumValue) and value.type_name == "Result" and value.variant == "Err":
        return 1
    return 0


class _Run:
    """One run: the machine, the arguments and the time limit."""

    def __init__(
        self,
        path: Optional[PathLike],
        args: Union[Mapping[str, Any], Sequence[str], None],
        pipeline: Optional[str],
        timeout: Optional[float],
        **options: Any,
    ) -> None:
        self.entry = pipeline
        self.parameters: Dict[str, Any] = dict(args) if isinstance(args, Mapping) else {}
        argv = () if args is None or isinstance(args, Mapping) else args
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.machine = Machine(path, argv=argv, **options)

    def left(self) -> Optional[float]:
        """Returns the seconds until the time limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def pipeline(self) -> _harn.Pending:
        return self.machine.native.pipeline(self.entry, self.parameters)

    def failed(self, error: HarnError) -> None:
        error.output, error.errors = self.machine.output()

    def exited(self, error: HarnExit) -> RunResult:
        output, errors = self.machine.output()
        return RunResult(None, output, errors, max(0, min(error.code, 255)))

    def done(self, value: Any) -> RunResult:
        output, errors = self.machine.output()
        return RunResult(value, output, errors, _exit_code(value))

    def value(self, script: Any, pipeline: Optional[List[Any]]) -> Any:
        """Selects the value: that of the pipeline if the program has one, else that of the script."""
        if pipeline is not None:
            return pipeline[0]
        if self.parameters:
            raise HarnValueError("the program has no pipeline that takes `args`; pass a list for argv")
        return script


def run(
    path: Optional[PathLike] = None,
    args: Union[Mapping[str, Any], Sequence[str], None] = None,
    *,
    code: Optional[str] = None,
    pipeline: Optional[str] = None,
    task: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    globals: Optional[Mapping[str, Any]] = None,  # noqa: A002
    mocks: Sequence[Any] = (),
    capture: bool = True,
    timeout: Optional[float] = None,
) -> RunResult:
    """Runs a program to its end.

    ``args`` are the parameters of the pipeline by name, or a list of strings for ``argv``. ``globals`` are additional names
    in the program, such as functions of Python. ``mocks`` are the replies of the provider ``mock``. Output is captured unless
    ``capture`` is false. ``timeout`` is in seconds. Ctrl-C stops the program; its cleanup runs.

    Raises ``HarnError`` when the program fails; ``output`` and ``errors`` of the exception are the output until then.
    """
    own = _Run(
        path, args, pipeline, timeout,
        code=code, task=task, env=env, globals=globals, mocks=mocks, capture=capture,
    )  # fmt: skip
    native = own.machine.native
    try:
        wait(native.ready(), own.left())
        script = wait(native.begin(), own.left())
        value = own.value(script, wait(own.pipeline(), own.left()))
        own.machine.close()
        return own.done(value)
    except HarnExit as error:
        own.machine.close()
        return own.exited(error)
    except HarnError as error:
        own.machine.close()
        own.failed(error)
        raise
    except BaseException:
        own.machine.close()
        raise


async def arun(
    path: Optional[PathLike] = None,
    args: Union[Mapping[str, Any], Sequence[str], None] = None,
    *,
    code: Optional[str] = None,
    pipeline: Optional[str] = None,
    task: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    globals: Optional[Mapping[str, Any]] = None,  # noqa: A002
    mocks: Sequence[Any] = (),
    capture: bool = True,
    timeout: Optional[float] = None,
) -> RunResult:
    """As ``run``, on the running event loop. Cancelling the task stops the program."""
    own = _Run(
        path, args, pipeline, timeout,
        code=code, task=task, env=env, globals=globals, mocks=mocks, capture=capture,
    )  # fmt: skip
    native = own.machine.native
    try:
        await wait_async(native.ready(), own.left())
        script = await wait_async(native.begin(), own.left())
        value = own.value(script, await wait_async(own.pipeline(), own.left()))
        await own.machine.aclose()
        return own.done(value)
    except HarnExit as error:
        await own.machine.aclose()
        return own.exited(error)
    except HarnError as error:
        await own.machine.aclose()
        own.failed(error)
        raise
    except BaseException:
        # The task may be cancelled: it must not wait for the cleanup.
        native.close()
        raise


class _Export:
    """An exported function."""

    def __init__(self, program: "Program", name: str) -> None:
        self._program, self.__name__ = program, name

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._program.call(self.__name__, *args, **options)

    async def aio(self, *args: Any, **options: Any) -> Any:
        """As a call, on the running event loop."""
        return await self._program.acall(self.__name__, *args, **options)

    def __repr__(self) -> str:
        return f"<function {self.__name__} of a Harn program>"


class Program:
    """A program whose top level has run: ``program.name(...)`` calls an exported function."""

    def __init__(self, machine: Machine, exports: List[str]) -> None:
        self._machine = machine
        self._exports = exports

    @property
    def exports(self) -> List[str]:
        """The exported names."""
        return list(self._exports)

    @property
    def output(self) -> str:
        """The standard output so far."""
        return self._machine.output()[0]

    @property
    def errors(self) -> str:
        """The standard error so far."""
        return self._machine.output()[1]

    def _start(self, name: str, args: Tuple[Any, ...], options: Dict[str, Any]) -> _harn.Pending:
        return self._machine.native.call(name, [*args, options] if options else list(args))

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Calls an exported function. Keyword arguments are passed as one dict after the others."""
        return wait(self._start(name, args, options))

    async def acall(self, name: str, *args: Any, **options: Any) -> Any:
        """As ``call``, on the running event loop."""
        return await wait_async(self._start(name, args, options))

    def call_within(self, timeout: float, name: str, *args: Any, **options: Any) -> Any:
        """As ``call``, for at most ``timeout`` seconds."""
        return wait(self._start(name, args, options), timeout)

    def __getattr__(self, name: str) -> _Export:
        if name.startswith("_") or name not in self._exports:
            known = ", ".join(self._exports) or "nothing"
            raise AttributeError(f"the program exports no {name!r}; it exports {known}")
        return _Export(self, name)

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._exports]

    def close(self) -> None:
        """Ends the program: tasks stop, cleanup runs."""
        self._machine.close()

    async def aclose(self) -> None:
        """As ``close``, on the running event loop."""
        await self._machine.aclose()

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> "Program":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<Harn program: {', '.join(self._exports) or 'exports nothing'}>"


def load(
    path: Optional[PathLike] = None,
    *,
    code: Optional[str] = None,
    argv: Sequence[str] = (),
    env: Optional[Mapping[str, str]] = None,
    globals: Optional[Mapping[str, Any]] = None,  # noqa: A002
    mocks: Sequence[Any] = (),
    capture: bool = True,
    timeout: Optional[float] = None,
) -> Program:
    """Runs the top level of a program, whose exported functions can then be called. ``timeout`` is in seconds."""
    machine = Machine(path, code, argv=argv, env=env, globals=globals, mocks=mocks, capture=capture)
    try:
        machine.ready()
        wait(machine.native.begin(), timeout)
        return Program(machine, wait(machine.native.exports()))
    except BaseException as error:
        machine.close()
        if isinstance(error, HarnError):
            error.output, error.errors = machine.output()
        raise


async def aload(
    path: Optional[PathLike] = None,
    *,
    code: Optional[str] = None,
    argv: Sequence[str] = (),
    env: Optional[Mapping[str, str]] = None,
    globals: Optional[Mapping[str, Any]] = None,  # noqa: A002
    mocks: Sequence[Any] = (),
    capture: bool = True,
    timeout: Optional[float] = None,
) -> Program:
    """As ``load``, on the running event loop."""
    machine = Machine(path, code, argv=argv, env=env, globals=globals, mocks=mocks, capture=capture)
    try:
        await machine.aready()
        await wait_async(machine.native.begin(), timeout)
        return Program(machine, await wait_async(machine.native.exports()))
    except HarnError as error:
        await machine.aclose()
        error.output, error.errors = machine.output()
        raise
    except BaseException:
        machine.native.close()
        raise
