"""Flash translation layers of the papers: simulated, compared, crash-checked, served live.

>>> import ftlkit
>>> runs = ftlkit.compare("tpftl,learnedftl", trace="Financial1.spc.xz", cache="3%")
>>> runs
>>> ftlkit.plot.latency_cdf(runs)
"""

from ftlkit import plot
from ftlkit._device import Device
from ftlkit._errors import (
    DeviceError,
    FileError,
    FindingError,
    FtlError,
    InputError,
    Note,
    StoppedError,
)
from ftlkit._ftlkit import TranslationTable
from ftlkit._ftlkit import version as _version
from ftlkit._lists import device, devices, schemes, workloads
from ftlkit._mapping import Mapping, Report, check, conformance
from ftlkit._options import Options
from ftlkit._paper import PaperResults, paper, papers
from ftlkit._results import Latency, Phase, Run, Runs, Table, load, load_table
from ftlkit._running import compare, requests, run
from ftlkit._size import Sizes, size
from ftlkit._study import Failure, Point, Study, StudyResults

__version__ = _version()
__all__ = [
    "Device",
    "DeviceError",
    "Failure",
    "FileError",
    "FindingError",
    "FtlError",
    "InputError",
    "Latency",
    "Mapping",
    "Note",
    "Options",
    "PaperResults",
    "Phase",
    "Point",
    "Report",
    "Run",
    "Runs",
    "Sizes",
    "StoppedError",
    "Study",
    "StudyResults",
    "Table",
    "TranslationTable",
    "check",
    "compare",
    "conformance",
    "device",
    "devices",
    "load",
    "load_table",
    "paper",
    "papers",
    "plot",
    "requests",
    "run",
    "schemes",
    "size",
    "workloads",
]
