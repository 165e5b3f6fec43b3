"""How large a mapping cache must be."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any, Unpack

from ftlkit import _ftlkit
from ftlkit._errors import InputError, Note, at_least
from ftlkit._frame import requests_of
from ftlkit._options import Options, Size, call, encode, listed, with_device
from ftlkit._progress import Overall
from ftlkit._results import Run, Runs, Table, html_of, table_of
from ftlkit._running import names_of

if TYPE_CHECKING:
    from collections.abc import Iterable

SHOWN = (
    ("scheme", "scheme", "{}"),
    ("cache_bytes", "cache, KiB", "KiB"),
    ("memory_bytes", "memory in use, KiB", "KiB"),
    ("hit_ratio", "hit ratio", "{:.3f}"),
    ("flash_reads_per_host_read", "flash reads / read", "{:.3f}"),
    ("write_amplification", "WAF", "{:.3f}"),
    ("mean_latency_ns", "mean, us", "us"),
    ("read_p99_ns", "read p99, us", "us"),
    ("write_p99_ns", "write p99, us", "us"),
)
"""What a notebook shows: a column of the whole table, its heading, how a cell is written."""
CACHES = ("0.1%", "0.3%", "1%", "3%", "10%", "30%")


class Sizes:
    """What schemes cost by cache size."""

    def __init__(self, text: str) -> None:
        """``text``: what ``ftl size --json`` writes."""
        self.record: dict[str, Any] = json.loads(text)
        """All of it, as the command writes it."""
        self.ideal: dict[str, Any] = self.record["ideal"]
        """What the ideal map costs."""
        self.points: list[dict[str, Any]] = self.record["points"]
        """What each scheme costs with each cache."""
        self.lru: list[dict[str, Any]] = self.record["lru"]
        """Hit ratios of plain LRU by cache size; empty where there is no one sequence of requests."""
        self.within: float = self.record["within"]
        """How near to the ideal map counts as reached, 0 to 1."""

    @property
    def smallest(self) -> dict[str, int | None]:
        """The smallest cache of each scheme that is near the ideal map, bytes; ``None``: none is."""
        return dict(self.record["smallest_near_ideal"])

    @property
    def runs(self) -> Runs:
        """The runs behind it, the ideal map's first."""
        return Runs(Run(json.dumps(run)) for run in self.record["runs"])

    def table(self) -> Table:
        """A row for each scheme and cache."""
        first = ("scheme", "cache_bytes")
        rows = [{name: point[name] for name in (*first, *point)} for point in self.points]
        return table_of(rows, text=("scheme",), whole=("cache_bytes", "memory_bytes", "read_p99_ns", "write_p99_ns"))

    def __repr__(self) -> str:
        """The smallest cache of each scheme that will do."""
        lines = [f"{scheme}: {_words(found, self.within)}" for scheme, found in self.smallest.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_of(SHOWN, self.points)


def _words(cache_bytes: int | None, within: float) -> str:
    near = f"within {within:.0%} of the ideal map"
    return (
        f"no cache that was tried comes {near}"
        if cache_bytes is None
        else f"{cache_bytes / 1024:,.0f} KiB come {near}"
    )


def size(
    schemes: str | Iterable[str] = "dftl,tpftl,cdftl,sftl",
    *,
    caches: Iterable[Size] = CACHES,
    within: float = 0.05,
    frame: Any = None,
    threads: int | None = None,
    progress: bool | None = None,
    **options: Unpack[Options],
) -> Sizes:
    """Find how large a mapping cache must be: every scheme with every cache, beside the ideal map.

    Args:
        schemes: as for :func:`ftlkit.compare`.
        caches: sizes to try: bytes, text such as ``"512KiB"``, or shares of the full table.
        within: how near to the ideal map counts as reached, in flash reads, write amplification and mean latency.
        frame: as for :func:`ftlkit.run`.
        threads: as for :func:`ftlkit.compare`.
        progress: as for :func:`ftlkit.run`.
        options: see :class:`ftlkit.Options`. Unless given, the device is filled in order first, and the cache is
            clean when measuring begins.
    """
    if "cache" in options:
        raise InputError("cache is one size, and caches are those to try; leave cache out")
    at_least(1, "threads", 1 if threads is None else threads)
    if not 0 <= within <= 1:
        raise InputError(f"within: {within} is no share; give 0 to 1")
    names = []
    for name in names_of(schemes):
        if not isinstance(name, str):
            raise InputError(
                f"{name.__name__} is a mapping in Python, and size runs schemes of ftlkit.schemes() alone"
            )
        names.append(name)
    calls = [(name, call("run", name, options, frame)) for name in names]
    sizes = [str(cache) for cache in listed(caches)]
    with with_device(options) as given, Overall(1 + len(sizes) * len(names), "size", progress) as bar:
        at_hand = None
        if frame is not None:
            at_hand, timed = requests_of(frame)
            if not timed:
                given.setdefault("mode", "closed")
        text, notes = _ftlkit.size(encode(given), calls, sizes, within, at_hand, threads, bar.tell)
    for note in notes:
        warnings.warn(note, Note, stacklevel=2)
    return Sizes(text)
