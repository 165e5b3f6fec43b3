from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from conftest import QUICK

import ftlkit


@pytest.fixture(scope="module")
def runs() -> ftlkit.Runs:
    return ftlkit.compare("page,dftl,tpftl:techniques=rs,tpftl:techniques=-", **(QUICK | {"warm_up": "fill"}))


def test_runs_are_a_list_with_labels(runs: ftlkit.Runs) -> None:
    assert len(runs) == 4
    assert runs["dftl"].scheme == "dftl"
    assert runs[2].parameters["techniques"] == "rs"
    assert len(set(runs.labels)) == 4
    assert [run.scheme for run in runs[1:3]] == ["dftl", "tpftl"]
    with pytest.raises(KeyError, match="there is no run of x; there are page, dftl"):
        runs["x"]


def test_tables_have_the_columns_of_the_csv(runs: ftlkit.Runs, ftl: str, tmp_path: Path) -> None:
    runs.save(tmp_path / "runs.json")
    loaded = ftlkit.load(tmp_path / "runs.json")
    assert list(loaded) == list(runs)
    polars, pandas, arrow = runs.to_polars(), runs.to_pandas(), runs.to_arrow()
    assert polars.shape == pandas.shape == arrow.shape
    assert polars.columns == list(pandas.columns) == arrow.column_names
    options = ["--device", "tpftl-512m", "--synth", "financial1", "--requests", "3000", "--warm-up", "fill"]
    command = [ftl, "run", "dftl", *options, "--quiet", "--csv", "-"]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert text.splitlines()[0].split(",") == polars.columns
    assert polars["iops"].to_list() == [run.phases[0].iops for run in runs]
    assert polars["pages_written"].dtype.is_integer()


def test_what_the_command_stored_is_loaded(runs: ftlkit.Runs, ftl: str, tmp_path: Path) -> None:
    options = ["--device", "tpftl-512m", "--synth", "financial1", "--requests", "3000", "--warm-up", "fill"]
    file = tmp_path / "stored.json"
    subprocess.run([ftl, "compare", "--schemes", "page,dftl", *options, "--quiet", "--json", file], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    stored = ftlkit.load(file)
    assert all(ours.same_findings(theirs) for ours, theirs in zip(runs, stored, strict=False))
    assert len(stored) == 2
    # And the other way round.
    runs.save(tmp_path / "ours.json")
    page = tmp_path / "page.html"
    subprocess.run([ftl, "report", tmp_path / "ours.json", "--report", page], check=True, stdout=subprocess.DEVNULL)
    assert "dftl" in page.read_text()


def test_a_file_that_holds_no_results(tmp_path: Path) -> None:
    with pytest.raises(ftlkit.FileError, match="cannot be read"):
        ftlkit.load(tmp_path / "missing.json")
    for name, text, sentence in (
        ("x.json", "[1, 2", "x.json: results in JSON: EOF"),
        ("y.json", "[{}]", "y.json: results have schema 0, this version reads schema"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ftlkit.InputError) as raised:
            ftlkit.load(tmp_path / name)
        assert sentence in str(raised.value)
    with pytest.raises(ftlkit.InputError, match=r"y\.json: not Parquet"):
        ftlkit.load_table(tmp_path / "y.json")


def test_repr_says_what_matters(runs: ftlkit.Runs) -> None:
    text, page = repr(runs), runs._repr_html_()
    lines = text.splitlines()
    assert "financial1" in lines[0]
    assert "tpftl-512m" in lines[0]
    assert len(lines) == 2 + len(runs)
    assert lines[1].split()[:2] == ["scheme", "phase"]
    assert page.count("<tr>") == 1 + len(runs)
    assert repr(runs[1]).splitlines()[2].split()[0] == "dftl"
    assert "<table>" in runs[1]._repr_html_()
    assert repr(ftlkit.Runs([])).startswith("no runs")
    assert "rows" in repr(runs.table())


def test_latencies_are_arrays(runs: ftlkit.Runs) -> None:
    phase = runs["dftl"].phases[0]
    for kind, latency in phase.latency.items():
        upper_ns, counts = latency.histogram
        assert counts.sum() == latency.count == phase.record["requests"][kind]["completed"]
        assert (np.diff(upper_ns) > 0).all()
        share = latency.cdf()[1]
        assert share[-1] == 1.0
        for name, quantile in (("p50_ns", 0.5), ("p99_ns", 0.99), ("p9999_ns", 0.9999)):
            assert latency.quantile_ns(quantile) == pytest.approx(latency.record[name], rel=0.01), (kind, name)
        with pytest.raises(ftlkit.InputError, match="a quantile of 2 is impossible"):
            latency.quantile_ns(2)
    assert "trim" not in phase.latency


def test_a_series_is_a_table(runs: ftlkit.Runs) -> None:
    phase = runs["dftl"].phases[0]
    series = phase.series.to_polars()
    assert series["requests"].sum() == sum(found["completed"] for found in phase.record["requests"].values())
    assert series["t_ns"].is_sorted()


def test_lists_name_what_there_is() -> None:
    schemes = {scheme["name"]: scheme for scheme in ftlkit.schemes()}
    assert {"page", "dftl", "tpftl", "learnedftl", "leaftl"} <= set(schemes)
    assert schemes["tpftl"]["parameters"][0]["name"]
    assert "tpftl-512m" in ftlkit.devices()
    assert "financial1" in {generator["name"] for generator in ftlkit.workloads()}


def test_a_phase_is_found_by_its_name(runs: ftlkit.Runs) -> None:
    phase: Any = runs[0].phase("financial1")
    assert phase.write_amplification >= 1
    assert phase.flash["host"]["programs"] == phase.record["pages_written"]
    with pytest.raises(ftlkit.InputError, match="there is no phase x; there are financial1"):
        runs[0].phase("x")


def test_text_stays_text_and_types_are_the_same_for_all_runs() -> None:
    job = "[{}]\nrw=write\nbs=4k\nsize=1m\n"
    quick: Any = {"device": "tpftl-512m", "warm_up": "none"}
    page, dftl = ftlkit.run("page", jobs=job.format("007"), **quick), ftlkit.run("dftl", **QUICK)
    tables = [run.to_polars() for run in (page, dftl)]
    assert pl.concat(tables).height == 2
    assert tables[0].schema == tables[1].schema
    assert [str(tables[0].schema[name]) for name in ("digest", "phase", "iops", "trim_p99_ns", "read_p50_ns")] == [
        "String",
        "String",
        "Float64",
        "Int64",
        "Int64",
    ]
    assert tables[0]["phase"].to_list() == ["007"]
    assert tables[0]["digest"].to_list() == [page.digest]
    assert (page.to_pandas()["trim_p99_ns"] / 1e3).isna().all()


def test_stored_runs_are_equal_to_what_was_stored(runs: ftlkit.Runs, tmp_path: Path) -> None:
    runs.save(tmp_path / "runs.json")
    assert ftlkit.load(tmp_path / "runs.json") == runs
    assert runs[:2] != runs
    first: Any = np.int64(0)
    assert runs[first] == runs[0]


def test_the_json_of_size_holds_runs(tmp_path: Path) -> None:
    sizes = ftlkit.size("dftl", caches=(share for share in ("1%", "3%")), **QUICK)
    (tmp_path / "sizes.json").write_text(json.dumps(sizes.record))
    assert ftlkit.load(tmp_path / "sizes.json") == sizes.runs
    types = {str(kind) for kind in sizes.table().to_arrow().schema.types}
    assert types == {"string", "int64", "double"}


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    whole = ftlkit.run("page", **QUICK).to_arrow()
    pq.write_table(whole, tmp_path / "t.parquet")
    data = bytearray((tmp_path / "t.parquet").read_bytes())
    data[100 : len(data) // 2] = bytes(len(data) // 2 - 100)
    (tmp_path / "t.parquet").write_bytes(data)
    with pytest.raises(ftlkit.InputError, match="not Parquet"):
        ftlkit.load_table(tmp_path / "t.parquet")
