from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from conftest import QUICK, ROOT

import ftlkit

mpl.use("Agg")
import matplotlib.pyplot as plt

PLOTS: list[Callable[..., Any]] = [
    ftlkit.plot.latency_cdf,
    ftlkit.plot.bars,
    ftlkit.plot.hit_ratios,
    ftlkit.plot.read_multiplicity,
    ftlkit.plot.writes_by_cause,
    ftlkit.plot.series,
    ftlkit.plot.die_occupancy,
]


@pytest.fixture(scope="module")
def runs() -> ftlkit.Runs:
    return ftlkit.compare("page,dftl,tpftl", **(QUICK | {"warm_up": "fill", "requests": 20_000}))


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.mark.parametrize("plot", PLOTS)
def test_every_plot_is_drawn_by_both(runs: ftlkit.Runs, plot: Callable[..., Any], tmp_path: Any) -> None:
    before = dict(mpl.rcParams)
    figure = plot(runs)
    figure.savefig(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").stat().st_size > 5000
    assert dict(mpl.rcParams) == before, "the style is nobody else's"
    plotly = plot(runs, backend="plotly")
    (axes,) = figure.axes
    legend = axes.get_legend()
    names = {trace.name for trace in plotly.data}
    assert legend is None or {text.get_text() for text in legend.get_texts()} == names
    _, own = plt.subplots()
    assert plot(runs[1], ax=own) is own.figure


def test_a_cdf_holds_what_was_measured(runs: ftlkit.Runs) -> None:
    (axes,) = ftlkit.plot.latency_cdf(runs, "write").axes
    line = axes.get_lines()[1]
    latency = runs["dftl"].phases[0].latency["write"]
    at = int(np.searchsorted(line.get_ydata(), 0.99))
    assert line.get_xdata()[at] * 1e3 == latency.quantile_ns(0.99)


def test_layers_add_up(runs: ftlkit.Runs) -> None:
    (axes,) = ftlkit.plot.writes_by_cause(runs).axes
    tops = [max(bar.get_y() + bar.get_height() for bar in bars) for bars in zip(*axes.containers, strict=True)]
    assert tops == pytest.approx([run.phases[0].write_amplification for run in runs])
    (axes,) = ftlkit.plot.die_occupancy(runs).axes
    tops = [max(bar.get_y() + bar.get_height() for bar in bars) for bars in zip(*axes.containers, strict=True)]
    assert tops == pytest.approx([1.0] * 3)


def test_bars_may_be_over_one_of_them(runs: ftlkit.Runs) -> None:
    (axes,) = ftlkit.plot.bars(runs, "write_mean_ns", over="page").axes
    heights = [bar.get_height() for bar in axes.containers[0]]
    mean = [run.phases[0].latency["write"].mean_ns for run in runs]
    assert heights == pytest.approx([value / mean[0] for value in mean])
    mistakes: list[tuple[Any, str]] = [
        ({"quantity": "speed"}, "there is no quantity speed; there are scheme"),
        ({"over": "leaftl"}, "over: there is no run of leaftl; there are page, dftl, tpftl"),
        ({"backend": "gnuplot"}, "there is no backend gnuplot"),
    ]
    for arguments, sentence in mistakes:
        with pytest.raises(ftlkit.InputError, match=sentence):
            ftlkit.plot.bars(runs, **arguments)


def test_what_is_not_there_is_told(runs: ftlkit.Runs) -> None:
    with pytest.raises(ftlkit.InputError, match="there is nothing to draw: the runs have no request of kind trim"):
        ftlkit.plot.latency_cdf(runs, "trim")
    with pytest.raises(ftlkit.InputError, match="give at least one run"):
        ftlkit.plot.hit_ratios([])
    with pytest.raises(ftlkit.InputError, match="there is no series of speed; there are iops"):
        ftlkit.plot.series(runs, "speed")
    for quantity in ("latency", "hit_ratio", "free_superblocks", "collections", "flash_reads", "flash_programs"):
        ftlkit.plot.series(runs, quantity)


def test_cache_curves() -> None:
    options: Any = {"synth": "financial1", "requests": 20_000, "device": "tpftl-512m"}
    sizes = ftlkit.size("dftl,tpftl", caches=["1%", "4%", "16%"], **options)
    backends: list[Any] = ["matplotlib", "plotly"]
    for backend in backends:
        figure: Any = ftlkit.plot.cache_curves(sizes, "hit_ratio", backend=backend)
    assert [trace.name for trace in figure.data] == [
        "dftl",
        "tpftl",
        "ideal map",
        "LRU over entries",
        "LRU over pages",
    ]
    assert list(figure.data[0].x) == sorted(figure.data[0].x)
    with pytest.raises(ftlkit.InputError, match="there is no quantity speed; there are"):
        ftlkit.plot.cache_curves(sizes, "speed")


def test_requests_are_a_table_and_a_plot() -> None:
    table = ftlkit.requests(trace=ROOT / "examples/oltp-sample.spc", device="tpftl-512m", rows=range(1000))
    frame = table.to_polars()
    assert frame.columns == ["time_ns", "op", "offset", "size"]
    assert frame.height == 1000
    assert frame["time_ns"].is_sorted()
    again = ftlkit.run("page", frame=frame, device="tpftl-512m", warm_up="none")
    trace = ftlkit.run(
        "page", trace=ROOT / "examples/oltp-sample.spc", device="tpftl-512m", warm_up="none", rows="0..1000"
    )
    assert again.digest == trace.digest
    assert len(ftlkit.requests(synth="financial1", device="tpftl-512m", most=10)) == 10
    (axes,) = ftlkit.plot.lpns_over_time(table).axes
    assert {collection.get_label() for collection in axes.collections} <= {"read", "write", "trim"}
    assert sum(len(collection.get_offsets()) for collection in axes.collections) == 1000
    ftlkit.plot.lpns_over_time(table, backend="plotly")
    with pytest.raises(ftlkit.InputError, match="jobs wait for each other"):
        ftlkit.requests(device="tpftl-512m")


def jobs(*names: str) -> str:
    return "".join(f"[{name}]\nstonewall\nrw=write\nbs=4k\nsize=1m\n" for name in names)


def test_bars_stand_over_their_labels() -> None:
    quick: Any = {"device": "tpftl-512m", "warm_up": "none"}
    first = ftlkit.run("dftl", jobs=jobs("a", "both"), **quick)
    second = ftlkit.run("tpftl", jobs=jobs("both", "b"), **quick)
    (axes,) = ftlkit.plot.bars([first, second], "pages_written").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["dftl", "tpftl"]
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    for name, expected in (("a", [256, np.nan]), ("both", [256, 256]), ("b", [np.nan, 256])):
        np.testing.assert_array_equal(heights[name], expected)


def test_phases_of_one_name_are_told_apart() -> None:
    run = ftlkit.run("dftl", jobs=jobs("a", "a", "_b"), device="tpftl-512m", warm_up="none")
    for backend in ("matplotlib", "plotly"):
        figure = ftlkit.plot.bars(run, backend=backend)
        if backend == "plotly":
            assert [trace.name for trace in figure.data] == ["a", "a (2)", "_b"]
        else:
            shown = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
            assert [text.strip("\u200b") for text in shown] == ["a", "a (2)", "_b"]


def test_bars_say_what_cannot_be_drawn(runs: ftlkit.Runs) -> None:
    with pytest.raises(ftlkit.InputError, match="digest is text, and a bar needs a number"):
        ftlkit.plot.bars(runs, "digest")
    with pytest.raises(ftlkit.InputError, match="there is nothing to draw: the runs have no trim_p99_ns"):
        ftlkit.plot.bars(runs, "trim_p99_ns")
    with pytest.raises(ftlkit.InputError, match="over: there is no run of lftl; there are page, dftl, tpftl"):
        ftlkit.plot.bars(runs, over="lftl")
    with pytest.raises(ftlkit.InputError, match=r"over: evictions of page is 0 in .*, and nothing can be divided"):
        ftlkit.plot.bars(runs, "evictions", over="page")


def test_more_lines_than_colours_differ_in_their_dashes() -> None:
    run = ftlkit.run("dftl", jobs=jobs(*"abcdefghi"), device="tpftl-512m", warm_up="none")
    lines = ftlkit.plot.latency_cdf(run, "write").axes[0].get_lines()
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == len(lines) == 9
