//! Faulty schemes and arrays that the checker must catch. A check that cannot fail proves nothing.

use crate::sabotage::{self, Sabotage};
use crate::toy::{self, Toy};
use check::{conformance_of, sweep_of, Cuttable, Failure, SweepOptions};
use ftl::schemes::dftl::Dftl;
use ftl::schemes::leaftl::Leaftl;
use ftl::schemes::page::PageMap;
use ftl::schemes::tpftl::Tpftl;
use ftl::{Config, Flash, Info, Memory, OpenError, Scheme};
use nand::{CrashNand, Done, Fault, Lpn, Nand, Oob, Ppn};

fn failure<S: Scheme, N: Cuttable>() -> Failure {
    let options = SweepOptions::new(S::INFO.name, 1, 20_000);
    match sweep_of::<S, N>(&options, &mut |_, _| {}) {
        Err(failure) => failure,
        Ok(report) => panic!("the canary was not caught: {report:?}"),
    }
}

/// Runs a faulty pair and checks what is said of it, and that the command repeats it.
fn caught<S: Scheme, N: Cuttable>(expected: &[&str]) {
    let first = failure::<S, N>();
    assert!(expected.iter().any(|&text| first.what.starts_with(text)), "caught for another reason: {first}");
    let again = SweepOptions {
        only_cut: first.cut,
        requests: first.requests.unwrap_or(SweepOptions::REQUESTS),
        ..SweepOptions::new(S::INFO.name, first.seed, 20_000)
    };
    let second = sweep_of::<S, N>(&again, &mut |_, _| {});
    assert_eq!(second.err(), Some(first.clone()));
    println!("{first}");
}

const OLD: &str = "an older version came back";
const GONE: &str = "a durable write is gone";
const UNDONE: &str = "a durable trim was undone";
const READS: &str = "LPN";
/// The mapping leads to a page that is not there: the array's own assertion.
const ABSENT: &str = "panic: read of page";
/// The mapping leads to a page of something else: the scheme's own assertion.
const OTHER: &str = "panic: the mapping led";
/// The OOB of a mispredicted page does not tell where the page is.
const TELLS: &str = "panic: LPN";
/// The same, found at recovery.
const TWICE: &str = "panic: two logical pages";

#[test]
fn the_sound_toy_passes() {
    for faults in [false, true] {
        let options = SweepOptions { faults, ..SweepOptions::new("toy", 1, 10_000) };
        match sweep_of::<Toy<{ toy::SOUND }>, CrashNand>(&options, &mut |_, _| {}) {
            Ok(report) => println!("{} cuts/s, {report:?}", report.cuts_a_second()),
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn an_erase_that_overtakes_its_copies() {
    caught::<Toy<{ toy::ERASE_AT_ONCE }>, CrashNand>(&[OLD, GONE]);
    caught::<PageMap, Sabotage<{ sabotage::ERASE_AT_ONCE }>>(&[OLD, GONE, ABSENT, OTHER, TWICE]);
    caught::<Dftl, Sabotage<{ sabotage::ERASE_AT_ONCE }>>(&[OLD, GONE, ABSENT, OTHER, TWICE]);
    caught::<Tpftl, Sabotage<{ sabotage::ERASE_AT_ONCE }>>(&[OLD, GONE, ABSENT, OTHER, TWICE]);
}

#[test]
fn a_dropped_trim_record() {
    caught::<Toy<{ toy::TRIM_DROPPED }>, CrashNand>(&[UNDONE, READS]);
    caught::<Toy<{ toy::TRIM_FORGOTTEN }>, CrashNand>(&[UNDONE, READS]);
    caught::<PageMap, Sabotage<{ sabotage::TRIM_DROPPED }>>(&[UNDONE, ABSENT, OTHER, TWICE]);
    caught::<Dftl, Sabotage<{ sabotage::TRIM_DROPPED }>>(&[UNDONE, ABSENT, OTHER, TWICE]);
}

#[test]
fn a_version_that_does_not_grow() {
    caught::<PageMap, Sabotage<{ sabotage::VERSION_STUCK }>>(&[READS]);
    caught::<Dftl, Sabotage<{ sabotage::VERSION_STUCK }>>(&[READS]);
}

#[test]
fn a_translation_page_before_its_data() {
    caught::<Dftl, Sabotage<{ sabotage::MAPPING_FIRST }>>(&[OLD, GONE, ABSENT, OTHER, TWICE, READS]);
}

#[test]
fn a_flush_that_returns_at_once() {
    caught::<Toy<{ toy::FLUSH_AT_ONCE }>, CrashNand>(&[UNDONE]);
    caught::<PageMap, Sabotage<{ sabotage::SETTLED_AT_ONCE }>>(&[UNDONE, OLD, GONE, ABSENT, OTHER, TWICE]);
    caught::<Dftl, Sabotage<{ sabotage::SETTLED_AT_ONCE }>>(&[UNDONE, OLD, GONE, ABSENT, OTHER, TWICE]);
}

#[test]
fn a_write_acknowledged_too_early() {
    caught::<Toy<{ toy::WRITE_AT_ONCE }>, CrashNand>(&[OLD, GONE]);
    caught::<PageMap, Sabotage<{ sabotage::WRITE_AT_ONCE }>>(&[OLD, GONE]);
    caught::<Dftl, Sabotage<{ sabotage::WRITE_AT_ONCE }>>(&[OLD, GONE]);
    caught::<Tpftl, Sabotage<{ sabotage::WRITE_AT_ONCE }>>(&[OLD, GONE]);
}

#[test]
fn a_collection_that_revives_stale_pages() {
    caught::<Toy<{ toy::STALE_REVIVED }>, CrashNand>(&[READS]);
    let failure = conformance_of::<Toy<{ toy::STALE_REVIVED }>>("toy", 1).unwrap_err();
    assert!(failure.what.starts_with("LPN") && failure.what.contains("reads as"), "{failure}");
}

#[test]
fn a_recovery_that_takes_the_first_it_finds() {
    caught::<Toy<{ toy::FIRST_FOUND }>, CrashNand>(&[OLD, READS]);
}

#[test]
fn the_sound_toy_conforms() {
    for seed in 1..=3 {
        if let Err(failure) = conformance_of::<Toy<{ toy::SOUND }>>("toy", seed) {
            panic!("{failure}");
        }
    }
}

#[test]
fn an_operation_that_is_not_counted() {
    let failure = conformance_of::<Toy<{ toy::UNCOUNTED }>>("toy", 1).unwrap_err();
    assert!(failure.what.starts_with("the door counted"), "{failure}");
}

/// Whether a completion lies ahead: in the run that is cut alone, as time passes nowhere else. A scheme must
/// not know; a canary may.
fn is_pending(done: Done) -> bool {
    format!("{done:?}") != format!("{:?}", Done::READY)
}

/// LeaFTL, which acknowledges writes from a volatile buffer, with one promise broken.
#[derive(Clone)]
struct Buffering<const BUG: u8>(Leaftl);

/// A flush leaves the buffer as it is, in the run that is cut (so that it is the oracle's to notice).
const UNWRITTEN: u8 = 1;
/// It does not say that it buffers writes.
const UNDECLARED: u8 = 2;
/// It forgets what is in the buffer when asked for its mapping.
const UNSEEN: u8 = 3;

impl<const BUG: u8> Scheme for Buffering<BUG> {
    const INFO: Info = Info { name: "buffering", ..Leaftl::INFO };
    const BUFFERS_WRITES: bool = BUG != UNDECLARED;

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        Leaftl::open(flash, config).map(Buffering)
    }

    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
        self.0.read(flash, lpn, rest, at)
    }

    fn write<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, at: Done) -> Result<Done, Fault> {
        self.0.write(flash, lpn, rest, at)
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        self.0.trim(flash, first, pages, at)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault> {
        let settled = flash.settle();
        if BUG == UNWRITTEN && is_pending(settled) {
            return Ok(flash.join(settled, at));
        }
        self.0.flush(flash, at)
    }

    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        self.0.idle(flash)
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.0.power_off(flash)
    }

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.0.mapping(flash, each);
    }

    fn buffered(&self, each: &mut dyn FnMut(Lpn, u64)) {
        if BUG != UNSEEN {
            self.0.buffered(each);
        }
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), ftl::Breach> {
        self.0.check(flash)
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }
}

#[test]
fn a_flush_that_leaves_the_write_buffer() {
    caught::<Buffering<UNWRITTEN>, CrashNand>(&[OLD, GONE, UNDONE]);
    caught::<Leaftl, Sabotage<{ sabotage::SETTLED_AT_ONCE }>>(&[UNDONE, OLD, GONE, ABSENT, OTHER, TWICE]);
}

#[test]
fn a_write_buffer_that_nobody_was_told_of() {
    caught::<Buffering<UNDECLARED>, CrashNand>(&[OLD, GONE]);
    let failure = conformance_of::<Buffering<UNSEEN>>("buffering", 1).unwrap_err();
    assert!(failure.what.contains("is mapped to"), "{failure}");
}

#[test]
fn learned_segments_do_not_hide_a_broken_array() {
    caught::<Leaftl, Sabotage<{ sabotage::ERASE_AT_ONCE }>>(&[
        OLD, GONE, UNDONE, ABSENT, OTHER, TWICE, TELLS, READS,
    ]);
    caught::<Leaftl, Sabotage<{ sabotage::MAPPING_FIRST }>>(&[
        OLD, GONE, UNDONE, ABSENT, OTHER, TWICE, TELLS, READS,
    ]);
    caught::<Leaftl, Sabotage<{ sabotage::SPARE_LOST }>>(&[TELLS, READS]);
}
