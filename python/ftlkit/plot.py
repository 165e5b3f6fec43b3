"""Plots of runs, in one style that is readable in print and by the colour-blind (Okabe and Ito's colours).

Every function takes runs and gives a figure: of Matplotlib, or with ``backend="plotly"`` one of Plotly to look around
in. ``ax`` draws into axes that are there already (Matplotlib). A run alone is as good as a list of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from ftlkit._errors import InputError, extra
from ftlkit._results import KINDS, Run, Runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ftlkit._results import Phase
    from ftlkit._size import Sizes

Backend: TypeAlias = Literal["matplotlib", "plotly"]
Figure: TypeAlias = Any
Many: TypeAlias = Run | Iterable[Run]

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
"""Okabe and Ito's colours, the pale yellow last."""
DASHES = ("-", "--", "-.", ":")
PLOTLY_DASHES = ("solid", "dash", "dashdot", "dot")
PATTERNS = ("", "/", "\\", "x", ".", "-", "+", "|")
"""Plotly's hatches."""
HATCHES = ("", "//", "\\\\", "xx", "..", "--", "++", "oo")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 120,
    "figure.figsize": (5.6, 3.4),
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "savefig.bbox": "tight",
}
"""Settings of Matplotlib for these plots alone: nothing is changed for others."""


@dataclass
class _Part:
    """A line, a layer of bars, or points."""

    name: str
    x: Sequence[Any] | np.ndarray[Any, Any]
    y: Sequence[float | None] | np.ndarray[Any, Any]


def _nth(of: Sequence[str], at: int) -> str:
    """One of them for a part. Colours come again after eight parts: what goes with them is another one then."""
    return of[(at + at // len(COLOURS)) % len(of)]


MOST_MARKED = 8
"""Numbers along an axis."""


@dataclass
class _Chart:
    """What is drawn, whoever draws it."""

    kind: Literal["lines", "steps", "stacked", "grouped", "points"]
    x: str
    y: str
    parts: list[_Part] = field(default_factory=list)
    log_x: bool = False
    log_y: bool = False
    top: float | None = None
    marked: list[float] = field(default_factory=list)
    """Places on the axis of x that have their number; none: whoever draws chooses."""

    def draw(self, backend: Backend, ax: Any) -> Figure:
        if not any(len(part.x) for part in self.parts):
            raise InputError(f"there is nothing to draw: the runs have no {self.y}")
        if backend == "plotly":
            return _plotly(self)
        if backend != "matplotlib":
            raise InputError(f"there is no backend {backend}; give matplotlib or plotly")
        return _matplotlib(self, ax)


@contextmanager
def _style() -> Iterator[None]:
    """Our settings for the time being. Not ``rc_context``: that would undo what a backend sets when it begins."""
    from matplotlib import rcParams

    before = {key: rcParams[key] for key in STYLE}
    rcParams.update(STYLE)
    try:
        yield
    finally:
        rcParams.update(before)


def _matplotlib(chart: _Chart, ax: Any) -> Figure:
    import matplotlib.pyplot as plt  # it takes long to import

    with _style():
        # Matplotlib leaves names that begin with `_` out of legends.
        names = [part.name if not part.name.startswith("_") else f"\u200b{part.name}" for part in chart.parts]
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        below: Any = None
        for at, (part, name) in enumerate(zip(chart.parts, names, strict=True)):
            colour = COLOURS[at % len(COLOURS)]
            y = np.array([np.nan if value is None else value for value in part.y], dtype=float)
            if chart.kind in ("stacked", "grouped"):
                width = 0.7 if chart.kind == "stacked" else 0.8 / len(chart.parts)
                places = np.arange(len(part.x)) + (0 if chart.kind == "stacked" else (at + 0.5) * width - 0.4)
                bottom = below if chart.kind == "stacked" else None
                hatch = _nth(HATCHES, at)
                ax.bar(places, y, width, bottom=bottom, label=name, color=colour, edgecolor="white", hatch=hatch)
                below = np.nan_to_num(y) + (0 if below is None else below)
            elif chart.kind == "points":
                ax.scatter(part.x, y, s=2, label=name, color=colour, marker=_nth(MARKERS, at), alpha=0.6)
            else:
                steps = {"drawstyle": "steps-post"} if chart.kind == "steps" else {}
                few = {"marker": _nth(MARKERS, at), "markersize": 3.5} if len(part.x) < 20 else {}
                dash = _nth(DASHES, at)
                ax.plot(part.x, y, dash, label=name, color=colour, **steps, **few)
        if chart.kind in ("stacked", "grouped"):
            labels = chart.parts[0].x
            turned = {"rotation": 20, "ha": "right", "rotation_mode": "anchor"} if len(labels) > 4 else {}
            ax.set_xticks(np.arange(len(labels)), labels, **turned)
            ax.grid(visible=False, axis="x")
        ax.set(xlabel=chart.x, ylabel=chart.y)
        if chart.log_x:
            ax.set_xscale("log")
        if chart.marked:
            ax.set_xticks(chart.marked, [f"{place:,.4g}" for place in chart.marked])
            ax.minorticks_off()
        if chart.log_y:
            ax.set_yscale("log")
        else:
            ax.set_ylim(0, chart.top)
        if len(chart.parts) > 1:
            scale = 4 if chart.kind == "points" else 1
            columns = min(len(chart.parts), 4)
            # Above the axes: nothing that is drawn lies below it.
            ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, markerscale=scale)
        return ax.figure


def _plotly(chart: _Chart) -> Figure:
    go = extra("plotly.graph_objects", "plotly")
    figure = go.Figure()
    for at, part in enumerate(chart.parts):
        colour = COLOURS[at % len(COLOURS)]
        x, y = list(part.x), [None if value is None else float(value) for value in part.y]
        if chart.kind in ("stacked", "grouped"):
            pattern = {"shape": _nth(PATTERNS, at)}
            figure.add_bar(x=x, y=y, name=part.name, marker={"color": colour, "pattern": pattern})
        elif chart.kind == "points":
            figure.add_scattergl(x=x, y=y, name=part.name, mode="markers", marker={"color": colour, "size": 3})
        else:
            line = {"color": colour, "dash": _nth(PLOTLY_DASHES, at)}
            line |= {"shape": "hv"} if chart.kind == "steps" else {}
            mode = "lines+markers" if len(x) < 20 else "lines"
            figure.add_scatter(x=x, y=y, name=part.name, mode=mode, line=line)
    figure.update_layout(
        template="simple_white",
        barmode="stack" if chart.kind == "stacked" else "group",
        xaxis={"title": chart.x, "type": "log" if chart.log_x else None, "showgrid": True},
        yaxis={"title": chart.y, "type": "log" if chart.log_y else None, "showgrid": True},
    )
    if chart.marked:
        figure.update_xaxes(tickvals=chart.marked, ticktext=[f"{place:,.4g}" for place in chart.marked])
    if not chart.log_y:
        figure.update_yaxes(rangemode="tozero")
    return figure


def _phases(runs: Many) -> list[tuple[str, Phase]]:
    """Each phase with what tells it from the others."""
    many = runs if isinstance(runs, Runs) else Runs([runs] if isinstance(runs, Run) else runs)
    if not len(many):
        raise InputError("there is nothing to draw: give at least one run")
    alone = all(len(run.phases) == 1 for run in many)
    return [
        (label if alone else f"{label}, {name}", phase)
        for label, run in zip(many.labels, many, strict=True)
        for name, phase in zip(_told_apart([phase.name for phase in run.phases]), run.phases, strict=True)
    ]


def latency_cdf(
    runs: Many,
    kind: Literal["read", "write", "trim", "flush"] = "read",
    *,
    backend: Backend = "matplotlib",
    ax: Any = None,
) -> Figure:
    """Share of requests of a kind at or below each latency."""
    if kind not in KINDS:
        raise InputError(f"there is no kind {kind}; there are {', '.join(KINDS)}")
    chart = _Chart("steps", f"{kind} latency (us)", "share of requests", log_x=True, top=1.02)
    for label, phase in _phases(runs):
        if found := phase.latency.get(kind):
            upper_ns, share = found.cdf()
            seen = upper_ns > 0  # a logarithm has no place for 0
            chart.parts.append(_Part(label, upper_ns[seen] / 1e3, share[seen]))
    if not chart.parts:
        raise InputError(f"there is nothing to draw: the runs have no request of kind {kind}")
    return chart.draw(backend, ax)


def bars(
    runs: Many,
    quantity: str = "iops",
    *,
    over: str | None = None,
    backend: Backend = "matplotlib",
    ax: Any = None,
) -> Figure:
    """One quantity of each run, a bar each.

    Args:
        runs: what is compared.
        quantity: a column of :meth:`Runs.table`, such as ``"iops"`` or ``"read_p99_ns"``.
        over: the label of the run that counts as 1.
        backend: who draws.
        ax: axes to draw into.
    """
    many = runs if isinstance(runs, Runs) else Runs([runs] if isinstance(runs, Run) else runs)
    table = many.table()
    if quantity not in table.columns:
        raise InputError(f"there is no quantity {quantity}; there are {', '.join(table.columns)}")
    rows = table.rows()
    if any(isinstance(row[quantity], str) for row in rows):
        raise InputError(f"{quantity} is text, and a bar needs a number")
    if all(row[quantity] is None for row in rows):
        raise InputError(f"there is nothing to draw: the runs have no {quantity}")
    labels, values = many.labels, iter(row[quantity] for row in rows)
    if over is not None and over not in labels:
        raise InputError(f"over: there is no run of {over}; there are {', '.join(labels)}")
    found: dict[str, dict[str, Any]] = {}
    for label, run in zip(labels, many, strict=True):
        for name in _told_apart([phase.name for phase in run.phases]):
            found.setdefault(name, {})[label] = next(values)
    chart = _Chart("grouped", "", quantity if over is None else f"{quantity} over {over}")
    for phase, by_label in found.items():
        unit: Any = 1.0 if over is None else by_label.get(over)
        if unit is None:
            raise InputError(f"over: {over} has no {quantity} in {phase}; give another run, or leave over out")
        if unit == 0:
            raise InputError(f"over: {quantity} of {over} is 0 in {phase}, and nothing can be divided by that")
        heights = [None if (value := by_label.get(label)) is None else value / unit for label in labels]
        chart.parts.append(_Part(phase, labels, heights))
    return chart.draw(backend, ax)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Names, with a number behind those that were there before."""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def _layers(runs: Many, y: str, names: Sequence[str], of: Callable[[Phase], dict[str, float]]) -> _Chart:
    """Stacked bars: a bar for each phase, a layer for each name that any of them has."""
    phases = [(label, of(phase)) for label, phase in _phases(runs)]
    chart = _Chart("stacked", "", y)
    labels = [label for label, _ in phases]
    for name in names:
        values = [parts.get(name, 0.0) for _, parts in phases]
        if any(values):
            chart.parts.append(_Part(name, labels, values))
    return chart


def hit_ratios(runs: Many, *, backend: Backend = "matplotlib", ax: Any = None) -> Figure:
    """Share of mapping lookups answered without a flash read, stacked by what answered."""
    chart = _layers(
        runs,
        "share of lookups",
        ("cmt", "page", "model"),
        lambda phase: phase.derived.get("hit_share_by_level") or {},
    )
    chart.top = 1.0
    return chart.draw(backend, ax)


def read_multiplicity(runs: Many, *, backend: Backend = "matplotlib", ax: Any = None) -> Figure:
    """Share of host page reads that took no, one, two, three or more flash reads."""
    names = ("unmapped", "single", "double", "triple", "more")
    chart = _layers(runs, "share of host page reads", names, lambda phase: phase.derived.get("read_shares") or {})
    chart.top = 1.0
    return chart.draw(backend, ax)


def writes_by_cause(runs: Many, *, backend: Backend = "matplotlib", ax: Any = None) -> Figure:
    """Flash programs for each host page written, stacked by their cause: write amplification."""
    names = (
        "host",
        "translation",
        "collection",
        "merge",
        "misprediction",
        "training",
        "rewrite",
        "checkpoint",
        "recovery",
    )
    return _layers(
        runs,
        "flash programs / host write",
        names,
        lambda phase: phase.derived.get("write_amplification_by_cause") or {},
    ).draw(backend, ax)


SERIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "iops": ("requests / s", lambda row: row["requests"] / row["interval_ns"] * 1e9),
    "latency": ("mean latency (us)", lambda row: row["latency_sum_ns"] / np.maximum(row["requests"], 1) / 1e3),
    "hit_ratio": ("hit ratio", lambda row: row["hits"] / np.maximum(row["lookups"], 1)),
    "flash_reads": ("flash reads / s", lambda row: row["flash_reads"] / row["interval_ns"] * 1e9),
    "flash_programs": ("flash programs / s", lambda row: row["flash_programs"] / row["interval_ns"] * 1e9),
    "free_superblocks": ("free superblocks", lambda row: row["free_superblocks"]),
    "collections": ("collections", lambda row: np.cumsum(row["collections"])),
}


def series(runs: Many, quantity: str = "iops", *, backend: Backend = "matplotlib", ax: Any = None) -> Figure:
    """A quantity over simulated time.

    Args:
        runs: what is compared.
        quantity: ``iops``, ``latency``, ``hit_ratio``, ``flash_reads``, ``flash_programs``, ``free_superblocks`` or
            ``collections``.
        backend: who draws.
        ax: axes to draw into.
    """
    if quantity not in SERIES:
        raise InputError(f"there is no series of {quantity}; there are {', '.join(SERIES)}")
    title, of = SERIES[quantity]
    chart = _Chart("lines", "time (s)", title)
    for label, phase in _phases(runs):
        table = phase.series.to_arrow()
        if table.num_rows:
            row = {name: table[name].to_numpy().astype(float) for name in table.column_names}
            chart.parts.append(_Part(label, row["t_ns"] / 1e9, of(row)))
    return chart.draw(backend, ax)


def die_occupancy(runs: Many, *, backend: Backend = "matplotlib", ax: Any = None) -> Figure:
    """What the dies spent their time with, as shares of the elapsed time."""
    names = ("read", "program", "erase", "transfer", "idle")
    chart = _layers(runs, "share of die time", names, lambda phase: phase.record.get("die_use") or {})
    chart.top = 1.0
    return chart.draw(backend, ax)


def cache_curves(
    sizes: Sizes, quantity: str = "flash_reads_per_host_read", *, backend: Backend = "matplotlib", ax: Any = None
) -> Figure:
    """What each scheme costs by cache size, beside the ideal map; hit ratios also beside plain LRU.

    Args:
        sizes: what :func:`ftlkit.size` found.
        quantity: ``flash_reads_per_host_read``, ``write_amplification``, ``hit_ratio``, ``mean_latency_ns``,
            ``read_p99_ns`` or ``write_p99_ns``.
        backend: who draws.
        ax: axes to draw into.
    """
    if quantity not in sizes.ideal or quantity in ("scheme", "cache_bytes"):
        raise InputError(f"there is no quantity {quantity}; there are {', '.join(sizes.ideal)}")
    chart = _Chart("lines", "mapping cache (KiB)", quantity, log_x=True)
    for scheme in dict.fromkeys(point["scheme"] for point in sizes.points):
        points = [point for point in sizes.points if point["scheme"] == scheme]
        places = [point["cache_bytes"] / 1024 for point in points]
        chart.parts.append(_Part(scheme, places, [point[quantity] for point in points]))
    tried = sorted({place for part in chart.parts for place in part.x})
    # So many numbers stand beside each other.
    chart.marked = tried[:: len(tried) // MOST_MARKED + 1]
    if tried and sizes.ideal[quantity] is not None:
        chart.parts.append(_Part("ideal map", [tried[0], tried[-1]], [sizes.ideal[quantity]] * 2))
    if quantity == "hit_ratio" and sizes.lru:
        places = [point["cache_bytes"] / 1024 for point in sizes.lru]
        for name, key in (("LRU over entries", "entries"), ("LRU over pages", "pages")):
            chart.parts.append(_Part(name, places, [point[key] for point in sizes.lru]))
    return chart.draw(backend, ax)


def lpns_over_time(
    requests: Any, *, page_bytes: int = 4096, backend: Backend = "matplotlib", ax: Any = None
) -> Figure:
    """Where requests go over time, a point for each, by kind.

    Args:
        requests: the table of :func:`ftlkit.requests`.
        page_bytes: size of a logical page, bytes.
        backend: who draws.
        ax: axes to draw into.
    """
    table = requests.to_arrow()
    time, offset = table["time_ns"].to_numpy() / 1e9, table["offset"].to_numpy() // page_bytes
    kinds = np.asarray(table["op"].to_numpy(zero_copy_only=False), dtype=str)
    chart = _Chart("points", "time (s)", "LPN")
    for kind in ("read", "write", "trim"):
        if (seen := kinds == kind).any():
            chart.parts.append(_Part(kind, time[seen], offset[seen]))
    return chart.draw(backend, ax)
