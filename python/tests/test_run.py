from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from conftest import QUICK, ROOT, interrupted

import ftlkit
from ftlkit import _ftlkit, _options, _progress

LONG: Any = {
    "device": "tpftl-512m",
    "synth": "financial1",
    "requests": 500_000_000,
    "warm_up": "none",
    "timing": "none",
}


def test_every_option_of_rust_is_a_typed_keyword_and_no_other() -> None:
    assert _options.names_of_rust() == frozenset(ftlkit.Options.__annotations__)
    assert {"cache", "from_", "host_overhead_us", "warm_up"} <= frozenset(ftlkit.Options.__annotations__)


def test_every_option_has_a_doc() -> None:
    lines = (ROOT / "python/ftlkit/_options.py").read_text().splitlines()
    for name in ftlkit.Options.__annotations__:
        at = next(at for at, line in enumerate(lines) if line.startswith(f"    {name}: "))
        assert lines[at + 1].lstrip().startswith('"""'), name


@pytest.mark.parametrize("scheme", ["page", "tpftl:techniques=rs"])
def test_a_run_finds_what_the_command_finds(ftl: str, scheme: str) -> None:
    options = ["--device", "tpftl-512m", "--synth", "financial1", "--requests", "3000", "--warm-up", "none"]
    extra = ["--cache", "5%", "--faults", "program=20", "--quiet", "--json", "-"]
    command = subprocess.run([ftl, "run", scheme, *options, *extra], capture_output=True, check=True, text=True)
    ours = ftlkit.run(scheme, cache="5%", faults={"program": 20}, **QUICK)
    (theirs,) = (ftlkit.Run(text) for text in _ftlkit.read_json(command.stdout))
    assert ours.same_findings(theirs)
    assert ours.digest != ftlkit.run(scheme, cache="5%", faults={"program": 20}, seed=2, **QUICK).digest


def test_values_may_be_what_python_has_for_them() -> None:
    import datetime

    import numpy as np

    trace = ROOT / "examples/oltp-sample.spc"
    seed: Any = {"seed": np.int64(1)}
    words = ftlkit.run("dftl", trace=str(trace), device="tpftl-512m", warm_up="none", rows="10..2000", until="30s")
    until = datetime.timedelta(seconds=30)
    python = ftlkit.run("dftl", trace=trace, device="tpftl-512m", warm_up="none", rows=range(10, 2000), until=until)
    assert words.same_findings(python)
    assert words.same_findings(
        ftlkit.run("dftl", trace=trace, device="tpftl-512m", warm_up="none", rows=(10, 2000), until="30s", **seed)
    )
    again = ftlkit.run(
        "dftl", trace=trace, device="tpftl-512m", warm_up="none", rows=(10, 2000), from_="1s", until="30s"
    )
    assert not words.same_findings(again)


def test_compare_keeps_the_order_and_runs_each_as_alone() -> None:
    runs = ftlkit.compare("tpftl, page ,dftl", threads=2, **QUICK)
    assert runs.labels == ["tpftl", "page", "dftl"]
    for run in runs:
        assert run.same_findings(ftlkit.run(run.scheme, **QUICK))


ERRORS: list[tuple[str, dict[str, Any], type[ftlkit.FtlError], type[Exception], str]] = [
    ("dftk", {}, ftlkit.InputError, ValueError, "there is no scheme `dftk`; there are page, dftl"),
    ("dftl:entries=3", {}, ftlkit.InputError, ValueError, "has no parameter `entries`; it has protected"),
    ("dftl", {"export": -5}, ftlkit.InputError, ValueError, "export: `-5` is no size; write bytes"),
    ("dftl", {"requests": -3}, ftlkit.InputError, ValueError, "requests: `-3` is no whole number from 1 up"),
    ("dftl", {"cahce": "3%"}, ftlkit.InputError, ValueError, "there is no option cahce; did you mean cache?"),
    ("dftl", {"cache": "much"}, ftlkit.InputError, ValueError, "cache: `much` is no cache size"),
    ("dftl", {"cache": "100"}, ftlkit.InputError, ValueError, "dftl"),
    ("dftl", {"device": "femu"}, ftlkit.InputError, ValueError, "device `femu`: no preset has this name"),
    (
        "dftl",
        {"mode": "fast"},
        ftlkit.InputError,
        ValueError,
        "mode: `fast` is not possible; it is one of open, closed",
    ),
    ("dftl", {"seed": object()}, ftlkit.InputError, ValueError, "an option is neither text nor a number"),
    (
        "dftl",
        {"synth": None, "trace": "/nowhere/x"},
        ftlkit.FileError,
        OSError,
        "/nowhere/x: the trace cannot be read",
    ),
    ("dftl", {"synth": None, "trace": "/"}, ftlkit.FileError, OSError, "/: the trace cannot be read"),
]


@pytest.mark.parametrize(("scheme", "options", "ours", "python", "sentence"), ERRORS)
def test_a_mistake_is_one_clear_sentence(
    scheme: str, options: dict[str, Any], ours: type[Exception], python: type[Exception], sentence: str
) -> None:
    given: dict[str, Any] = QUICK | options
    if "trace" in given:
        del given["requests"]
    with pytest.raises(ours) as raised:
        ftlkit.run(scheme, **given)
    assert isinstance(raised.value, (ftlkit.FtlError, python))
    text = str(raised.value)
    assert sentence in text
    assert "\n" not in text


def test_a_trace_that_is_none_is_told_with_the_formats(tmp_path: Any) -> None:
    (tmp_path / "x.csv").write_text("what is this\n")
    with pytest.raises(
        ftlkit.InputError, match=r"x\.csv: the trace's format is not recognised: neither a header nor"
    ):
        ftlkit.run("dftl", trace=tmp_path / "x.csv")


@pytest.mark.parametrize("rows", [range(0, 10, 2), (1, 2, 3)])
def test_rows_that_are_no_range_are_told(rows: Any) -> None:
    with pytest.raises(ftlkit.InputError, match=r"rows: .* is no range of rows; give range\(A, B\)"):
        ftlkit.run("dftl", trace="x.spc", rows=rows)


def test_what_is_not_installed_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = ftlkit.compare("page", **QUICK)
    wanted: list[tuple[str, str, Any]] = [
        ("polars", "polars", runs.to_polars),
        ("pandas", "pandas", runs[0].to_pandas),
        ("plotly.graph_objects", "plotly", lambda: ftlkit.plot.bars(runs, backend="plotly")),
    ]
    for module, name, asks in wanted:
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf"{name} is not installed: pip install 'ftlkit\[{name}\]'"):
            asks()


def test_lists_of_schemes_are_checked() -> None:
    for schemes, sentence in (([], "there is no scheme to run"), ("dftl,dftl", "dftl twice")):
        with pytest.raises(ftlkit.InputError, match=sentence):
            ftlkit.compare(schemes, **QUICK)
    with pytest.raises(ftlkit.InputError, match="threads: 0 is too small; give a whole number from 1 up"):
        ftlkit.compare("dftl", threads=0, **QUICK)


def test_a_device_that_wears_out_ends_its_run_with_a_result() -> None:
    worn: Any = {"faults": "erase=900000", "warm_up": "fill", "device": "tpftl-512m", "synth": "financial1"}
    runs = ftlkit.run("page", requests=400_000, **worn)
    assert runs.record["worn_out"]["bad_blocks"] > 0


def test_notes_are_warnings(tmp_path: Any) -> None:
    trace = tmp_path / "x.spc"
    rows = (ROOT / "examples/oltp-sample.spc").read_text().splitlines()[:500]
    trace.write_text("\n".join([*rows[:400], "nonsense", *rows[400:]]) + "\n")
    with pytest.warns(ftlkit.Note, match="1 of 501 rows are not understood and left out"):
        ftlkit.run("page", trace=trace, device="tpftl-512m", warm_up="none")


def test_python_goes_on_while_a_run_is_under_way() -> None:
    counted, done = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    ftlkit.run("page", **(QUICK | {"requests": 300_000}))
    took = time.monotonic() - began
    done.set()
    thread.join()
    assert counted > 100 * took


def test_ctrl_c_stops_a_run_promptly() -> None:
    program = f"import ftlkit; print('begun', flush=True); ftlkit.compare('page,dftl', **{LONG!r})"
    code, errors = interrupted(program, after=1, within=2)
    assert code == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_listener_that_raises_stops_the_run() -> None:
    ready = _ftlkit.prepare(_options.encode(LONG))

    def tell(*_: object) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        ready.run([("page", "")], None, tell)


def test_progress_tells_of_every_phase_and_of_the_end() -> None:
    told: list[tuple[int, int, int, str, float, bool]] = []
    ready = _ftlkit.prepare(_options.encode(QUICK | {"warm_up": "fill", "requests": 200_000}))
    ready.run([("page", ""), ("dftl", "")], 2, lambda *far: told.append(far))
    assert {far[0] for far in told if far[5]} == {0, 1}
    assert all(0 <= far[4] <= 1 and far[1] < far[2] for far in told)


def test_bars_are_shown_when_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(_progress, "QUICK_SECONDS", 0)
    # The notebooks' tests bring Jupyter into this process.
    monkeypatch.setattr(_progress, "_has_one_line", lambda: False)
    with _progress.Bars(["dftl"], True) as bars:
        for done, phase in ((0.2, 0), (0.9, 0), (0.1, 1), (1.0, 1)):
            bars.tell(0, phase, 2, "fill: writes", done, done == 1)
    assert "dftl" in (shown := capsys.readouterr().err)
    assert "1/2 fill" in shown
    assert "ended" in shown
    with _progress.Bars(["dftl"], False) as bars:
        bars.tell(0, 0, 1, "fill", 0.5, False)
    assert not capsys.readouterr().err


def test_jupyter_without_widgets_has_one_bar(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(_progress, "QUICK_SECONDS", 0)
    monkeypatch.setattr(_progress, "_has_one_line", lambda: True)
    with _progress.Bars(["dftl", "page"], True) as bars:
        bars.tell(0, 0, 2, "fill", 0.5, False)
        bars.tell(1, 1, 2, "fill", 1.0, True)
    shown = capsys.readouterr().err
    assert "runs" in shown
    assert "of 2" in shown
    assert "dftl" not in shown


def test_a_device_may_be_a_dict(tmp_path: Any) -> None:
    same: Any = QUICK | {"device": ftlkit.device("tpftl-512m")}
    assert ftlkit.run("dftl", **same).same_findings(ftlkit.run("dftl", **QUICK))
    slow: Any = ftlkit.device("tpftl-512m") | {"name": "slow"}
    slow["times"]["read_us"] = 1000
    run = ftlkit.run("dftl", **(QUICK | {"device": slow}))
    assert run.device["name"] == "slow"
    assert run.device["timing"]["read_ns"] == 1_000_000
    slow["times"]["read_us"] = -1
    for device, sentence in ((slow, "read_us"), ({"colour": 1}, "colour"), ({"x": object()}, "device: ")):
        with pytest.raises(ftlkit.InputError, match=sentence):
            ftlkit.run("dftl", **(QUICK | {"device": device}))
    with pytest.raises(ftlkit.InputError, match="no preset has this name"):
        ftlkit.device(tmp_path / "none.toml")


def test_signatures_list_the_options() -> None:
    for function in (ftlkit.run, ftlkit.compare, ftlkit.requests):
        shown = inspect.signature(function).parameters
        assert set(ftlkit.Options.__annotations__) < set(shown)
        assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in shown.values())


def test_the_environment_has_no_say() -> None:
    """The same in another process: nothing hangs on the hash seed or on threads."""
    code = f"import ftlkit; print(ftlkit.run('tpftl', **{QUICK!r}).digest)"
    environment = os.environ | {"PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    other = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == ftlkit.run("tpftl", **QUICK).digest


def test_times_may_have_any_length_and_as_many_digits_as_a_float() -> None:
    import datetime

    import numpy as np

    sample: Any = {"trace": ROOT / "examples/oltp-sample.spc", "device": "tpftl-512m", "warm_up": "none"}

    def digest(**options: Any) -> str:
        return ftlkit.run("dftl", **(sample | options)).digest

    third = digest(until="333333.333us")
    assert digest(until=1 / 3) == third
    assert digest(until=np.timedelta64(333_333_333, "ns")) == third
    assert digest(until=np.float32(0.1)) == digest(until="100.0000015ms")
    assert digest(until=np.timedelta64(2, "s")) == digest(until=datetime.timedelta(seconds=2)) == digest(until=2)
    assert digest(until=np.timedelta64(1, "h")) == digest(until=datetime.timedelta(hours=1)) == digest()
    assert digest(until=0.1 + 0.2, max_gap=1e-5) == digest(until="300ms", max_gap="10us")
    assert digest(time_scale=1 / 3) == digest(time_scale="0.3333333333333333")
    with pytest.raises(ftlkit.InputError, match="until: inf is no finite number"):
        digest(until=float("inf"))
    for wrong in (np.timedelta64("NaT"), np.timedelta64(1, "Y"), np.timedelta64(5)):
        with pytest.raises(ftlkit.InputError, match=r"until: .* is no length of time"):
            digest(until=wrong)


def test_mistakes_in_a_device_at_hand_name_the_key() -> None:
    described = ftlkit.device("tpftl-512m")
    times = described["times"]
    for changed, sentence in (
        (described | {"name": None}, "device: name has no value"),
        (described | {"times": times | {"read_us": float("nan")}}, r"device: times\.read_us has no value"),
        (described | {"times": times | {"read_us": "fast"}}, "device: .*read_us"),
    ):
        with pytest.raises(ftlkit.InputError, match=sentence) as raised:
            ftlkit.run("dftl", **(QUICK | {"device": changed}))
        assert "/tmp" not in str(raised.value)


def test_the_text_of_a_job_file_is_no_file() -> None:
    for text in ("", "[global]\nbs=4k\n"):
        with pytest.raises(ftlkit.InputError):
            ftlkit.run("dftl", jobs=text, device="tpftl-512m")


@pytest.mark.parametrize("call", ["requests(most=10**9, {})", "size('dftl', {})"])
def test_ctrl_c_stops_what_comes_before_a_run(call: str) -> None:
    options = "synth='financial1', requests=10**9, address='wrap', device='tpftl-512m'"
    code = f"import ftlkit; print('begun', flush=True); ftlkit.{call.format(options)}"
    _, errors = interrupted(code, after=1, within=5)
    assert errors.rstrip().endswith("KeyboardInterrupt")
