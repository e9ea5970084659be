"""The exceptions of this package.

All are ``HarnError``. They carry a category where the program gave one, and the place in the program.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple


class Place(NamedTuple):
    """A place in a program."""

    function: str
    file: str
    line: int
    column: int


class HarnError(Exception):
    """Something went wrong in a program, or with what was asked of it."""

    def __init__(
        self,
        message: str,
        *,
        category: Optional[str] = None,
        value: Any = None,
        trace: Sequence[Place] = (),
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        #: What happened, without the place.
        self.message = message
        #: The category that the program gave (``timeout``, ``rate_limit``, ...); ``python`` for exceptions of Python.
        self.category = category
        #: What ``catch`` of the program would see.
        self.value = value
        #: Places from the innermost outwards.
        self.trace: List[Place] = list(trace)
        #: Further facts.
        self.notes: List[str] = list(notes)
        #: What the program had written when ``run`` failed.
        self.output = ""
        #: What it had written to standard error.
        self.errors = ""

    @property
    def place(self) -> Optional[Place]:
        """Where it happened."""
        return self.trace[0] if self.trace else None

    @property
    def file(self) -> Optional[str]:
        """The file in which it happened."""
        return self.trace[0].file if self.trace else None

    @property
    def line(self) -> Optional[int]:
        """The line, from 1."""
        return self.trace[0].line if self.trace else None

    @property
    def column(self) -> Optional[int]:
        """The column, from 1."""
        return self.trace[0].column if self.trace else None

    def __str__(self) -> str:
        place = self.place
        return f"{self.message} ({place.file}:{place.line}:{place.column})" if place else self.message


class HarnSyntaxError(HarnError):
    """The text is no program."""


class HarnRuntimeError(HarnError):
    """An error of a running program that it did not throw itself."""


class HarnTypeError(HarnError, TypeError):
    """A value of the wrong type."""


class HarnThrown(HarnError):
    """What a program threw and did not catch; ``value`` is what it threw."""


class HarnSpecError(HarnError, ValueError):
    """A prompt, a spec or a runtime that does not fit together."""


class HarnValueError(HarnError, ValueError):
    """A value that cannot go between Python and Harn."""


class HarnNameError(HarnError, AttributeError):
    """A program exports no such name."""


class HarnTimeout(HarnError, TimeoutError):
    """It took longer than allowed, and was stopped."""


class HarnCancelled(HarnError):
    """It was stopped."""


class HarnClosed(HarnError):
    """The program has ended."""


class HarnExit(HarnError):
    """A called function ended the program with ``exit``."""

    code: int = 0


_KINDS = {
    "syntax": HarnSyntaxError,
    "runtime": HarnRuntimeError,
    "type": HarnTypeError,
    "thrown": HarnThrown,
    "value": HarnValueError,
    "conversion": HarnValueError,
    "convert": HarnValueError,
    "convert_type": HarnTypeError,
    "name": HarnNameError,
    "cancelled": HarnCancelled,
    "closed": HarnClosed,
    "exit": HarnExit,
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
    """The exception of a failure."""
    error = _KINDS.get(kind, HarnError)(
        message, category=category, value=value, trace=[Place(*place) for place in trace], notes=notes
    )
    if isinstance(error, HarnExit):
        error.code = code or 0
    if isinstance(value, dict) and isinstance(value.get("exception"), BaseException):
        error.__cause__ = value["exception"]
    return error
