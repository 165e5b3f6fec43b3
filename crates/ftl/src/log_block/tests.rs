//! Each kind of merge of figure 2 of the ADAPT paper, built on purpose: its exact flash operations, and a
//! power cut at every moment of it.

use super::stats::{
    EARLY_REUSES, LOG_VICTIMS, LOG_VICTIM_PAGES, MERGES, SECOND_CHANCES, SECOND_CHANCES_USED,
};
use super::{LogBlock, Policy};
use crate::schemes::{
    adapt::AdaptFtl, bast::BastFtl, fast::FastFtl, faster::FasterFtl, last::LastFtl, waftl::WaftlFtl,
};
use crate::{Cause, Config, Counters, Flash, Scheme};
use nand::timing::NoClock;
use nand::{CrashNand, DeviceSpec, Done, Geometry, Lpn, Nand, SimNand, SimOptions};

/// Blocks of four pages, as in the figure.
const PAGES: u32 = 4;
const EXPORTED: u32 = 24;

fn array(units: u32) -> SimNand<NoClock> {
    let geometry = Geometry {
        channels: units,
        luns_per_channel: 1,
        planes_per_lun: 1,
        blocks_per_plane: 40,
        pages_per_block: PAGES / units,
        page_bytes: 512,
        oob_bytes: 16,
    };
    let options = SimOptions { keep_stale: true, ..SimOptions::default() };
    SimNand::new(&DeviceSpec::tiny(geometry, EXPORTED), NoClock::new(), options)
}

/// `log`: log blocks for the six logical blocks.
fn config(log: u32) -> Config {
    let mut config = Config::new(EXPORTED, 1 << 16);
    config.parameters.insert("log".to_owned(), (100.0 * f64::from(log) / 6.0 - 1.0).to_string());
    config
}

fn open<S: Scheme, N: Nand>(nand: N, config: &Config) -> (Flash<N>, S) {
    let mut flash = Flash::new(nand);
    let scheme = S::open(&mut flash, config).unwrap();
    (flash, scheme)
}

fn write<S: Scheme, N: Nand>(flash: &mut Flash<N>, scheme: &mut S, first: u32, pages: u32, at: Done) -> Done {
    let mut done = at;
    for page in 0..pages {
        let written = scheme.write(flash, Lpn(first + page), pages - page, at).unwrap();
        done = flash.join(done, written);
    }
    done
}

/// A device with every page written once, in order and so in place.
fn filled<S: Scheme>(units: u32, config: &Config) -> (Flash<SimNand<NoClock>>, S) {
    let (mut flash, mut scheme) = open::<S, _>(array(units), config);
    write(&mut flash, &mut scheme, 0, EXPORTED, Done::READY);
    let counters = std::mem::take(&mut flash.counters);
    assert_eq!((counters.all_programs(), counters.all_reads()), (24, counters.reads_by(Cause::Recovery)));
    (flash, scheme)
}

/// Merges by kind.
fn merges(counters: &Counters) -> [u64; 3] {
    MERGES.map(|kind| counters.value(&kind))
}

/// A statistic that the scheme declares, by name.
fn own<S: Scheme>(counters: &Counters, name: &str) -> u64 {
    counters.value(S::INFO.stats.iter().find(|stat| stat.name == name).unwrap())
}

/// Reads, programs and erases of merges, programs of the host.
fn operations(counters: &Counters) -> (u64, u64, u64, u64) {
    let merge = Cause::Merge;
    let erases = counters.erases[merge as usize];
    assert_eq!(counters.all_erases(), erases);
    assert_eq!(counters.all_reads(), counters.reads_by(merge));
    (counters.reads_by(merge), counters.programs_by(merge), erases, counters.programs_by(Cause::Host))
}

#[test]
fn figure_2a_a_switch_merge_copies_nothing_and_erases_one_block() {
    let config = config(3);
    let (mut flash, mut scheme) = filled::<FastFtl>(1, &config);
    write(&mut flash, &mut scheme, 4, 4, Done::READY);
    assert_eq!(merges(&flash.counters), [1, 0, 0]);
    assert_eq!(operations(&flash.counters), (0, 0, 1, 4));
    scheme.check(&flash).unwrap();
}

#[test]
fn figure_2b_a_partial_merge_copies_the_rest() {
    let config = config(3);
    let (mut flash, mut scheme) = filled::<FastFtl>(1, &config);
    write(&mut flash, &mut scheme, 4, 2, Done::READY);
    assert_eq!(operations(&flash.counters), (0, 0, 0, 2));
    // The sequential log block is wanted for another logical block.
    write(&mut flash, &mut scheme, 8, 1, Done::READY);
    assert_eq!(merges(&flash.counters), [0, 1, 0]);
    assert_eq!(operations(&flash.counters), (2, 2, 1, 3));
    scheme.check(&flash).unwrap();
}

/// Fills the two random log blocks of FAST: the first with 2, 5, 6, 9, the second with 5 (again) and 13 three
/// times.
fn fill_random<S: Scheme, N: Nand>(flash: &mut Flash<N>, scheme: &mut S) {
    for lpn in [2, 5, 6, 9, 5, 13, 13, 13] {
        write(flash, scheme, lpn, 1, Done::READY);
    }
}

#[test]
fn figure_2c_a_full_merge_gathers_each_logical_block_of_the_victim() {
    let config = config(3);
    let (mut flash, mut scheme) = filled::<FastFtl>(1, &config);
    fill_random(&mut flash, &mut scheme);
    assert_eq!(operations(&flash.counters), (0, 0, 0, 8));
    write(&mut flash, &mut scheme, 14, 1, Done::READY);
    // 2, 6 and 9 are valid in the victim: three logical blocks of four pages each, three old data blocks, the
    // victim.
    assert_eq!(merges(&flash.counters), [0, 0, 3]);
    assert_eq!(operations(&flash.counters), (12, 12, 4, 9));
    assert_eq!(flash.counters.collections_data, 1);
    scheme.check(&flash).unwrap();
}

#[test]
fn fast_merges_with_the_new_page_when_the_host_leaves_pages_out_or_goes_back() {
    let config = config(3);
    let (mut flash, mut scheme) = filled::<FastFtl>(1, &config);
    write(&mut flash, &mut scheme, 4, 1, Done::READY);
    write(&mut flash, &mut scheme, 6, 1, Done::READY);
    // 5 is copied in front of the new page, 7 behind it.
    assert_eq!((merges(&flash.counters), operations(&flash.counters)), ([0, 1, 0], (2, 2, 1, 2)));
    write(&mut flash, &mut scheme, 4, 3, Done::READY);
    write(&mut flash, &mut scheme, 5, 1, Done::READY);
    // The log block's 4, the new 5, the log block's 6, the data block's 7; both old blocks are erased.
    assert_eq!((merges(&flash.counters), operations(&flash.counters)), ([0, 1, 1], (5, 5, 3, 6)));
    scheme.check(&flash).unwrap();
}

#[test]
fn faster_gives_a_page_one_second_chance() {
    let config = config(3);
    let (mut flash, mut scheme) = filled::<FasterFtl>(1, &config);
    fill_random(&mut flash, &mut scheme);
    write(&mut flash, &mut scheme, 14, 1, Done::READY);
    // 2, 6, 9 move to the fresh block, where 14 takes the last page.
    assert_eq!((merges(&flash.counters), operations(&flash.counters)), ([0, 0, 0], (3, 3, 1, 9)));
    assert_eq!(flash.counters.value(&SECOND_CHANCES), 3);
    write(&mut flash, &mut scheme, 9, 1, Done::READY);
    assert_eq!(flash.counters.value(&SECOND_CHANCES_USED), 1);
    // That was the end of the block again: 5 and 13 moved. The one with 2 and 6, moved before, is merged when
    // it is next.
    assert_eq!((flash.counters.value(&SECOND_CHANCES), merges(&flash.counters)), (5, [0, 0, 0]));
    for lpn in [10, 11, 14, 15, 17] {
        write(&mut flash, &mut scheme, lpn, 1, Done::READY);
    }
    assert!(merges(&flash.counters)[2] >= 2, "{:?}", flash.counters);
    scheme.check(&flash).unwrap();
}

#[test]
fn a_trim_of_a_moved_page_uses_its_second_chance() {
    let config = config(3);
    let (mut flash, mut scheme) = filled::<FasterFtl>(1, &config);
    fill_random(&mut flash, &mut scheme);
    write(&mut flash, &mut scheme, 14, 1, Done::READY);
    scheme.trim(&mut flash, Lpn(9), 3, Done::READY).unwrap();
    assert_eq!(flash.counters.value(&SECOND_CHANCES_USED), 1, "10 and 11 were not moved");
    write(&mut flash, &mut scheme, 9, 1, Done::READY);
    assert_eq!(flash.counters.value(&SECOND_CHANCES_USED), 1);
}

/// A device with a log of `log` blocks and more parameters, after writes here and there.
fn scattered<S: Scheme>(log: u32, parameters: &[(&str, &str)]) -> Counters {
    let mut config = config(log);
    for (name, value) in parameters {
        config.parameters.insert((*name).to_owned(), (*value).to_owned());
    }
    let (mut flash, mut scheme) = filled::<S>(1, &config);
    (0..200).for_each(|at| _ = write(&mut flash, &mut scheme, at * at * 7 % EXPORTED, 1, Done::READY));
    scheme.check(&flash).unwrap();
    flash.counters
}

#[test]
fn waftl_counts_the_blocks_that_it_empties() {
    let counters = scattered::<WaftlFtl>(6, &[]);
    let [victims, pages] = [LOG_VICTIMS, LOG_VICTIM_PAGES].map(|stat| counters.value(&stat));
    assert!(victims > 10 && pages > victims && pages <= u64::from(PAGES) * victims, "{victims}, {pages}");
}

#[test]
fn waftl_keeps_no_room_for_page_mapped_blocks_that_it_does_not_need() {
    let without = scattered::<WaftlFtl>(6, &[("threshold", "1000000"), ("pmb", "0")]);
    let with = scattered::<WaftlFtl>(6, &[("threshold", "1000000"), ("pmb", "90")]);
    assert!(without.programs_by(Cause::Merge) > 0);
    assert_eq!(operations(&with), operations(&without), "nothing is hot");
    let hot = scattered::<WaftlFtl>(6, &[("threshold", "0"), ("pmb", "90")]);
    assert_ne!(operations(&hot), operations(&without));
}

#[test]
fn a_page_counts_as_missed_by_the_hat_only_where_that_was_asked() {
    let missed = |techniques: &str, hat: &str| {
        let counters = scattered::<AdaptFtl>(4, &[("techniques", techniques), ("hat", hat)]);
        own::<AdaptFtl>(&counters, "merged_rewritten")
    };
    assert_eq!(missed("psae", "6"), 0, "there is no HAT");
    assert_eq!(missed("pshae", "6000"), 0, "it knows every page");
    assert!(missed("pshae", "6") > 0, "it knows one request");
}

#[test]
fn a_fraction_in_place_of_a_whole_number_is_refused() {
    fn refused<S: Scheme>(name: &str, given: &str) -> String {
        let mut config = config(4);
        config.parameters.insert(name.to_owned(), given.to_owned());
        match S::open(&mut Flash::new(array(1)), &config) {
            Err(refused) => refused.to_string(),
            Ok(_) => panic!("{name} = {given} is taken"),
        }
    }
    let needed = "scheme adapt: latency = '1.9'; a whole number from 1 to 65536 is needed";
    assert_eq!(refused::<AdaptFtl>("latency", "1.9"), needed);
    for refused in [
        refused::<AdaptFtl>("interval", "1.9"),
        refused::<LastFtl>("threshold", "2.5"),
        refused::<WaftlFtl>("sequential", "0.5"),
    ] {
        assert!(refused.contains("a whole number from"), "{refused}");
    }
}

#[test]
fn adapt_moves_a_full_block_and_reuses_an_empty_one() {
    let mut config = config(4);
    config.parameters.insert("techniques".to_owned(), "ae".to_owned());
    config.parameters.insert("threshold".to_owned(), "32".to_owned());
    let (mut flash, mut scheme) = filled::<AdaptFtl>(1, &config);
    for lpn in [1, 2, 3, 5, 6, 7, 9, 10] {
        write(&mut flash, &mut scheme, lpn, 1, Done::READY);
    }
    for lpn in [6, 7, 9, 10] {
        write(&mut flash, &mut scheme, lpn, 1, Done::READY);
    }
    // The second block (6, 7, 9, 10) has no valid page left and was erased before its turn.
    assert_eq!((flash.counters.value(&EARLY_REUSES), operations(&flash.counters)), (1, (0, 0, 1, 12)));
    for lpn in [13, 14, 10, 17, 18] {
        write(&mut flash, &mut scheme, lpn, 1, Done::READY);
    }
    // Three blocks: the head full and valid, the next one without its 10: the head moves, the next one is
    // merged.
    assert_eq!(own::<AdaptFtl>(&flash.counters, "aggregated_moves"), 1);
    assert_eq!(merges(&flash.counters), [0, 0, 2]);
    scheme.check(&flash).unwrap();
}

/// A write of the host: page, version, when it was issued and acknowledged.
type Written = (u32, u64, u64, u64);

/// Cuts the power at every moment while `requests` (first page, pages) are written to a filled device,
/// recovers, and compares. Returns what was counted.
fn cut_everywhere<P: Policy>(config: &Config, units: u32, seed: u64, requests: &[(u32, u32)]) -> Counters {
    let (flash, _) = filled::<LogBlock<P>>(units, config);
    let first: Vec<u64> = (1..=u64::from(EXPORTED)).collect();
    let (mut flash, mut scheme) = open::<LogBlock<P>, _>(CrashNand::new(flash.into_nand(), seed), config);
    flash.nand_mut().drain();
    let mut history: Vec<Written> = Vec::new();
    for &(lpn, pages) in requests {
        let issued = flash.nand().now();
        let at = flash.nand().arrival();
        let mut made = Vec::new();
        let mut done = at;
        for page in 0..pages {
            let written = scheme.write(&mut flash, Lpn(lpn + page), pages - page, at).unwrap();
            done = flash.join(done, written);
            made.push((lpn + page, flash.version()));
        }
        let acknowledged = flash.nand().time(done);
        history.extend(made.into_iter().map(|(lpn, version)| (lpn, version, issued, acknowledged)));
        flash.nand_mut().advance(done);
    }
    scheme.check(&flash).unwrap();
    let counters = flash.counters.clone();
    let nand = flash.into_nand();
    let log = nand.log();
    let mut cutter = log.cutter();
    let mut image = array(units);
    for point in 0..log.points() {
        let time = log.time_of(point);
        cutter.cut(time, point ^ seed, &mut image);
        let (mut flash, mut scheme) = open::<LogBlock<P>, _>(image, config);
        scheme.check(&flash).unwrap();
        for lpn in 0..EXPORTED {
            let (oob, _) = scheme.read(&mut flash, Lpn(lpn), 1, Done::READY).unwrap();
            let found = oob.unwrap().version;
            let of = || history.iter().filter(|written| written.0 == lpn);
            let durable = of().filter(|w| w.3 <= time).map(|w| w.1).max().unwrap_or(first[lpn as usize]);
            let known = found == first[lpn as usize] || of().any(|w| w.1 == found && w.2 < time);
            assert!(known && found >= durable, "cut {point}: LPN {lpn} holds {found}, {durable} was durable");
        }
        image = flash.into_nand();
    }
    counters
}

/// Requests that end in each kind of merge for a scheme with one sequential log block.
const SWITCH: &[(u32, u32)] = &[(4, 4), (8, 2), (10, 2)];
const PARTIAL: &[(u32, u32)] = &[(4, 2), (8, 1), (12, 3), (4, 1)];
const FULL: &[(u32, u32)] =
    &[(2, 1), (5, 2), (9, 1), (5, 1), (13, 1), (13, 1), (13, 1), (14, 1), (1, 3), (17, 2), (21, 3)];

#[test]
fn a_cut_inside_any_merge_loses_nothing() {
    fn cut<P: Policy>(config: &Config, units: u32, seed: u64, requests: &[(u32, u32)]) -> [u64; 3] {
        merges(&cut_everywhere::<P>(config, units, seed, requests))
    }
    let config = config(4);
    for units in [1, 2] {
        for seed in 1..=4 {
            for (requests, kind) in [(SWITCH, 0), (PARTIAL, 1), (FULL, 2)] {
                let merges = cut::<crate::schemes::fast::Fast>(&config, units, seed, requests);
                let again = |more: &[(u32, u32)]| [requests, requests, more, requests].concat();
                let faster = cut::<crate::schemes::faster::Faster>(&config, units, seed, &again(FULL));
                let adapt = cut::<crate::schemes::adapt::Adapt>(&config, units, seed, &again(PARTIAL));
                let bast = cut::<crate::schemes::bast::Bast>(&config, units, seed, &again(FULL));
                if kind < 2 {
                    assert!(merges[kind] > 0, "{requests:?}: {merges:?}");
                }
                assert!(faster[2] > 0 && adapt.iter().sum::<u64>() > 0 && bast[2] > 0);
            }
            let full = [FULL, FULL].concat();
            assert!(cut::<crate::schemes::fast::Fast>(&config, units, seed, &full)[2] > 0);
        }
    }
}

/// Writes of a few hot pages, and none of the others.
fn hot(writes: u32) -> Vec<(u32, u32)> {
    (0..writes).map(|write| ([1, 6, 3, 5, 2][write as usize % 5], 1)).collect()
}

#[test]
fn a_cut_while_what_lies_is_moved_loses_nothing() {
    let config = Config { wear_gap: 1, ..config(4) };
    for units in [1, 2] {
        for seed in 1..=2 {
            // Sequences and the move meet in the same data blocks.
            let requests = [hot(120), SWITCH.to_vec(), PARTIAL.to_vec(), hot(60), FULL.to_vec()].concat();
            let moved = [
                cut_everywhere::<crate::schemes::fast::Fast>(&config, units, seed, &requests).rewrites,
                cut_everywhere::<crate::schemes::bast::Bast>(&config, units, seed, &requests).rewrites,
                cut_everywhere::<crate::schemes::last::Last>(&config, units, seed, &requests).rewrites,
            ];
            assert!(moved.iter().all(|&moved| moved > 0), "{moved:?}");
        }
    }
}

/// Erases since power-on are what tells the block that was erased most often, but which data lies for how
/// long is on flash.
#[test]
fn wear_is_level_though_the_power_is_cut_often() {
    for (units, gap, most) in [(1, 4, 1.5), (2, 4, 1.5), (1, 0, f64::INFINITY)] {
        let config = Config { wear_gap: gap, ..config(4) };
        let (mut flash, mut scheme) = filled::<FastFtl>(units, &config);
        for _ in 0..200 {
            for (lpn, pages) in hot(100) {
                write(&mut flash, &mut scheme, lpn, pages, Done::READY);
            }
            scheme.check(&flash).unwrap();
            (flash, scheme) = open::<FastFtl, _>(flash.into_nand(), &config);
        }
        let wear = flash.nand().wear();
        let spread = f64::from(wear.max) / wear.mean;
        assert!(spread <= most && (gap > 0 || spread > 2.0 || wear.min == 0), "{units} units: {wear:?}");
    }
}

#[test]
fn bast_switches_merges_partially_and_in_full() {
    let config = config(1);
    let (mut flash, mut scheme) = filled::<BastFtl>(1, &config);
    write(&mut flash, &mut scheme, 4, 4, Done::READY);
    write(&mut flash, &mut scheme, 8, 2, Done::READY);
    assert_eq!((merges(&flash.counters), operations(&flash.counters)), ([1, 0, 0], (0, 0, 1, 6)));
    write(&mut flash, &mut scheme, 13, 1, Done::READY);
    assert_eq!((merges(&flash.counters), operations(&flash.counters)), ([1, 1, 0], (2, 2, 2, 7)));
    write(&mut flash, &mut scheme, 4, 1, Done::READY);
    // Page 13 stands at offset 0 of its log block: gathered into a fresh block, data block and log block
    // erased.
    assert_eq!((merges(&flash.counters), operations(&flash.counters)), ([1, 1, 1], (6, 6, 4, 8)));
    scheme.check(&flash).unwrap();
}

#[test]
fn an_offset_without_content_takes_a_filler_and_the_tail_none() {
    let config = config(3);
    let (mut flash, mut scheme) = open::<FastFtl, _>(array(1), &config);
    for lpn in [6, 10, 14, 18] {
        write(&mut flash, &mut scheme, lpn, 1, Done::READY);
    }
    flash.counters = Counters::default();
    for lpn in [6, 10, 14, 18, 6] {
        write(&mut flash, &mut scheme, lpn, 1, Done::READY);
    }
    // The first random log block died whole. In the second, nothing had to be merged.
    assert_eq!(operations(&flash.counters), (0, 0, 1, 5));
    scheme.trim(&mut flash, Lpn(4), 4, Done::READY).unwrap();
    for lpn in [10, 14, 18, 22, 22] {
        write(&mut flash, &mut scheme, lpn, 1, Done::READY);
    }
    scheme.check(&flash).unwrap();
    for lpn in [5, 9, 13, 17, 21, 5, 9, 13, 17, 21] {
        write(&mut flash, &mut scheme, lpn, 1, Done::READY);
    }
    assert!(flash.counters.programs_by(Cause::Merge) > flash.counters.reads_by(Cause::Merge), "no filler");
    let done = scheme.power_off(&mut flash).unwrap();
    flash.join(done, Done::READY);
    let (flash, scheme) = open::<FastFtl, _>(flash.into_nand(), &config);
    scheme.check(&flash).unwrap();
    let mut found = Vec::new();
    scheme.mapping(&flash, &mut |lpn, _| found.push(lpn.0));
    assert_eq!(found, [5, 9, 10, 13, 14, 17, 18, 21, 22]);
}
