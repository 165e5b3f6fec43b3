"""Options of a run: the keys of the command line, of study files and of figure files, as keyword arguments."""

from __future__ import annotations

import datetime
import difflib
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np

from ftlkit import _ftlkit
from ftlkit._errors import FtlError, InputError

Path: TypeAlias = str | os.PathLike[str]
Size: TypeAlias = int | str
Time: TypeAlias = str | float | datetime.timedelta | np.timedelta64


class Options(TypedDict, total=False):
    """What to run. Whatever is not given is chosen: the keys mean what they mean on the command line."""

    job_file: Path
    """A fio job file. Without it, ``jobs``, ``trace``, ``synth`` and a frame a built-in one runs."""
    jobs: str
    """The text of a fio job file."""
    trace: Path
    """A recorded block trace; format and compression are recognised."""
    trace_format: str
    """The format of the trace, where its content does not tell."""
    columns: str | Mapping[str, str | int]
    """Which columns of the trace file hold what: ``"time=1:us,op=3,lba=4:sectors,size=5:bytes"``, or a dict."""
    synth: str
    """The name of a generator (:func:`ftlkit.workloads`)."""
    workload: str
    """Another name for ``synth``."""
    requests: int
    """Requests of the generator [a million]."""
    warm_up: Path
    """Runs first, with the clock off: ``"steady"``, ``"swept"``, ``"fill"``, ``"aged=50%"``, ``"fragmented"``,
    ``"workload"``, ``"none"``, a job file or a trace ["steady"]."""
    cache_state: Literal["dirty", "clean", "warm", "empty"]
    """The mapping cache when measuring begins ["dirty"]."""
    warm_up_requests: int
    """Requests of the trace, generator or frame that run before the measured ones."""
    rest: bool
    """The warm-up ends with idle time, until the FTL has nothing more to do."""
    seed: int
    """Seed of every random choice [1]."""
    mode: Literal["open", "closed"]
    """Replay at recorded times, or with ``depth`` requests in flight ["open", where there are times]."""
    depth: int
    """Requests in flight of a closed replay; most requests at the device of an open one."""
    time_scale: float | str
    """Recorded times are multiplied by this."""
    max_gap: Time
    """Pauses of a trace are cut to this length; a number counts seconds."""
    address: Literal["as-is", "wrap", "scale"]
    """What to do with addresses that are not the device's ["as-is"]."""
    trace_device: str
    """The one device to keep of a trace of several."""
    from_: Time
    """Recorded time from which on requests are kept; a number counts seconds."""
    until: Time
    """Recorded time before which requests are kept; a number counts seconds."""
    rows: str | range | tuple[int, int]
    """Rows of the trace to keep, from 0: ``"0..1000"``, ``range(1000)`` or ``(0, 1000)``."""
    strict: bool
    """A row that is not understood is an error, and not left out."""
    device: Path | Mapping[str, Any]
    """A preset (:func:`ftlkit.devices`), a device file, or a dict of the same form (:func:`ftlkit.device`)
    ["femu-32g", or the smallest preset that holds the trace]."""
    export: Size
    """Capacity that the host sees, bytes or text such as ``"30GiB"``."""
    shrink: int
    """Divides the blocks of each plane and the exported capacity."""
    shorten: int
    """Divides the pages of each block and the exported capacity."""
    cache: Size
    """Memory for mapping: bytes, ``"512KiB"``, or a share of the full table such as ``"3%"`` ["3%"]."""
    gc_foreground: int
    """Free superblocks at which a write waits for collection."""
    gc_background: int
    """Free superblocks at which collection starts."""
    foreground_only: bool
    """Collection begins only when a write waits for it: neither beside writes nor in idle time."""
    victims: Literal["greedy", "cost-benefit"]
    """How victims of collection are chosen ["greedy"]."""
    wear_gap: int
    """Static wear levelling: what lags so many erases behind the mean is moved [never]."""
    rewrite: Time
    """Time on the device in which everything is rewritten once; a number counts seconds [never]."""
    faults: str | Mapping[str, int]
    """How often flash fails, parts per million: ``"program=20,erase=5"`` or ``{"program": 20}``."""
    timing: Literal["queued", "reserved", "none"]
    """The clock ["queued"]."""
    policy: Literal["fcfs", "host-reads-first", "suspend"]
    """Who may overtake whom in the queue of a die [the device's]."""
    host_overhead_us: float
    """Host software's time for each request, microseconds."""
    host_cpus: int
    """Host processors that share it."""
    verify: bool
    """Compare every read and every page with what was written, and not one page in 61."""
    endurance: int
    """Erases that a block stands in the mean [the device's]."""
    until_worn: bool
    """Run the workload again and again until the device is worn out; the first time is measured."""
    power_cut: bool
    """Cut the power at the end, and recover everything."""


NOT_FOR_RUNS = frozenset({"schemes"})
"""Keys of Rust's set-up that are arguments of their own here."""


def spelled(name: str) -> str:
    """The name of an option as Rust spells it."""
    return name.rstrip("_").replace("_", "-")


def known() -> list[str]:
    """The names of all options, as keyword arguments."""
    return sorted(Options.__annotations__)


def _value(name: str, value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (datetime.timedelta, np.timedelta64)):
        return f"{_nanoseconds(name, value) / 1000:f}us"
    if name == "rows" and isinstance(value, Sequence) and not isinstance(value, str):
        if isinstance(value, range) and value.step == 1:
            return f"{value.start}..{value.stop}"
        if isinstance(value, range) or len(value) != 2:
            raise InputError(f"rows: {value!r} is no range of rows; give range(A, B), (A, B) or 'A..B'")
        return f"{value[0]}..{value[1]}"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={part}" for key, part in value.items())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        raise InputError(f"{name}: {value} is no finite number; give one, or leave it out")
    if isinstance(value, float) and "e" in repr(value):
        return f"{Decimal(repr(value)):f}"
    return value


def _nanoseconds(name: str, span: datetime.timedelta | np.timedelta64) -> Decimal:
    """The length of a span of Python, NumPy or pandas."""
    exact = getattr(span, "to_timedelta64", None)  # pandas
    span = span if exact is None else exact()
    if isinstance(span, datetime.timedelta):
        return Decimal(span // datetime.timedelta(microseconds=1)) * 1000
    fixed = np.datetime_data(span.dtype)[0] not in ("Y", "M", "generic")
    found = span.astype("timedelta64[ns]") if fixed and not np.isnat(span) else None
    if found is None or (found.astype(span.dtype) != span and abs(span) > np.timedelta64(1, "us")):
        raise InputError(f"{name}: {span!r} is no length of time; give one from nanoseconds to weeks")
    return Decimal(int(found.astype(np.int64)))


def entries(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options spelled as Rust spells them, with values as JSON has them. ``None`` is as good as not given."""
    names = known()
    found = {}
    for name, value in options.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise InputError(f"there is no option {name}; {hint}")
        if name == "device" and isinstance(value, Mapping):
            raise InputError("device: a dict is for a run; a study names a preset or a device file")
        if value is not None:
            found[spelled(name)] = _value(name, value)
    return found


@contextmanager
def with_device(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The options; a device that is a dict is a file for the time being."""
    given = dict(options)
    described = given.get("device")
    if not isinstance(described, Mapping):
        yield given
        return
    if empty := _without_value(described):
        raise InputError(f"device: {empty} has no value; give one, or leave it out")
    try:
        text = _ftlkit.to_toml(json.dumps(described, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(f"device: {error}") from None
    with tempfile.TemporaryDirectory(prefix="ftlkit-") as folder:
        file = pathlib.Path(folder) / "device.toml"
        file.write_text(text, encoding="utf-8")
        given["device"] = file
        try:
            yield given
        except FtlError as error:
            # Nobody knows the file, and it will be gone.
            place = re.escape(os.fspath(file)) + r"(, line \d+)?"
            error.args = tuple(re.sub(place, "device", str(part)) for part in error.args)
            raise


def _without_value(described: Any, path: str = "") -> str:
    """The first key of a dict without a value, or with one that is no number; empty: there is none."""
    if isinstance(described, Mapping):
        below = [_without_value(value, f"{path}.{key}".lstrip(".")) for key, value in described.items()]
        return next((found for found in below if found), "")
    nothing = described is None or (isinstance(described, float) and not np.isfinite(described))
    return path if nothing else ""


def listed(values: Any) -> list[Any]:
    """Values as a list; one text is a list of one."""
    return [values] if isinstance(values, str) else list(values)


def encode(options: Mapping[str, Any]) -> str:
    """Options as the JSON object that Rust reads."""
    try:
        return json.dumps(entries(options), allow_nan=False)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"an option is neither text nor a number nor a truth value ({error})") from None


def call(function: str, scheme: str | type, options: Mapping[str, Any], frame: object) -> str:
    """The call that repeats a run, for messages."""
    words = [repr(scheme) if isinstance(scheme, str) else scheme.__name__]
    words += ["frame=..."] if frame is not None else []
    words += [f"{name}={value!r}" for name, value in options.items() if value is not None]
    return f"ftlkit.{function}({', '.join(words)})"


def names_of_rust() -> frozenset[str]:
    """The names that Rust accepts, spelled as keyword arguments."""
    python = {"from": "from_"}
    return frozenset(python.get(name, name.replace("-", "_")) for name in _ftlkit.option_names()) - NOT_FOR_RUNS
