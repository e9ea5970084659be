"""Exceptions. All are ``HarnError``."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple


class Frame(NamedTuple):
    """A frame of a stack trace of a program. Lines and columns count from 1."""

    function: str
    file: str
    line: int
    column: int


class HarnError(Exception):
    """A program failed, or a call of this package was wrong."""

    def __init__(
        self,
        message: str,
        *,
        category: Optional[str] = None,
        value: Any = None,
        trace: Sequence[Frame] = (),
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        #: The message without the location.
        self.message = message
        #: The category that the program set (``timeout``, ``rate_limit``, ...); ``python`` for Python exceptions.
        self.category = category
        #: The value that ``catch`` would bind.
        self.value = value
        #: The stack trace, innermost frame first.
        self.trace: List[Frame] = list(trace)
        #: Additional lines of the error.
        self.notes: List[str] = list(notes)
        #: The standard output of the program before it failed.
        self.output = ""
        #: Its standard error before it failed.
        self.errors = ""

    @property
    def location(self) -> Optional[Frame]:
        """The innermost frame."""
        return self.trace[0] if self.trace else None

    @property
    def file(self) -> Optional[str]:
        """The file of the innermost frame."""
        return self.trace[0].file if self.trace else None

    @property
    def line(self) -> Optional[int]:
        """The line of the innermost frame, from 1."""
        return self.trace[0].line if self.trace else None

    @property
    def column(self) -> Optional[int]:
        """The column of the innermost frame, from 1."""
        return self.trace[0].column if self.trace else None

    def __str__(self) -> str:
        at = self.location
        return f"{self.message} ({at.file}:{at.line}:{at.column})" if at else self.message


class HarnSyntaxError(HarnError):
    """The source does not compile."""


class HarnRuntimeError(HarnError):
    """A runtime error that the program did not throw itself."""


class HarnTypeError(HarnError, TypeError):
    """A value has the wrong type."""


class HarnThrown(HarnError):
    """The program threw ``value`` and did not catch it."""


class HarnSpecError(HarnError, ValueError):
    """A prompt, a spec or a runtime is invalid."""


class HarnValueError(HarnError, ValueError):
    """A value cannot be converted, or an argument is invalid."""


class HarnNameError(HarnError, AttributeError):
    """The program exports no such name."""


class HarnTimeout(HarnError, TimeoutError):
    """A call exceeded its time limit and was stopped."""


class HarnCancelled(HarnError):
    """A call was cancelled."""


class HarnClosed(HarnError):
    """The program has ended."""


class HarnExit(HarnError):
    """A called function ended the program with ``exit(code)``."""

    code: int = 0


_KINDS = {
    "cancelled": HarnCancelled,
    "closed": HarnClosed,
    "conversion": HarnValueError,
    "exit": HarnExit,
    "name": HarnNameError,
    "runtime": HarnRuntimeError,
    "syntax": HarnSyntaxError,
    "thrown": HarnThrown,
    "type": HarnTypeError,
    "unsupported_type": HarnTypeError,
    "value": HarnValueError,
}


def make_error(
    kind: str,
    category: Optional[str],
    message: str,
    value: Any,
    trace: Sequence[Tuple[str, str, int, int]],
    notes: Sequence[str],
    code: Optional[int],
) -> HarnError:
    """Makes the exception of a failure."""
    error = _KINDS[kind](
        message, category=category, value=value, trace=[Frame(*frame) for frame in trace], notes=notes
    )
    if isinstance(error, HarnExit):
        error.code = code or 0
    if isinstance(value, dict) and isinstance(value.get("exception"), BaseException):
        error.__cause__ = value["exception"]
    return error


def spec_error(error: HarnThrown) -> HarnSpecError:
    """Makes the exception for an error that a constructor of specs or a runtime threw."""
    made = HarnSpecError(
        error.message, category=error.category, value=error.value, trace=error.trace, notes=error.notes
    )
    made.__cause__ = error.__cause__
    return made
