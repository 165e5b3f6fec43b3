//! A check that cannot fail is a defect: schemes with one fault each, and what catches them.

use std::cell::RefCell;
use std::sync::Arc;

use ftl::schemes::page::PageMap;
use ftl::{Breach, Config, Flash, HostOp, Info, Memory, OpenError, Scheme};
use nand::timing::Timing;
use nand::{DeviceSpec, Done, Fault, Geometry, Lpn, Nand, Oob, Ppn};
use workload::fio::{Amount, JobSpec, Pattern, Phase as FioPhase};
use workload::{Kind, Request};

use crate::error::RunError;
use crate::run::Runner;
use crate::{Experiment, Listed, Load, PhaseSpec, Verify, SAMPLE_STRIDE};

/// No fault: the wrapper itself breaks nothing.
const NONE: u8 = 0;
/// A read brings the version before back.
const STALE: u8 = 1;
/// A read of a written page finds nothing.
const LOST: u8 = 2;
/// A trim is forgotten.
const DROPPED_TRIM: u8 = 3;
/// Two pages lead to one.
const SHARED: u8 = 4;
/// A flash read goes past the door.
const BACK_DOOR: u8 = 5;
/// A host read is counted without its flash reads.
const UNCOUNTED: u8 = 6;
/// The mapping leads to a stale copy at the end, though no read saw it.
const STALE_AT_END: u8 = 7;
/// The scheme finds its own structures broken.
const CONFESSES: u8 = 8;
/// The scheme panics.
const PANICS: u8 = 9;
/// A mapped page is missing from the mapping.
const FORGETFUL: u8 = 10;
/// Idle work finds the flash full.
const IDLES_WITHOUT_SPACE: u8 = 11;
/// Idle work finds the medium out of order.
const IDLES_ON_RUINS: u8 = 12;

#[derive(Clone)]
struct Faulty<const FAULT: u8>(PageMap);

impl<const FAULT: u8> Scheme for Faulty<FAULT> {
    const INFO: Info = Info { name: "faulty", what: "", paper: "", parameters: &[], stats: &[] };

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        PageMap::open(flash, config).map(Faulty)
    }

    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
        let (found, done) = self.0.read(flash, lpn, rest, at)?;
        let watched = lpn.0.is_multiple_of(SAMPLE_STRIDE);
        match (FAULT, found) {
            (STALE, Some(oob)) if watched => Ok((Some(Oob { version: oob.version - 1, ..oob }), done)),
            (LOST, Some(_)) if watched => Ok((None, done)),
            (PANICS, _) => panic!("the scheme is at its wits' end"),
            (BACK_DOOR, _) => {
                let mut any = None;
                self.0.mapping(flash, &mut |_, ppn| any = Some(ppn));
                if let Some(ppn) = any {
                    flash.nand_mut().read(ppn, nand::Class::HostRead, nand::Sink::Host(nand::Lpn(0)), at)?;
                }
                Ok((found, done))
            }
            (UNCOUNTED, _) => {
                flash.counters.host_reads += u64::from(watched);
                Ok((found, done))
            }
            _ => Ok((found, done)),
        }
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
        if FAULT == DROPPED_TRIM {
            return Ok(at);
        }
        self.0.trim(flash, first, pages, at)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault> {
        self.0.flush(flash, at)
    }

    fn idle<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        match FAULT {
            IDLES_WITHOUT_SPACE => Err(Fault::NoSpace { free: 1, needed: 2 }),
            IDLES_ON_RUINS => Err(Fault::Medium),
            _ => self.0.idle(flash),
        }
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.0.power_off(flash)
    }

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        let mut first = None;
        let mut older = std::collections::BTreeMap::new();
        if FAULT == STALE_AT_END {
            for ppn in (0..flash.nand().geometry().pages()).map(Ppn) {
                if let Some(oob) = flash.nand().inspect(ppn, &mut Vec::new()) {
                    let kept = older.entry(oob.id).or_insert((oob.version, ppn));
                    *kept = (*kept).min((oob.version, ppn));
                }
            }
        }
        self.0.mapping(flash, &mut |lpn, ppn| match FAULT {
            SHARED => each(lpn, *first.get_or_insert(ppn)),
            FORGETFUL if lpn.0 == SAMPLE_STRIDE => {}
            STALE_AT_END => each(lpn, older.get(&lpn.0).map_or(ppn, |kept| kept.1)),
            _ => each(lpn, ppn),
        });
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        if FAULT == CONFESSES {
            return Err(Breach("a page is valid and not mapped".to_owned()));
        }
        self.0.check(flash)
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }
}

fn small_experiment() -> Experiment {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 32,
        pages_per_block: 16,
        page_bytes: 4096,
        oob_bytes: 64,
    };
    let phase = |rw: Pattern, requests| {
        let mut job = JobSpec::new(rw.name());
        (job.rw, job.norandommap, job.iodepth) = (rw, true, 4);
        job.number_ios = Some(requests);
        job.io_size = Some(Amount::Bytes(1 << 40));
        PhaseSpec::new(rw.name(), Load::Jobs(FioPhase { jobs: vec![job], warm_up: false }))
    };
    let mut experiment = Experiment::new(DeviceSpec::tiny(geometry, 1200), "page");
    experiment.warm_up = vec![PhaseSpec::warm_up(workload::warm_up::FILL)];
    experiment.phases =
        vec![phase(Pattern::RandTrim, 300), phase(Pattern::RandRead, 1000), phase(Pattern::RandWrite, 1000)];
    experiment
}

/// With the page map alone: all schemes are compiled for this program otherwise.
fn run_page(experiment: &Experiment) -> Result<crate::results::Run, RunError> {
    crate::run_of::<PageMap>(experiment, &())
}

fn run_faulty<const FAULT: u8>(verify: Verify) -> Result<crate::results::Run, RunError> {
    let phase = RefCell::new(String::new());
    let experiment = Experiment { verify, ..small_experiment() };
    Runner::begin(0, &experiment, &(), &phase)?.run::<Faulty<FAULT>>()
}

/// The run is broken by the invariant called so, and says how to repeat it.
fn is_caught<const FAULT: u8>(by: &str) {
    for verify in [Verify::Sampled, Verify::Full] {
        match run_faulty::<FAULT>(verify) {
            Err(RunError::Broken { run, repeat, .. }) => {
                let names: Vec<_> = run.broken().map(|broken| broken.name.as_str()).collect();
                assert!(names.iter().any(|name| name.contains(by)), "{by}: {names:?}");
                assert!(repeat.contains("seed 1"), "{repeat}");
            }
            Err(other) => panic!("{by}: {other}"),
            Ok(_) => panic!("{by}: not caught"),
        }
    }
}

#[test]
fn a_scheme_without_a_fault_passes() {
    for verify in [Verify::Off, Verify::Sampled, Verify::Full] {
        assert!(run_faulty::<NONE>(verify).is_ok());
    }
}

#[test]
fn reads_are_compared_with_what_was_written() {
    is_caught::<STALE>("reads return what was written");
    is_caught::<LOST>("reads return what was written");
    is_caught::<DROPPED_TRIM>("reads return what was written");
    // Nobody looked: the same faults pass unseen.
    assert!(run_faulty::<STALE>(Verify::Off).is_ok());
}

#[test]
fn a_wrong_read_is_told_with_all_that_repeats_it() {
    let error = run_faulty::<STALE>(Verify::Full).err().map(|error| error.to_string()).unwrap_or_default();
    for part in
        ["LPN ", "must hold version", "was found", "seed 1", "phase ", "request ", "repeat with: scheme page"]
    {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn the_final_mapping_is_walked() {
    is_caught::<SHARED>("no two pages share a physical page");
    is_caught::<STALE_AT_END>("every watched page has its newest version");
    is_caught::<FORGETFUL>("every watched page has its newest version");
    is_caught::<CONFESSES>("bijection");
}

#[test]
fn counters_are_checked_against_each_other() {
    is_caught::<BACK_DOOR>("operations by cause = operations at the array");
    is_caught::<UNCOUNTED>("shares of host reads sum to 1");
}

#[test]
fn a_damaged_reference_is_noticed() {
    let experiment = small_experiment();
    let config = Config::new(experiment.device.exported_pages, 1 << 20);
    let faults = nand::SimOptions::default();
    for verify in [Verify::Sampled, Verify::Full] {
        let mut rig =
            crate::run::new_rig::<PageMap>(&experiment.device, &config, &faults, verify).expect("a device");
        let phase = |rig: &mut _, spec: &PhaseSpec| {
            let software = crate::plan::HostSoftware::new(0, 1);
            let planned = crate::plan::plan(spec, 1200 * 4096, 1, false, software, None).expect("a plan");
            crate::run::run_phase(rig, spec, planned, crate::Series::Off, &mut |_: f64| {}).1
        };
        assert!(phase(&mut rig, &PhaseSpec::warm_up(workload::warm_up::FILL)).is_none());
        assert!(phase(&mut rig, &experiment.phases[1]).is_none());
        for lpn in (0..1200).step_by(SAMPLE_STRIDE as usize) {
            rig.reference.corrupt(Lpn(lpn));
        }
        let walk = crate::invariants::of_mapping("end", &rig);
        assert!(walk.invariants.iter().any(|found| !found.held));
        let stop = phase(&mut rig, &experiment.phases[1]);
        assert!(matches!(stop, Some(crate::host::Stop::Mismatch { .. })), "{stop:?}");
    }
}

/// A registered scheme cannot be made to panic from here, so the catching itself is tested in `run.rs`'s own
/// terms.
#[test]
fn a_panic_names_scheme_seed_phase_and_command() {
    let phase = RefCell::new(String::new());
    let experiment = small_experiment();
    let error = crate::run::caught(&experiment, &phase, || {
        Runner::begin(0, &experiment, &(), &phase)?.run::<Faulty<PANICS>>()
    });
    let text = error.err().map(|error| error.to_string()).unwrap_or_default();
    for part in ["scheme page", "seed 1", "phase randread", "wits' end", "repeat with: scheme page"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// The same with pauses of the host in which the scheme may do what it likes.
fn run_faulty_with_pauses<const FAULT: u8>() -> Result<crate::results::Run, RunError> {
    let (phase, mut experiment) = (RefCell::new(String::new()), small_experiment());
    for spec in &mut experiment.phases {
        let Load::Jobs(jobs) = &mut spec.load else { continue };
        jobs.jobs.iter_mut().for_each(|job| (job.thinktime_ns, job.thinktime_blocks) = (1_000_000, 100));
    }
    Runner::begin(0, &experiment, &(), &phase)?.run::<Faulty<FAULT>>()
}

#[test]
fn nobody_thinks_behind_the_last_request() {
    let [plain, thinking] = [0, 1_000_000_000].map(|think_ns| {
        let mut experiment = small_experiment();
        for spec in &mut experiment.phases {
            let Load::Jobs(jobs) = &mut spec.load else { continue };
            for job in &mut jobs.jobs {
                (job.thinktime_ns, job.thinktime_blocks) = (think_ns, job.number_ios.unwrap_or(1));
            }
        }
        run_page(&experiment).expect("it runs")
    });
    for (plain, thinking) in plain.phases.iter().zip(&thinking.phases) {
        assert_eq!((thinking.elapsed_ns, &thinking.die_use), (plain.elapsed_ns, &plain.die_use));
        assert_eq!(thinking.energy, plain.energy);
    }
}

/// All requests arrive at once: without a limit the device has more to do than memory has room for.
#[test]
fn a_load_that_the_device_cannot_serve_ends_the_run_and_one_with_a_limit_does_not() {
    let overloaded = |outstanding| {
        let mut experiment = small_experiment();
        let bytes = 256 * 4096;
        let write = Request { arrival_ns: 0, kind: Kind::Write, offset: 0, bytes };
        let source = Arc::new(Listed::new("flood", vec![write; 1000]));
        experiment.phases = vec![PhaseSpec::new("flood", Load::Open { source, outstanding })];
        run_page(&experiment).map_err(|error| error.to_string())
    };
    let error = overloaded(None).expect_err("256,000 pages at once");
    assert!(error.starts_with("requests arrive faster than the device can serve them"), "{error}");
    assert!(error.contains("phase flood"), "{error}");
    assert!(overloaded(Some(32)).is_ok());
}

#[test]
fn idle_work_without_room_ends_no_run_and_a_broken_medium_does() {
    assert!(run_faulty_with_pauses::<IDLES_WITHOUT_SPACE>().is_ok());
    let error = run_faulty_with_pauses::<IDLES_ON_RUINS>().err().map(|error| error.to_string());
    assert!(error.is_some_and(|text| text.starts_with("the medium is out of order")));
}

#[test]
fn a_device_whose_blocks_fail_one_by_one_ends_the_run_with_what_happened() {
    let mut experiment = small_experiment();
    experiment.faults.erase_fail_ppm = 50_000;
    if let Some(Load::Jobs(jobs)) = experiment.phases.last_mut().map(|phase| &mut phase.load) {
        jobs.jobs[0].number_ios = Some(1_000_000);
    }
    let run = run_page(&experiment).expect("the end of a device's life is a result");
    let end = run.worn_out.expect("the device is worn out");
    assert!(end.bad_blocks > 0 && end.bad_blocks < end.blocks, "{end:?}");
    assert!(
        end.bytes_written > 0 && end.requests < 1_000_000 && end.most_erases >= end.least_erases,
        "{end:?}"
    );
    assert!(run.phases.last().is_some_and(|phase| phase.name == end.phase), "{end:?}");
}

#[test]
fn a_device_is_used_until_its_blocks_have_had_their_erases() {
    let mut experiment = small_experiment();
    (experiment.device.endurance, experiment.until_worn) = (Some(20), true);
    let run = run_page(&experiment).expect("the end of a device's life is a result");
    let end = run.worn_out.clone().expect("the device is worn out");
    assert!(end.rounds > 1 && end.most_erases <= 22 && end.mean_erases > 5.0, "{end:?}");
    let good: u32 = end.erase_histogram.iter().map(|(_, blocks)| blocks).sum();
    assert_eq!(good + end.bad_blocks, end.blocks, "{end:?}");
    assert_eq!(end.erase_histogram.first().map(|bin| bin.0), Some(end.least_erases));
    // The first round alone is measured, and the rounds after it leave the result short.
    assert_eq!(run.phases.len(), experiment.phases.len());
    let (again, once) = (run_page(&experiment), run_page(&Experiment { until_worn: false, ..experiment }));
    assert!(again.is_ok_and(|again| again.same_findings(&run)));
    assert!(
        once.is_ok_and(|once| once.invariants.len() + 8 > run.invariants.len() && once.worn_out.is_none())
    );
}

/// What was told of a run: phases by name, and how much of the last one is done.
#[derive(Default)]
struct Heard(std::sync::Mutex<(Vec<String>, Vec<f64>)>);

impl crate::Progress for Heard {
    fn phase(&self, _run: usize, _phase: usize, _phases: usize, name: &str) {
        let mut heard = self.0.lock().expect("no panic");
        heard.0.push(name.to_owned());
        heard.1.clear();
    }

    fn fraction(&self, _run: usize, done: f64) {
        self.0.lock().expect("no panic").1.push(done);
    }
}

#[test]
fn the_rounds_until_a_device_is_worn_out_are_told_as_one_phase() {
    let mut experiment = small_experiment();
    (experiment.device.endurance, experiment.until_worn) = (Some(20), true);
    let heard = Heard::default();
    let run = crate::run_of::<PageMap>(&experiment, &heard).expect("the end of a device's life is a result");
    let rounds = run.worn_out.map(|end| end.rounds);
    assert!(rounds.is_some_and(|rounds| rounds > 5), "{rounds:?}");
    let (names, parts) = heard.0.into_inner().expect("no panic");
    assert_eq!(names, ["warm-up", "randtrim", "randread", "randwrite", "until worn out"]);
    assert!(parts.is_sorted() && parts.iter().all(|part| (0.0..=1.0).contains(part)), "{parts:?}");
    assert!(parts.first().is_some_and(|&part| part < 0.5) && parts.last().is_some_and(|&part| part > 0.8));
}

#[test]
fn reads_alone_wear_nothing_out() {
    let mut experiment = small_experiment();
    (experiment.device.endurance, experiment.until_worn) = (Some(20), true);
    experiment.phases.retain(|phase| phase.name == "randread");
    assert_eq!(experiment.phases.len(), 1);
    let error = run_page(&experiment).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("needs a workload that writes"), "{error}");
}

#[test]
fn the_ideal_map_writes_its_table_on_all_dies_at_a_time() {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 4,
        planes_per_lun: 1,
        blocks_per_plane: 32,
        pages_per_block: 32,
        page_bytes: 512,
        oob_bytes: 64,
    };
    let device = DeviceSpec::tiny(geometry, 5800);
    let faults = nand::SimOptions::default();
    let rig = crate::run::new_rig::<PageMap>(&device, &Config::new(5800, 1 << 20), &faults, Verify::Off);
    let mut rig = rig.expect("a device").with_clock(crate::run::queued(&device, None));
    let written = rig.device.request(HostOp::Write, Lpn(0), 5800, Done::READY, &mut |_, _| {});
    assert!(written.is_ok());
    rig.drain();
    let (begun_ns, before) = (rig.clock().now(), rig.device.nand().counts().total_programs());
    rig.device.power_off().expect("it is switched off");
    rig.drain();
    let programs = rig.device.nand().counts().total_programs() - before;
    let one_by_one_ns = programs * device.times().program_ns;
    let took_ns = rig.clock().now() - begun_ns;
    assert!(programs > 40 && took_ns < one_by_one_ns / 4, "{programs} programs in {took_ns} ns");
}
