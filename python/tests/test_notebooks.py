"""The notebooks of the documentation run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbclient
import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.md"))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) == 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    notebook = jupytext.read(path)
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}})
    client.execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output["text"] for output in outputs if "Warning" in output.get("text", "")]
    plots = [cell for cell in cells if "ftlkit.plot." in cell.source]
    assert plots
    for cell in plots:
        assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.source
