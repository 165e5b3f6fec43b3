//! The analytical models of the TPFTL paper (EuroSys 2015, section 3.1, equations 1 to 13): what address
//! translation and collection cost, from six measured numbers and the device's times.
//!
//! | paper | here |
//! | --- | --- |
//! | `H_r`, `P_rd`, `R_w`, `H_gcr`, mean valid pages, `N_p` | [`Inputs`] |
//! | `T_fr`, `T_fw`, `T_fe` | [`Times`] |
//! | equations 2, 3, 5, 7, 8, 9 | [`Inputs::counts`] |
//! | `T_at` (1), `T_gcd` (10), `T_gct` (11), `A` (13) | [`Inputs::predict`] |
//!
//! Derived anew, the equations stand as printed: (10) follows from (4) and (7), (11) from (3), (6), (8) and
//! (9), (13) from (2), (3), (5), (7) to (9) and (12); a test composes them. What they assume, and where a
//! simulation leaves it:
//! - Equation 1: a miss loads one translation page and replaces one unit, whose write-back is a read and a
//!   write. Where a miss replaces several entries, or none because the cache is not full, or where one
//!   write brings several to flash, `P_rd` as a share of what is replaced says little; [`Inputs::of`] takes
//!   the write-backs for each miss, which is the same where one unit is replaced for each miss. CDFTL writes
//!   back whole pages, without the read ([`Inputs::reads_to_write`]), as the paper says of S-FTL.
//! - Equation 3: each mapping of a moved page that is not cached costs an update of its own. Collection
//!   groups the moved pages of a victim by translation page (DFTL's batch update), so there are fewer.
//!   [`Gc::Grouped`] takes `H_gcr` as the share of moved pages without an update of their own;
//!   [`Gc::Entries`] takes it as printed.
//! - Equations 7 and 9: the device is full, and a collection gains `N_p` minus its valid pages, all of which
//!   are used up before the next. Over a short run, or one that starts with free blocks, collections are
//!   fewer or more.
//! - Times add up: one die, nothing overlaps. With several dies they are time of dies, not of requests.
//!
//! `H_gcr`, `V_d` and `V_t` are what collection does. Measured in the run that is predicted they would be the
//! result itself; [`Inputs::predicted`] takes them from other runs of the same workload. The paper holds them
//! to be outside of what distinguishes the schemes. For `V_d` and, on most workloads, `H_gcr` of those of
//! [`DESCRIBED`] that is so. `V_t` falls with what a scheme writes back, so `T_gct` by itself is no
//! prediction ([`PREDICTED`]). Of a page access and of write amplification it is a part.

use crate::results::{ratio, DeviceInfo, Phase};

/// Times of the flash operations, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Page read, transfer included (`T_fr`).
    pub read_ns: f64,
    /// Page program, transfer included (`T_fw`).
    pub program_ns: f64,
    /// Erase of a block, ns (`T_fe`).
    pub erase_ns: f64,
}

impl Times {
    /// Of a device as it was run.
    pub fn of(device: &DeviceInfo) -> Times {
        let timing = &device.timing;
        Times {
            read_ns: (timing.read_ns + timing.transfer_ns) as f64,
            program_ns: (timing.program_ns + timing.transfer_ns) as f64,
            erase_ns: timing.erase_ns as f64,
        }
    }
}

/// Schemes that the models describe. Each serves the others as the run to take collection's inputs from; the
/// first that there is.
pub const DESCRIBED: [&str; 4] = ["dftl", "tpftl", "hcftl", "cdftl"];

/// Why the models do not describe a scheme; none if they do. docs/schemes/tpftl.md has the errors.
pub fn refusal(scheme: &str) -> Option<&'static str> {
    match scheme {
        _ if DESCRIBED.contains(&scheme) => None,
        "page" => Some("nothing is looked up on flash; V_d of the others is taken from it"),
        "sftl" => {
            Some("collection finds whole pages or single entries cached, so H_gcr is not another scheme's")
        }
        "zftl" => {
            Some("collection finds next to none of its mappings cached, so H_gcr is not another scheme's")
        }
        "lazyftl" => Some("its writes ask for no mapping, and equation 1 charges each that is not cached"),
        _ => Some("its mapping is no demand cache of entries over translation pages"),
    }
}

/// What `H_gcr` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gc {
    /// Moved pages whose mapping was cached, as the paper defines it.
    Entries,
    /// Moved pages that cost no translation page update of their own.
    Grouped,
}

/// What the models start from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inputs {
    /// Hit ratio of address translation (`H_r`), 0..=1.
    pub hit_ratio: f64,
    /// Write-backs for each miss (`P_rd`), 0..=1 when a miss replaces at most one unit.
    pub dirty_replaced: f64,
    /// Share of writes among user page accesses (`R_w`), 0..=1.
    pub writes: f64,
    /// Hit ratio of collection's mapping updates (`H_gcr`), 0..=1.
    pub gc_hit_ratio: f64,
    /// Mean valid pages of a collected data block (`V_d`).
    pub valid_data: f64,
    /// Mean valid pages of a collected translation block (`V_t`).
    pub valid_translation: f64,
    /// Pages of a block (`N_p`).
    pub block_pages: f64,
    /// Whether a write-back in address translation reads the page first.
    pub reads_to_write: bool,
}

/// What [`Inputs::predicted`] tells of a run that it was not taken from, by the names of [`Costs::named`].
pub const PREDICTED: [&str; 4] = ["T_at", "T_gcd", "page access", "write amplification"];

/// Flash operations for each user page access, by equations 2, 3, 5, 7, 8 and 9.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counts {
    /// Data blocks collected (`N_gcd`).
    pub data_collections: f64,
    /// Data pages moved (`N_md`).
    pub data_moved: f64,
    /// Translation page writes in address translation (`N_tw`).
    pub write_backs: f64,
    /// Translation page writes for moved data pages (`N_dt`).
    pub gc_updates: f64,
    /// Translation blocks collected (`N_gct`).
    pub translation_collections: f64,
    /// Translation pages moved (`N_mt`).
    pub translation_moved: f64,
}

/// What the models predict, or a simulation found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Address translation for each user page access (`T_at`), ns.
    pub translation_ns: f64,
    /// Collection of data blocks for each user page access (`T_gcd`), ns.
    pub data_gc_ns: f64,
    /// Collection of translation blocks for each user page access (`T_gct`), ns.
    pub translation_gc_ns: f64,
    /// All of that and the access itself, ns.
    pub access_ns: f64,
    /// Write amplification (`A`); none without writes.
    pub write_amplification: Option<f64>,
}

impl Inputs {
    /// As measured in a phase. `None` when nothing was looked up or no user page was accessed.
    pub fn of(phase: &Phase, device: &DeviceInfo, gc: Gc) -> Option<Inputs> {
        let mapping = &phase.mapping;
        let or_none = |part: u64, whole: u64| ratio(part as f64, whole as f64).unwrap_or(0.0);
        let units = device.dies() * u64::from(device.planes_per_lun);
        let per_block = |moved: u64, superblocks: u64| or_none(moved, superblocks * units);
        let gc_hit_ratio = match gc {
            Gc::Entries => mapping.gc_hit_ratio().unwrap_or(1.0),
            Gc::Grouped => 1.0 - or_none(gc_updates(phase).1, phase.gc.valid_moved_data),
        };
        Some(Inputs {
            hit_ratio: mapping.hit_ratio()?,
            dirty_replaced: or_none(mapping.write_backs, mapping.misses),
            writes: ratio(phase.pages_written as f64, accesses(phase))?,
            gc_hit_ratio,
            valid_data: per_block(phase.gc.valid_moved_data, phase.gc.collections_data),
            valid_translation: per_block(phase.gc.valid_moved_translation, phase.gc.collections_translation),
            block_pages: f64::from(device.pages_per_block),
            reads_to_write: true,
        })
    }

    /// What a phase of `scheme` is predicted from: its own lookups, and what collection did in other runs of
    /// the workload: `V_d` in the ideal map's, if there is one, all else in `other`'s.
    pub fn predicted(
        scheme: &str,
        own: &Phase,
        ideal: Option<&Phase>,
        other: &Phase,
        device: &DeviceInfo,
    ) -> Option<Inputs> {
        let of = |phase| Inputs::of(phase, device, Gc::Grouped);
        let (own, other) = (of(own)?, of(other)?);
        let valid_data = ideal.and_then(of).map_or(other.valid_data, |ideal| ideal.valid_data);
        let reads_to_write = scheme != "cdftl";
        Some(Inputs {
            gc_hit_ratio: other.gc_hit_ratio,
            valid_translation: other.valid_translation,
            valid_data,
            reads_to_write,
            ..own
        })
    }

    /// Flash operations for each user page access.
    pub fn counts(&self) -> Counts {
        let data_collections = self.writes / (self.block_pages - self.valid_data); // (7)
        let data_moved = data_collections * self.valid_data; // (2)
        let gc_updates = data_moved * (1.0 - self.gc_hit_ratio); // (3)
        let write_backs = (1.0 - self.hit_ratio) * self.dirty_replaced; // (8)
        let translation_collections =
            (write_backs + gc_updates) / (self.block_pages - self.valid_translation); // (9)
        let translation_moved = translation_collections * self.valid_translation; // (5)
        Counts {
            data_collections,
            data_moved,
            write_backs,
            gc_updates,
            translation_collections,
            translation_moved,
        }
    }

    /// Equations 1, 10, 11 and 13.
    pub fn predict(&self, times: &Times) -> Costs {
        let Inputs { hit_ratio, dirty_replaced, writes, gc_hit_ratio, .. } = *self;
        let Inputs { valid_data, valid_translation, block_pages, .. } = *self;
        let Times { read_ns, program_ns, erase_ns } = *times;
        let copy_ns = read_ns + program_ns;
        let (data_gain, translation_gain) = (block_pages - valid_data, block_pages - valid_translation);
        let write_back_ns = if self.reads_to_write { copy_ns } else { program_ns };
        let translation_ns = (1.0 - hit_ratio) * (read_ns + dirty_replaced * write_back_ns);
        let data_gc_ns = writes * (valid_data * (2.0 - gc_hit_ratio) * copy_ns + erase_ns) / data_gain;
        let updates = writes * valid_data * (1.0 - gc_hit_ratio) / data_gain;
        let translation_gc_ns = ((1.0 - hit_ratio) * dirty_replaced + updates)
            * (valid_translation * copy_ns + erase_ns)
            / translation_gain;
        let user_ns = writes * program_ns + (1.0 - writes) * read_ns;
        let moved = block_pages / translation_gain;
        let write_amplification = (writes > 0.0).then(|| {
            1.0 + (1.0 - hit_ratio) * dirty_replaced * moved / writes
                + (1.0 + (1.0 - gc_hit_ratio) * moved) * valid_data / data_gain
        });
        Costs {
            translation_ns,
            data_gc_ns,
            translation_gc_ns,
            access_ns: user_ns + translation_ns + data_gc_ns + translation_gc_ns,
            write_amplification,
        }
    }
}

impl Costs {
    /// What a simulation found, by the operations that it made and their times. `None` when no user page was
    /// accessed.
    pub fn simulated(phase: &Phase, times: &Times) -> Option<Costs> {
        let Times { read_ns, program_ns, erase_ns } = *times;
        let ns = |reads: u64, programs: u64, erases: f64| {
            reads as f64 * read_ns + programs as f64 * program_ns + erases * erase_ns
        };
        let of = |cause: &str| phase.flash.get(cause).copied().unwrap_or_default();
        let accesses = accesses(phase);
        if accesses == 0.0 {
            return None;
        }
        let (translation, gc) = (of("translation"), of("collection"));
        let moved = &phase.gc;
        let (update_reads, updates) = gc_updates(phase);
        let of_data = ratio(moved.collections_data as f64, moved.collections() as f64).unwrap_or(0.0)
            * gc.erases as f64;
        let data_gc = ns(moved.valid_moved_data + update_reads, moved.valid_moved_data + updates, of_data);
        let translation_gc =
            ns(moved.valid_moved_translation, moved.valid_moved_translation, gc.erases as f64 - of_data);
        let all = phase.flash_total();
        Some(Costs {
            translation_ns: ns(translation.reads, translation.programs, 0.0) / accesses,
            data_gc_ns: data_gc / accesses,
            translation_gc_ns: translation_gc / accesses,
            access_ns: ns(all.reads, all.programs, all.erases as f64) / accesses,
            write_amplification: phase.write_amplification().map(|found| found.total),
        })
    }

    /// By name, in the order of the paper's equations; times in ns.
    pub fn named(&self) -> [(&'static str, Option<f64>); 5] {
        [
            ("T_at", Some(self.translation_ns)),
            ("T_gcd", Some(self.data_gc_ns)),
            ("T_gct", Some(self.translation_gc_ns)),
            ("page access", Some(self.access_ns)),
            ("write amplification", self.write_amplification),
        ]
    }
}

/// User page accesses (`N_pa`).
fn accesses(phase: &Phase) -> f64 {
    (phase.pages_read + phase.pages_written) as f64
}

/// Translation pages read and written by collection because their data pages moved.
fn gc_updates(phase: &Phase) -> (u64, u64) {
    let gc = phase.flash.get("collection").copied().unwrap_or_default();
    let moved = phase.gc.valid_moved_data + phase.gc.valid_moved_groups + phase.gc.valid_moved_translation;
    (gc.reads.saturating_sub(moved), gc.programs.saturating_sub(moved))
}

/// By how much a prediction misses, relative to what was found; none when nothing was found.
pub fn error(predicted: Option<f64>, found: Option<f64>) -> Option<f64> {
    ratio(predicted? - found?, found?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times { read_ns: 25_000.0, program_ns: 200_000.0, erase_ns: 1_500_000.0 };

    fn inputs() -> Inputs {
        Inputs {
            hit_ratio: 0.6,
            dirty_replaced: 0.7,
            writes: 0.8,
            gc_hit_ratio: 0.3,
            valid_data: 40.0,
            valid_translation: 10.0,
            block_pages: 64.0,
            reads_to_write: true,
        }
    }

    #[test]
    fn the_closed_forms_are_the_composed_equations() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9 * a.abs().max(1.0), "{a} is not {b}");
        let (i, n) = (inputs(), inputs().counts());
        let copy_ns = TIMES.read_ns + TIMES.program_ns;
        let costs = i.predict(&TIMES);
        // (4) and (6), each for one user page access.
        close(
            costs.data_gc_ns,
            (n.data_moved + n.gc_updates) * copy_ns + n.data_collections * TIMES.erase_ns,
        );
        close(
            costs.translation_gc_ns,
            n.translation_moved * copy_ns + n.translation_collections * TIMES.erase_ns,
        );
        // (12).
        let extra = n.write_backs + n.data_moved + n.gc_updates + n.translation_moved;
        close(costs.write_amplification.unwrap(), (i.writes + extra) / i.writes);
    }

    #[test]
    fn what_is_never_missed_and_never_moved_costs_the_access_and_its_erase() {
        let ideal =
            Inputs { hit_ratio: 1.0, valid_data: 0.0, valid_translation: 0.0, writes: 1.0, ..inputs() };
        let costs = ideal.predict(&TIMES);
        assert_eq!((costs.translation_ns, costs.translation_gc_ns), (0.0, 0.0));
        assert_eq!((costs.data_gc_ns, costs.write_amplification), (1_500_000.0 / 64.0, Some(1.0)));
        assert_eq!(Inputs { writes: 0.0, ..ideal }.predict(&TIMES).write_amplification, None);
    }

    #[test]
    fn a_miss_costs_a_load_and_a_dirty_victim_a_read_and_a_write_more() {
        let costs = inputs().predict(&TIMES);
        assert!((costs.translation_ns - 0.4 * (25_000.0 + 0.7 * 225_000.0)).abs() < 1e-6);
        let whole = Inputs { reads_to_write: false, ..inputs() }.predict(&TIMES);
        assert!((whole.translation_ns - 0.4 * (25_000.0 + 0.7 * 200_000.0)).abs() < 1e-6);
    }
}
