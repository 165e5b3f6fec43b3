//! A device: the shape of its array, how long things take, how much of it the host sees, what it draws.
//!
//! Presets are the TOML files in `crates/nand/devices`; any other device is a file of the same form.

mod parse;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;

use crate::energy::EnergyModel;
use crate::timing::{Policy, Times};
use crate::{Geometry, GeometryError};

pub use parse::{parse_size, SizeError};

/// The embedded presets: name and text.
const PRESETS: [(&str, &str); 7] = [
    ("femu-32g", include_str!("../../devices/femu-32g.toml")),
    ("tpftl-512m", include_str!("../../devices/tpftl-512m.toml")),
    ("tpftl-16g", include_str!("../../devices/tpftl-16g.toml")),
    ("flashsim-slc", include_str!("../../devices/flashsim-slc.toml")),
    ("ufs-32g", include_str!("../../devices/ufs-32g.toml")),
    ("d4", include_str!("../../devices/d4.toml")),
    ("slow-512m", include_str!("../../devices/slow-512m.toml")),
];

/// An SSD as a device file describes it: size and shape, timing, energy and spare space.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSpec {
    /// Short name, by which presets are asked for and results are labelled.
    pub name: String,
    /// What it is, in one line.
    pub what: String,
    /// Shape of the array: it decides how much can go on at once.
    pub geometry: Geometry,
    /// From the array into the die's register, ns; the transfer comes on top.
    pub read_ns: u64,
    /// From the die's register into the array, ns; the transfer comes on top.
    pub program_ns: u64,
    /// Erasing a block, ns.
    pub erase_ns: u64,
    /// Time that a suspension adds to an operation, ns.
    pub suspend_ns: u64,
    /// Bandwidth of each channel, MB/s (10^6 bytes); 0 = transfers take no time and the channel is not
    /// modelled.
    pub channel_mb_s: f64,
    /// Logical pages that the host sees: LPNs are below this. The rest is over-provisioning.
    pub exported_pages: u32,
    /// Blocks bad from the factory, parts per million.
    pub factory_bad_ppm: u32,
    /// Who may overtake whom in a die's queue.
    pub policy: Policy,
    /// Host software's time per request, ns.
    pub host_overhead_ns: u64,
    /// Host CPUs that spend it.
    pub host_cpus: u32,
    /// Controller cores that serve [`crate::Nand::compute`].
    pub controller_cores: u32,
    /// Memory in the controller, bytes, where the device is known for it.
    pub sram_bytes: Option<u64>,
    /// Erases that a block stands in the mean; `None`: any number ([`SimOptions::endurance`]).
    ///
    /// [`SimOptions::endurance`]: crate::SimOptions::endurance
    pub endurance: Option<u32>,
    /// Currents from which [`EnergyModel::joules`] makes energy.
    pub energy: EnergyModel,
}

/// Why there is no such device: one sentence with what, where and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No preset of this name, and no such file if a file was asked for.
    #[error("device `{name}`: {why}; the presets are {}", presets_in_words())]
    Unknown {
        /// As asked for.
        name: String,
        /// What was tried.
        why: String,
    },
    /// A device file with a mistake in it.
    #[error("{file}, line {line}: {what}")]
    File {
        /// Its name.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The key, what is wrong with it and what would be right.
        what: String,
    },
    /// A device changed by the program into an impossible one.
    #[error("device `{device}`: {what}")]
    Device {
        /// Its name.
        device: String,
        /// The key, what is wrong with it and what would be right.
        what: String,
    },
}

/// A field out of range: its key in a device file, and a sentence that names it.
struct Problem {
    key: String,
    what: String,
}

impl Problem {
    fn new(key: &str, what: impl std::fmt::Display) -> Problem {
        Problem { key: key.to_string(), what: format!("{key} {what}") }
    }
}

impl DeviceSpec {
    /// Names that [`DeviceSpec::named`] knows, in the order in which they are listed to users.
    pub fn presets() -> [&'static str; PRESETS.len()] {
        PRESETS.map(|(name, _)| name)
    }

    /// The preset of this name; an error lists the names there are.
    pub fn named(name: &str) -> Result<DeviceSpec, DeviceError> {
        match PRESETS.iter().find(|(preset, _)| *preset == name) {
            Some((preset, text)) => DeviceSpec::parse(&format!("{preset}.toml"), text),
            None => Err(DeviceError::Unknown { name: name.into(), why: "no preset has this name".into() }),
        }
    }

    /// A preset or, if none has this name, the device in the file of this path.
    pub fn load(name_or_path: &str) -> Result<DeviceSpec, DeviceError> {
        if PRESETS.iter().any(|(preset, _)| *preset == name_or_path) {
            return DeviceSpec::named(name_or_path);
        }
        let text =
            std::fs::read_to_string(Path::new(name_or_path)).map_err(|error| DeviceError::Unknown {
                name: name_or_path.into(),
                why: format!("no preset has this name, and as a file it cannot be read ({error})"),
            })?;
        DeviceSpec::parse(name_or_path, &text)
    }

    /// The device that a TOML text describes; `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<DeviceSpec, DeviceError> {
        parse::parse(file, text)
    }

    /// A device for tests: 40/200/2000 us, no channel, no bad block, one controller core.
    ///
    /// # Panics
    /// If the geometry or the exported capacity is impossible; the message is the sentence a file would get.
    pub fn tiny(geometry: Geometry, exported_pages: u32) -> DeviceSpec {
        let device = DeviceSpec {
            name: "tiny".into(),
            what: "a small device for tests".into(),
            geometry,
            read_ns: 40_000,
            program_ns: 200_000,
            erase_ns: 2_000_000,
            suspend_ns: 0,
            channel_mb_s: 0.0,
            exported_pages,
            factory_bad_ppm: 0,
            policy: Policy::Fcfs,
            host_overhead_ns: 0,
            host_cpus: 1,
            controller_cores: 1,
            sram_bytes: None,
            endurance: None,
            energy: EnergyModel::default(),
        };
        match device.check() {
            Ok(()) => device,
            Err(error) => panic!("{error}"),
        }
    }

    /// Durations for a timing model; a transfer moves a page with its OOB.
    pub fn times(&self) -> Times {
        let page = u64::from(self.geometry.page_bytes) + u64::from(self.geometry.oob_bytes);
        let transfer_ns =
            if self.channel_mb_s > 0.0 { (page as f64 * 1e3 / self.channel_mb_s).round() as u64 } else { 0 };
        Times {
            read_ns: self.read_ns,
            program_ns: self.program_ns,
            erase_ns: self.erase_ns,
            transfer_ns,
            suspend_ns: self.suspend_ns,
            controller_cores: self.controller_cores,
        }
    }

    /// Capacity of the array, bad blocks included.
    pub fn raw_bytes(&self) -> u64 {
        self.geometry.raw_bytes()
    }

    /// Capacity that the host sees, in bytes.
    pub fn exported_bytes(&self) -> u64 {
        u64::from(self.exported_pages) * u64::from(self.geometry.page_bytes)
    }

    /// What the host does not see: raw less exported, bad blocks included.
    pub fn over_provisioning_bytes(&self) -> u64 {
        self.raw_bytes() - self.exported_bytes()
    }

    /// Exported capacity as a share of raw capacity: how full of valid pages the array can get.
    pub fn utilisation(&self) -> f64 {
        self.exported_bytes() as f64 / self.raw_bytes() as f64
    }

    /// Blocks bad from the factory: their share of all blocks, rounded.
    pub fn factory_bad_blocks(&self) -> u32 {
        let share = u64::from(self.geometry.blocks()) * u64::from(self.factory_bad_ppm);
        ((share + 500_000) / 1_000_000) as u32
    }

    /// The same device with another exported capacity, a multiple of the page size.
    pub fn with_exported_bytes(mut self, bytes: u64) -> Result<DeviceSpec, DeviceError> {
        let pages = self.exported_pages_of(bytes);
        self.exported_pages = pages.map_err(|problem| self.error(problem))?;
        self.check()?;
        Ok(self)
    }

    /// Whether every field is possible. Every constructor ends with this; fields changed afterwards are the
    /// caller's.
    pub fn check(&self) -> Result<(), DeviceError> {
        self.problem().map_or(Ok(()), |problem| Err(self.error(problem)))
    }

    fn error(&self, problem: Problem) -> DeviceError {
        DeviceError::Device { device: self.name.clone(), what: problem.what }
    }

    fn exported_pages_of(&self, bytes: u64) -> Result<u32, Problem> {
        let page = u64::from(self.geometry.page_bytes);
        if !bytes.is_multiple_of(page) {
            let nearest = (bytes / page).max(1) * page;
            let what = format!(
                "is {bytes} bytes, which is no multiple of the page ({page} bytes); {nearest} would be"
            );
            return Err(Problem::new("exported", what));
        }
        u32::try_from(bytes / page).map_err(|_| self.exported_too_large(bytes))
    }

    fn exported_too_large(&self, bytes: u64) -> Problem {
        let page = u64::from(self.geometry.page_bytes);
        let bad = u64::from(self.factory_bad_blocks());
        let good =
            (u64::from(self.geometry.blocks()) - bad) * u64::from(self.geometry.pages_per_block) * page;
        let less_bad = if bad == 0 { String::new() } else { format!(" ({bad} bad blocks left out)") };
        let what = format!(
            "is {bytes} bytes, but only {good} bytes of flash are good{less_bad}, which leaves no over-provisioning; an \
             FTL needs a few percent, so export at most about {} bytes",
            good / 100 * 95 / page * page
        );
        Problem::new("exported", what)
    }

    fn problem(&self) -> Option<Problem> {
        if let Err(error) = self.geometry.check() {
            return Some(geometry_problem(error));
        }
        let durations = [
            ("times.read_us", self.read_ns),
            ("times.program_us", self.program_ns),
            ("times.erase_us", self.erase_ns),
        ];
        if let Some((key, _)) = durations.into_iter().find(|&(_, ns)| ns == 0) {
            return Some(Problem::new(key, "is 0; an operation takes at least 0.001 us"));
        }
        if self.endurance == Some(0) {
            return Some(Problem::new(
                "endurance",
                "is 0; a block stands at least one erase, or leave it out",
            ));
        }
        if !self.channel_mb_s.is_finite() || self.channel_mb_s < 0.0 {
            let what = format!("is {}; it must be 0 (off) or a positive number of MB/s", self.channel_mb_s);
            return Some(Problem::new("times.channel_mb_s", what));
        }
        for (key, count) in [("host.cpus", self.host_cpus), ("controller.cores", self.controller_cores)] {
            if count == 0 {
                return Some(Problem::new(key, "is 0; it must be at least 1"));
            }
        }
        if self.factory_bad_ppm >= 1_000_000 {
            let what = format!("is {}; it must be below 1000000 (parts per million)", self.factory_bad_ppm);
            return Some(Problem::new("factory_bad_ppm", what));
        }
        if let Some((key, value)) = self.energy.wrong_value() {
            let least = if key == "supply_v" { "above 0" } else { "0 or more" };
            return Some(Problem::new(
                &format!("energy.{key}"),
                format!("is {value}; it must be a number, {least}"),
            ));
        }
        self.exported_problem()
    }

    fn exported_problem(&self) -> Option<Problem> {
        if self.exported_pages == 0 {
            return Some(Problem::new("exported", "is 0; the host must see at least one page"));
        }
        let good = self.geometry.blocks() - self.factory_bad_blocks();
        if u64::from(self.exported_pages) >= u64::from(good) * u64::from(self.geometry.pages_per_block) {
            return Some(self.exported_too_large(self.exported_bytes()));
        }
        None
    }
}

/// [`Geometry::check`]'s sentence, with its key.
fn geometry_problem(error: GeometryError) -> Problem {
    match error.field() {
        Some(field) => Problem { key: format!("geometry.{field}"), what: format!("geometry.{error}") },
        None => Problem::new("geometry", format!("has {error}")),
    }
}

fn presets_in_words() -> String {
    DeviceSpec::presets().join(", ")
}
