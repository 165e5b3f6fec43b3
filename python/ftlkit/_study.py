"""Studies: many runs from one file, on the cores of this machine or on a cluster."""

from __future__ import annotations

import hashlib
import io
import json
import operator
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from ftlkit import _ftlkit
from ftlkit._errors import FileError, FindingError, FtlError, InputError, at_least, extra
from ftlkit._lists import devices
from ftlkit._options import entries, listed, spelled
from ftlkit._progress import Overall
from ftlkit._results import Run, Runs, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Iterable

FILES = ("trace", "job-file", "device", "warm-up")
"""Options that may name a file."""
RETRIES = 3
"""How often a point is begun again when its worker goes away."""


@dataclass(frozen=True)
class Point:
    """One run of a study."""

    number: int
    """From 1, in the order of the file."""
    id: str
    """Depends on scheme, options and seed alone."""
    scheme: str
    """The scheme with its parameters."""
    seed: int
    """Seed of every random choice."""
    options: Mapping[str, Any]
    """Its options, spelled as on the command line."""
    label: str
    """In words: what tells it from the other points."""


@dataclass(frozen=True)
class Failure:
    """A point without a result."""

    point: Point
    """Which one, with its configuration."""
    reason: str
    """Why, as a sentence."""
    finding: bool
    """Whether that is a bug."""


class StudyResults:
    """What is stored of a study."""

    def __init__(self, study: Study, native: _ftlkit.Study) -> None:
        """What is in the results folder now."""
        self.study = study
        """The study."""
        folder = os.fspath(study.results_folder)
        outcomes = native.outcomes(folder)
        ended = list(zip(study.points, outcomes, strict=True))
        self.runs = Runs(Run(found[0]) for _, found in ended if found and found[0] is not None)
        """The runs of the points that have ended with one."""
        self.failed = [
            Failure(point, found[1] or "", found[2]) for point, found in ended if found and found[0] is None
        ]
        """The points that have none, with the reason."""
        self.missing = [point for point, found in ended if found is None]
        """The points that have not ended."""
        self._table = native.table(folder)
        self._summary = native.summary(folder)

    def table(self) -> Table:
        """A row for each point and phase, as in ``table.parquet``."""
        return Table(pq.read_table(io.BytesIO(self._table)))

    def summary(self) -> Table:
        """Means over the seeds; ``..._half_width`` is half of the 95 % confidence interval."""
        rows = []
        for row in json.loads(self._summary):
            means, widths = row.pop("means"), row.pop("half_widths")
            rows.append(row | means | {f"{name}_half_width": width for name, width in widths.items()})
        return table_of(rows, text=("point", "phase"), whole=("done", "failed", "points"))

    def __repr__(self) -> str:
        """How many points have ended, and the first failure."""
        text = f"<{self.study.title or self.study.path.name}: {len(self.runs)} of {len(self.study.points)} points"
        if self.failed:
            first = self.failed[0]
            text += f", {len(self.failed)} failed; point {first.point.number} ({first.point.label}): {first.reason}"
        return text + ">"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


class Study:
    """A study file and its results folder, which the command ``ftl study`` reads and writes, too."""

    def __init__(self, path: str | os.PathLike[str], results: str | os.PathLike[str] | None = None) -> None:
        """Reads a study.

        Args:
            path: the file (docs/studies.md describes it).
            results: the folder of its results; ``FILE.results`` beside the file unless given.

        Raises:
            FileError: it cannot be read.
            InputError: it is no study, or a point in it is impossible.
        """
        self.path = Path(path).absolute()
        """The study file."""
        folder = self.path.with_suffix(".results") if results is None else Path(results)
        self.results_folder = folder.absolute()
        """The folder of its results."""
        self._native = _ftlkit.Study(os.fspath(self.path))
        self.title = self._native.title
        """What it asks."""
        self.points = [
            Point(number, name, scheme, seed, json.loads(options), label)
            for number, name, scheme, seed, options, label in self._native.points()
        ]
        """Its runs, in order."""

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        schemes: str | Iterable[str] = (),
        cross: Mapping[str, Iterable[Any]] | None = None,
        options: Mapping[str, Any] | None = None,
        workloads: Mapping[str, Mapping[str, Any]] | None = None,
        points: Iterable[Mapping[str, Any]] = (),
        seeds: int | Iterable[int] = 1,
        show: str | Iterable[str] = (),
        title: str = "",
    ) -> Study:
        """Writes a study file and reads it.

        What is no study is not written, and leaves a file that is there as it is.

        Args:
            path: the file to write; one that is there is replaced.
            schemes: schemes that are combined with everything.
            cross: options with lists of values: every combination is a point.
            options: options that all points share.
            workloads: options by the name of a workload; each is combined with all of ``cross``.
            points: further points: options, and their ``scheme``.
            seeds: N for the seeds 1 to N, or a list.
            show: quantities of the summary.
            title: what the study asks.
        """
        whole: dict[str, Any] = {"title": title or "", "seeds": _whole_numbers(seeds)}
        if shown := listed(show):
            whole["show"] = shown
        if options:
            whole["options"] = entries(options)
        names = _names(schemes)
        crossed: dict[str, Any] = {"schemes": names} if names else {}
        for name, values in (cross or {}).items():
            crossed[spelled(name)] = [_crossed(name, value) for value in listed(values)]
        if crossed:
            whole["cross"] = crossed
        if workloads:
            whole["workload"] = [{"name": name, **entries(own)} for name, own in workloads.items()]
        alone = []
        for point in points:
            own = dict(point)
            alone.append({"scheme": own.pop("scheme", ""), **entries(own)})
        if alone:
            whole["point"] = alone
        _write(Path(path), _ftlkit.to_toml(json.dumps(whole)))
        return cls(path)

    def results(self) -> StudyResults:
        """What is stored so far."""
        return StudyResults(self, self._native)

    def run(
        self,
        *,
        client: Any = None,
        points: Iterable[int] | None = None,
        again: bool = False,
        threads: int | None = None,
        ship: bool = False,
        progress: bool | None = None,
    ) -> StudyResults:
        """Runs the points that have no result yet. Each is stored as soon as it has ended.

        Ctrl-C and a killed process lose no point that has ended: the same call goes on, and so does ``ftl study``. A
        point that fails is stored with its reason and ends nothing: :attr:`StudyResults.failed` names it.

        Args:
            client: a client of Dask, or the address of a scheduler: the points run on its workers. Without one they
                run here, on the cores.
            points: numbers of the points to run; all unless given.
            again: run points that have a result, too.
            threads: points run at a time on the cores of this machine.
            ship: send traces, job files and device files to the workers, once each. Otherwise a worker reads them
                from the same path as here.
            progress: show a bar; ``None``: on a terminal and in Jupyter.

        Returns:
            What is stored of the whole study.

        Raises:
            FileError: a result cannot be stored.
            FindingError: a point met a bug; it is raised when all points have ended.
        """
        folder = os.fspath(self.results_folder)
        at_least(1, "threads", 1 if threads is None else threads)
        numbers = self._native.open_points(folder, again)
        if points is not None:
            asked = set(points)
            if unknown := asked - {point.number for point in self.points}:
                raise InputError(f"there is no point {min(unknown)}; the study has points 1 to {len(self.points)}")
            numbers = [number for number in numbers if number in asked]
        try:
            with Overall(len(numbers), self.title or self.path.stem, progress) as bar:
                if client is None:
                    self._native.run(numbers, folder, threads, bar.tell)
                else:
                    self._run_on(client, numbers, folder, ship, bar)
        finally:
            self._native.write_whole(folder)
        results = self.results()
        for failure in results.failed:
            if failure.finding:
                raise FindingError(f"point {failure.point.number} ({failure.point.label}): {failure.reason}")
        return results

    def _run_on(self, client: Any, numbers: list[int], folder: str, ship: bool, bar: Overall) -> None:
        """Runs points on the workers of a Dask scheduler."""
        dask = extra("distributed", "dask")
        own = dask.Client(client) if isinstance(client, str) else None
        client = own or client
        by_number = {point.number: point for point in self.points}
        shipped = self._shipped([by_number[number] for number in numbers], client) if ship else {}
        futures: dict[Any, int] = {}
        try:
            for number in numbers:
                point = by_number[number]
                files = {str(Path(path).absolute()): shipped[path] for path in _files(point) if path in shipped}
                command = f"{self._native.command} --point {number}"
                future = client.submit(
                    _run_point,
                    _absolute(point.options),
                    point.scheme,
                    point.seed,
                    command,
                    list(files),
                    list(files.values()),
                    key=f"ftlkit-{point.id}-{time.time_ns()}",
                    pure=False,
                    retries=RETRIES,
                )
                futures[future] = number
            for future in dask.as_completed(list(futures)):
                number = futures.pop(future)
                try:
                    # It is run again if the worker that holds the result has died since.
                    outcome = future.result()
                except Exception as error:
                    outcome = (None, f"the worker did not end it ({error!r})", False)
                self._native.store(number, folder, outcome)
                bar.one()
        finally:
            client.cancel(list(futures))
            if own is not None:
                own.close()

    @staticmethod
    def _shipped(points: Iterable[Point], client: Any) -> dict[str, Any]:
        """Each file that points read, on the workers."""
        paths = sorted({path for point in points for path in _files(point)})
        return {path: client.scatter(Path(path).read_bytes(), broadcast=True, hash=True) for path in paths}


def _whole_numbers(seeds: Any) -> int | list[int]:
    """Seeds as JSON has them: a number, or a list."""
    try:
        return operator.index(seeds)
    except TypeError:
        pass
    try:
        return [operator.index(seed) for seed in seeds]
    except TypeError:
        raise InputError(f"seeds: {seeds!r} is neither a whole number nor a list of some") from None


def _names(schemes: Any) -> list[str]:
    """Schemes of the registry; one text may hold several."""
    names = [name.strip() for name in schemes.split(",")] if isinstance(schemes, str) else list(schemes)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"{name!r} is no name of a scheme; a study runs schemes of ftlkit.schemes() alone")
    return [str(name) for name in names]


def _crossed(name: str, value: Any) -> Any:
    if value is None:
        raise InputError(f"cross: {name} has None, and a study file needs a value; give a point without {name}")
    return entries({name: value})[spelled(name)]


def _write(path: Path, text: str) -> None:
    """Writes a study file, if it is one."""
    part = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        part.write_text(text, encoding="utf-8")
        _ftlkit.Study(os.fspath(part))
        part.replace(path)
    except FtlError as error:
        raise type(error)(str(error).replace(os.fspath(part), os.fspath(path))) from None
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror or error})") from None
    finally:
        part.unlink(missing_ok=True)


def _named_files(options: Mapping[str, Any]) -> dict[str, str]:
    """The files that options name. A preset is none, whatever lies in the folder."""
    values = {name: options.get(name) for name in FILES}
    presets = devices()
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, str) and not (name == "device" and value in presets) and Path(value).is_file()
    }


def _files(point: Point) -> list[str]:
    """The files that a point reads."""
    return list(_named_files(point.options).values())


def _absolute(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that mean the same in any folder."""
    return {**options, **{name: str(Path(path).absolute()) for name, path in _named_files(options).items()}}


@lru_cache
def _folder_of_files() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ftlkit-")


def _kept(path: str, content: bytes) -> str:
    """A file that was shipped, on the disk of this worker: written once, however many points read it."""
    name = hashlib.blake2b(content, digest_size=16).hexdigest()
    folder = Path(_folder_of_files().name) / name
    file = folder / Path(path).name
    if not file.exists():
        folder.mkdir(exist_ok=True)
        part = folder / f".{os.getpid()}.{time.time_ns()}"
        part.write_bytes(content)
        part.replace(file)
    return os.fspath(file)


def _run_point(
    options: dict[str, Any], scheme: str, seed: int, command: str, paths: list[str], contents: list[bytes]
) -> tuple[str | None, str | None, bool]:
    """Runs one point on a worker."""
    kept = {path: _kept(path, content) for path, content in zip(paths, contents, strict=True)}
    for name in FILES:
        if options.get(name) in kept:
            options = options | {name: kept[options[name]]}
    return _ftlkit.run_point(json.dumps(options), scheme, seed, command)
