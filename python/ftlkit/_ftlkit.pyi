"""The native part of ftlkit. Use the functions of ``ftlkit``: these here may change with any version."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Columns",
    "Prepared",
    "labels",
    "listed",
    "option_names",
    "prepare",
    "read_json",
    "table",
    "version",
    "write_json",
]

_Tell: TypeAlias = Callable[[int, int, int, str, float, bool], object]

def version() -> str: ...
def option_names() -> list[str]: ...
def listed() -> str: ...
def prepare(options: str, columns: Columns | None = None) -> Prepared: ...
def table(runs: Sequence[str]) -> bytes: ...
def read_json(text: str) -> list[str]: ...
def write_json(runs: Sequence[str]) -> str: ...
def labels(runs: Sequence[str]) -> list[str]: ...

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
    def run(
        self,
        schemes: Sequence[tuple[str, str]],
        threads: int | None = None,
        tell: _Tell | None = None,
    ) -> list[str | Exception]: ...
