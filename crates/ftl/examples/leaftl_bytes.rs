//! Bytes a mapped LPN and levels probed of LeaFTL's groups, for five write patterns and some error bounds.
//!
//!     cargo run --release -p ftlkit-ftl --example leaftl_bytes
//!
//! 1 Mi LPNs (4 GiB) are written twice over through a write buffer of 2,048 pages (of 128 in the last table),
//! to consecutive pages, without collection; groups are compacted every million pages. The flat table has 4
//! bytes a page. A group's record is counted, and no directory. Random requests are aligned to their size.
//! The last table has the time of a lookup on the processor at hand. Zipf: exponent 0.99, popularity
//! scattered over the LPNs, or (grouped) falling with the LPN.

use ftl::schemes::leaftl::group::{find, most_bytes, Group, Piece, Reach};
use ftl::schemes::leaftl::segment::learn;
use std::time::Instant;

const LPNS: u32 = 1 << 20;
const VOLUMES: u32 = 2;
const PERIOD: u32 = 1_000_000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u32
    }
}

/// Chooses the first LPN of a request of `pages`.
enum Pattern {
    Sequential,
    Uniform,
    /// By rank, cumulative; and whether popular pages lie side by side.
    Zipf(Vec<f64>, bool),
}

struct Model {
    gamma: u32,
    reach: Reach,
    groups: Vec<Vec<u8>>,
    scratch: Group,
    truth: Vec<u32>,
    next: u32,
}

impl Model {
    fn new(gamma: u32, reach: Reach) -> Model {
        Model {
            gamma,
            reach,
            groups: vec![Vec::new(); LPNS as usize / 256],
            scratch: Group::with_room(),
            truth: vec![u32::MAX; LPNS as usize],
            next: 0,
        }
    }

    fn write(&mut self, sorted: &[u32]) {
        for run in sorted.chunk_by(|a, b| a / 256 == b / 256) {
            let first = self.next;
            self.next += run.len() as u32;
            let points: Vec<(u8, u32)> = (first..).zip(run).map(|(ppn, lpn)| (*lpn as u8, ppn)).collect();
            for (ppn, lpn) in (first..).zip(run) {
                self.truth[*lpn as usize] = ppn;
            }
            let (mut pieces, mut from) = (Vec::new(), 0);
            let gamma = self.gamma as usize;
            // Only pages of the same run of a group tell of each other.
            let tells = |i: usize, ppn: u32| {
                ppn >= first
                    && ppn < first + points.len() as u32
                    && (ppn - first).abs_diff(i as u32) as usize <= gamma
            };
            learn(&points, self.gamma, tells, |segment, count| {
                let members = points[from..from + count].iter().map(|point| point.0).collect();
                pieces.push(Piece::new(segment, members));
                from += count;
            });
            let reach = self.reach;
            self.change(run[0] as usize / 256, |group| group.insert(&pieces, reach));
        }
    }

    fn change(&mut self, group: usize, change: impl FnOnce(&mut Group)) {
        self.scratch.unpack(&self.groups[group]);
        change(&mut self.scratch);
        if self.scratch.packed_bytes() > most_bytes(256) || self.scratch.levels() > 200 {
            self.scratch.compact();
        }
        self.groups[group].clear();
        self.scratch.pack(&mut self.groups[group]);
    }

    fn compact(&mut self) {
        for group in 0..self.groups.len() {
            self.change(group, Group::compact);
        }
    }

    /// Bytes a mapped LPN, levels probed a lookup, share of lookups that mispredict.
    /// Looks LPNs up at random, ten million times. Returns nanoseconds a lookup.
    fn time(&self) -> f64 {
        const LOOKUPS: u32 = 10_000_000;
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let begun = Instant::now();
        let mut found = 0;
        for _ in 0..LOOKUPS {
            let lpn = random.below(LPNS);
            found += u32::from(find(&self.groups[lpn as usize / 256], lpn as u8).0.is_some());
        }
        assert!(found > 0);
        begun.elapsed().as_nanos() as f64 / f64::from(LOOKUPS)
    }

    fn measure(&self) -> (f64, f64, f64) {
        let (mut mapped, mut levels, mut wrong) = (0u64, 0u64, 0u64);
        for (lpn, &ppn) in (0..).zip(&self.truth).filter(|(_, &ppn)| ppn != u32::MAX) {
            let lpn: u32 = lpn;
            let (answer, probed) = find(&self.groups[lpn as usize / 256], lpn as u8);
            let answer = answer.unwrap_or_else(|| panic!("LPN {lpn} is mapped nowhere"));
            assert!(answer.ppn.abs_diff(ppn) <= if answer.exact { 0 } else { self.gamma });
            mapped += 1;
            levels += u64::from(probed);
            wrong += u64::from(answer.ppn != ppn);
        }
        let bytes: usize = self.groups.iter().map(Vec::len).sum();
        let a = |sum: u64| sum as f64 / mapped as f64;
        (a(bytes as u64), a(levels), a(wrong))
    }
}

fn run(pattern: &Pattern, pages: u32, gamma: u32, buffer: usize, reach: Reach) -> Model {
    let mut model = Model::new(gamma, reach);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut held: Vec<u32> = Vec::new();
    let (mut written, mut since, mut cursor) = (0, 0, 0);
    let mut dedup = vec![false; LPNS as usize];
    while written < VOLUMES * LPNS {
        let first = match pattern {
            Pattern::Sequential => {
                cursor = (cursor + pages) % LPNS;
                cursor
            }
            Pattern::Uniform => random.below(LPNS / pages) * pages,
            Pattern::Zipf(cumulative, together) => {
                let at = f64::from(random.below(u32::MAX)) / f64::from(u32::MAX)
                    * cumulative[cumulative.len() - 1];
                let rank = cumulative.partition_point(|&c| c < at) as u32;
                if *together {
                    rank
                } else {
                    rank.wrapping_mul(0x9E37_79B1) % LPNS
                }
            }
        };
        for lpn in first..first + pages {
            if !std::mem::replace(&mut dedup[lpn as usize], true) {
                held.push(lpn);
            }
            if held.len() == buffer {
                held.sort_unstable();
                held.iter().for_each(|&lpn| dedup[lpn as usize] = false);
                model.write(&held);
                held.clear();
                since += buffer as u32;
            }
        }
        written += pages;
        if since >= PERIOD {
            since = 0;
            model.compact();
        }
    }
    model
}

fn main() {
    let mut sum = 0.0;
    let mut add = |rank: u32| {
        sum += f64::from(rank).powf(-0.99);
        sum
    };
    let zipf: Vec<f64> = (1..=LPNS).map(&mut add).collect();
    let patterns = [
        ("sequential", Pattern::Sequential, 32),
        ("random 128 KB", Pattern::Uniform, 32),
        ("random 32 KB", Pattern::Uniform, 8),
        ("zipf 4 KB", Pattern::Zipf(zipf.clone(), false), 1),
        ("zipf, grouped", Pattern::Zipf(zipf, true), 1),
        ("uniform 4 KB", Pattern::Uniform, 1),
    ];
    for (buffer, reach) in [(2048, Reach::Top), (2048, Reach::All), (128, Reach::Top)] {
        let when = if reach == Reach::Top { "the top level" } else { "all levels" };
        println!("\nbuffer of {buffer} pages, overwritten members taken out of {when}: bytes a mapped LPN, levels probed, mispredicted %");
        print!("{:14}", "");
        let gammas: &[u32] = if (buffer, reach) == (2048, Reach::Top) { &[0, 4, 16] } else { &[4] };
        gammas.iter().for_each(|gamma| print!(" | gamma {gamma:<12}"));
        println!();
        for (name, pattern, pages) in &patterns {
            print!("{name:14}");
            for &gamma in gammas {
                let (bytes, levels, wrong) = run(pattern, *pages, gamma, buffer, reach).measure();
                print!(" | {bytes:6.3} {levels:5.1} {:4.1} ", 100.0 * wrong);
            }
            println!();
        }
    }
    println!("\nlevels probed, ns a lookup (gamma 4, buffer of 2048 pages)");
    for (name, pattern, pages) in &patterns {
        let model = run(pattern, *pages, 4, 2048, Reach::Top);
        println!("{name:14} | {:5.1} | {:5.1}", model.measure().1, model.time());
    }
}
