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
//! | switch and partial merges, which delta counts (II-B) | `InOrder` | `log_block/sequential.rs` |
//! | victim of the sequential area (III-B) | `Victim` | `log_block/sequential.rs` |
//! | historical access table, HAT (III-C) | [`Hat`] | `adapt/hat.rs` |
//! | aggregated data movement, tau (III-D) | [`Adapt::next_victim`] | |
//! | early reuse of log blocks, ERL (III-D) | [`Adapt::reuse_early`] | |
//! | algorithm 2, merge or move (III-E) | [`Adapt::reclaim`] | |
//!
//! Parameters where the paper can be read in two ways; docs/schemes/adapt.md has the measurements:
//! - `partial`: a sequential request that begins inside a logical block has the pages in front of it copied
//!   first, because NAND takes pages in order. Is the merge of such a log block a partial one? By the words
//!   "the log block will also replace its relevant data block" (II-B) it is (`any`); by figure 2(b), whose
//!   log block holds the first pages, it is not (`first`). `stream`, our default, follows the figure over
//!   several allocations: the merge is partial if the host wrote the block in order from its first page, and
//!   only the size of the area made it begin again ("using one log block tends to result in block
//!   thrashing"). `half` asks for a host that wrote at least half of the block's pages in this allocation.
//! - `equal`: a request of exactly `threshold` pages is random, because a small request is "one that is 4KB
//!   (2 pages with 2KB per page), or less" (II-A). By the words "predefined 4KB threshold" (III-B) it could
//!   be sequential.
//! - `idle`: an interval without an allocation leaves delta = 0 / 0. Where the threshold is high, the
//!   sequential area found nothing to do, and "was not very effective" (III-B) fits: delta is 0 and the
//!   threshold falls (`lower`). Where it is low, no request "was incorrectly treated as sequential", and
//!   nothing changes. A firmware that takes the fraction for 0 turns the threshold at every such interval
//!   (`zero`); one that leaves the fraction alone never comes back from a high threshold (`keep`).
//! - `victim`: "it is better to find a block that will make a full merge or partial merge" (III-B): `merge`
//!   takes one of a full merge before one of a partial merge, and one that would switch last.
//! - `evidence`: the adjustment comes "every INTERVAL requests" (III-B). The paper does not say where the
//!   threshold begins, and at a low one each request in the middle of a block may cost the copies of a whole
//!   block. So an interval ends early once so many sequential log blocks were merged in it and delta over
//!   these is below 0.1 at a low threshold, or above 0.4 with an area that can grow: 64 merges tell 0.1 from
//!   0.4 with less than one error in a million. A low threshold that is new (at the start, and whenever it is
//!   tried again) is on trial: after so many merges delta must be above 0.4, where the paper finds more
//!   sequential blocks "likely to be profitable", else it rises. 0 gives intervals their length.
//! - `area`: the sequential area has one block at least and 1/16 of the log at most (IV-A); with which it
//!   begins is not said. `most` is where LAST stands, whose threshold we begin with, too: streams are not
//!   merged for want of room while the low threshold is on trial. `least` is where FAST stands.
//! - `latency`: "a latency might be needed to gradually adapt to a specific workload" (III-B). A high
//!   threshold without use is kept for an interval, and for twice as long each time that a low one fails, up
//!   to so many intervals: for two after the first failure. A low one that serves begins anew. 1 has no such
//!   latency.
//!
//! Choices where the paper is silent:
//! - The threshold of an interval holds from its first request on: the request that ends an interval is
//!   judged by the new one, and a log block that it opens counts in the new interval.
//! - A page that is the next one of its logical block's sequential log block is appended to it whatever its
//!   request's size (FAST's second condition); else a request below the threshold goes to the random area.
//! - A request that goes back in its sequential log block has that one merged and begins another.
//! - A page is known to the HAT if a request recorded there lies in its logical block, the unit that a merge
//!   is about. By the letter it is known if it lies in the request itself (`match=page`). But such a request
//!   has rewritten the page, so its newest version stands near the rear of the log, hundreds of thousands of
//!   pages behind the head: a valid page of a victim is then never known (measured: docs/schemes/adapt.md),
//!   while the paper's figure 14 shows an effect.
//! - At its greatest size the sequential area keeps its priority.
//! - When the pages of a victim fill the block they move to, nothing was gained: the next victim is merged
//!   without a look at the HAT, so that a write comes to an end.
//! - tau is a share of a block's pages, 87.5 % = 56 of 64.

mod hat;

use crate::breach::Breach;
use crate::counters::{Counters, Stat};
use crate::flash::Flash;
use crate::log_block::random::{block_map_bytes, chosen, page_map_bytes, switches, RandomArea};
use crate::log_block::sequential::{Counts, InOrder, Room, SequentialArea, Victim};
use crate::log_block::stats::{
    EARLY_REUSES, FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, PARTIAL_MERGES, SECOND_CHANCES,
    SECOND_CHANCES_USED, SEQUENTIAL_BLOCKS, SWITCH_MERGES,
};
use crate::log_block::{Core, HostPage, Layout, LogBlock, Policy, LOG};
use crate::scheme::{Config, ConfigError, Info, Parameter};
use hat::{Hat, Merged};
use nand::{Done, Fault, Lpn, Nand};

/// The FTL of the ADAPT paper.
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
/// Work of algorithm 1.
const AREA_GROWN: Stat =
    Stat::new(12, "area_grown", "times", "the sequential area took a block from the random area");
/// The other branch of it.
const AREA_SHRUNK: Stat =
    Stat::new(13, "area_shrunk", "times", "the sequential area gave a block to the random area");
/// The adaptive threshold at work.
const THRESHOLD_CHANGES: Stat =
    Stat::new(14, "threshold_changes", "times", "the sequential threshold rose or fell");

/// What the HAT missed.
const MERGED_REWRITTEN: Stat = Stat::new(
    15,
    "merged_rewritten",
    "pages",
    "pages that the HAT did not know, merged, and rewritten by the host within one turn of the random area",
)
.of(&HAT_LOOKUPS);

/// What an interval without a sequential log block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    /// A threshold above the least one found nothing to do.
    Lower,
    /// The threshold stays as it is.
    Keep,
    /// Delta is 0.
    Zero,
}

#[derive(Clone, Copy, Debug)]
struct Techniques {
    partitioning: bool,
    adaptive_threshold: bool,
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
    /// Requests of more pages are sequential; `equal`: of as many, too.
    threshold: u32,
    equal: bool,
    idle: Idle,
    /// Sequential log blocks merged in an interval that may end it; 0: none do.
    evidence: u32,
    /// The low threshold has not been judged by so many merges since it came.
    on_trial: bool,
    /// Intervals without use that the greater threshold is kept, now and at most, and those so far.
    latency: u32,
    most_latency: u32,
    waited: u32,
    victim: Victim,
    is_sequential: bool,
    hat: Hat,
    /// To judge it; no firmware has this.
    merged: Merged,
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
        stats: &[SWITCH_MERGES, PARTIAL_MERGES, FULL_MERGES, LOG_VICTIMS, LOG_VICTIM_PAGES, SECOND_CHANCES, SECOND_CHANCES_USED, HAT_LOOKUPS, HAT_HITS, AGGREGATED_MOVES, SEQUENTIAL_BLOCKS, EARLY_REUSES, AREA_GROWN, AREA_SHRUNK, THRESHOLD_CHANGES, MERGED_REWRITTEN],
        parameters: &[
            LOG,
            Parameter {
                name: "techniques",
                default: "pshae",
                what: "letters: p partitioning, s adaptive sequential threshold, h HAT, a aggregated movement, e early \
                       reuse; - for none",
            },
            Parameter { name: "interval", default: "4000", what: "write requests between adjustments" },
            Parameter {
                name: "threshold",
                default: "2",
                what: "sequential requests have more pages, at first; for good without s",
            },
            Parameter {
                name: "area",
                default: "most",
                what: "size of the sequential area at first: a block, or 1/16 of the log (least, most)",
            },
            Parameter {
                name: "equal",
                default: "random",
                what: "what a request of as many pages as the threshold is (random, sequential)",
            },
            Parameter {
                name: "partial",
                default: "stream",
                what: "merges of sequential log blocks that count as partial though pages were copied in front of the \
                       host's first: none, those of a stream that went on, those that the host wrote half of, all \
                       (first, stream, half, any)",
            },
            Parameter {
                name: "victim",
                default: "merge",
                what: "sequential log block that makes room: one of a full merge, then of a partial one; the cheapest; \
                       the oldest (merge, cheapest, oldest)",
            },
            Parameter {
                name: "idle",
                default: "lower",
                what: "what an interval without a sequential log block says: delta = 0 where the threshold can fall, \
                       nothing, or delta = 0 always (lower, keep, zero)",
            },
            Parameter {
                name: "evidence",
                default: "64",
                what: "merges of sequential log blocks that end an interval and the trial of a low threshold when they \
                       settle what delta says; 0: none do",
            },
            Parameter {
                name: "latency",
                default: "16",
                what: "most intervals without use for which the greater threshold is kept; it begins with 1 and doubles \
                       when a low threshold fails",
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
        let letters = switches::<Adapt>(config, "pshae")?;
        let has = |letter| letters.contains(letter);
        let integer = |name, least: u32, most: u32| config.number(&Self::INFO, name, least..=most);
        let techniques = Techniques {
            partitioning: has('p'),
            adaptive_threshold: has('s'),
            prediction: has('h'),
            aggregation: has('a'),
            early_reuse: has('e'),
        };
        let most_sequential = (layout.log_blocks / 16).max(1);
        let tau = config.number(&Self::INFO, "tau", 1.0..=100.0)?;
        let entries = u64::from(integer("hat", 6, 1 << 20)?) / HAT_ENTRY;
        Ok(Adapt {
            techniques,
            sequential: SequentialArea::judged_by(
                most_sequential,
                choice(
                    config,
                    "partial",
                    &[
                        ("first", InOrder::First),
                        ("stream", InOrder::Stream),
                        ("half", InOrder::Half),
                        ("any", InOrder::Any),
                    ],
                )?,
            ),
            random: RandomArea::new(layout),
            sequential_blocks: match choice(config, "area", &[("least", false), ("most", true)])? {
                true if techniques.partitioning => most_sequential,
                _ => 1,
            },
            most_sequential,
            threshold: integer("threshold", 1, 1 << 16)?,
            equal: choice(config, "equal", &[("random", false), ("sequential", true)])?,
            idle: choice(
                config,
                "idle",
                &[("lower", Idle::Lower), ("keep", Idle::Keep), ("zero", Idle::Zero)],
            )?,
            evidence: integer("evidence", 0, 1 << 16)?,
            on_trial: true,
            latency: 1,
            most_latency: integer("latency", 1, 1 << 16)?,
            waited: 0,
            victim: choice(
                config,
                "victim",
                &[("merge", Victim::Merge), ("cheapest", Victim::Cheapest), ("oldest", Victim::Oldest)],
            )?,
            is_sequential: false,
            hat: Hat::new(
                entries as usize,
                choice(config, "match", &[("block", Some(layout.block_pages)), ("page", None)])?,
            ),
            merged: Merged::new(layout.logical_blocks as usize * layout.block_pages as usize),
            tau: ((f64::from(layout.block_pages) * tau / 100.0).ceil() as u32).max(1),
            grow_above: config.number(&Self::INFO, "delta", 0.0..=1.0)?,
            interval: integer("interval", 1, u32::MAX - 1)?,
            requests: 0,
            full_merges: 0,
            merged_pages: 0,
        })
    }

    fn restore<N: Nand>(&mut self, core: &mut Core, flash: &Flash<N>, mut logs: Vec<u32>) {
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
            self.adjust(core, flash)?;
            self.is_sequential = page.size > self.threshold || (self.equal && page.size == self.threshold);
        }
        self.random.spared(core, &mut flash.counters, page.lpn);
        let missed = self.merged.rewritten(page.lpn, self.random_blocks(core));
        flash.counters.count(&MERGED_REWRITTEN, u64::from(missed));
        let done = self.place(core, flash, page.lpn, at)?;
        self.reuse_early(core, flash)?;
        Ok(done)
    }

    fn trims(&mut self, core: &Core, counters: &mut Counters, first: Lpn, pages: u32) {
        self.random.all_spared(core, counters, first, pages);
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
            (
                "map of sequential log blocks",
                block_map_bytes(self.most_sequential) + self.sequential.memory(),
            ),
            ("valid pages of log blocks", valid * u64::from(layout.log_blocks)),
            ("HAT", HAT_ENTRY * self.hat.most() as u64),
        ]
    }

    fn check<N: Nand>(&self, core: &Core, _flash: &Flash<N>) -> Result<(), Breach> {
        if self.sequential_blocks == 0 || self.sequential_blocks > self.most_sequential {
            return Err(format!("the sequential area may have {} blocks", self.sequential_blocks).into());
        }
        if self.hat.len() > self.hat.most() {
            return Err(format!("the HAT has {} entries", self.hat.len()).into());
        }
        let mut owners: Vec<u32> = self.sequential.logical_blocks().collect();
        owners.sort_unstable();
        owners.dedup();
        if owners.len() as u32 != self.sequential.len() {
            return Err("two sequential log blocks belong to one logical block".into());
        }
        match owners.last() {
            Some(&last) if last >= core.layout().logical_blocks => {
                Err(format!("a sequential log block belongs to logical block {last}").into())
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
        let room = self.sequential_room();
        let mut done = self.sequential.place(core, flash, lpn, self.is_sequential, room, at)?;
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

    fn sequential_room(&self) -> Room {
        Room { most: self.sequential_blocks, victim: self.victim }
    }

    /// Algorithm 1, and the threshold.
    fn adjust<N: Nand>(&mut self, core: &mut Core, flash: &mut Flash<N>) -> Result<(), Fault> {
        self.requests += 1;
        let is_settled = self.is_settled();
        if self.requests < self.interval && !is_settled {
            return Ok(());
        }
        self.requests = 0;
        let counts = self.sequential.take_counts();
        let delta = self.delta(counts, is_settled);
        let full_merges = std::mem::take(&mut self.full_merges);
        let merged_pages = std::mem::take(&mut self.merged_pages);
        let half = u64::from(core.layout().block_pages) * u64::from(full_merges);
        if self.techniques.partitioning {
            if delta.is_some_and(|delta| delta > self.grow_above) {
                let random = core.log_limit().saturating_sub(self.sequential_blocks);
                if self.sequential_blocks < self.most_sequential && random > LEAST_RANDOM {
                    self.sequential_blocks += 1;
                    flash.counters.count(&AREA_GROWN, 1);
                    self.shrink_random(core, flash)?;
                }
            } else if full_merges > 0 && 2 * merged_pages >= half && self.sequential_blocks > 1 {
                self.sequential_blocks -= 1;
                flash.counters.count(&AREA_SHRUNK, 1);
                let room = self.sequential_room();
                self.sequential.shrink_to(core, flash, room)?;
            }
        }
        if self.techniques.adaptive_threshold && self.turns(delta, is_settled) {
            let [least, most] = THRESHOLDS;
            self.threshold = if self.is_low() { most } else { least };
            flash.counters.count(&THRESHOLD_CHANGES, 1);
        }
        Ok(())
    }

    fn is_low(&self) -> bool {
        self.threshold < THRESHOLDS[1]
    }

    /// Whether the merges of an interval settle what its delta says, before its end.
    #[inline]
    fn is_settled(&self) -> bool {
        let Counts { merged, in_order, .. } = self.sequential.counts();
        if self.evidence == 0 || merged < self.evidence {
            return false;
        }
        let delta = f64::from(in_order) / f64::from(merged);
        let judged = self.techniques.adaptive_threshold && self.is_low();
        let grows = self.techniques.partitioning && self.sequential_blocks < self.most_sequential;
        (judged && (self.on_trial || delta < INEFFECTIVE)) || (grows && delta > self.grow_above)
    }

    /// Switch and partial merges over allocations; over the merges when these ended the interval, because
    /// log blocks that are open still have shown nothing. `None` when it means nothing.
    fn delta(&self, counts: Counts, is_settled: bool) -> Option<f64> {
        let all = if is_settled { counts.merged } else { counts.opened };
        let measured = match self.idle {
            Idle::Keep => all > 0,
            Idle::Lower => all > 0 || !self.is_low(),
            Idle::Zero => true,
        };
        measured.then(|| f64::from(counts.in_order) / f64::from(all.max(1)))
    }

    /// Whether the threshold changes after an interval. A low one rises at once, and after each rise the
    /// greater one is kept for twice as long, until a low one has served for an interval.
    fn turns(&mut self, delta: Option<f64>, is_settled: bool) -> bool {
        let Some(delta) = delta else { return false };
        if self.is_low() {
            let fails = delta < INEFFECTIVE || (self.on_trial && is_settled && delta <= self.grow_above);
            self.latency = if fails { (2 * self.latency).min(self.most_latency) } else { 1 };
            self.on_trial &= !is_settled;
            self.waited = 0;
            return fails;
        }
        self.waited = if delta < INEFFECTIVE { self.waited + 1 } else { 0 };
        self.on_trial = self.waited >= self.latency;
        self.on_trial
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
                self.random.open(core, flash)?;
                self.merged.next_block();
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
        let Some(victim) = self.next_victim(core, flash) else { return Err(core.no_space(flash, 1)) };
        let emptied = self.empty(core, flash, victim, merge_all);
        self.random.back(victim, emptied)
    }

    fn empty<N: Nand>(
        &mut self,
        core: &mut Core,
        flash: &mut Flash<N>,
        victim: u32,
        merge_all: bool,
    ) -> Result<(), Fault> {
        let mut merged = u64::from(chosen(core, flash, victim));
        for position in 0..core.layout().block_pages {
            let Some(lpn) = core.log_lpn(flash, victim, position) else { continue };
            let asked = self.techniques.prediction && !merge_all;
            let known = asked && self.is_known(flash, lpn);
            if known && self.random.move_to_rear(core, flash, lpn)? {
                merged -= 1;
                continue;
            }
            if asked && !known {
                self.merged.record(lpn);
            }
            self.sequential.full_merge(core, flash, lpn)?;
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
                self.random.free(core, flash, block)?;
                self.random.blocks.remove(at);
                flash.counters.count(&EARLY_REUSES, 1);
            }
        }
        Ok(())
    }
}

/// A parameter that takes one of a few words, each with what it stands for.
fn choice<T: Copy>(config: &Config, name: &'static str, words: &[(&str, T)]) -> Result<T, ConfigError> {
    let given = config.parameter(&Adapt::INFO, name);
    words.iter().find(|(word, _)| *word == given).map(|&(_, value)| value).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
        ConfigError(format!("scheme adapt: {name} = {given}; give {}", known.join(" or ")))
    })
}
