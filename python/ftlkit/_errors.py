"""What can go wrong, with the sentence that Rust has for it."""

from __future__ import annotations

import importlib
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ftlkit._results import Runs


class FtlError(Exception):
    """The base of every error of this package.

    Attributes:
        runs: the runs of a comparison that ended all the same; ``None`` where there was none.
        record: the record of a run whose invariant broke, as JSON; ``None`` elsewhere.

    """

    runs: Runs | None = None
    record: str | None = None


class InputError(FtlError, ValueError):
    """Something impossible was asked for: a name, a number, options that do not go together, a malformed file."""


class FileError(FtlError, OSError):
    """A file cannot be read or written."""


class DeviceError(FtlError, RuntimeError):
    """The device could not carry out a request, or could not come up again: it is at its end."""


class StoppedError(FtlError, RuntimeError):
    """A run was stopped before its end."""


class FindingError(FtlError, AssertionError):
    """A bug in a scheme or in the simulator: a broken invariant, lost data, a panic. It says how to repeat it."""


class Note(UserWarning):
    """Something that the user of a run should know, and no error."""


MOST = 2**64 - 1


def at_least(least: int, name: str, number: int) -> int:
    """A whole number that is not too small, and of 64 bits.

    Args:
        least: the smallest that means something.
        name: of the argument.
        number: what was given.

    Raises:
        InputError: it is something else.

    """
    try:
        number = operator.index(number)
    except TypeError:
        raise InputError(f"{name}: {number!r} is no whole number; give one from {least} up") from None
    if number < least:
        raise InputError(f"{name}: {number} is too small; give a whole number from {least} up")
    if number > MOST:
        raise InputError(f"{name}: {number} is too large; give a whole number up to {MOST}")
    return number


def extra(module: str, name: str) -> Any:
    """A module that does not come with the package.

    Args:
        module: what is imported.
        name: the extra that brings it.

    Raises:
        ImportError: it is not installed; the sentence says how to.

    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if not (error.name or "").startswith(module.split(".", maxsplit=1)[0]):
            raise
        raise ImportError(f"{name} is not installed: pip install 'ftlkit[{name}]'", name=module) from None
