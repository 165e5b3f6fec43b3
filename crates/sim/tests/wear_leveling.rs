//! Wear levelling on a load that wears a part of the blocks alone: it evens the wear out, and it costs few
//! writes. How devices end.

use crate::common::{experiment, phase, short, tiny};
use ftl::schemes;
use nand::{DeviceSpec, Geometry};
use sim::results::Run;
use sim::{CacheSize, Experiment, Load, PhaseSpec};
use workload::fio::{JobFile, Pattern};
use workload::warm_up::LEARNEDFTL;

/// Erases that a block may lag behind; blocks stand 120.
const GAP: u32 = 4;

/// What the warm-up writes: every page once.
const FILL: u64 = 2900;

/// The job `hot` again and again until blocks fail, after every page was written once.
fn worn(scheme: &str, gap: Option<u32>, hot: &str) -> Run {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 64,
        pages_per_block: 16,
        page_bytes: 4096,
        oob_bytes: 64,
    };
    let text = format!(
        "[global]\nbs=4k\nnorandommap\n[warmup]\nrw=write\nsize=100%\n[hot]\nstonewall\n{hot}\nio_size=8m\n"
    );
    let jobs = JobFile::parse("hot.fio", &text).expect("a job file");
    let mut experiment = Experiment::new(DeviceSpec::tiny(geometry, FILL as u32), scheme);
    (experiment.device.endurance, experiment.until_worn, experiment.wear_gap) = (Some(120), true, gap);
    experiment.cache = "50%".parse().expect("a share");
    (experiment.warm_up, experiment.phases) = PhaseSpec::of_job_file(&jobs).expect("phases");
    assert!(matches!(experiment.phases[0].load, Load::Jobs(_)));
    sim::run(&experiment, &()).unwrap_or_else(|error| panic!("{scheme}: {error}"))
}

/// The most erases of a block by the mean; pages that the host wrote after the first ones; programs for each
/// of them.
fn end_of(run: &Run) -> (f64, u64, f64) {
    let end = run.worn_out.as_ref().expect("it wears out");
    let written = end.pages_written - FILL;
    let amplification = (end.programs - FILL) as f64 / written as f64;
    (f64::from(end.most_erases) / end.mean_erases, written, amplification)
}

#[test]
fn the_most_erased_block_has_at_most_half_more_than_the_mean() {
    // A tenth of the device is overwritten; the rest was written once.
    let hot = "rw=randwrite\nsize=10%";
    for info in schemes::ALL {
        let name = info.name;
        let (even, life, with) = end_of(&worn(name, Some(GAP), hot));
        let (uneven, before, without) = end_of(&worn(name, None, hot));
        println!("{name}: {uneven:.2} to {even:.2}, {before} to {life} pages, WA {without:.3} to {with:.3}");
        assert!(even <= 1.5, "{name}: the most erased block has {even:.2} times the mean");
        assert!(uneven > 2.0, "{name}: without levelling {uneven:.2}: the load does not show anything");
        assert!(2 * life > 3 * before, "{name}: the host wrote {life} pages, and {before} without levelling");
        assert!(with < without * 1.5, "{name}: {without} and {with}");
    }
}

#[test]
fn where_nothing_lies_levelling_writes_next_to_nothing() {
    for name in schemes::LOG_BLOCK.iter().copied().chain(["tide"]) {
        let (_, life, with) = end_of(&worn(name, Some(16), "rw=randwrite\nsize=100%"));
        let (_, before, without) = end_of(&worn(name, None, "rw=randwrite\nsize=100%"));
        println!("{name}: {before} to {life} pages, WA {without:.3} to {with:.3}");
        assert!(with < without * 1.03, "{name}: {without} and {with}");
    }
}

/// Blocks that have had few erases, and the same number of them, fail at about one time: also those that are
/// just erased to be written.
#[test]
fn a_device_whose_blocks_fail_together_is_worn_out() {
    for info in schemes::ALL {
        for seed in 1..5 {
            let writes = phase("write", vec![short(Pattern::RandWrite, 1, 4, 20_000)]);
            let mut experiment = experiment(tiny(), info.name, vec![writes]);
            (experiment.device.endurance, experiment.seed) = (Some(7), seed);
            experiment.cache = CacheSize::Bytes(64 << 10);
            experiment.warm_up = vec![PhaseSpec::warm_up(LEARNEDFTL)];
            let run = sim::run(&experiment, &()).unwrap_or_else(|error| panic!("{}: {error}", info.name));
            assert!(run.worn_out.is_some_and(|end| end.bad_blocks > 0), "{} with seed {seed}", info.name);
        }
    }
}

/// Many blocks reach their limit at once. What was acknowledged before is read after a power cut, too, and
/// every valid page is mapped.
#[test]
fn a_worn_out_device_opens_after_a_power_cut() {
    let geometry = Geometry { blocks_per_plane: 60, pages_per_block: 16, ..tiny().geometry };
    for (geometry, exported) in [
        (
            Geometry {
                channels: 1,
                luns_per_channel: 1,
                blocks_per_plane: 400,
                pages_per_block: 8,
                ..geometry.clone()
            },
            500,
        ),
        (Geometry { channels: 2, luns_per_channel: 2, ..geometry }, 600),
    ] {
        for info in schemes::ALL.iter().filter(|info| !schemes::LOG_BLOCK.contains(&info.name)) {
            for seed in 1..4 {
                let writes = phase("write", vec![short(Pattern::RandWrite, 1, 4, 2_000)]);
                let mut experiment =
                    experiment(DeviceSpec::tiny(geometry.clone(), exported), info.name, vec![writes]);
                (experiment.device.endurance, experiment.seed) = (Some(20), seed);
                (experiment.until_worn, experiment.power_cut) = (true, true);
                experiment.cache = CacheSize::Bytes(12 << 10);
                let run = sim::run(&experiment, &());
                let run = run.unwrap_or_else(|error| panic!("{} with seed {seed}: {error}", info.name));
                assert!(run.worn_out.is_some_and(|end| end.bad_blocks > 0), "{} with seed {seed}", info.name);
                let broken: Vec<_> = run.invariants.iter().filter(|one| !one.held).collect();
                assert!(broken.is_empty(), "{} with seed {seed}: {broken:?}", info.name);
            }
        }
    }
}
