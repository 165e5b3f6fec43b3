"""The native part of ftlkit. Use the functions of ``ftlkit``: these here may change with any version."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Columns",
    "Prepared",
    "Study",
    "labels",
    "listed",
    "option_names",
    "prepare",
    "read_json",
    "run_point",
    "size",
    "study_text",
    "table",
    "version",
    "write_json",
]

_Tell: TypeAlias = Callable[[int, int, int, str, float, bool], object]

_Row: TypeAlias = tuple[int, str, str, int, str, str]
_Outcome: TypeAlias = tuple[str | None, str | None, bool]

def version() -> str: ...
def option_names() -> list[str]: ...
def listed() -> str: ...
def prepare(options: str, columns: Columns | None = None) -> Prepared: ...
def table(runs: Sequence[str]) -> bytes: ...
def read_json(text: str) -> list[str]: ...
def write_json(runs: Sequence[str]) -> str: ...
def labels(runs: Sequence[str]) -> list[str]: ...
def size(
    options: str,
    schemes: Sequence[tuple[str, str]],
    caches: Sequence[str],
    within: float,
    columns: Columns | None = None,
    threads: int | None = None,
    tell: _Tell | None = None,
) -> tuple[str, list[str]]: ...
def run_point(options: str, scheme: str, seed: int, command: str) -> _Outcome: ...
def study_text(study: str) -> str: ...

@final
class Columns:
    def __new__(
        cls,
        name: str,
        times: NDArray[np.int64] | None,
        kinds: NDArray[np.uint8],
        places: NDArray[np.int64],
        sizes: NDArray[np.int64],
        unit: int,
    ) -> Columns: ...
    def __len__(self) -> int: ...

@final
class Prepared:
    @property
    def notes(self) -> list[str]: ...
    def requests(self, most: int) -> list[bytes]: ...
    def run(
        self,
        schemes: Sequence[tuple[str, str]],
        threads: int | None = None,
        tell: _Tell | None = None,
    ) -> list[str | Exception]: ...

@final
class Study:
    def __new__(cls, file: str) -> Study: ...
    @property
    def title(self) -> str: ...
    @property
    def command(self) -> str: ...
    def points(self) -> list[_Row]: ...
    def open_points(self, folder: str, again: bool) -> list[int]: ...
    def run(
        self,
        numbers: Sequence[int],
        folder: str,
        threads: int | None = None,
        tell: _Tell | None = None,
    ) -> int: ...
    def store(self, number: int, folder: str, outcome: _Outcome) -> None: ...
    def outcomes(self, folder: str) -> list[_Outcome | None]: ...
    def write_whole(self, folder: str) -> None: ...
    def table(self, folder: str) -> bytes: ...
    def summary(self, folder: str) -> str: ...
