//! What must hold after every phase. A check that fails makes the run worthless, and the command exit
//! non-zero.

use ftl::{Counters, Scheme};
use nand::timing::{DieUse, Timing};
use nand::{Nand, OpCounts};

use crate::host::Rig;
use crate::meter::{Digest, Meter};
use crate::reference::Mismatch;
use crate::results::Invariant;

/// Little's law holds exactly in integers; this much is left to the sums.
const LITTLE_TOLERANCE: f64 = 1e-6;

/// Requests: none lost, none counted twice.
pub(crate) fn of_requests(phase: &str, meter: &Meter, ticks: bool) -> Vec<Invariant> {
    let at = |name: &str| format!("{phase}: {name}");
    let (issued, completed) = (meter.issued(), meter.tally.iter().map(|t| t.completed).sum::<u64>());
    let mut found = vec![Invariant::new(
        at("issued = completed"),
        issued == completed && completed == meter.completed && meter.in_flight == 0,
        format!("{issued} issued, {completed} completed, {} in flight", meter.in_flight),
    )];
    if !ticks {
        return found;
    }
    let recorded: u64 = meter.latency.iter().map(|latency| latency.count()).sum();
    found.push(Invariant::new(
        at("latencies recorded = completed"),
        recorded == completed,
        format!("{recorded} recorded, {completed} completed"),
    ));
    let latency_ns: u128 = meter.latency.iter().map(|latency| latency.sum_ns()).sum();
    let (depth, little) = (meter.in_flight_ns as f64, latency_ns as f64);
    found.push(Invariant::new(
        at("Little's law: requests in flight over time = latencies added up"),
        (depth - little).abs() <= LITTLE_TOLERANCE * depth.max(little),
        format!("{} and {latency_ns} request-ns", meter.in_flight_ns),
    ));
    found
}

/// Flash operations: those counted by cause at the door are those the array saw.
pub(crate) fn of_operations(phase: &str, counters: &Counters, array: &OpCounts) -> Invariant {
    let door = [counters.all_reads(), counters.all_programs(), counters.all_erases()];
    let seen = [array.total_reads(), array.total_programs(), array.total_erases()];
    Invariant::new(
        format!("{phase}: operations by cause = operations at the array"),
        door == seen,
        format!("reads, programs, erases {door:?} by cause, {seen:?} at the array"),
    )
}

/// Host reads by their flash reads sum to the host reads.
pub(crate) fn of_shares(phase: &str, counters: &Counters) -> Invariant {
    let sum: u64 = counters.host_reads_by_flash_reads.iter().sum();
    Invariant::new(
        format!("{phase}: shares of host reads sum to 1"),
        sum == counters.host_reads,
        format!("{:?} of {}", counters.host_reads_by_flash_reads, counters.host_reads),
    )
}

/// Each die is busy or idle, and never both.
pub(crate) fn of_dies(phase: &str, dies: &[DieUse], elapsed_ns: u64) -> Invariant {
    let total = |d: &DieUse| d.read_ns + d.program_ns + d.erase_ns + d.channel_ns + d.idle_ns;
    let wrong = dies.iter().enumerate().find(|(_, die)| total(die) != elapsed_ns);
    Invariant::new(
        format!("{phase}: busy + idle = elapsed for each die"),
        wrong.is_none(),
        match wrong {
            None => format!("{} dies, {elapsed_ns} ns", dies.len()),
            Some((index, die)) => format!("die {index}: {die:?} of {elapsed_ns} ns"),
        },
    )
}

/// What the walk over the mapping found.
pub(crate) struct Walk {
    pub(crate) invariants: Vec<Invariant>,
    /// A hash over every mapping.
    pub(crate) digest: u64,
}

/// Walks over the mapping: it is injective, each page it leads to carries the LPN it belongs to, and the
/// watched ones the newest version.
pub(crate) fn of_mapping<S: Scheme, T: Timing>(phase: &str, rig: &Rig<S, T>) -> Walk {
    let nand = rig.device.nand();
    let mut seen = vec![0_u64; (nand.geometry().pages() as usize).div_ceil(64)];
    let mut digest = Digest::new();
    let (mut mapped, mut watched) = (0_u64, 0_u64);
    let (mut shared, mut foreign) = (None, None);
    let mut stale: Option<Mismatch> = None;
    // What the write buffer holds goes before what flash holds.
    let mut buffered = std::collections::BTreeMap::new();
    rig.device.buffered(&mut |lpn, version| {
        buffered.insert(lpn, version);
    });
    for (&lpn, &version) in &buffered {
        let oob = nand::Oob { kind: nand::PageKind::Data, id: lpn.0, version, epoch: 0, lost: false };
        match rig.reference.inspect(lpn, Some(oob)) {
            Ok(live) => watched += u64::from(live),
            Err(mismatch) => {
                stale.get_or_insert(mismatch);
            }
        }
    }
    rig.device.mapping(&mut |lpn, ppn| {
        mapped += 1;
        digest.add(u64::from(lpn.0) << 32 | u64::from(ppn.0));
        let (word, bit) = (&mut seen[ppn.0 as usize / 64], 1 << (ppn.0 % 64));
        if *word & bit != 0 {
            shared.get_or_insert((lpn, ppn));
        }
        *word |= bit;
        let oob = nand.peek(ppn);
        match oob {
            Some(oob) if oob.id == lpn.0 && oob.kind == nand::PageKind::Data => {}
            _ => {
                foreign.get_or_insert((lpn, ppn, oob));
            }
        }
        if buffered.contains_key(&lpn) {
            return;
        }
        // A page known to be lost fails its reads; it is not stale.
        let found = oob.map(|oob| nand::Oob { lost: false, ..oob });
        match rig.reference.inspect(lpn, found) {
            Ok(live) => watched += u64::from(live),
            Err(mismatch) => {
                stale.get_or_insert(mismatch);
            }
        }
    });
    let (total, live) = rig.reference.watched();
    let invariants = vec![
        Invariant::new(
            format!("{phase}: no two pages share a physical page"),
            shared.is_none(),
            shared.map_or(format!("{mapped} mapped pages"), |(l, p)| {
                format!("LPN {} and another lead to PPN {}", l.0, p.0)
            }),
        ),
        Invariant::new(
            format!("{phase}: every mapped page holds its own LPN"),
            foreign.is_none(),
            foreign.map_or(format!("{mapped} mapped pages"), |(l, p, oob)| {
                format!("LPN {} leads to PPN {}, which holds {oob:?}", l.0, p.0)
            }),
        ),
        Invariant::new(
            format!("{phase}: every watched page has its newest version"),
            stale.is_none() && watched == live,
            match stale {
                Some(stale) => stale.to_string(),
                None => format!(
                    "{watched} of {live} written pages found, {total} watched, {} reads compared",
                    rig.reference.checked()
                ),
            },
        ),
    ];
    Walk { invariants, digest: digest.value() }
}

/// The scheme's own structures agree with each other and the array.
pub(crate) fn of_scheme<S: Scheme, T: Timing>(phase: &str, rig: &Rig<S, T>) -> Invariant {
    let checked = rig.device.check();
    Invariant::new(
        format!("{phase}: the mapping is a bijection with the valid pages"),
        checked.is_ok(),
        match checked {
            Ok(()) => format!("{} valid data pages", rig.device.flash().valid_pages()),
            Err(breach) => breach.to_string(),
        },
    )
}

/// Takes every counter into a digest.
pub(crate) fn digest_counters(digest: &mut Digest, counters: &Counters) {
    for word in counters.reads.iter().chain(&counters.programs).flatten().chain(&counters.erases) {
        digest.add(*word);
    }
    for word in counters.host_reads_by_flash_reads {
        digest.add(word);
    }
    let Counters { host_reads, host_writes, host_trims, lookups, cmt_hits, page_hits, model_hits, .. } =
        *counters;
    let Counters { replaced, replaced_dirty, prefetched, gc_hits, gc_misses, compute_ns, .. } = *counters;
    for word in [host_reads, host_writes, host_trims, lookups, cmt_hits, page_hits, model_hits] {
        digest.add(word);
    }
    for word in [replaced, replaced_dirty, prefetched, gc_hits, gc_misses, compute_ns] {
        digest.add(word);
    }
}

/// Per die, what `after` has more than `before`.
pub(crate) fn since(before: &[DieUse], after: &[DieUse]) -> Vec<DieUse> {
    let minus = |(a, b): (&DieUse, &DieUse)| DieUse {
        read_ns: a.read_ns - b.read_ns,
        program_ns: a.program_ns - b.program_ns,
        erase_ns: a.erase_ns - b.erase_ns,
        channel_ns: a.channel_ns - b.channel_ns,
        idle_ns: a.idle_ns - b.idle_ns,
    };
    after.iter().zip(before).map(minus).collect()
}
