from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import distributed
import numpy as np
import pytest
from conftest import ROOT
from distributed import Client, LocalCluster, as_completed

import ftlkit

if TYPE_CHECKING:
    from collections.abc import Iterator

SAMPLE = ROOT / "examples/oltp-sample.spc"


def write(path: Path, requests: int = 20_000) -> Path:
    """A study of 48 points: three schemes, four caches, two seeds, two workloads."""
    ftlkit.Study.create(
        path,
        title="caches",
        schemes=["page", "dftl", "tpftl"],
        cross={"cache": ["1%", "2%", "4%", 65536]},
        options={"device": "tpftl-512m", "warm_up": "none"},
        workloads={
            "oltp": {"synth": "financial1", "requests": requests},
            "recorded": {"trace": SAMPLE, "mode": "closed"},
        },
        seeds=2,
        show=["iops", "hit_ratio", "write_amplification"],
    )
    return path


def table_of(folder: Path) -> bytes:
    return (folder / "table.csv").read_bytes()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> ftlkit.StudyResults:
    path = write(tmp_path_factory.mktemp("local") / "caches.toml")
    return ftlkit.Study(path).run()


def test_a_study_has_the_points_of_its_file(local: ftlkit.StudyResults) -> None:
    study = local.study
    assert len(study.points) == 48
    assert [point.number for point in study.points] == list(range(1, 49))
    assert study.points[0].label == "page workload=oltp cache=1% seed=1"
    assert study.points[0].options["synth"] == "financial1"
    assert len(local.runs) == 48
    assert not local.failed
    assert not local.missing
    assert repr(local) == "<caches: 48 of 48 points>"
    table, summary = local.table().to_polars(), local.summary().to_polars()
    assert table.height == 48
    assert summary.height == 24
    assert (summary["points"] == 2).all()
    first = table.filter((table["scheme"] == "page") & (table["workload"] == "oltp") & (table["cache"] == "1%"))
    assert summary["iops"][0] == pytest.approx(first["iops"].mean())
    assert summary["iops_half_width"][0] > 0
    assert ftlkit.load_table(study.results_folder).to_polars().equals(table)
    assert len(ftlkit.load(study.results_folder)) == 48


def test_the_command_gives_the_same_table_and_goes_on_with_the_folder(
    local: ftlkit.StudyResults, ftl: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "caches.toml")
    subprocess.run([ftl, "study", path, "--quiet", "--point", "1,2,3,4,5"], check=True, stdout=subprocess.DEVNULL)
    study = ftlkit.Study(path)
    before = study.results()
    assert len(before.runs) == 5
    assert len(before.missing) == 43
    stored = {file: file.stat().st_mtime_ns for file in (study.results_folder / "points").iterdir()}
    study.run()
    assert table_of(study.results_folder) == table_of(local.study.results_folder)
    assert all(file.stat().st_mtime_ns == written for file, written in stored.items())
    again = tmp_path / "again"
    subprocess.run([ftl, "study", path, "--quiet", "--results", again], check=True, stdout=subprocess.DEVNULL)
    assert table_of(again) == table_of(local.study.results_folder)


def test_dask_gives_the_same_table_when_a_worker_is_killed(
    local: ftlkit.StudyResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = ftlkit.Study(write(tmp_path / "caches.toml", requests=20_000))
    killed = []
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def completed(futures: list[Any]) -> Iterator[Any]:
            """Kills a worker when the study hears of a point that it has run, and holds the result of."""
            for count, future in enumerate(as_completed(futures)):
                if count == 3:
                    (holder,) = client.who_has([future])[future.key]
                    killed.append(client.run(os.getpid, workers=[holder])[holder])
                    os.kill(killed[0], signal.SIGKILL)
                    while future.status == "finished":
                        time.sleep(0.01)
                yield future

        monkeypatch.setattr(distributed, "as_completed", completed)
        results = study.run(client=client)
        assert killed[0] not in client.run(os.getpid).values()
    assert not results.failed
    assert len(results.runs) == 48
    assert table_of(study.results_folder) == table_of(local.study.results_folder)


def test_files_are_shipped_and_an_address_is_as_good_as_a_client(local: ftlkit.StudyResults, tmp_path: Path) -> None:
    path = write(tmp_path / "caches.toml")
    numbers = [point.number for point in ftlkit.Study(path).points if "trace" in point.options][:4]
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        results = ftlkit.Study(path).run(client=cluster.scheduler_address, points=numbers, ship=True)
    assert len(results.runs) == 4
    assert str(SAMPLE) not in {run.workload["source"] for run in results.runs}
    whole = {(run.scheme, run.memory["cache_bytes"], run.workload["seed"]): run.digest for run in local.runs
             if run.workload["source"] == str(SAMPLE)}  # fmt: skip
    for run in results.runs:
        assert whole[run.scheme, run.memory["cache_bytes"], run.workload["seed"]] == run.digest


@pytest.mark.parametrize("where", ["here", "dask"])
def test_a_failed_point_is_named_and_ends_nothing(tmp_path: Path, where: str) -> None:
    study = ftlkit.Study.create(
        tmp_path / "mixed.toml",
        schemes=["page", "dftl"],
        cross={"trace": [SAMPLE, tmp_path / "missing.spc"]},
        options={"device": "tpftl-512m", "warm_up": "none"},
    )
    if where == "here":
        results = study.run()
    else:
        with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
            results = study.run(client=client)
    assert len(results.runs) == 2
    assert [failure.point.scheme for failure in results.failed] == ["page", "dftl"]
    assert results.failed[0].point.options["trace"].endswith("missing.spc")
    assert "missing.spc: the trace cannot be read" in results.failed[0].reason
    assert "2 of 4 points, 2 failed; point" in repr(results)
    assert results.table().to_polars()["status"].to_list().count("failed") == 2


def test_without_dask_a_study_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = ftlkit.Study(write(tmp_path / "caches.toml"))
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"dask is not installed: pip install 'ftlkit\[dask\]'"):
        study.run(client="tcp://127.0.0.1:1")
    assert not study.results().runs


def test_ctrl_c_keeps_what_has_ended_and_the_study_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path / "caches.toml", requests=150_000)
    code = f"import ftlkit; ftlkit.Study({os.fspath(path)!r}).run(threads=1)"
    points = path.with_suffix(".results") / "points"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
        while not points.is_dir() or len(list(points.glob("*.json"))) < 2:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, errors = process.communicate(timeout=30)
        assert time.monotonic() - began < 3
    assert b"KeyboardInterrupt" in errors
    kept = ftlkit.Study(path).results()
    assert 2 <= len(kept.runs) < 48
    whole = ftlkit.Study(path).run(points=[point.number for point in kept.missing[:2]])
    assert len(whole.runs) == len(kept.runs) + 2


def test_a_mistake_in_a_study_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ftlkit.FileError, match="cannot be read"):
        ftlkit.Study(tmp_path / "none.toml")
    with pytest.raises(ftlkit.InputError, match="the study has no point"):
        ftlkit.Study.create(tmp_path / "empty.toml")
    with pytest.raises(ftlkit.InputError, match=r"there is no option cahce; did you mean cache\?"):
        ftlkit.Study.create(tmp_path / "x.toml", schemes=["page"], cross={"cahce": [1]})
    with pytest.raises(ftlkit.InputError, match="there is no scheme `pgae`"):
        ftlkit.Study.create(tmp_path / "x.toml", schemes=["pgae"])
    with pytest.raises(ftlkit.InputError, match="device: a dict is for a run; a study names a preset"):
        ftlkit.Study.create(tmp_path / "x.toml", schemes=["page"], options={"device": ftlkit.device("tpftl-512m")})
    study = ftlkit.Study.create(tmp_path / "one.toml", schemes=["page"], options={"device": "tpftl-512m"})
    with pytest.raises(ftlkit.InputError, match="there is no point 7; the study has points 1 to 1"):
        study.run(points=[1, 7])
    study.results_folder.joinpath("points").mkdir(parents=True, exist_ok=True)
    (study.results_folder / "points" / f"{study.points[0].id}.json").write_text("{")
    with pytest.raises(ftlkit.InputError, match=r"is no result of a point .* remove it"):
        study.results()


def test_size_finds_what_the_command_finds(ftl: str) -> None:
    options: Any = {"synth": "financial1", "requests": 20_000, "device": "tpftl-512m"}
    ours = ftlkit.size("dftl,tpftl", caches=["1%", "8KiB", 65536], within=0.5, **options)
    words = ["--synth", "financial1", "--requests", "20000", "--device", "tpftl-512m", "--within", "50%"]
    command = [ftl, "size", *words, "--schemes", "dftl,tpftl", "--caches", "1%,8KiB,64KiB", "--json", "-", "--quiet"]
    theirs = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert ours.points == theirs["points"]
    assert ours.lru == theirs["lru"]
    assert ours.smallest == dict(theirs["smallest_near_ideal"])
    assert len(ours.runs) == 7
    assert ours.table().to_polars().height == 6
    assert repr(ours).startswith("dftl: ")
    with pytest.raises(ftlkit.InputError, match="leave cache out"):
        ftlkit.size("dftl", cache="1%", **options)
    with pytest.raises(ftlkit.InputError, match="no scheme can run with any of these caches"):
        ftlkit.size("dftl", caches=[520], **options)
    with pytest.warns(ftlkit.Note, match="left out: scheme dftl"):
        ftlkit.size("dftl", caches=[520, "64KiB"], **options)


def test_values_of_a_study_may_be_what_python_has_for_them(tmp_path: Path) -> None:
    schemes: Any = np.array(["page", "dftl"])
    options: Any = {"device": "tpftl-512m", "warm_up": "none", "synth": "financial1", "requests": 10}
    study = ftlkit.Study.create(
        tmp_path / "x.toml",
        schemes=schemes,
        cross={"cache": "3%"},
        options=options,
        seeds=np.arange(1, 3),
        show="iops",
    )
    assert [(point.scheme, point.seed) for point in study.points] == [
        ("page", 1),
        ("page", 2),
        ("dftl", 1),
        ("dftl", 2),
    ]
    seeds: Any = np.int64(2)
    assert (
        len(ftlkit.Study.create(tmp_path / "y.toml", schemes="page, dftl", options=options, seeds=seeds).points) == 4
    )
    for wrong, sentence in (
        ({"cross": {"rewrite": [None, "30s"]}}, "cross: rewrite has None"),
        ({"seeds": "two"}, "seeds: 'two' is neither a whole number nor a list"),
        ({"schemes": [ftlkit.Mapping]}, "is no name of a scheme"),
    ):
        arguments: Any = {"schemes": ["page"]} | wrong
        with pytest.raises(ftlkit.InputError, match=sentence):
            ftlkit.Study.create(tmp_path / "z.toml", **arguments)


def test_what_is_no_study_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "caches.toml")
    before = path.read_text()
    with pytest.raises(ftlkit.InputError, match="there is no scheme `pgae`") as raised:
        ftlkit.Study.create(path, schemes=["pgae"])
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]
    assert f".{os.getpid()}" not in str(raised.value)


@pytest.mark.parametrize("where", ["here", "dask"])
def test_a_study_holds_in_any_folder(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample.spc").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "else").mkdir()
    options: Any = {"device": "tpftl-512m", "warm_up": "none", "trace": "sample.spc"}
    study = ftlkit.Study.create("x.toml", schemes=["page"], options=options)
    if where == "dask":
        with Client(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as client:
            client.run(os.chdir, os.fspath(tmp_path / "else"))
            assert not study.run(client=client).failed
    else:
        study.run()
    monkeypatch.chdir(tmp_path / "else")
    assert len(study.results().runs) == 1


def test_the_types_of_a_summary_depend_on_no_value(tmp_path: Path) -> None:
    study = ftlkit.Study.create(tmp_path / "x.toml", schemes=["page"], options={"device": "tpftl-512m"})
    types = study.results().summary().to_arrow().schema
    assert {str(kind) for kind in types.types} == {"string", "int64", "double"}
