"""What the tests share."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
QUICK: Any = {"device": "tpftl-512m", "synth": "financial1", "requests": 3000, "warm_up": "none"}
"""A run of some milliseconds."""


@pytest.fixture(scope="session")
def ftl() -> str:
    """The command. FTL names it; without that, it is the one that ``cargo test`` has built."""
    named = os.environ.get("FTL")
    found = shutil.which(named or ROOT / "target/debug/ftl")
    if found is None:
        if named:
            pytest.fail(f"FTL names {named}, and that is no program")
        pytest.skip("there is no target/debug/ftl; cargo build makes it")
    return str(Path(found).resolve())


def interrupted(code: str, *, after: float, within: float) -> tuple[int, str]:
    """Runs Python code that prints a line and goes on, and presses Ctrl-C ``after`` seconds from there.

    It has to end ``within`` seconds. Returns its exit code and what it wrote to standard error.
    """
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(after)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=within)
        finally:
            process.kill()
    return process.returncode, errors.decode()
