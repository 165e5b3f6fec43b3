//! Every target over its corpus, and over changes of it that two seeds decide: a fixed one, and a fresh one
//! that is printed.
//!
//! | variable | effect |
//! | --- | --- |
//! | `FTL_FUZZ_TARGET` | this target alone |
//! | `FTL_FUZZ_SEED` | this seed alone |
//! | `FTL_FUZZ_ONLY` | this input of the seed alone |
//! | `FTL_FUZZ_SECONDS` | so long for each target, with one seed |
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ftlfuzz::{campaign, Bounds, Target, TARGETS};

static HELD: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
static BASE: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, which counts what is held.
struct Counting;

fn took(bytes: usize) {
    let held = HELD.fetch_add(bytes as u64, Relaxed) + bytes as u64;
    PEAK.fetch_max(held, Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are atomics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most that was held since the last call, beyond what was held then.
fn peak() -> u64 {
    let most = PEAK.load(Relaxed).saturating_sub(BASE.load(Relaxed));
    BASE.store(HELD.load(Relaxed), Relaxed);
    PEAK.store(HELD.load(Relaxed), Relaxed);
    most
}

/// Memory is counted for all threads: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(20), bytes: 512 << 20, peak };

/// How long the mutations of one target and seed take at most, so that all tests stay short.
const SLICE: Duration = Duration::from_millis(800);
/// And how many there are at most.
const MUTATIONS: u64 = 2000;
const FIXED_SEED: u64 = 19;

fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name);
    let listed = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seeds", folder.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn no_input_is_too_much() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (only, seed, seconds) =
        (number("FTL_FUZZ_ONLY"), number("FTL_FUZZ_SEED"), number("FTL_FUZZ_SECONDS"));
    let wanted = std::env::var("FTL_FUZZ_TARGET").ok();
    let seeds = match (seed, seconds) {
        (Some(seed), _) => vec![seed],
        (None, Some(_)) => vec![check::fresh_seed()],
        (None, None) => vec![FIXED_SEED, check::fresh_seed()],
    };
    println!("seeds {seeds:?}");
    let mut findings = Vec::new();
    for target in TARGETS.iter().filter(|target| wanted.as_ref().is_none_or(|name| name == target.name)) {
        for &seed in &seeds {
            let (begun, corpus) = (Instant::now(), corpus(target));
            let most = if seconds.is_some() { u64::MAX } else { corpus.len() as u64 + MUTATIONS };
            let (numbers, end) = match only {
                Some(only) => (only..only + 1, None),
                None => (0..most, Some(begun + seconds.map_or(SLICE, Duration::from_secs))),
            };
            let ended = campaign(target, corpus, seed, numbers, end, BOUNDS);
            let took = begun.elapsed();
            match ended {
                Ok(inputs) => println!("{}, seed {seed}: {inputs} inputs in {took:.1?}", target.name),
                Err(finding) => findings.push(finding.to_string()),
            }
        }
    }
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n\n"));
}

#[test]
fn seeds_are_small_and_of_targets_alone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let target = ftlfuzz::target(&name).unwrap_or_else(|| panic!("there is no target {name}"));
        assert!(corpus(target).iter().all(|seed| seed.len() < 4096), "a seed of {name} is too long");
    }
}

#[test]
fn seeds_of_files_are_good_files() {
    let texts = |name: &str| -> Vec<String> {
        corpus(ftlfuzz::target(name).unwrap())
            .into_iter()
            .map(|seed| String::from_utf8(seed).unwrap())
            .collect()
    };
    let is_good = |name: &str, good: fn(&str) -> bool| {
        let count = texts(name).iter().filter(|text| good(text)).count();
        assert!(count > 0, "{name}: not one seed is a good file");
    };
    is_good("jobs", |text| workload::fio::JobFile::parse("seed", text).is_ok());
    is_good("device", |text| nand::DeviceSpec::parse("seed", text).is_ok());
    is_good("study", |text| study::Study::parse("seed", text).is_ok());
    is_good("figure", |text| papers::own("seed", text, papers::Scale::Quick).is_ok());
    is_good("results", |text| sim::results::from_json(text).is_ok_and(|runs| !runs.is_empty()));
}

/// A campaign over a target with a planted bug, from one seed of nine bytes.
fn canary(run: fn(&[u8]), time: Duration, bytes: u64) -> String {
    let target: &'static Target = Box::leak(Box::new(Target { name: "canary", run, words: &["word"] }));
    let bounds = Bounds { time, bytes, peak };
    let ended = campaign(target, vec![b"size = 12".to_vec()], 1, 0..100_000, None, bounds);
    let finding = ended.expect_err("the bug is not found");
    // The finding is the input that its seed and number stand for, and it fails alone, too.
    let (seed, number) = (finding.seed, finding.number);
    let alone = campaign(target, vec![b"size = 12".to_vec()], seed, number..number + 1, None, bounds);
    assert_eq!(alone.expect_err("it does not repeat").input, finding.input);
    finding.to_string()
}

#[test]
fn planted_bugs_are_found() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (long, much) = (Duration::from_secs(20), 1 << 40);
    let panics = canary(|bytes| assert!(!bytes.contains(&0xFF), "a planted panic"), long, much);
    assert!(panics.contains("a planted panic") && panics.contains("corpora.rs"), "{panics}");
    assert!(panics.contains("to repeat: FTL_FUZZ_TARGET=canary FTL_FUZZ_SEED=1 FTL_FUZZ_ONLY="), "{panics}");
    assert!(panics.contains("\\xff"), "the input is shown: {panics}");
    // A number that is read back as a shorter one.
    let round_trip = canary(
        |bytes| {
            let digits: String =
                bytes.iter().filter(|b| b.is_ascii_digit()).map(|&b| char::from(b)).collect();
            let Ok(number) = digits.parse::<u64>() else { return };
            assert_eq!(u64::from(number as u32), number, "a round trip");
        },
        long,
        much,
    );
    assert!(round_trip.contains("a round trip"), "{round_trip}");
    let hangs = canary(
        |bytes| {
            if bytes.ends_with(b"word") {
                std::thread::sleep(Duration::from_secs(3));
            }
        },
        Duration::from_millis(500),
        much,
    );
    assert!(hangs.contains("it has not ended in 500ms"), "{hangs}");
    let holds = canary(|bytes| drop(vec![1u8; bytes.len() << 22]), long, 1 << 26);
    assert!(holds.contains("bytes of memory"), "{holds}");
}
