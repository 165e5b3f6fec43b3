"""How far runs are: bars in a terminal and in Jupyter, nothing where nobody looks."""

from __future__ import annotations

import sys
import time
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

QUICK_SECONDS = 0.5
"""A run that ends sooner shows no bar."""


def _wanted(asked: bool | None) -> bool:
    return asked if asked is not None else sys.stderr.isatty() or "ipykernel" in sys.modules


def _tqdm() -> Any:
    """Bars for where this runs. Jupyter without widgets gets plain ones, and no warning about that."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tqdm.auto import tqdm  # it takes long to import
    return tqdm


def _has_one_line() -> bool:
    """Jupyter without widgets: a bar is text, and cannot be drawn above another."""
    return "ipykernel" in sys.modules and find_spec("ipywidgets") is None


class Bars:
    """A bar for each run, shown once it is known that there is something to wait for; one for all on one line."""

    def __init__(self, labels: Sequence[str], asked: bool | None) -> None:
        """``asked``: show them, or do not; ``None``: on a terminal and in Jupyter."""
        self._labels = labels
        self._shown = _wanted(asked)
        self._began = time.monotonic()
        self._bars: list[Any] = []
        self._overall = Overall(len(labels), "runs", asked) if _has_one_line() else None

    def __enter__(self) -> Bars:
        """Nothing is shown yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the bars as they are."""
        for bar in self._bars:
            bar.close()
        if self._overall is not None:
            self._overall.__exit__(kind, error, traceback)

    def _open(self) -> None:
        tqdm = _tqdm()
        form = "{desc} {percentage:3.0f}%|{bar}| {postfix[0]} {elapsed}<{remaining}"
        for at, label in enumerate(self._labels):
            bar = tqdm(total=1.0, desc=label, position=at, leave=False, bar_format=form, postfix=["waiting"])
            self._bars.append(bar)

    def some(self, which: Sequence[int]) -> Callable[[int, int, int, str, float, bool], None]:
        """What hears of some of the runs, by their place among these."""
        return lambda run, *far: self.tell(which[run], *far)

    def tell(self, run: int, phase: int, phases: int, name: str, done: float, ended: bool) -> None:
        """Hears how far a run is, a few times a second."""
        if self._overall is not None:
            self._overall.tell(run, phase, phases, name, done, ended)
            return
        if not self._shown or time.monotonic() - self._began < QUICK_SECONDS:
            return
        if not self._bars:
            self._open()
        bar = self._bars[run]
        short = name.split(":", maxsplit=1)[0].split(",", maxsplit=1)[0]
        bar.postfix[0] = "ended" if ended else f"{phase + 1}/{phases} {short}"
        if done < bar.n:
            bar.reset()  # another phase
        bar.update(done - bar.n)
        bar.refresh()


class Overall:
    """One bar for many runs: those that have ended, and parts of those under way."""

    def __init__(self, runs: int, label: str, asked: bool | None) -> None:
        """``asked``: as for :class:`Bars`."""
        self._shown = _wanted(asked) and runs > 0
        self._parts = [0.0] * runs
        self._label = label
        self._began = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Overall:
        """Nothing is shown yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leaves the bar as it is."""
        if self._bar is not None:
            self._bar.close()

    def _show(self) -> None:
        if not self._shown or time.monotonic() - self._began < QUICK_SECONDS:
            return
        if self._bar is None:
            form = "{desc} {percentage:3.0f}%|{bar}| {n:.1f} of {total}, {elapsed}<{remaining}"
            self._bar = _tqdm()(total=len(self._parts), desc=self._label, bar_format=form, leave=False)
        self._bar.update(sum(self._parts) - self._bar.n)

    def tell(self, run: int, phase: int, phases: int, _name: str, done: float, ended: bool) -> None:
        """Hears how far a run is, a few times a second."""
        self._parts[run] = 1.0 if ended else (phase + done) / max(phases, 1)
        self._show()

    def one(self) -> None:
        """Hears that one more has ended, whichever."""
        self._parts[self._parts.index(0.0)] = 1.0
        self._show()
