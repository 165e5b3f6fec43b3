from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
from conftest import QUICK, interrupted

import ftlkit


class Page(ftlkit.Mapping):
    """The ideal page map, as `page` is."""

    in_memory: ClassVar[bool] = True

    def lookup(self, lpn: int) -> int | None:
        return self.known.get(lpn)

    def update(self, lpn: int, ppn: int | None) -> int | None:
        old = self.known.get(lpn)
        self.known[lpn] = ppn
        self.dirty.add(lpn)
        return old


class Fifo(ftlkit.Mapping):
    """A cache of single entries, first in, first out."""

    def lookup(self, lpn: int) -> int | None:
        if lpn not in self.known:
            if self.memory() + 8 > self.table.cache_bytes:
                oldest = next(iter(self.known))
                self.write_back(oldest)
                del self.known[oldest]
            self.known[lpn] = self.read(lpn)
        return self.known[lpn]

    def update(self, lpn: int, ppn: int | None) -> int | None:
        old = self.lookup(lpn)
        self.known[lpn] = ppn
        self.dirty.add(lpn)
        return old


class TwoStreams(Fifo):
    """Writes odd pages to superblocks of their own."""

    streams: ClassVar[int] = 1

    def stream(self, lpn: int, rest: int) -> int:
        assert rest >= 1
        return lpn % 2


JOBS = """
[mix]
rw=randrw
bssplit=4k/60:32k/40
number_ios=4000
iodepth=8

[trims]
stonewall
rw=randtrim
bssplit=4k/50:8m/50
number_ios=300

[again]
stonewall
rw=randwrite
bs=4k
number_ios=4000
"""
WORKLOADS: list[dict[str, Any]] = [
    QUICK,
    QUICK | {"warm_up": "fill", "requests": 20_000, "cache": "1%"},
    {"device": "tpftl-512m", "jobs": JOBS, "warm_up": "fill", "export": "64MiB", "shrink": 4},
    {"device": "tpftl-512m", "jobs": JOBS, "warm_up": "none", "power_cut": True, "timing": "reserved"},
    {"device": "tpftl-512m", "jobs": JOBS, "warm_up": "fill", "faults": "program=200,erase=50", "shrink": 4},
]


@pytest.mark.parametrize("at", range(len(WORKLOADS)))
def test_a_page_map_in_python_does_what_page_does(at: int) -> None:
    options = WORKLOADS[at]
    python, rust = ftlkit.compare([Page, "page"], **options)
    assert python.scheme == "Page"
    assert python.digest == rust.digest
    ours, theirs = ([phase.record for phase in run.phases] for run in (python, rust))
    assert ours == theirs
    assert python.record.get("recovery") == rust.record.get("recovery")


def test_a_mapping_stands_beside_the_schemes_of_rust() -> None:
    runs = ftlkit.compare([Fifo, "dftl", "page"], **(QUICK | {"warm_up": "fill", "requests": 20_000, "cache": "1%"}))
    assert runs.labels == ["Fifo", "dftl", "page"]
    fifo, dftl, page = (run.phases[0] for run in runs)
    assert fifo.hit_ratio is not None
    assert 0.3 < fifo.hit_ratio < 1
    assert fifo.hit_ratio == pytest.approx(dftl.hit_ratio, abs=0.1)
    assert fifo.flash["translation"]["programs"] > page.flash["translation"]["programs"] == 0
    assert runs["Fifo"].memory["derived"]["total_bytes"] <= runs["Fifo"].memory["cache_bytes"]
    assert "Fifo" in repr(runs)


@pytest.mark.parametrize("mapping", [Page, Fifo, TwoStreams])
def test_a_mapping_that_is_right_passes(mapping: type[ftlkit.Mapping]) -> None:
    report = ftlkit.conformance(mapping, seed=3, cuts=300)
    assert report.record["cuts"] == 300
    assert report.record["collections_data"] > 0
    assert repr(report).startswith(f"<{mapping.__name__}: nothing lost; ")
    assert ftlkit.check(mapping, cuts=60, seed=5, faults=True).record["cuts"] == 60


def test_streams_are_used() -> None:
    plain, two = ftlkit.compare([Fifo, TwoStreams], **(QUICK | {"warm_up": "fill"}))
    assert plain.digest != two.digest


class Stale(Page):
    """Does not learn where collection put a page."""

    def moved(self, lpn: int, ppn: int) -> bool:
        return lpn % 64 == 7 or super().moved(lpn, ppn)


class Unclean(Fifo):
    """Says that everything is on flash, and it is not."""

    def clean(self) -> bool:
        return False


class Greedy(Fifo):
    """Takes more memory than there is."""

    def memory(self) -> int:
        return super().memory() * 3


class Clumsy(Page):
    """Has a mistake."""

    def lookup(self, lpn: int) -> int | None:
        nothing: dict[int, int] = {}
        return nothing[lpn]


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        (Stale, "scheme Stale, seed 1"),
        (Unclean, "scheme Unclean, seed 1"),
        (Greedy, "the mapping and the directory take"),
        (Clumsy, "lookup: KeyError: "),
    ],
)
def test_a_mapping_that_is_wrong_is_found(
    mapping: type[ftlkit.Mapping], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ftlkit.FindingError) as raised:
        ftlkit.conformance(mapping, seed=1, cuts=1500)
    assert sentence in str(raised.value)
    assert isinstance(raised.value.__cause__, KeyError) is (mapping is Clumsy)
    assert "panicked" not in capfd.readouterr().err or mapping is not Clumsy


def test_what_a_mapping_raises_is_the_cause() -> None:
    with pytest.raises(ftlkit.FindingError, match=r"scheme Clumsy panicked in phase .*lookup: KeyError: ") as raised:
        ftlkit.compare(["page", Clumsy], **(QUICK | {"warm_up": "fill"}))
    assert isinstance(raised.value.__cause__, KeyError)
    assert raised.value.runs is not None
    assert raised.value.runs.labels == ["page"]
    assert "ftlkit.run(Clumsy, " in str(raised.value)


class Nosy(Page):
    """Keeps the table, and tries what it must not."""

    tables: ClassVar[list[ftlkit.TranslationTable]] = []
    wrong: ClassVar[list[str]] = []

    def __init__(self, table: ftlkit.TranslationTable) -> None:
        super().__init__(table)
        self.tables.append(table)

    def lookup(self, lpn: int) -> int | None:
        if not self.wrong:
            attempts: list[Callable[[], object]] = [
                lambda: self.table.load(self.table.pages),
                lambda: self.table.store({0: 1, self.table.entries_per_page: 2}),
                lambda: self.table.replace(0, [None]),
                lambda: self.table.store({0: 2**31}),
            ]
            for attempt in attempts:
                try:
                    attempt()
                except ValueError as error:
                    self.wrong.append(str(error))
        return super().lookup(lpn)


def test_flash_is_reached_from_calls_alone() -> None:
    ftlkit.run(Nosy, **QUICK)
    assert "there is no translation page 128; there are 0 to 127" in Nosy.wrong[0]
    assert "these LPNs are of several" in Nosy.wrong[1]
    assert "holds 1024 mappings, and 1 are given" in Nosy.wrong[2]
    assert "2147483648 is no PPN; give a whole number from 0 to" in Nosy.wrong[3]
    table = Nosy.tables[0]
    assert (table.lpns, table.entries_per_page, table.place(1025), table.lpns_of(1)) == (
        131072,
        1024,
        (1, 1),
        (1024, 2048),
    )
    with pytest.raises(RuntimeError, match="flash can be reached only from lookup, update and clean"):
        table.load(0)


@pytest.mark.parametrize("given", [2**31, -1, "x", 1.0])
def test_what_is_no_ppn_is_told(given: Any, capfd: pytest.CaptureFixture[str]) -> None:
    class Wrong(Fifo):
        def lookup(self, lpn: int) -> int | None:
            super().lookup(lpn)
            return cast("int", given)

    class Forgetful(Fifo):
        def forget(self, lpn: int) -> int | None:
            super().forget(lpn)
            return cast("int", given)

    for mapping in (Wrong, Forgetful):
        with pytest.raises(ftlkit.FindingError, match="is no PPN; give a whole number from 0 to") as raised:
            ftlkit.conformance(mapping)
        assert repr(given) in str(raised.value)
    assert not capfd.readouterr().err


def test_conformance_says_how_slow_a_mapping_is() -> None:
    report = ftlkit.conformance(Fifo, cuts=0)
    assert report.record["calls"] > 1000
    assert f"{report.record['call_us']:,.1f} us a call" in repr(report)


def test_other_mistakes() -> None:
    other: Any = dict
    with pytest.raises(
        ftlkit.InputError, match=r"is no scheme; give a name, or a class that inherits from ftlkit\.Mapping"
    ):
        ftlkit.run(other, **QUICK)
    with pytest.raises(ftlkit.InputError, match="schemes has Page twice"):
        ftlkit.compare([Page, Page], **QUICK)
    with pytest.raises(ftlkit.InputError, match=r"schemes has Page twice; .* each class a name of its own"):
        ftlkit.compare([Page, type("Page", (Page,), {})], **QUICK)
    with pytest.raises(ftlkit.FindingError, match="NotImplementedError: Mapping has no update; write one"):
        ftlkit.run(ftlkit.Mapping, **QUICK)
    with pytest.raises(ftlkit.InputError, match="seed: -1 is too small; give a whole number from 0 up"):
        ftlkit.check("page", cuts=1, seed=-1)
    with pytest.raises(ftlkit.InputError, match="Page is a mapping in Python"):
        ftlkit.size([Page], **QUICK)  # type: ignore[list-item]
    with pytest.raises(ftlkit.InputError, match="there is no scheme `pgae`"):
        ftlkit.conformance("pgae")
    with pytest.raises(ftlkit.InputError, match="cuts: 0 is too small; give a whole number from 1 up"):
        ftlkit.check("page", cuts=0)


def test_schemes_of_rust_are_checked_too() -> None:
    assert ftlkit.conformance("dftl", cuts=0).record["reads"] > 0
    report = ftlkit.check("tpftl:techniques=rs", cuts=600, seed=2)
    assert report.record["cuts"] == 600
    assert report.record["torn_pages"] > 0
    assert ftlkit.check("page", seed=1, cut=5).record["cuts"] == 1
    with pytest.raises(ftlkit.InputError, match="cut"):
        ftlkit.check("page", seed=1, cut=10**9)


@pytest.mark.parametrize(
    "call", ["compare([Page], **OPTIONS)", "conformance(Page, cuts=10**9)", "check('page', cuts=10**9)"]
)
def test_ctrl_c_stops_python_and_checks(call: str) -> None:
    options = QUICK | {"requests": 10**9}
    code = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
    code += f"import ftlkit; from test_mapping import Page; OPTIONS = {options!r}\n"
    code += f"print('begun', flush=True); ftlkit.{call}"
    _, errors = interrupted(code, after=0.5, within=3)
    assert errors.rstrip().endswith("KeyboardInterrupt")


class Endless(Page):
    def lookup(self, lpn: int) -> int | None:
        while lpn >= 0:
            pass
        return None


def test_ctrl_c_stops_a_loop_without_end() -> None:
    options = QUICK | {"requests": 10}
    code = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]\nimport ftlkit\n"
    code += f"from test_mapping import Endless; print('begun', flush=True); ftlkit.run(Endless, **{options!r})"
    _, errors = interrupted(code, after=0.5, within=5)
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_checks_say_what_they_cannot_take() -> None:
    wrong: Any = [Page]
    with pytest.raises(ftlkit.InputError, match="is no scheme; give a name"):
        ftlkit.conformance(wrong)
    with pytest.raises(ftlkit.InputError, match="leave the parameters out, or use check"):
        ftlkit.conformance("tpftl:techniques=rs")
    with pytest.raises(ftlkit.InputError, match="seed: 18446744073709551616 is too large"):
        ftlkit.check("page", cuts=1, seed=2**64)
    half: Any = 1.5
    with pytest.raises(ftlkit.InputError, match=r"cuts: 1\.5 is no whole number"):
        ftlkit.check("page", cuts=half)
