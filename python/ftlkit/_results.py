"""What runs found: the record of ``ftl run --json``, with names and tables for Python."""

from __future__ import annotations

import html
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ftlkit import _ftlkit
from ftlkit._errors import FileError, InputError, extra

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    import pandas as pd
    import polars as pl
    from numpy.typing import NDArray

KINDS = ("read", "write", "trim", "flush")
PAPERS_COLUMNS = (
    ("scheme", "scheme", "{}"),
    ("phase", "phase", "{}"),
    ("iops", "IOPS", "{:,.0f}"),
    ("read_mean_ns", "read mean, us", "us"),
    ("read_p99_ns", "read p99, us", "us"),
    ("write_mean_ns", "write mean, us", "us"),
    ("write_p99_ns", "write p99, us", "us"),
    ("hit_ratio", "hit ratio", "{:.3f}"),
    ("flash_reads_per_host_read", "flash reads / read", "{:.3f}"),
    ("write_amplification", "WAF", "{:.3f}"),
)
"""What a short table shows: a column of the whole table, its heading, how a cell is written."""


class Table:
    """Rows and columns, as Arrow holds them; a frame of another library on request."""

    def __init__(self, arrow: pa.Table) -> None:
        """``arrow``: what it holds."""
        self._arrow = arrow

    def to_arrow(self) -> pa.Table:
        """As a table of Arrow."""
        return self._arrow

    def to_polars(self) -> pl.DataFrame:
        """As a frame of Polars."""
        frame: pl.DataFrame = extra("polars", "polars").from_arrow(self._arrow)
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """As a frame of pandas."""
        extra("pandas", "pandas")
        frame: pd.DataFrame = self._arrow.to_pandas()
        return frame

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        names: list[str] = self._arrow.column_names
        return names

    def rows(self) -> list[dict[str, Any]]:
        """Each row as a dict."""
        rows: list[dict[str, Any]] = self._arrow.to_pylist()
        return rows

    def __len__(self) -> int:
        """How many rows there are."""
        return int(self._arrow.num_rows)

    def __repr__(self) -> str:
        """Rows and columns, and the first few names."""
        return f"<ftlkit.Table: {len(self)} rows, {len(self.columns)} columns: {', '.join(self.columns[:6])} ...>"

    def _repr_html_(self) -> str:
        shown = [(name, name, "{}") for name in self.columns[:12]]
        return html_of(shown, self.rows()[:20])


def _cell(form: str, value: Any) -> str:
    if value is None or value == "":
        return ""
    if form == "{}" and isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    scale = {"us": 1000, "KiB": 1024}.get(form)
    return f"{value / scale:,.1f}" if scale else form.format(value)


def html_of(shown: Sequence[tuple[str, str, str]], rows: Iterable[dict[str, Any]]) -> str:
    head = "".join(f"<th>{html.escape(title)}</th>" for _, title, _ in shown)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(form, row.get(name)))}</td>" for name, _, form in shown) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(shown: Sequence[tuple[str, str, str]], rows: Iterable[dict[str, Any]]) -> str:
    lines = [[title for _, title, _ in shown]]
    lines += [[_cell(form, row.get(name)) for name, _, form in shown] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words = 2

    def line(cells: list[str]) -> str:
        left = [cell.ljust(width) for cell, width in zip(cells[:words], widths, strict=False)]
        right = [cell.rjust(width) for cell, width in zip(cells[words:], widths[words:], strict=True)]
        return "  ".join(left + right).rstrip()

    return "\n".join(map(line, lines))


def table_of(rows: Sequence[dict[str, Any]], *, text: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """Rows as a table whose types depend on no value: columns of text, of whole numbers, and of numbers."""
    types = dict.fromkeys(text, pa.string()) | dict.fromkeys(whole, pa.int64())
    names = rows[0] if rows else ()
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in names])
    return Table(pa.Table.from_pylist(list(rows), schema=schema))


def _arrow_of(records: Sequence[str]) -> pa.Table:
    return pq.read_table(pa.BufferReader(_ftlkit.table(list(records))))


class Latency:
    """Latency of one kind of request, ns."""

    def __init__(self, record: dict[str, Any]) -> None:
        """``record``: as in the JSON of a run."""
        self.record = record
        self.count = int(record["count"])
        """Requests."""
        self.mean_ns = float(record["mean_ns"])
        """Mean, ns."""
        self.stddev_ns = float(record["stddev_ns"])
        """Standard deviation, ns."""
        self.min_ns = int(record["min_ns"])
        """The shortest, ns."""
        self.max_ns = int(record["max_ns"])
        """The longest, ns."""

    @cached_property
    def histogram(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Upper bounds of the bins, ns, and requests in each. A bin is 1 % wide; empty ones are left out."""
        bins = np.asarray(self.record["bins"], dtype=np.int64).reshape(-1, 2)
        return bins[:, 0], bins[:, 1]

    def cdf(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Latencies, ns, and the share of requests at or below each."""
        upper_ns, counts = self.histogram
        return upper_ns, np.cumsum(counts) / max(self.count, 1)

    def quantile_ns(self, quantile: float) -> int:
        """The latency below or at which this share of the requests stayed, ns."""
        if not 0 <= quantile <= 1:
            raise InputError(f"a quantile of {quantile} is impossible; give 0 to 1")
        upper_ns, share = self.cdf()
        return int(upper_ns[min(int(np.searchsorted(share, quantile)), len(upper_ns) - 1)])

    def __repr__(self) -> str:
        """Count, mean and tail, microseconds."""
        p50, p99 = self.record["p50_ns"], self.record["p99_ns"]
        mean = self.mean_ns / 1e3
        return f"<Latency of {self.count} requests: mean {mean:.1f} us, p50 {p50 / 1e3:.1f}, p99 {p99 / 1e3:.1f}>"


class Phase:
    """What was counted in one phase of a run. ``record`` holds all of it; the attributes are the usual ones."""

    def __init__(self, record: dict[str, Any]) -> None:
        """``record``: as in the JSON of a run."""
        self.record = record
        self._derived: dict[str, Any] = record.get("derived", {})

    @property
    def name(self) -> str:
        """What the workload calls it."""
        return str(self.record["name"])

    @property
    def elapsed_ns(self) -> int:
        """Simulated time, ns; 0 without a clock."""
        return int(self.record["elapsed_ns"])

    @property
    def iops(self) -> float | None:
        """Requests a second; ``None`` without a clock."""
        found: float | None = (self._derived.get("iops") or {}).get("total")
        return found

    @property
    def hit_ratio(self) -> float | None:
        """Share of mapping lookups answered without a flash read."""
        found: float | None = self._derived.get("hit_ratio")
        return found

    @property
    def write_amplification(self) -> float | None:
        """Flash programs for each host page written."""
        found: float | None = self._derived.get("write_amplification")
        return found

    @property
    def flash_reads_per_host_read(self) -> float | None:
        """Flash reads for each host page read."""
        found: float | None = self._derived.get("flash_reads_per_host_read")
        return found

    @property
    def derived(self) -> dict[str, Any]:
        """Every ratio that follows from the counters."""
        return self._derived

    @property
    def flash(self) -> dict[str, dict[str, int]]:
        """Flash operations by cause, such as ``phase.flash["collection"]["programs"]``."""
        found: dict[str, dict[str, int]] = self.record["flash"]
        return found

    @property
    def latency(self) -> dict[str, Latency]:
        """Latency by kind (read, write, trim, flush), of the kinds that there were."""
        found = self.record["latency"]
        return {kind: Latency(found[kind]) for kind in KINDS if found.get(kind)}

    @property
    def series(self) -> Table:
        """The phase over time, a row for each interval, with counts of that interval alone, times in ns."""
        return Table(pa.Table.from_pylist(self.record["series"]))

    def __repr__(self) -> str:
        """Name and length."""
        return f"<Phase {self.name}: {self.elapsed_ns / 1e9:.3f} s>"


class Framed(ABC):
    """What has a table, and gives it in the form of any library."""

    @abstractmethod
    def table(self) -> Table:
        """Its rows and columns."""

    def to_arrow(self) -> pa.Table:
        """:meth:`table`, as a table of Arrow."""
        return self.table().to_arrow()

    def to_polars(self) -> pl.DataFrame:
        """:meth:`table`, as a frame of Polars."""
        return self.table().to_polars()

    def to_pandas(self) -> pd.DataFrame:
        """:meth:`table`, as a frame of pandas."""
        return self.table().to_pandas()


class Run(Framed):
    """What one scheme did on one device under one workload."""

    def __init__(self, text: str) -> None:
        """``text``: the record as JSON. It is read when somebody asks for it."""
        self.json = text
        """The record as JSON."""

    @cached_property
    def record(self) -> dict[str, Any]:
        """The record, as ``ftl run --json`` writes it."""
        found: dict[str, Any] = json.loads(self.json)
        return found

    @property
    def scheme(self) -> str:
        """The name of the scheme."""
        return str(self.record["scheme"]["name"])

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the scheme."""
        found: dict[str, str] = self.record["scheme"]["parameters"]
        return found

    @property
    def device(self) -> dict[str, Any]:
        """Geometry, capacity and times of the device."""
        found: dict[str, Any] = self.record["device"]
        return found

    @property
    def memory(self) -> dict[str, Any]:
        """Budget of controller memory, and what is in use, bytes."""
        found: dict[str, Any] = self.record["memory"]
        return found

    @property
    def workload(self) -> dict[str, Any]:
        """What the host did, with name, source, seed and warm-up."""
        found: dict[str, Any] = self.record["workload"]
        return found

    @property
    def digest(self) -> str:
        """Of everything that happened; the same seed and configuration give the same digest."""
        return str(self.record["digest"])

    @cached_property
    def phases(self) -> list[Phase]:
        """What was measured, in the order in which it ran."""
        return [Phase(phase) for phase in self.record["phases"]]

    def phase(self, name: str) -> Phase:
        """The phase of that name."""
        for phase in self.phases:
            if phase.name == name:
                return phase
        raise InputError(f"there is no phase {name}; there are {', '.join(phase.name for phase in self.phases)}")

    def same_findings(self, other: Run) -> bool:
        """Whether two runs found the same, whatever the speed of the machines that they ran on."""
        ours, theirs = ({**run.record, "host": None} for run in (self, other))
        return ours == theirs

    def table(self) -> Table:
        """A row for each phase, with the columns of ``ftl compare --csv``."""
        return Table(_arrow_of([self.json]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what ``ftl run --json`` writes; :func:`ftlkit.load` and ``ftl report`` read it."""
        Runs([self]).save(path)

    def __eq__(self, other: object) -> bool:
        """Whether the records are the same."""
        return isinstance(other, Run) and self.record == other.record

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """A short table."""
        return repr(Runs([self]))

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


class Runs(Framed, Sequence[Run]):
    """Runs that are compared: a list of :class:`Run`."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """``runs``, in their order."""
        self._runs = list(runs)

    @overload
    def __getitem__(self, at: SupportsIndex | str) -> Run: ...
    @overload
    def __getitem__(self, at: slice) -> Runs: ...
    def __getitem__(self, at: SupportsIndex | str | slice) -> Run | Runs:
        """By place, or by the label of the scheme."""
        if isinstance(at, slice):
            return Runs(self._runs[at])
        if not isinstance(at, str):
            return self._runs[at]
        labels = self.labels
        if at not in labels:
            raise KeyError(f"there is no run of {at}; there are {', '.join(labels)}")
        return self._runs[labels.index(at)]

    def __eq__(self, other: object) -> bool:
        """Whether the records are the same, in the same order."""
        return isinstance(other, Runs) and self._runs == other._runs

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        """Each run."""
        return iter(self._runs)

    @property
    def labels(self) -> list[str]:
        """What tells the runs apart, which is the scheme, with the parameters in which runs of one scheme differ."""
        return _ftlkit.labels([run.json for run in self._runs])

    def table(self) -> Table:
        """A row for each phase of each run, with the columns of ``ftl compare --csv``."""
        return Table(_arrow_of([run.json for run in self._runs]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what ``ftl compare --json`` writes; :func:`ftlkit.load` and ``ftl report`` read it."""
        try:
            Path(path).write_text(_ftlkit.write_json([run.json for run in self._runs]), encoding="utf-8")
        except OSError as error:
            raise FileError(f"{path} cannot be written ({error})") from None

    def _short(self) -> list[dict[str, Any]]:
        rows = []
        for label, run in zip(self.labels, self._runs, strict=True):
            for phase in run.phases:
                row: dict[str, Any] = {"scheme": label, "phase": phase.name, "iops": phase.iops}
                for kind, latency in phase.latency.items():
                    row[f"{kind}_mean_ns"] = latency.mean_ns
                    row[f"{kind}_p99_ns"] = latency.record["p99_ns"]
                row["hit_ratio"] = phase.hit_ratio
                row["flash_reads_per_host_read"] = phase.flash_reads_per_host_read
                row["write_amplification"] = phase.write_amplification
                rows.append(row)
        return rows

    def _head(self) -> str:
        if not self._runs:
            return "no runs"
        first = self._runs[0]
        cache = first.memory["cache_bytes"] / 1024
        return f"{first.workload['name']} on {first.device['name']}, mapping cache {cache:,.0f} KiB"

    def __repr__(self) -> str:
        """A short table."""
        return f"{self._head()}\n{_text(PAPERS_COLUMNS, self._short())}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._head())}</p>{html_of(PAPERS_COLUMNS, self._short())}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error})") from None


def load(path: str | os.PathLike[str]) -> Runs:
    """Runs that were stored, by this package or by the command.

    Args:
        path: what ``ftl run`` or ``ftl compare`` wrote with ``--json``, what :meth:`Runs.save` wrote, or the results
            folder of a study.

    Raises:
        FileError: it cannot be read.
        InputError: it is something else.
    """
    path = Path(path)
    if path.is_dir():
        path /= "results.json"
    text = _read(path).decode("utf-8", errors="replace")
    try:
        return Runs(Run(one) for one in _ftlkit.read_json(text))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def load_table(path: str | os.PathLike[str]) -> Table:
    """A table that was stored: the ``table.parquet`` of a study, or the results folder that it lies in.

    Raises:
        FileError: it cannot be read.
        InputError: it is no Parquet.
    """
    path = Path(path)
    if path.is_dir():
        path /= "table.parquet"
    data = _read(path)
    try:
        return Table(pq.read_table(pa.BufferReader(data)))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not Parquet ({error})") from None
