"""Runs and comparisons."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np
import pyarrow as pa

from ftlkit import _ftlkit
from ftlkit._errors import FindingError, FtlError, InputError, Note, at_least
from ftlkit._frame import requests_of
from ftlkit._mapping import Mapping as PythonMapping
from ftlkit._mapping import checked, label_of
from ftlkit._options import Options, call, encode, with_device
from ftlkit._progress import Bars
from ftlkit._results import KINDS, Run, Runs, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Scheme: TypeAlias = str | type[PythonMapping]
"""A scheme of the registry, or a mapping in Python."""


def prepared(options: Mapping[str, Any], frame: Any, above: int) -> _ftlkit.Prepared:
    """The workload on its device, ready to be run; notes become warnings of the user's call, so far above."""
    with with_device(options) as given:
        at_hand = None
        if frame is not None:
            at_hand, timed = requests_of(frame)
            if not timed:
                given.setdefault("mode", "closed")
        ready = _ftlkit.prepare(encode(given), at_hand)
    for note in ready.notes:
        warnings.warn(note, Note, stacklevel=2 + above)
    return ready


def names_of(schemes: str | Iterable[Scheme]) -> list[Scheme]:
    """The schemes of a list, each once."""
    names: list[Scheme] = []
    names += [name.strip() for name in schemes.split(",")] if isinstance(schemes, str) else schemes
    if not names:
        raise InputError("there is no scheme to run; give at least one")
    for name in names:
        checked(name)
    labels = [label_of(name) for name in names]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"schemes has {label} twice; give each variant once, and each class a name of its own")
    return names


def _run_all(
    schemes: list[Scheme],
    options: Mapping[str, Any],
    frame: Any,
    threads: int | None,
    progress: bool | None,
) -> list[Run]:
    at_least(1, "threads", 1 if threads is None else threads)
    ready = prepared(options, frame, 2)
    labels = [label_of(scheme) for scheme in schemes]
    calls = [(label_of(scheme), call("run", scheme, options, frame)) for scheme in schemes]
    ended: list[Any] = [None] * len(schemes)
    of_rust = [at for at, scheme in enumerate(schemes) if isinstance(scheme, str)]
    with Bars(labels, progress) as bars:
        if of_rust:
            told = bars.some(of_rust)
            for at, one in zip(of_rust, ready.run([calls[at] for at in of_rust], threads, told), strict=True):
                ended[at] = one
        for at, scheme in enumerate(schemes):
            if not isinstance(scheme, str):
                # Python runs one thing at a time, and so do its mappings.
                ended[at] = ready.run_mapping(scheme, *calls[at], bars.some([at]))
    runs = [Run(one) for one in ended if isinstance(one, str)]
    errors = [one for one in ended if isinstance(one, Exception)]
    if errors:
        worst = next((error for error in errors if isinstance(error, FindingError)), errors[0])
        if isinstance(worst, FtlError):
            worst.runs = Runs(runs)
        raise worst
    return runs


def run(
    scheme: Scheme,
    *,
    frame: Any = None,
    progress: bool | None = None,
    **options: Unpack[Options],
) -> Run:
    """Run one scheme on one device under one workload, in virtual time.

    Args:
        scheme: a name of :func:`ftlkit.schemes`, with parameters where they differ from the defaults:
            ``"tpftl:techniques=rs"``. Or a class that inherits from :class:`ftlkit.Mapping`.
        frame: requests at hand: a dict of NumPy arrays, or a frame of Arrow, Polars or pandas, with the columns
            ``time`` (ns), ``op``, ``lba`` (sectors of 512 bytes) or ``offset`` (bytes), and ``size`` (bytes). Whole
            numbers of 64 bits are read where they lie.
        progress: show a bar; ``None``: on a terminal and in Jupyter.
        options: see :class:`ftlkit.Options`.

    Returns:
        What was found. Every invariant has been checked.

    Raises:
        InputError: something impossible was asked for.
        FileError: a file cannot be read.
        DeviceError: the device could not carry out a request.
        FindingError: an invariant broke: a bug.
        KeyboardInterrupt: Ctrl-C; the run has stopped.

    >>> ftlkit.run("dftl", synth="financial1", requests=1000, device="tpftl-512m", warm_up="none").phases[0].hit_ratio
    0.464...

    """
    return _run_all(names_of([scheme]), options, frame, 1, progress)[0]


def compare(
    schemes: str | Iterable[Scheme],
    *,
    frame: Any = None,
    threads: int | None = None,
    progress: bool | None = None,
    **options: Unpack[Options],
) -> Runs:
    """Run several schemes under the same workload, on the cores of this machine.

    Args:
        schemes: as for :func:`run`: a list, or names as text with commas between them.
        frame: as for :func:`run`.
        threads: runs at a time; the processors of this machine unless given.
        progress: as for :func:`run`.
        options: see :class:`ftlkit.Options`.

    Returns:
        The runs, in the order of the schemes.

    Raises:
        FtlError: as for :func:`run`; ``error.runs`` holds the runs of the other schemes.

    """
    names = names_of(schemes)
    return Runs(_run_all(names, options, frame, threads, progress))


MOST_REQUESTS = 1_000_000


def requests(*, frame: Any = None, most: int = MOST_REQUESTS, **options: Unpack[Options]) -> Table:
    """The requests that a run would measure, as a table: ``time_ns``, ``op``, ``offset`` and ``size`` in bytes.

    Args:
        frame: as for :func:`run`.
        most: requests at most.
        options: see :class:`ftlkit.Options`; a trace or a generator, and the device that it is laid out on.
    """
    at_least(0, "most", most)
    time_ns, kinds, offset, size = prepared(options, frame, 1).requests(most)
    names = pa.array(KINDS)
    op = pa.DictionaryArray.from_arrays(np.frombuffer(kinds, np.uint8).astype(np.int8), names)
    columns = {"time_ns": time_ns, "offset": offset, "size": size}
    numbers = {name: pa.array(np.frombuffer(data, np.int64)) for name, data in columns.items()}
    whole = {"time_ns": numbers["time_ns"], "op": op, "offset": numbers["offset"], "size": numbers["size"]}
    return Table(pa.table(whole))


def _with_options(function: Callable[..., Any]) -> None:
    """Lists the options one by one where Python and Jupyter show the signature of a function."""
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in Options.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]


for _function in (run, compare, requests):
    _with_options(_function)
