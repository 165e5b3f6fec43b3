//! Several runs at a time: what they share changes nothing of what they find.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::common::{experiment, phase, short, tiny};
use sim::results::Run;
use sim::{
    Batch, CacheSize, CacheState, Experiment, Listed, Load, PhaseSpec, Progress, RunError, TimingModel,
    Verify,
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
    if !alone.same_findings(together) {
        let (a, b) = (format!("{alone:#?}"), format!("{together:#?}"));
        let differs: Vec<_> = a.lines().zip(b.lines()).filter(|(a, b)| a != b).collect();
        panic!("{what}: {differs:?}");
    }
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

/// Two runs of one kin that begin in different ways, on two threads: each waits in its warm-up for the other.
#[test]
fn runs_that_begin_differently_do_not_wait_for_each_other() {
    struct Two(Vec<Experiment>, AtomicUsize);
    impl Batch for Two {
        fn count(&self) -> usize {
            self.0.len()
        }

        fn kin(&self, _: usize) -> String {
            "all".to_owned()
        }

        fn experiment(&self, index: usize) -> Result<Experiment, RunError> {
            Ok(self.0[index].clone())
        }

        fn ended(&self, _: usize, result: Result<Run, RunError>) -> bool {
            self.1.fetch_add(usize::from(result.is_ok()), Ordering::Relaxed);
            true
        }
    }
    #[derive(Default)]
    struct Meet(Mutex<usize>, Condvar);
    impl Progress for Meet {
        fn phase(&self, _: usize, phase: usize, _: usize, _: &str) {
            if phase == 0 {
                let mut here = self.0.lock().unwrap();
                *here += 1;
                self.1.notify_all();
                let wait = Duration::from_secs(60);
                assert!(!self.1.wait_timeout_while(here, wait, |here| *here < 2).unwrap().1.timed_out());
            }
        }
    }
    let reads = || vec![phase("read", vec![short(Pattern::RandRead, 1, 1, 100)])];
    let mut all = vec![experiment(tiny(), "page", reads()), experiment(tiny(), "page", reads())];
    all[0].warm_up = vec![PhaseSpec::warm_up(FILL)];
    all[1].warm_up = vec![PhaseSpec::warm_up(LEARNEDFTL)];
    let two = Two(all, AtomicUsize::new(0));
    sim::run_batch(&two, 2, &Meet::default());
    assert_eq!(two.1.into_inner(), 2, "one waited for the other");
}
