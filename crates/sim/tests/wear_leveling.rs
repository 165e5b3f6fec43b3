//! Wear levelling on a load that wears a part of the blocks alone: it evens the wear out, and it costs few
//! writes.

use ftl::schemes;
use nand::{Device, Geometry};
use sim::results::Run;
use sim::{Experiment, Load, PhaseSpec};
use workload::fio::JobFile;

/// Erases that a block may lag behind; blocks stand 120.
const GAP: u32 = 4;

/// A tenth of the device is overwritten until blocks fail; the rest was written once.
/// `None`: the scheme does not level wear.
fn worn(scheme: &str, gap: Option<u32>) -> Option<Run> {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 64,
        pages_per_block: 16,
        page_bytes: 4096,
        oob_bytes: 64,
    };
    let text = "[global]\nbs=4k\nnorandommap\n[warmup]\nrw=write\nsize=100%\n[hot]\nstonewall\nrw=randwrite\nsize=10%\nio_size=8m\n";
    let jobs = JobFile::parse("hot.fio", text).expect("a job file");
    let mut experiment = Experiment::new(Device::tiny(geometry, 2900), scheme);
    (experiment.device.endurance, experiment.until_worn, experiment.wear_gap) = (Some(120), true, gap);
    experiment.cache = "50%".parse().expect("a share");
    (experiment.warm_up, experiment.phases) = PhaseSpec::of_job_file(&jobs).expect("phases");
    assert!(matches!(experiment.phases[0].load, Load::Jobs(_)));
    match sim::run(&experiment, &()) {
        Ok(run) => Some(run),
        Err(error) if error.to_string().contains("no static wear levelling") => None,
        Err(error) => panic!("{scheme}: {error}"),
    }
}

#[test]
fn the_most_erased_block_has_at_most_half_more_than_the_mean() {
    let mut levelled = 0;
    for info in schemes::ALL {
        let (Some(with), Some(without)) = (worn(info.name, Some(GAP)), worn(info.name, None)) else {
            continue;
        };
        let spread = |run: &Run| {
            let end = run.worn_out.as_ref().expect("it wears out");
            (f64::from(end.most_erases) / end.mean_erases, end.bytes_written)
        };
        let ((even, life), (uneven, before)) = (spread(&with), spread(&without));
        let name = info.name;
        let wa = |run: &Run| {
            run.worn_out.as_ref().map_or(0.0, |end| end.programs as f64 / end.pages_written as f64)
        };
        println!(
            "{name}: {uneven:.2} to {even:.2}, {before} to {life} bytes, WA {:.3} to {:.3}",
            wa(&without),
            wa(&with)
        );
        assert!(even <= 1.5, "{name}: the most erased block has {even:.2} times the mean");
        assert!(uneven > 2.0, "{name}: without levelling {uneven:.2}: the load does not show anything");
        assert!(2 * life > 3 * before, "{name}: the host wrote {life} bytes, and {before} without levelling");
        assert!(wa(&with) < wa(&without) * 1.5, "{name}: {} and {}", wa(&with), wa(&without));
        levelled += 1;
    }
    assert!(levelled >= 10, "{levelled} schemes level wear");
}
