"""Requests that lie in memory: NumPy arrays, or columns of Arrow, Polars and pandas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ftlkit import _ftlkit
from ftlkit._errors import InputError
from ftlkit._results import Table

SECTOR_BYTES = 512
KINDS = {
    "read": 0,
    "r": 0,
    "rs": 0,
    "ra": 0,
    "0": 0,
    "write": 1,
    "w": 1,
    "ws": 1,
    "1": 1,
    "trim": 2,
    "discard": 2,
}
KINDS |= {"d": 2, "t": 2, "2": 2, "flush": 3, "f": 3, "3": 3}
TIMES = ("time", "time_ns", "timestamp")
OPS = ("op", "kind", "operation")
SIZES = ("size", "bytes")
PLACES = ("lba", "sector", "offset")
NAMES = frozenset(TIMES + OPS + SIZES + PLACES)
"""What columns that are read are called, in small letters."""
MOST = 2.0**63
NO_KIND = "frame: {} in {} is no kind of request; write read, write, trim or flush"
TOO_LONG = "frame: {} holds times that 64 bits of nanoseconds cannot hold"
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def _at_hand(frame: Any) -> Any:
    """A frame whose columns can be asked for by name."""
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):  # lazy, of Polars
        names = frame.collect_schema().names()
        return frame.select([name for name in names if name.lower() in NAMES]).collect()
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    if isinstance(frame, Table):
        return frame.to_arrow()
    if hasattr(frame, "columns"):
        levels = getattr(getattr(frame, "index", None), "names", None) or ()
        served = [name for name in levels if str(name).lower() in NAMES and name not in frame.columns]
        if served:
            return frame.reset_index(level=served)  # columns of pandas that serve as its index
    return frame


def names_of(frame: Any) -> list[str]:
    """The names of the columns of a mapping, of a structured array, or of a frame of any library."""
    if hasattr(frame, "dask") and hasattr(frame, "compute"):
        raise InputError(f"frame: {type(frame).__name__} is still to be computed; give what its compute() returns")
    if isinstance(frame, np.ndarray):
        names: Any = frame.dtype.names
    elif isinstance(frame, (pa.Table, pa.RecordBatch)):
        names = frame.schema.names
    else:
        names = getattr(frame, "columns", None)
    if names is None and isinstance(frame, Mapping):
        names = frame.keys()
    if names is None:
        what = type(frame).__name__
        raise InputError(
            f"frame: {what} has no named columns; give a dict of arrays, or a frame of Arrow, Polars or pandas"
        )
    return [str(name) for name in names]


def _nulls(column: Any) -> int:
    """How many values of a column of any library are missing."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return int(column.null_count)
    if hasattr(column, "null_count"):
        return int(column.null_count())
    if isinstance(column, np.ma.MaskedArray):
        return int(np.sum(np.ma.getmaskarray(column)))
    return int(np.sum(np.asarray(column.isna()))) if hasattr(column, "isna") else 0


def _values(column: Any) -> Array:
    """The values of a column of any library, none of which is missing."""
    dtype = getattr(column, "dtype", None)
    if hasattr(dtype, "pyarrow_dtype"):
        column = pa.array(column)  # pandas over Arrow
    if isinstance(column, pa.Array):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if getattr(dtype, "tz", None) is not None:
        return np.asarray(column.to_numpy(dtype="datetime64[ns]"))  # moments of pandas, with a time zone
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _array(frame: Any, name: str) -> Array:
    try:
        column = frame[name]
        nulls = _nulls(column)
        array = _values(column) if nulls == 0 else np.empty(0)
    except Exception as error:
        raise InputError(f"frame: {name} cannot be read as a column ({error})") from None
    if nulls:
        raise InputError(f"frame: {nulls} values of {name} are null; leave those rows out")
    if array.ndim != 1:
        raise InputError(f"frame: {name} has {array.ndim} dimensions; give one")
    return array


def _typed(array: Array) -> Array:
    """Objects of Python as an array of what they are: numbers, moments or spans."""
    if array.dtype.kind != "O":
        return array
    try:
        found = pa.array(array.tolist())
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return array
    return array if found.null_count else np.asarray(found.to_numpy(zero_copy_only=False))


def _whole(name: str, array: Array) -> Array:
    """Whole numbers of 64 bits; those that are so already are not copied."""
    array = _typed(array)
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
        if not np.isfinite(array).all() or not (array == np.trunc(array)).all():
            raise InputError(f"frame: {name} holds numbers that are not whole")
        if (np.abs(array) >= MOST).any():
            raise InputError(f"frame: {name} holds numbers from 2**63 up")
    elif array.dtype.kind not in "iu":
        raise InputError(f"frame: {name} holds {array.dtype}; give whole numbers")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size and array.max() >= 1 << 63:
        raise InputError(f"frame: {name} holds numbers from 2**63 up")
    return np.ascontiguousarray(array, dtype=np.int64)


def _times(name: str, array: Array) -> Array:
    """Nanoseconds: of moments and spans, of whole numbers (ns), or of fractions (seconds)."""
    array = _typed(array)
    if array.dtype.kind in "mM":
        if np.isnat(array).any():
            raise InputError(f"frame: {name} holds values that are no times")
        return _nanoseconds(name, array)
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
        if not np.isfinite(array).all():
            raise InputError(f"frame: {name} holds values that are no times")
        since = array - (array[0] if array.size else 0.0)
        if (np.abs(since) * 1e9 >= MOST).any():
            raise InputError(TOO_LONG.format(name))
        return np.rint(since * 1e9).astype(np.int64)
    return _whole(name, array)


def _nanoseconds(name: str, array: Array) -> Array:
    """Moments or spans of any unit in ns, which hold 292 years."""
    try:
        found = array.astype(f"{array.dtype.kind}8[ns]", copy=False)
    except (TypeError, ValueError, OverflowError):
        raise InputError(TOO_LONG.format(name)) from None
    finer = np.datetime_data(array.dtype)[0] in ("ps", "fs", "as")
    if not finer and not (found.astype(array.dtype) == array).all():
        raise InputError(TOO_LONG.format(name))
    return np.ascontiguousarray(found).view(np.int64)


def _kinds(name: str, array: Array) -> Array:
    """0 read, 1 write, 2 trim, 3 flush, a byte each."""
    if array.dtype.kind == "b":
        return np.ascontiguousarray(array).view(np.uint8)  # is it a write?
    if array.dtype.kind in "iu":
        strange = array[(array < 0) | (array > 3)]
        if strange.size:
            raise InputError(NO_KIND.format(repr(str(strange[0])), name))
        return np.ascontiguousarray(array, dtype=np.uint8)
    values, codes = np.unique(array.astype(str), return_inverse=True)
    table = np.zeros(len(values), dtype=np.uint8)
    for at, value in enumerate(values):
        kind = KINDS.get(str(value).strip().lower())
        if kind is None:
            raise InputError(NO_KIND.format(repr(str(value)), name))
        table[at] = kind
    return np.ascontiguousarray(table[codes])


def requests_of(frame: Any, name: str = "frame") -> tuple[_ftlkit.Columns, bool]:
    """Requests of a frame, and whether they have times.

    Columns:
        time (time_ns, timestamp): when it arrives. Whole numbers are ns, fractions seconds, moments moments.
            Without it requests are replayed in a closed loop.
        op (kind, operation): read, write, trim or flush, or R, W, D, F, or 0 to 3, or whether it is a write.
        lba: the first sector of 512 bytes. Or offset: the first byte.
        size (bytes): its length, bytes.
    """
    frame = _at_hand(frame)
    there = names_of(frame)
    lower = {column.lower(): column for column in reversed(there)}

    def found(names: tuple[str, ...]) -> str | None:
        return next((lower[wanted] for wanted in names if wanted in lower), None)

    time, op, size = found(TIMES), found(OPS), found(SIZES)
    place = found(PLACES)
    missing = [name for name, at in (("op", op), ("lba or offset", place), ("size", size)) if at is None]
    if op is None or place is None or size is None:
        raise InputError(f"frame: there is no column {', '.join(missing)}; there are {', '.join(there)}")
    for column in (time, op, place, size):
        if there.count(str(column)) > 1:
            raise InputError(f"frame: there are {there.count(str(column))} columns {column}; give one")
    unit = 1 if place.lower() == "offset" else SECTOR_BYTES
    columns = _ftlkit.Columns(
        name,
        None if time is None else _times(time, _array(frame, time)),
        _kinds(op, _array(frame, op)),
        _whole(place, _array(frame, place)),
        _whole(size, _array(frame, size)),
        unit,
    )
    return columns, time is not None
