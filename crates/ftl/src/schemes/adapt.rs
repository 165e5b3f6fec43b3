//! ADAPT: aggregated data movement augmenting predictive transfers.
//!
//! Wang, Wong, "ADAPT: Efficient Workload-sensitive Flash Management Based on Adaptation, Prediction and
//! Aggregation", MSST 2012.
//!
//! | paper's term (section) | here | where |
//! | --- | --- | --- |
//! | sequential area, random area (III-B) | [`Adapt::sequential`], [`Adapt::random`] | `log_block/` |
//! | delta, phi, INTERVAL, algorithm 1 (III-B) | [`Adapt::adjust`] | |
//! | sequential threshold, 2 or 32 pages (III-B) | [`Adapt::threshold`] | |
//! | victim of the sequential area (III-B) | `SequentialArea::cheapest` | `log_block/sequential.rs` |
//! | historical access table, HAT (III-C) | [`Hat`] | |
//! | aggregated data movement, tau (III-D) | [`Adapt::next_victim`] | |
//! | early reuse of log blocks, ERL (III-D) | [`Adapt::reuse_early`] | |
//! | algorithm 2, merge or move (III-E) | [`Adapt::reclaim`] | |
//!
//! Choices where the paper is silent:
//! - A sequential request that begins inside a logical block has the pages in front of it copied first,
//!   because NAND takes pages in order. That merge counts as a full one in delta: it was no sequential write
//!   of the block.
//! - A page that is the next one of its logical block's sequential log block is appended to it whatever its
//!   request's size (FAST's second condition); else a request below the threshold goes to the random area.
//! - A request that goes back in its sequential log block has that one merged and begins another.
//! - A page is known to the HAT if a request recorded there lies in its logical block, the unit that a merge
//!   is about. By the letter it is known if it lies in the request itself (`match=page`). But such a request
//!   has rewritten the page, so its newest version stands near the rear of the log, hundreds of thousands of
//!   pages behind the head: a valid page of a victim is then never known (measured: docs/schemes/adapt.md),
//!   while the paper's figure 14 shows an effect.
//! - An interval without an allocation says nothing of the sequential area: delta changes nothing then. At
//!   its greatest size the sequential area keeps its priority.
//! - When the pages of a victim fill the block they move to, nothing was gained: the next victim is merged
//!   without a look at the HAT, so that a write comes to an end.
//! - tau is a share of a block's pages, 87.5 % = 56 of 64.

use crate::counters::Stat;
use crate::flash::Flash;
use crate::log_block::random::{block_map_bytes, chosen, page_map_bytes, switches, RandomArea};
use crate::log_block::sequential::SequentialArea;
use crate::log_block::stats::{
    EARLY_REUSES, FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, PARTIAL_MERGES, SECOND_CHANCES,
    SECOND_CHANCES_USED, SEQUENTIAL_BLOCKS, SWITCH_MERGES,
};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info, Parameter};
use nand::{Done, Fault, Lpn, Nand};
use std::collections::VecDeque;

/// ADAPT.
pub type AdaptFtl = LogBlock<Adapt>;

/// Least and greatest sequential threshold, pages.
const THRESHOLDS: [u32; 2] = [2, 32];
/// Below this delta the threshold changes.
const INEFFECTIVE: f64 = 0.1;
/// Bytes of an entry of the HAT: base page 4, pages 2.
const HAT_ENTRY: u64 = 6;
/// Random log blocks without which there is nothing to choose: two at the head, one at the rear.
const LEAST_RANDOM: u32 = 3;

/// Questions to the historical access table.
const HAT_LOOKUPS: Stat = Stat::new(
    9,
    "hat_lookups",
    "pages",
    "valid pages of such blocks looked up in the historical access table (HAT)",
)
.of(&LOG_VICTIM_PAGES);
/// Answers of it.
const HAT_HITS: Stat = Stat::new(10, "hat_hits", "pages", "of these, known to it").of(&HAT_LOOKUPS);
/// Aggregated data movement.
const AGGREGATED_MOVES: Stat =
    Stat::new(11, "aggregated_moves", "blocks", "whole log blocks put back to the rear of the log")
        .of(&LOG_VICTIMS);

#[derive(Clone, Copy, Debug)]
struct Techniques {
    partitioning: bool,
    adaptive_threshold: bool,
    cheapest_victim: bool,
    prediction: bool,
    aggregation: bool,
    early_reuse: bool,
}

/// ADAPT's areas and what it learns.
#[derive(Clone, Debug)]
pub struct Adapt {
    techniques: Techniques,
    sequential: SequentialArea,
    random: RandomArea,
    /// Blocks of the sequential area, and the most it may have.
    sequential_blocks: u32,
    most_sequential: u32,
    /// Requests of so many pages are sequential.
    threshold: u32,
    is_sequential: bool,
    hat: Hat,
    /// Valid pages from which on a block moves as a whole.
    tau: u32,
    grow_above: f64,
    interval: u32,
    requests: u32,
    /// In this interval: random log blocks emptied, and their pages merged.
    full_merges: u32,
    merged_pages: u64,
}

impl Policy for Adapt {
    const INFO: Info = Info {
        name: "adapt",
        what: "log blocks with adaptive areas, predicted transfers, aggregated moves and early reuse",
        paper: "Wang and Wong, MSST 2012",
        stats: &[SWITCH_MERGES, PARTIAL_MERGES, FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, SECOND_CHANCES, SECOND_CHANCES_USED, HAT_LOOKUPS, HAT_HITS, AGGREGATED_MOVES, SEQUENTIAL_BLOCKS, EARLY_REUSES],
        parameters: &[
            LOG,
            Parameter {
                name: "techniques",
                default: "psvhae",
                what: "letters: p partitioning, s adaptive sequential threshold, v cheapest sequential victim, h HAT, a \
                       aggregated movement, e early reuse; - for none",
            },
            Parameter { name: "interval", default: "4000", what: "write requests between adjustments" },
            Parameter {
                name: "threshold",
                default: "2",
                what: "pages of a sequential request, at first; for good without s",
            },
            Parameter { name: "hat", default: "1024", what: "size of the historical access table, bytes" },
            Parameter {
                name: "match",
                default: "block",
                what: "what a request recorded in the HAT makes known: the logical block of its first page, or its pages \
                       (block, page)",
            },
            Parameter {
                name: "tau",
                default: "87.5",
                what: "valid pages from which on a block moves as a whole, %",
            },
            Parameter {
                name: "delta",
                default: "0.4",
                what: "share of in-order merges above which the sequential area grows",
            },
        ],
    };
    const LEAST_LOG: u32 = LEAST_RANDOM + 1;
    const WATCHES: bool = true;

    fn new(config: &Config, layout: &Layout) -> Result<Self, ConfigError> {
        let letters = switches::<Adapt>(config, "psvhae")?;
        let has = |letter| letters.contains(letter);
        let integer = |name, least: u32, most: u32| {
            config.number(&Self::INFO, name, f64::from(least)..=f64::from(most)).map(|value| value as u32)
        };
        let techniques = Techniques {
            partitioning: has('p'),
            adaptive_threshold: has('s'),
            cheapest_victim: has('v'),
            prediction: has('h'),
            aggregation: has('a'),
            early_reuse: has('e'),
        };
        let most_sequential = (layout.log_blocks / 16).max(1);
        let tau = config.number(&Self::INFO, "tau", 1.0..=100.0)?;
        let entries = u64::from(integer("hat", 6, 1 << 20)?) / HAT_ENTRY;
        Ok(Adapt {
            techniques,
            sequential: SequentialArea::new(most_sequential),
            random: RandomArea::new(layout),
            sequential_blocks: 1,
            most_sequential,
            threshold: integer("threshold", 1, 1 << 16)?,
            is_sequential: false,
            hat: Hat::new(entries as usize, match_pages(config, layout)?),
            tau: ((f64::from(layout.block_pages) * tau / 100.0).ceil() as u32).max(1),
            grow_above: config.number(&Self::INFO, "delta", 0.0..=1.0)?,
            interval: integer("interval", 1, u32::MAX - 1)?,
            requests: 0,
            full_merges: 0,
            merged_pages: 0,
        })
    }

    fn restore<N: Nand>(&mut self, core: &Core, flash: &Flash<N>, mut logs: Vec<u32>) {
        self.sequential.restore(core, flash, &mut logs, self.sequential_blocks);
        self.random.blocks.extend(logs);
    }

    fn write<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        page: HostPage,
        at: Done,
    ) -> Result<Done, Fault> {
        if page.is_first() {
            self.hat.record(page.base, page.size);
            self.is_sequential = page.size >= self.threshold;
            self.adjust(core, flash)?;
        }
        self.random.rewritten(core, flash, page.lpn);
        let done = self.place(core, flash, page.lpn, at)?;
        self.reuse_early(core, flash)?;
        Ok(done)
    }

    fn shrink<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.random.merge_oldest(core, flash, &mut self.sequential)
    }

    fn log_blocks(&self, each: &mut dyn FnMut(u32)) {
        self.sequential.iter().chain(self.random.blocks.iter().copied()).for_each(each);
    }

    fn memory(&self, layout: &Layout) -> Vec<(&'static str, u64)> {
        let valid = u64::from(layout.block_pages.ilog2() / 8 + 1);
        vec![
            ("map of random log pages", page_map_bytes(layout.log_blocks - 1, layout.block_pages)),
            ("map of sequential log blocks", block_map_bytes(self.most_sequential)),
            ("valid pages of log blocks", valid * u64::from(layout.log_blocks)),
            ("HAT", HAT_ENTRY * self.hat.most as u64),
        ]
    }

    fn check<N: Nand>(&self, core: &Core, _flash: &Flash<N>) -> Result<(), String> {
        if self.sequential_blocks == 0 || self.sequential_blocks > self.most_sequential {
            return Err(format!("the sequential area may have {} blocks", self.sequential_blocks));
        }
        if self.hat.entries.len() > self.hat.most {
            return Err(format!("the HAT has {} entries", self.hat.entries.len()));
        }
        let mut owners: Vec<u32> = self.sequential.logical_blocks().collect();
        owners.sort_unstable();
        owners.dedup();
        if owners.len() as u32 != self.sequential.len() {
            return Err("two sequential log blocks belong to one logical block".to_owned());
        }
        match owners.last() {
            Some(&last) if last >= core.layout().logical_blocks => {
                Err(format!("a sequential log block belongs to logical block {last}"))
            }
            _ => Ok(()),
        }
    }
}

impl Adapt {
    // ---- III-B: sequential and random area
    // ------------------------------------------------------------------------

    fn place<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
        at: Done,
    ) -> Result<Done, Fault> {
        let (logical, offset) = core.place(lpn);
        let owned = self.sequential.find(logical);
        let in_order = owned.is_some_and(|index| self.sequential.next(core, index) == offset);
        let mut done = if owned.is_none() { core.write_in_place(flash, lpn, at)? } else { None };
        if done.is_none() && (self.is_sequential || in_order) {
            done = self.write_sequential(core, flash, lpn, at)?;
        }
        loop {
            if let Some(done) = done {
                return Ok(done);
            }
            done = self.random.append(core, flash, lpn, at)?;
            if done.is_none() {
                self.make_room(core, flash)?;
            }
        }
    }

    fn write_sequential<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        lpn: Lpn,
        at: Done,
    ) -> Result<Option<Done>, Fault> {
        let (logical, offset) = core.place(lpn);
        let mut owned = self.sequential.find(logical);
        if let Some(index) = owned.filter(|&index| offset < self.sequential.next(core, index)) {
            self.sequential.complete(core, flash, index)?;
            owned = None;
        }
        let index = match owned {
            Some(index) => index,
            None => {
                self.make_sequential_room(core, flash, self.sequential_blocks - 1)?;
                self.sequential.open(core, flash, logical)
            }
        };
        self.sequential.write(core, flash, index, lpn, at)
    }

    /// Merges blocks of the sequential area until it has at most `blocks`.
    fn make_sequential_room<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        blocks: u32,
    ) -> Result<(), Fault> {
        while self.sequential.len() > blocks {
            let victim = if self.techniques.cheapest_victim {
                self.sequential.cheapest(core, flash)
            } else {
                self.sequential.oldest()
            };
            let Some(victim) = victim else { return Ok(()) };
            self.sequential.complete(core, flash, victim)?;
        }
        Ok(())
    }

    /// Algorithm 1, and the threshold.
    fn adjust<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.requests += 1;
        if self.requests < self.interval {
            return Ok(());
        }
        self.requests = 0;
        let (allocated, in_order) = self.sequential.take_counts();
        let full_merges = std::mem::take(&mut self.full_merges);
        let merged_pages = std::mem::take(&mut self.merged_pages);
        let delta = (allocated > 0).then(|| f64::from(in_order) / f64::from(allocated));
        let half = u64::from(core.layout().block_pages) * u64::from(full_merges);
        if self.techniques.partitioning {
            if delta.is_some_and(|delta| delta > self.grow_above) {
                let random = core.log_limit().saturating_sub(self.sequential_blocks);
                if self.sequential_blocks < self.most_sequential && random > LEAST_RANDOM {
                    self.sequential_blocks += 1;
                    self.shrink_random(core, flash)?;
                }
            } else if full_merges > 0 && 2 * merged_pages >= half && self.sequential_blocks > 1 {
                self.sequential_blocks -= 1;
                self.make_sequential_room(core, flash, self.sequential_blocks)?;
            }
        }
        if self.techniques.adaptive_threshold && delta.is_some_and(|delta| delta < INEFFECTIVE) {
            let [least, most] = THRESHOLDS;
            self.threshold = if self.threshold < most { most } else { least };
        }
        Ok(())
    }

    /// Blocks of the random area.
    fn random_blocks(&self, core: &Core) -> u32 {
        core.log_limit().saturating_sub(self.sequential_blocks).max(1)
    }

    fn shrink_random<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        if self.random.len() > self.random_blocks(core) {
            self.make_room(core, flash)?;
        }
        Ok(())
    }

    // ---- III-C, D, E: emptying random log blocks
    // ------------------------------------------------------------------

    /// Sees to it that the rear of the random area has room, and that the area is not too large.
    fn make_room<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        let mut merge_all = false;
        loop {
            if self.random.rear(core).is_none() {
                self.random.open(core, flash);
            }
            if self.random.len() <= self.random_blocks(core) {
                return Ok(());
            }
            self.reclaim(core, flash, merge_all)?;
            merge_all = self.random.rear(core).is_none();
        }
    }

    /// The block to empty: the head, unless it is to move as a whole and the block behind it is not.
    fn next_victim<N: Nand>(&mut self, core: &Core, flash: &mut Flash<N>) -> Option<u32> {
        let head = self.random.blocks.pop_front()?;
        let (full, emptier) = match self.random.blocks.front() {
            Some(&next) => (core.pool.valid(head) >= self.tau, core.pool.valid(next) < self.tau),
            None => (false, false),
        };
        if !(self.techniques.aggregation && full && emptier && self.random.len() > 1) {
            return Some(head);
        }
        flash.counters.count(&AGGREGATED_MOVES, 1);
        let victim = self.random.blocks.pop_front();
        // Just ahead of the block that is written.
        self.random.blocks.insert(self.random.blocks.len() - 1, head);
        victim
    }

    /// Algorithm 2: a valid page that was written recently moves to the rear, any other is merged.
    fn reclaim<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        merge_all: bool,
    ) -> Result<(), Fault> {
        let Some(victim) = self.next_victim(core, flash) else { return Err(core.no_space(1)) };
        let mut merged = u64::from(chosen(core, flash, victim));
        for position in 0..core.layout().block_pages {
            let Some(lpn) = core.log_lpn(flash, victim, position) else { continue };
            let moves = self.techniques.prediction && !merge_all && self.is_known(flash, lpn);
            if moves && self.random.move_to_rear(core, flash, lpn)? {
                merged -= 1;
                continue;
            }
            let (logical, _) = core.place(lpn);
            core.full_merge(flash, logical)?;
            self.sequential.merged(core, flash, logical)?;
        }
        self.full_merges += 1;
        self.merged_pages += merged;
        self.random.free(core, flash, victim)
    }

    /// Whether the HAT knows a page of a victim (algorithm 2, line 19).
    fn is_known<N: Nand>(&self, flash: &mut Flash<N>, lpn: Lpn) -> bool {
        let known = self.hat.knows(lpn);
        flash.counters.count(&HAT_LOOKUPS, 1);
        flash.counters.count(&HAT_HITS, u64::from(known));
        known
    }

    /// Frees the random log blocks whose last valid page went, before their turn.
    fn reuse_early<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        while let Some(block) = core.take_emptied() {
            if !self.techniques.early_reuse
                || core.pool.valid(block) > 0
                || Some(block) == self.random.rear(core)
            {
                continue;
            }
            if let Some(at) = self.random.blocks.iter().position(|&other| other == block) {
                self.random.blocks.remove(at);
                flash.counters.count(&EARLY_REUSES, 1);
                self.random.free(core, flash, block)?;
            }
        }
        Ok(())
    }
}

/// Pages of the unit in which the HAT matches; `None` when a page must lie in the request.
fn match_pages(config: &Config, layout: &Layout) -> Result<Option<u32>, ConfigError> {
    match config.parameter(&Adapt::INFO, "match").as_str() {
        "block" => Ok(Some(layout.block_pages)),
        "page" => Ok(None),
        other => Err(ConfigError(format!("scheme adapt: match = {other}; give block or page"))),
    }
}

/// The historical access table: recent write requests, the least recent first.
#[derive(Clone, Debug)]
struct Hat {
    /// First page and pages.
    entries: VecDeque<(u32, u16)>,
    most: usize,
    unit: Option<u32>,
}

impl Hat {
    fn new(most: usize, unit: Option<u32>) -> Hat {
        Hat { entries: VecDeque::with_capacity(most + 1), most, unit }
    }

    /// Records a write request at the rear.
    fn record(&mut self, base: Lpn, pages: u32) {
        let entry = (base.0, pages.min(u32::from(u16::MAX)) as u16);
        if let Some(at) = self.entries.iter().position(|&other| other == entry) {
            self.entries.remove(at);
        }
        self.entries.push_back(entry);
        if self.entries.len() > self.most {
            self.entries.pop_front();
        }
    }

    /// Whether a page, or its logical block, was written by a request that is recorded.
    fn knows(&self, lpn: Lpn) -> bool {
        self.entries.iter().any(|&(base, pages)| match self.unit {
            Some(unit) => base / unit == lpn.0 / unit,
            None => lpn.0.wrapping_sub(base) < u32::from(pages),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hat_forgets_the_least_recent_request_and_knows_pages_inside() {
        let mut hat = Hat::new(2, None);
        hat.record(Lpn(10), 4);
        hat.record(Lpn(100), 1);
        assert!(hat.knows(Lpn(13)) && !hat.knows(Lpn(14)) && !hat.knows(Lpn(9)));
        hat.record(Lpn(10), 4);
        hat.record(Lpn(10), 2);
        assert!(!hat.knows(Lpn(100)) && hat.knows(Lpn(13)), "{hat:?}");
        assert_eq!(hat.entries.len(), 2);
        let mut hat = Hat::new(2, Some(64));
        hat.record(Lpn(64), 1);
        assert!(hat.knows(Lpn(127)) && !hat.knows(Lpn(63)));
    }
}
