"""Requests that lie in memory: NumPy arrays, or columns of Arrow, Polars and pandas."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ftlkit import _ftlkit
from ftlkit._errors import InputError

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
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def _at_hand(frame: Any) -> Any:
    """A frame whose columns can be asked for by name."""
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):  # lazy, of Polars
        names = frame.collect_schema().names()
        return frame.select([name for name in names if name.lower() in NAMES]).collect()
    if isinstance(frame, pa.RecordBatchReader):
        return frame.read_all()
    index = getattr(frame, "index", None)
    if any(str(name).lower() in NAMES for name in getattr(index, "names", ())):
        return frame.reset_index()  # a column of pandas that serves as its index
    return frame


def names_of(frame: Any) -> list[str]:
    """The names of the columns of a mapping, of a structured array, or of a frame of any library."""
    if isinstance(frame, np.ndarray):
        names: Any = frame.dtype.names
    elif isinstance(frame, (pa.Table, pa.RecordBatch)):
        names = frame.schema.names
    else:
        names = getattr(frame, "columns", None)
    if names is None and hasattr(frame, "keys"):
        names = frame.keys()
    if names is None:
        what = type(frame).__name__
        raise InputError(
            f"frame: {what} has no named columns; give a dict of arrays, or a frame of Arrow, Polars or pandas"
        )
    return [str(name) for name in names]


def _array(frame: Any, name: str) -> Array:
    column = frame[name]
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        nulls = column.null_count
    elif hasattr(column, "null_count"):
        nulls = column.null_count()
    else:
        nulls = int(np.sum(column.isna().to_numpy())) if hasattr(column, "isna") else 0
    if nulls:
        raise InputError(f"frame: {nulls} values of {name} are null; leave those rows out")
    array: Array
    if isinstance(column, pa.Array):
        array = column.to_numpy(zero_copy_only=False)
    elif getattr(getattr(column, "dtype", None), "tz", None) is not None:
        array = column.to_numpy(dtype="datetime64[ns]")  # moments of pandas, with a time zone
    else:
        array = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if array.ndim != 1:
        raise InputError(f"frame: {name} has {array.ndim} dimensions; give one")
    return array


def _whole(name: str, array: Array) -> Array:
    """Whole numbers of 64 bits; those that are so already are not copied."""
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or not (array == np.trunc(array)).all():
            raise InputError(f"frame: {name} holds numbers that are not whole")
    elif array.dtype.kind not in "iu":
        raise InputError(f"frame: {name} holds {array.dtype}; give whole numbers")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8 and array.size and array.max() >= 1 << 63:
        raise InputError(f"frame: {name} holds numbers from 2**63 up")
    return np.ascontiguousarray(array, dtype=np.int64)


def _times(name: str, array: Array) -> Array:
    """Nanoseconds: of moments and spans, of whole numbers (ns), or of fractions (seconds)."""
    if array.dtype.kind in "mM":
        if np.isnat(array).any():
            raise InputError(f"frame: {name} holds values that are no times")
        array = array.astype(f"{array.dtype.kind}8[ns]", copy=False)
        return np.ascontiguousarray(array).view(np.int64)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise InputError(f"frame: {name} holds values that are no times")
        first = array[0] if array.size else 0.0
        return np.rint((array - first) * 1e9).astype(np.int64)
    return _whole(name, array)


def _kinds(name: str, array: Array) -> Array:
    """0 read, 1 write, 2 trim, 3 flush, a byte each."""
    if array.dtype.kind == "b":
        return np.ascontiguousarray(array).view(np.uint8)  # is it a write?
    values, codes = np.unique(array.astype(str), return_inverse=True)
    table = np.zeros(len(values), dtype=np.uint8)
    for at, value in enumerate(values):
        kind = KINDS.get(str(value).strip().lower())
        if kind is None:
            raise InputError(
                f"frame: {str(value)!r} in {name} is no kind of request; write read, write, trim or flush"
            )
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
