from __future__ import annotations

import csv
import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT

import ftlkit

TRACE = ROOT / "examples/oltp-sample.spc"
DEVICE: Any = {"device": "tpftl-512m", "warm_up": "none"}


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    """The sample trace, read by Python."""
    with TRACE.open() as file:
        rows = [row for row in csv.reader(file) if row]
    return {
        "time": np.array([round(float(row[4]) * 1e9) for row in rows]),
        "op": np.array([row[3] for row in rows]),
        "lba": np.array([int(row[1]) for row in rows]),
        "size": np.array([int(row[2]) for row in rows]),
    }


def test_columns_are_the_trace(columns: dict[str, Any]) -> None:
    trace = ftlkit.run("tpftl", trace=TRACE, **DEVICE)
    ours = ftlkit.run("tpftl", frame=columns, **DEVICE)
    assert ours.digest == trace.digest
    assert [phase.elapsed_ns for phase in ours.phases] == [phase.elapsed_ns for phase in trace.phases]


def frames(columns: dict[str, Any]) -> list[Any]:
    chunked = pa.concat_tables([pa.table(columns).slice(0, 100), pa.table(columns).slice(100)])
    strided = {name: np.repeat(values, 2)[::2] for name, values in columns.items()}
    return [pl.DataFrame(columns), pd.DataFrame(columns), pa.table(columns), chunked, strided]


def test_every_library_gives_the_same(columns: dict[str, Any]) -> None:
    digest = ftlkit.run("dftl", frame=columns, **DEVICE).digest
    for frame in frames(columns):
        assert ftlkit.run("dftl", frame=frame, **DEVICE).digest == digest


def test_lazy_frames_batches_readers_and_records_are_frames_too(columns: dict[str, Any]) -> None:
    digest = ftlkit.run("dftl", frame=columns, **DEVICE).digest
    fromarrays: Any = np.rec.fromarrays
    records = fromarrays(list(columns.values()), names=list(columns))
    table, plain = pa.table(columns), pd.DataFrame(columns)
    moments = pd.to_datetime(plain["time"], utc=True)
    for frame in (
        pl.DataFrame(columns).with_columns(other=pl.lit(1)).lazy(),
        table.combine_chunks().to_batches()[0],
        table.to_reader(),
        records,
        plain.set_index("time"),
        plain.set_index(pd.Index(np.arange(len(plain))[::-1] * 7)),
        plain.assign(time=moments),
    ):
        assert ftlkit.run("dftl", frame=frame, **DEVICE).digest == digest, type(frame)


def test_missing_values_are_named(columns: dict[str, Any]) -> None:
    plain = pd.DataFrame(columns)
    there = plain.index != 5
    moments = pd.to_datetime(plain["time"])
    for frame in (
        plain.assign(time=moments.where(there)),
        plain.assign(size=plain["size"].astype("Int64").where(there)),
    ):
        with pytest.raises(ftlkit.InputError, match=r"frame: 1 values of (time|size) are null; leave those rows out"):
            ftlkit.run("dftl", frame=frame, **DEVICE)
    never = columns | {"time": np.full(len(plain), np.datetime64("NaT", "ns"))}
    with pytest.raises(ftlkit.InputError, match="time holds values that are no times"):
        ftlkit.run("dftl", frame=never, **DEVICE)


def test_columns_may_be_called_and_written_otherwise(columns: dict[str, Any]) -> None:
    run = ftlkit.run("dftl", frame=columns, **DEVICE)
    moments = np.datetime64("2026-01-01") + columns["time"].astype("timedelta64[ns]")
    is_write = np.char.lower(columns["op"]) == "w"
    others = {"Timestamp": moments, "kind": is_write, "offset": columns["lba"] * 512, "bytes": columns["size"]}
    assert ftlkit.run("dftl", frame=others, **DEVICE).digest == run.digest
    seconds = columns | {"time": columns["time"] / 1e9, "op": is_write.astype(np.int32)}
    assert ftlkit.run("dftl", frame=seconds, **DEVICE).digest == run.digest


def test_without_times_the_loop_is_closed(columns: dict[str, Any]) -> None:
    untimed = {name: values for name, values in columns.items() if name != "time"}
    run = ftlkit.run("dftl", frame=untimed, **DEVICE)
    assert "closed loop of depth 32" in run.workload["name"]
    assert run.digest == ftlkit.run("dftl", trace=TRACE, mode="closed", **DEVICE).digest


def test_options_of_a_replay_hold_for_columns(columns: dict[str, Any]) -> None:
    for options in (
        {"time_scale": 0.5},
        {"warm_up_requests": 1000},
        {"mode": "closed", "depth": 4},
        {"address": "scale", "export": "100MiB"},
        {"address": "wrap", "export": "100MiB"},
    ):
        given: Any = DEVICE | options
        ours, trace = ftlkit.run("dftl", frame=columns, **given), ftlkit.run("dftl", trace=TRACE, **given)
        assert ours.digest == trace.digest, options
        assert ours.phases[0].iops == trace.phases[0].iops, options


ONE: Any = {"time": [1, 2], "op": ["R", "W"], "lba": [8, 16], "size": [4096, 4096]}
ERRORS: list[tuple[Any, str]] = [
    ({"size": None}, "there is no column size; there are time, op, lba"),
    ({"op": None, "lba": None}, "there is no column op, lba or offset; there are time, size"),
    ({"size": [4096, -1]}, "row 1: its size is -1 bytes; give a whole number from 1"),
    ({"size": [4096]}, "the columns differ in length"),
    ({"lba": [-8, 8]}, "row 0: its place, -8 x 512 bytes, is negative"),
    ({"lba": [1 << 62, 8]}, "row 0: its place"),
    ({"lba": ["a", "b"]}, "lba holds <U1; give whole numbers"),
    ({"lba": [0.5, 1]}, "lba holds numbers that are not whole"),
    ({"op": ["R", "X"]}, "'X' in op is no kind of request; write read, write, trim or flush"),
    ({"op": [0, 7]}, "'7' in op is no kind of request"),
    ({"time": [5, 3]}, "row 1: its time, 3 ns, is before that of the first row"),
    ({"time": [1, 9, 8], "op": "RRR", "lba": [8] * 3, "size": [8] * 3}, "row 2: its time is before that of the row"),
    ({"time": [0.0, float("nan")]}, "time holds values that are no times"),
    ({"time": [], "op": [], "lba": [], "size": []}, "there is no request to run: the columns are empty"),
    ({"lba": [[8], [8]]}, "lba has 2 dimensions; give one"),
]


@pytest.mark.parametrize(("change", "sentence"), ERRORS)
def test_a_mistake_names_column_and_row(change: dict[str, Any], sentence: str) -> None:
    given = {name: values for name, values in (ONE | change).items() if values is not None}
    given = {name: list(values) for name, values in given.items()}
    with pytest.raises(ftlkit.InputError) as raised:
        ftlkit.run("page", frame=given, **DEVICE)
    assert sentence in str(raised.value)


def test_other_mistakes() -> None:
    with pytest.raises(ftlkit.InputError, match="int has no named columns; give a dict of arrays"):
        ftlkit.run("page", frame=3, **DEVICE)
    nulls = pa.table(ONE | {"size": [4096, None]})
    with pytest.raises(ftlkit.InputError, match="1 values of size are null; leave those rows out"):
        ftlkit.run("page", frame=nulls, **DEVICE)
    with pytest.raises(ftlkit.InputError, match="is one workload and"):
        ftlkit.run("page", frame=ONE, synth="financial1", **DEVICE)
    with pytest.raises(ftlkit.InputError, match="rows is for a trace"):
        ftlkit.run("page", frame=ONE, rows="0..1", **DEVICE)
    with pytest.raises(ftlkit.InputError, match="frame reaches"):
        ftlkit.run("page", frame=ONE | {"lba": [8, 1 << 40]}, **DEVICE)


def test_large_columns_are_read_where_they_lie() -> None:
    rows = 2_000_000
    columns = {
        "time": np.arange(rows, dtype=np.int64) * 1000,
        "op": np.zeros(rows, dtype=np.uint8).view(np.bool_),
        "lba": np.zeros(rows, dtype=np.int64),
        "size": np.full(rows, 4096, dtype=np.int64),
    }
    from ftlkit._frame import _array, _kinds, _times, _whole

    for name, of in (("time", _times), ("op", _kinds), ("lba", _whole), ("size", _whole)):
        for frame in (columns, pl.DataFrame(columns), pa.table(columns)):
            if name == "op" and not isinstance(frame, dict):
                continue  # truth values are bits there
            array = _array(frame, name)
            assert np.shares_memory(of(name, array), array), (name, type(frame))
    assert len(ftlkit._frame.requests_of(columns)[0]) == rows


def test_a_frame_is_no_first_look(columns: dict[str, Any], recwarn: pytest.WarningsRecorder) -> None:
    run = ftlkit.run("page", frame=columns, warm_up="none")
    assert run.device["pages_per_block"] == ftlkit.run("page", trace=TRACE, warm_up="none").device["pages_per_block"]
    assert not [note for note in recwarn if "first look" in str(note.message)]


def test_masked_values_are_missing_ones(columns: dict[str, Any]) -> None:
    mask = np.zeros(len(columns["lba"]), dtype=bool)
    whole: Any = np.ma.array(columns["lba"], mask=mask)
    digest = ftlkit.run("dftl", frame=columns, **DEVICE).digest
    assert ftlkit.run("dftl", frame=columns | {"lba": whole}, **DEVICE).digest == digest
    mask[3] = True
    gaps: Any = np.ma.array(columns["lba"], mask=mask)
    with pytest.raises(ftlkit.InputError, match="1 values of lba are null"):
        ftlkit.run("dftl", frame=columns | {"lba": gaps}, **DEVICE)


@pytest.mark.filterwarnings("error")
def test_numbers_that_64_bits_cannot_hold_are_refused(columns: dict[str, Any]) -> None:
    count = len(columns["lba"])
    for name, values, sentence in (
        ("lba", [2**63, *[0] * (count - 1)], "lba holds numbers from 2\\*\\*63 up"),
        ("lba", [2.0**70] * count, "lba holds numbers from 2\\*\\*63 up"),
        ("lba", [2**70] * count, "lba holds object; give whole numbers"),
        ("time", np.linspace(0, 1e30, count), "time holds times that 64 bits of nanoseconds cannot hold"),
        ("time", np.full(count, 2**62, dtype="timedelta64[s]"), "time holds times that 64 bits"),
    ):
        with pytest.raises(ftlkit.InputError, match=sentence):
            ftlkit.run("dftl", frame=columns | {name: values}, **DEVICE)
    halves = np.linspace(0, 1000, count).astype(np.float16)
    wide = halves.astype(np.float64)
    ours, theirs = (ftlkit.run("dftl", frame=columns | {"time": time}, **DEVICE) for time in (halves, wide))
    assert ours.same_findings(theirs)


def test_kinds_may_be_whole_numbers_of_any_width(columns: dict[str, Any]) -> None:
    digest = ftlkit.run("dftl", frame=columns, **DEVICE).digest
    kinds = np.where(np.char.lower(columns["op"]) == "r", 0, 1)
    for dtype in (np.int64, np.uint8, np.int16):
        assert ftlkit.run("dftl", frame=columns | {"op": kinds.astype(dtype)}, **DEVICE).digest == digest
    for wrong in (-1, 4):
        with pytest.raises(ftlkit.InputError, match=f"'{wrong}' in op is no kind of request"):
            ftlkit.run("dftl", frame=columns | {"op": np.where(kinds == 0, wrong, 1)}, **DEVICE)


def test_frames_of_every_make_are_read(columns: dict[str, Any]) -> None:
    digest = ftlkit.run("dftl", frame=columns, **DEVICE).digest
    plain = pd.DataFrame(columns)
    moments = pd.to_datetime(plain["time"], utc=True)
    arrow = pd.Series(pa.array(columns["time"]).cast(pa.timestamp("ns", "UTC")), dtype=None).astype(
        pd.ArrowDtype(pa.timestamp("ns", "UTC"))
    )
    for frame in (
        plain.set_index("time", drop=False),
        columns | {"time": pd.DatetimeIndex(moments), "lba": pd.Index(columns["lba"])},
        plain.assign(time=arrow),
        columns | {"lba": [int(lba) for lba in columns["lba"]], "size": columns["size"].astype(object)},
        ftlkit.requests(frame=columns, **DEVICE),
    ):
        assert ftlkit.run("dftl", frame=frame, **DEVICE).digest == digest
    spans = [datetime.timedelta(microseconds=20 * at) for at in range(len(plain))]
    dates = [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + span for span in spans]
    first, second = (ftlkit.run("dftl", frame=columns | {"time": time}, **DEVICE) for time in (spans, dates))
    assert first.same_findings(second)


def test_what_is_no_frame_is_named(columns: dict[str, Any]) -> None:
    plain = pd.DataFrame(columns)
    twice = pa.table([pa.array([0])] * 4, names=["op", "lba", "size", "lba"])
    for frame, sentence in (
        (plain["lba"], "Series has no named columns"),
        (twice, "there are 2 columns lba; give one"),
        (plain.groupby("op"), "cannot be read as a column|has no named columns|dimensions"),
    ):
        with pytest.raises(ftlkit.InputError, match=sentence):
            ftlkit.run("dftl", frame=frame, **DEVICE)


def test_the_table_of_requests_is_a_trace(columns: dict[str, Any], tmp_path: Any) -> None:
    table = ftlkit.requests(frame=columns, **DEVICE)
    pq.write_table(table.to_arrow(), tmp_path / "requests.parquet")
    run = ftlkit.run("dftl", trace=tmp_path / "requests.parquet", **DEVICE)
    assert run.digest == ftlkit.run("dftl", frame=columns, **DEVICE).digest


def test_notes_of_requests_point_at_the_call() -> None:
    with pytest.warns(ftlkit.Note) as notes:
        ftlkit.requests(trace=TRACE)
    assert notes[0].filename == __file__
    with pytest.raises(ftlkit.InputError, match="most: -1 is too small"):
        ftlkit.requests(trace=TRACE, most=-1, **DEVICE)
