//! Several runs at a time: what they share changes nothing of what they find.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{experiment, phase, short, tiny};
use sim::results::Run;
use sim::{
    CacheSize, CacheState, Experiment, Listed, Load, PhaseSpec, Progress, RunError, TimingModel, Verify,
};
use workload::fio::Pattern;
use workload::warm_up::{FILL, LEARNEDFTL};

/// Runs that begin alike: other measured phases, clocks, states of the cache, ways in which they end.
fn alike(scheme: &str) -> Vec<Experiment> {
    let jobs = |name, rw| phase(name, vec![short(rw, 2, 2, 600)]);
    let mut first = experiment(tiny(), scheme, vec![jobs("write", Pattern::RandWrite)]);
    first.warm_up = vec![PhaseSpec::warm_up(LEARNEDFTL), jobs("more", Pattern::RandWrite), PhaseSpec::rest()];
    (first.cache, first.verify) = (CacheSize::Bytes(64 << 10), Verify::Full);
    let reads = PhaseSpec::warm_up(FILL);
    let listed = Listed::new("two", vec![request(4096), request(0)]);
    let own = PhaseSpec::new("own", Load::Closed { source: Arc::new(listed), depth: 1 });
    let mut all = vec![first.clone(); 6];
    all[1].phases = vec![jobs("read", Pattern::RandRead), jobs("mixed", Pattern::RandReadWrite)];
    (all[2].timing, all[2].cache_state) = (TimingModel::Reserved, CacheState::Clean);
    (all[3].timing, all[3].cache_state) = (TimingModel::NoClock, CacheState::Empty);
    (all[4].phases, all[4].host_overhead_ns) = (vec![reads], Some(900));
    all[5].warm_up.push(own);
    all
}

fn request(offset: u64) -> workload::Request {
    workload::Request { arrival_ns: 0, kind: workload::Kind::Write, offset, bytes: 4096 }
}

/// Counts the phases of warm-ups.
#[derive(Default)]
struct WarmUps {
    begun: AtomicUsize,
    ended: Mutex<Vec<usize>>,
}

impl Progress for WarmUps {
    fn phase(&self, _: usize, _: usize, _: usize, name: &str) {
        self.begun.fetch_add(usize::from(name == "warm-up"), Ordering::Relaxed);
    }

    fn end(&self, run: usize) {
        self.ended.lock().unwrap().push(run);
    }
}

fn same(alone: &Run, together: &Run, what: &str) {
    let (a, b) = (format!("{alone:#?}"), format!("{together:#?}"));
    let differs: Vec<_> = a.lines().zip(b.lines()).filter(|(a, b)| a != b).collect();
    assert!(alone.same_findings(together), "{what}: {differs:?}");
}

#[test]
fn runs_that_share_a_warm_up_find_what_they_find_alone() {
    for info in ftl::schemes::ALL {
        let all = alike(info.name);
        let alone: Vec<_> = all.iter().map(|one| sim::run(one, &())).collect();
        for threads in [1, 3] {
            let progress = WarmUps::default();
            let together = sim::compare(&all, threads, &progress);
            for (number, (a, b)) in alone.iter().zip(&together).enumerate() {
                let (Ok(a), Ok(b)) = (a, b) else { panic!("{} {number}: {:?}", info.name, a.as_ref().err()) };
                same(a, b, &format!("{} {number}", info.name));
            }
            // Three phases for all, and one of the last run's own.
            assert_eq!(progress.begun.into_inner(), 4, "{}", info.name);
            let mut ended = progress.ended.into_inner().unwrap();
            ended.sort_unstable();
            assert_eq!(ended, [0, 1, 2, 3, 4, 5]);
        }
    }
}

/// Blocks fail while devices warm up, and some devices end there.
#[test]
fn runs_that_share_a_failing_device_find_what_they_find_alone() {
    for (scheme, endurance) in [("page", None), ("lftl", None), ("tide", Some(4)), ("dftl", Some(4))] {
        let mut all = alike(scheme);
        for one in &mut all {
            one.faults.program_fail_ppm = 200;
            one.faults.endurance = endurance;
        }
        for (number, (one, b)) in all.iter().zip(sim::compare(&all, 2, &())).enumerate() {
            let (a, b) = (sim::run(one, &()).expect("a run"), b.expect("a run"));
            assert_eq!(a.worn_out.is_some(), endurance.is_some());
            same(&a, &b, &format!("{scheme} {number}"));
        }
    }
}

#[test]
fn compare_gives_results_in_order_whatever_the_threads() {
    let make = |seed| {
        let mut e = experiment(tiny(), "page", vec![phase("r", vec![short(Pattern::RandRead, 2, 2, 2000)])]);
        e.seed = seed;
        e
    };
    let mut experiments: Vec<_> = (0..5).map(make).collect();
    experiments[3].scheme = "none such".into();
    let serial = sim::compare(&experiments, 1, &());
    let parallel = sim::compare(&experiments, 3, &());
    for (index, (a, b)) in serial.iter().zip(&parallel).enumerate() {
        match (a, b) {
            (Ok(a), Ok(b)) => {
                assert!(a.same_findings(b));
                assert_eq!(a.workload.seed, index as u64);
            }
            (Err(RunError::Spec(a)), Err(RunError::Spec(b))) => assert_eq!((a, index), (b, 3)),
            _ => panic!("run {index} differs"),
        }
    }
}
