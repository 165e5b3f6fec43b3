"""Flash translation layers of the papers: simulated, compared, crash-checked, served live.

>>> import ftlkit
>>> runs = ftlkit.compare("tpftl,learnedftl", trace="Financial1.spc.xz", cache="3%")
>>> runs
>>> ftlkit.plot.latency_cdf(runs)
"""

from ftlkit import plot
from ftlkit._errors import (
    DeviceError,
    FileError,
    FindingError,
    FtlError,
    InputError,
    Note,
    StoppedError,
)
from ftlkit._ftlkit import version as _version
from ftlkit._lists import devices, schemes, workloads
from ftlkit._options import Options
from ftlkit._results import Latency, Phase, Run, Runs, Table, load, load_table
from ftlkit._running import compare, requests, run
from ftlkit._size import Sizes, size
from ftlkit._study import Failure, Point, Study, StudyResults

__version__ = _version()
__all__ = [
    "DeviceError",
    "Failure",
    "FileError",
    "FindingError",
    "FtlError",
    "InputError",
    "Latency",
    "Note",
    "Options",
    "Phase",
    "Point",
    "Run",
    "Runs",
    "Sizes",
    "StoppedError",
    "Study",
    "StudyResults",
    "Table",
    "compare",
    "devices",
    "load",
    "load_table",
    "plot",
    "requests",
    "run",
    "schemes",
    "size",
    "workloads",
]
