"""What there is: schemes, devices, generators."""

from __future__ import annotations

import json
import os
import tomllib
from typing import Any

from ftlkit import _ftlkit


def _listed(what: str) -> list[Any]:
    found: list[Any] = json.loads(_ftlkit.listed())[what]
    return found


def schemes() -> list[dict[str, Any]]:
    """Every scheme: ``name``, ``what`` it does, the ``paper``, and its ``parameters``."""
    return _listed("schemes")


def devices() -> list[str]:
    """The names of the device presets."""
    return [str(name) for name in _listed("devices")]


def workloads() -> list[dict[str, str]]:
    """Every generator: ``name`` and ``what`` it imitates."""
    return _listed("workloads")


def device(name: str | os.PathLike[str]) -> dict[str, Any]:
    """A preset or a device file as a dict, to be changed and given as ``device``.

    >>> slow = ftlkit.device("tpftl-512m") | {"name": "slow"}
    >>> slow["times"]["read_us"] = 100
    >>> ftlkit.run("dftl", device=slow)
    """
    return tomllib.loads(_ftlkit.device_text(os.fspath(name)))
