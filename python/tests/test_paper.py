from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import ftlkit

FIGURE = """
title = "Random reads"
source = "an example"
schemes = ["page", "dftl"]
options = { device = "tpftl-512m", cache = "2%", warm-up = "fill" }
[[case]]
name = "reads"
jobs = \"\"\"
[reads]
rw=randread
number_ios=1000
\"\"\"
[[claim]]
what = "{of} over {over}"
kind = "ratio"
quantity = "iops"
of = "dftl"
over = "page"
paper = 0.5
"""


def test_a_figure_of_ones_own_finds_what_the_command_finds(tmp_path: Path, ftl: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FIGURE)
    found = ftlkit.paper(str(path))
    (claim,) = found.claims().rows()
    assert claim["paper"] == 0.5
    assert 0 < claim["ours"] < 1
    command = [ftl, "paper", str(path), "--quiet", "--json", "-"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found.figures[0]["claims"] == theirs["figures"][0]["claims"]
    assert found.summary == theirs["summary"]
    assert [run.scheme for run in found.runs] == ["page", "dftl"]
    run = found.run_of(found.figures[0]["figure"], "reads", "dftl")
    assert run is not None
    assert run.digest == found.runs["dftl"].digest
    assert found.run_of("9", "reads", "dftl") is None
    assert "1 numbers of the paper" in repr(found)
    assert "<table>" in found._repr_html_()
    only = ftlkit.paper(str(path), schemes=["page"])
    assert only.claims().rows()[0]["ours"] is None


def test_papers_are_listed_and_mistakes_are_told() -> None:
    papers = {paper["name"]: paper for paper in ftlkit.papers()}
    assert {"tpftl", "learnedftl"} <= set(papers)
    figures = [figure["figure"] for figure in papers["tpftl"]["figures"]]
    assert figures
    with pytest.raises(
        ftlkit.InputError, match=f"tpftl has no figure `99` that is simulated; there are {figures[0]}"
    ):
        ftlkit.paper("tpftl", figures=["99"])
    with pytest.raises(ftlkit.InputError, match="no figure of tpftl runs any of these schemes"):
        ftlkit.paper("tpftl", schemes=["pgae"])
    with pytest.raises(ftlkit.InputError, match="seed: -1 is too small"):
        ftlkit.paper("tpftl", seed=-1)
    with pytest.raises(ftlkit.InputError):
        ftlkit.paper("nobody")
