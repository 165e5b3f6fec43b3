//! How much memory a run takes, and how much there is.

use nand::DeviceSpec;

use crate::spec::Experiment;

/// Memory that a run takes for each physical page, bytes: the array has 9, and the tables of the hungriest
/// schemes make it 14 to 16 (`ftl bench`, column "a page").
const BYTES_A_PAGE: u64 = 16;

/// Memory that a run of the experiment takes, bytes.
pub fn need(experiment: &Experiment) -> u64 {
    need_of(&experiment.device)
}

/// Memory that a device takes, simulated or live, bytes.
pub fn need_of(device: &DeviceSpec) -> u64 {
    let geometry = &device.geometry;
    let pages = u64::from(geometry.blocks()) * u64::from(geometry.pages_per_block);
    pages.saturating_mul(BYTES_A_PAGE)
}

/// Memory that programs can still take, swap included, bytes; `None` where the system does not tell.
pub fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    Some((of("MemAvailable")? + of("SwapFree").unwrap_or(0)) << 10)
}
