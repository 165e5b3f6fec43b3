"""A mapping of one's own, in Python, in the real engine."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ftlkit import _ftlkit
from ftlkit._errors import InputError, at_least
from ftlkit._progress import Overall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ftlkit._ftlkit import TranslationTable

ENTRY_BYTES = 8
"""Bytes of a mapping entry in memory, as the papers count them."""


class Mapping:
    """How LPNs become PPNs. Write ``lookup`` and ``update``; the engine does everything else that an FTL does.

    The engine is the one that runs every scheme: it programs, collects, trims, recovers, and charges each flash
    operation. Translation pages on flash hold the whole mapping; the object holds a part of it in memory, and what it
    holds goes before what flash holds. ``self.table`` reaches the translation pages from ``lookup``, ``update`` and
    ``clean``, at a cost. A PPN is a number, and ``None`` says that an LPN is mapped nowhere.

    After a power cut the class is made anew: what memory held is gone, and the engine has brought flash up to date.
    The object is copied with :func:`copy.deepcopy`, so do not share what it holds.

    >>> class Fifo(ftlkit.Mapping):
    ...     def lookup(self, lpn):
    ...         if lpn not in self.known:
    ...             self.make_room()
    ...             self.known[lpn] = self.read(lpn)
    ...         return self.known[lpn]
    ...
    ...     def update(self, lpn, ppn):
    ...         old = self.lookup(lpn)
    ...         self.known[lpn] = ppn
    ...         self.dirty.add(lpn)
    ...         return old
    ...
    ...     def make_room(self):
    ...         if self.memory() + 8 > self.table.cache_bytes:
    ...             lpn = next(iter(self.known))
    ...             self.write_back(lpn)
    ...             del self.known[lpn]
    """

    in_memory: ClassVar[bool] = False
    """The whole mapping is in memory, whatever the budget: ``restore`` is called, and trims touch no flash."""
    streams: ClassVar[int] = 0
    """Streams for host pages beside the usual one; :meth:`stream` chooses."""

    def __init__(self, table: TranslationTable) -> None:
        """Nothing is in memory."""
        self.table = table
        """The translation pages: ``lpns``, ``pages``, ``entries_per_page``, ``cache_bytes``, ``load``, ``store``."""
        self.known: dict[int, int | None] = {}
        """What memory holds: LPN to PPN. The checkers read it."""
        self.dirty: set[int] = set()
        """LPNs in ``known`` that are newer than on flash."""

    def lookup(self, lpn: int) -> int | None:
        """Where an LPN is. May use flash."""
        raise NotImplementedError(f"{type(self).__name__} has no lookup; write one")

    def update(self, lpn: int, ppn: int | None) -> int | None:
        """Sets where an LPN is from now on, and returns where it was. May use flash."""
        raise NotImplementedError(f"{type(self).__name__} has no update; write one")

    def moved(self, lpn: int, ppn: int) -> bool:
        """Collection has moved a page. True: memory holds the LPN, and knows now.

        For those that memory does not hold the engine updates the translation page, once for all of a page.
        """
        if lpn not in self.known:
            return False
        self.known[lpn] = ppn
        self.dirty.add(lpn)
        return True

    def forget(self, lpn: int) -> int | None:
        """Drops what memory holds of an LPN that is trimmed, and returns it; KeyError when it holds nothing."""
        self.dirty.discard(lpn)
        return self.known.pop(lpn)

    def clean(self) -> bool:
        """Brings one translation page up to date; False: all are. The engine asks before a checkpoint."""
        if not self.dirty:
            return False
        page, _ = self.table.place(min(self.dirty))
        first, end = self.table.lpns_of(page)
        if self.in_memory:
            self.table.replace(page, [self.known.get(lpn) for lpn in range(first, end)])
        else:
            self.table.store({lpn: self.known[lpn] for lpn in self.dirty if first <= lpn < end})
        self.dirty = {lpn for lpn in self.dirty if not first <= lpn < end}
        return True

    def restore(self, first: int, ppns: Sequence[int | None], changed: bool) -> None:
        """Takes over a translation page that recovery found, from LPN ``first`` on. Only ``in_memory``.

        Args:
            first: its first LPN.
            ppns: where each LPN is.
            changed: that is newer than on flash.
        """
        for lpn, ppn in enumerate(ppns, first):
            self.known[lpn] = ppn
        if changed:
            self.dirty.add(first)

    def stream(self, lpn: int, rest: int) -> int:
        """The stream of a page that the host writes, the first of ``rest`` of a request: 0 to ``streams``."""
        del lpn, rest
        return 0

    def memory(self) -> int:
        """Bytes that it takes in a controller, without the directory. At most ``table.cache_bytes``, or it fails."""
        return ENTRY_BYTES * len(self.known)

    def read(self, lpn: int) -> int | None:
        """Where an LPN is by what flash says: reads its translation page, if there is one."""
        page, slot = self.table.place(lpn)
        ppns = self.table.load(page)
        return None if ppns is None else ppns[slot]

    def write_back(self, lpn: int) -> None:
        """Writes to flash what memory holds of an LPN, if that is newer."""
        if lpn in self.dirty:
            self.table.store({lpn: self.known[lpn]})
            self.dirty.discard(lpn)


def interrupt(thread: int) -> None:
    """Raises ``KeyboardInterrupt`` in another thread of Python, at its next step."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))


def label_of(scheme: str | type[Mapping]) -> str:
    """The name of a scheme or of a mapping in Python."""
    return scheme if isinstance(scheme, str) else str(getattr(scheme, "__name__", scheme))


def checked(scheme: str | type[Mapping]) -> str | tuple[str, Callable[[TranslationTable], Mapping]]:
    """A scheme as Rust takes it."""
    if isinstance(scheme, str):
        return scheme
    if isinstance(scheme, type) and issubclass(scheme, Mapping):
        return scheme.__name__, scheme
    raise InputError(f"{scheme!r} is no scheme; give a name, or a class that inherits from ftlkit.Mapping")


@dataclass(frozen=True)
class Report:
    """What a check did. It found nothing."""

    record: dict[str, Any]
    """Counts, by name. Of a mapping in Python also ``calls`` and ``call_us``, the microseconds of one in the mean."""

    def __repr__(self) -> str:
        """What was done, on a line."""
        counts = ", ".join(
            f"{value:,} {name}" for name, value in self.record.items() if isinstance(value, int) and value
        )
        slow = f"; {found:,.1f} us a call" if (found := self.record.get("call_us")) is not None else ""
        missed = f"; not exercised: {what}" if (what := self.record.get("not_exercised")) else ""
        return f"<{self.record['scheme']}: nothing lost; {counts}{slow}{missed}>"


def conformance(
    scheme: str | type[Mapping], *, seed: int = 1, cuts: int = 500, progress: bool | None = None
) -> Report:
    """Show that a scheme does what every scheme must do.

    First the conformance suite: filled, overwritten, trimmed and collected devices, failing blocks, unreadable pages,
    power switched off in good order. Then power cuts (:func:`check`).

    Args:
        scheme: a name of :func:`ftlkit.schemes`, or a class that inherits from :class:`Mapping`.
        seed: of devices and requests.
        cuts: power cuts; 0 for none.
        progress: as for :func:`ftlkit.run`.

    Raises:
        FindingError: it does not; the sentence says what happened, and ``__cause__`` is what the mapping raised.
    """
    if isinstance(scheme, str) and ":" in scheme:
        raise InputError(f"{scheme}: conformance checks schemes as they are; leave the parameters out, or use check")
    with Overall(1, f"conformance, {label_of(scheme)}", progress) as bar:
        record = json.loads(_ftlkit.conformance(checked(scheme), at_least(0, "seed", seed), bar.tell))
    if cuts:
        record |= check(scheme, cuts=cuts, seed=seed, progress=progress).record
    return Report(record)


def check(
    scheme: str | type[Mapping],
    *,
    cuts: int = 10_000,
    seed: int = 1,
    faults: bool = False,
    cut: int | None = None,
    progress: bool | None = None,
) -> Report:
    """Cut the power at any flash operation of a running device, and recover; everything acknowledged must be there.

    Args:
        scheme: a name of :func:`ftlkit.schemes`, or a class that inherits from :class:`Mapping`.
        cuts: how many.
        seed: of devices, requests and cuts.
        faults: factory bad blocks, and programs and erases that fail, too.
        cut: only this cut of the run with this seed, as a finding names it.
        progress: as for :func:`ftlkit.run`.

    Raises:
        FindingError: something was lost.
    """
    at_least(1, "cuts", cuts)
    at_least(0, "seed", seed)
    at_least(0, "cut", cut or 0)
    with Overall(1, f"power cuts, {label_of(scheme)}", progress) as bar:
        return Report(json.loads(_ftlkit.power_cuts(checked(scheme), cuts, seed, faults, cut, bar.tell)))
