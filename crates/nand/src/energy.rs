//! Energy per operation, after NANDFlashSim (Jung et al., MSST 2012): each state of a die (reading,
//! programming, erasing, transferring, idle) draws a current from the supply for as long as the state lasts.
//!
//! The constants are a preset's and typical of data sheets, not of one chip; only ratios between runs on the
//! same device mean anything. One state, one current: the peaks inside a program or erase are averaged out,
//! and neither the controller nor the host interface is included.

use serde::{Deserialize, Serialize};

use crate::timing::Times;
use crate::OpCounts;

/// Supply voltage and the current that one die draws in each state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyModel {
    /// Supply voltage, V; each current below is drawn at it.
    pub supply_v: f64,
    /// Current while the array reads a page, mA.
    pub read_ma: f64,
    /// Current while the array programs a page, mA.
    pub program_ma: f64,
    /// Current while the array erases a block, mA.
    pub erase_ma: f64,
    /// Current while a page crosses the channel, mA.
    pub transfer_ma: f64,
    /// Current of a die with nothing to do, mA.
    pub idle_ma: f64,
}

/// The keys of [`EnergyModel`], for messages.
pub(crate) const ENERGY_KEYS: [&str; 6] =
    ["supply_v", "read_ma", "program_ma", "erase_ma", "transfer_ma", "idle_ma"];

/// Where the energy went, joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Energy {
    /// Reading pages into the dies' registers, failed reads included.
    pub read_j: f64,
    /// Programming pages, failed programs included.
    pub program_j: f64,
    /// Erasing blocks, failed erases included.
    pub erase_j: f64,
    /// Transfers of pages over the channels, both directions; 0 when the channel is not modelled.
    pub transfer_j: f64,
    /// Dies with nothing to do, for as long as they had nothing to do.
    pub idle_j: f64,
}

impl Energy {
    /// Everything together: what the flash drew, without controller and host interface.
    pub fn total_j(&self) -> f64 {
        self.read_j + self.program_j + self.erase_j + self.transfer_j + self.idle_j
    }
}

impl Default for EnergyModel {
    /// 3.3 V; 25 mA for array operations; 10 mA for transfers; 10 uA idle. See `devices/femu-32g.toml`.
    fn default() -> EnergyModel {
        EnergyModel {
            supply_v: 3.3,
            read_ma: 25.0,
            program_ma: 25.0,
            erase_ma: 25.0,
            transfer_ma: 10.0,
            idle_ma: 0.01,
        }
    }
}

impl EnergyModel {
    /// Energy of the operations in `counts` on a device with `times`, and of `idle_ns` die-nanoseconds of
    /// idleness (the sum of [`crate::timing::DieUse::idle_ns`] over all dies). Each read and program is one
    /// transfer. Failed operations cost as much as others; a suspension's overhead costs nothing.
    pub fn joules(&self, counts: &OpCounts, times: &Times, idle_ns: u64) -> Energy {
        let (reads, programs) = (counts.total_reads(), counts.total_programs());
        let energy =
            |count: u64, ns: u64, ma: f64| count as f64 * ns as f64 * 1e-9 * ma * 1e-3 * self.supply_v;
        Energy {
            read_j: energy(reads, times.read_ns, self.read_ma),
            program_j: energy(programs, times.program_ns, self.program_ma),
            erase_j: energy(counts.total_erases(), times.erase_ns, self.erase_ma),
            transfer_j: energy(reads + programs, times.transfer_ns, self.transfer_ma),
            idle_j: energy(1, idle_ns, self.idle_ma),
        }
    }

    /// The first value that is not a finite number of at least 0 (the voltage: above 0), by key.
    pub(crate) fn wrong_value(&self) -> Option<(&'static str, f64)> {
        let values =
            [self.supply_v, self.read_ma, self.program_ma, self.erase_ma, self.transfer_ma, self.idle_ma];
        let wrong = |&(key, value): &(&str, f64)| {
            !value.is_finite() || value < 0.0 || (key == "supply_v" && value == 0.0)
        };
        ENERGY_KEYS.into_iter().zip(values).find(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_current_times_voltage_times_time() {
        let model = EnergyModel {
            supply_v: 3.0,
            read_ma: 10.0,
            program_ma: 20.0,
            erase_ma: 30.0,
            transfer_ma: 5.0,
            idle_ma: 0.01,
        };
        let times = Times {
            read_ns: 40_000,
            program_ns: 200_000,
            erase_ns: 2_000_000,
            transfer_ns: 10_000,
            suspend_ns: 0,
            controller_cores: 1,
        };
        let counts =
            OpCounts { reads: [100, 0, 50, 0, 0], programs: [0, 60, 0, 40, 0], erases: [0, 0, 0, 0, 2] };
        let energy = model.joules(&counts, &times, 1_000_000_000);
        let near = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-12, "{found}");
        near(energy.read_j, 150.0 * 40e-6 * 0.010 * 3.0);
        near(energy.program_j, 100.0 * 200e-6 * 0.020 * 3.0);
        near(energy.erase_j, 2.0 * 2e-3 * 0.030 * 3.0);
        near(energy.transfer_j, 250.0 * 10e-6 * 0.005 * 3.0);
        near(energy.idle_j, 1.0 * 10e-6 * 3.0);
        near(
            energy.total_j(),
            energy.read_j + energy.program_j + energy.erase_j + energy.transfer_j + energy.idle_j,
        );
        assert_eq!(model.joules(&OpCounts::default(), &times, 0), Energy::default());
    }
}
