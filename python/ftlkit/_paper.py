"""The figures of papers: their numbers beside ours."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from ftlkit import _ftlkit
from ftlkit._errors import at_least
from ftlkit._options import listed
from ftlkit._progress import Overall
from ftlkit._results import Run, Runs, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class PaperResults:
    """What the figures of a paper found."""

    def __init__(self, text: str) -> None:
        """``text``: what ``ftl paper --json`` writes."""
        self.record: dict[str, Any] = json.loads(text)
        """All of it, as the command writes it."""
        self.title: str = self.record["title"]
        """The paper."""
        self.summary: str = self.record["summary"]
        """How many claims point where the paper's do, in words."""

    @property
    def figures(self) -> list[dict[str, Any]]:
        """Each figure, with ``figure``, ``title``, ``source``, ``facts``, ``claims`` and ``cells``."""
        found: list[dict[str, Any]] = self.record["figures"]
        return found

    @property
    def runs(self) -> Runs:
        """The runs behind the figures, those that failed left out."""
        return Runs(Run(json.dumps(run)) for run in self.record["runs"] if run is not None)

    def run_of(self, figure: str, case: str, scheme: str) -> Run | None:
        """The run behind a cell of a figure; ``None`` where there is none."""
        for one in self.figures:
            for cell in one["cells"]:
                if (one["figure"], cell["case"], cell["scheme"]) == (figure, case, scheme) and cell[
                    "run"
                ] is not None:
                    return Run(json.dumps(self.record["runs"][cell["run"]]))
        return None

    def claims(self) -> Table:
        """A row for each number of the paper: what it says, what we found, the ratio, the verdict, and why."""
        rows = []
        for figure in self.figures:
            for claim in figure["claims"]:
                paper = claim["paper"]
                rows.append(
                    {
                        "figure": figure["figure"],
                        "what": claim["what"],
                        "paper": paper[0] if paper else None,
                        "paper_upper": paper[1] if len(paper) > 1 else None,
                        "ours": claim["ours"],
                        "ratio": claim["ratio"],
                        "verdict": claim["verdict"],
                        "differs": claim["differs"],
                    }
                )
        return table_of(rows, text=("figure", "what", "verdict", "differs"))

    def __repr__(self) -> str:
        """The paper, and how many claims agree."""
        return f"<{self.title}: {self.summary}>"

    def _repr_html_(self) -> str:
        return self.claims()._repr_html_()


def paper(
    name: str | os.PathLike[str],
    *,
    figures: Iterable[str] = (),
    schemes: Iterable[str] = (),
    full: bool = False,
    seed: int = 1,
    threads: int | None = None,
    progress: bool | None = None,
) -> PaperResults:
    """Run the figures of a paper that are simulated, and set our numbers beside the paper's.

    Args:
        name: a paper (:func:`papers`), or a figure file of your own (docs/papers.md).
        figures: which of them; all unless given.
        schemes: which of their schemes; all unless given.
        full: at the paper's scale, which may take hours, and not a quick look.
        seed: of every random choice.
        threads: runs at a time; the processors of this machine unless given.
        progress: as for :func:`ftlkit.run`.
    """
    at_least(0, "seed", seed)
    at_least(1, "threads", 1 if threads is None else threads)
    text = os.fspath(name)
    plan = _ftlkit.Paper(text, listed(figures), listed(schemes), full, seed)
    with Overall(len(plan), text, progress) as bar:
        return PaperResults(plan.run(threads, bar.tell))


def papers() -> list[dict[str, Any]]:
    """Every paper: ``name``, ``title``, and its ``figures`` that are simulated."""
    found: list[dict[str, Any]] = json.loads(_ftlkit.paper_names())
    return found
