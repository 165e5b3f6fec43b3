"""What there is: schemes, devices, generators."""

from __future__ import annotations

import json
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
