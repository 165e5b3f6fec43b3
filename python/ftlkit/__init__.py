"""Flash translation layers of the papers: simulated, compared, crash-checked, served live.

>>> import ftlkit
>>> runs = ftlkit.compare("tpftl,learnedftl", trace="Financial1.spc.xz", cache="3%")
>>> runs
>>> ftlkit.plot.latency_cdf(runs)
"""

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
from ftlkit._running import compare, run

__version__ = _version()
__all__ = [
    "DeviceError",
    "FileError",
    "FindingError",
    "FtlError",
    "InputError",
    "Latency",
    "Note",
    "Options",
    "Phase",
    "Run",
    "Runs",
    "StoppedError",
    "Table",
    "compare",
    "devices",
    "load",
    "load_table",
    "run",
    "schemes",
    "workloads",
]
