//! Prints how close each generator is to what was published, and its locality:
//! `cargo run --release -p ftlkit-workload --example calibration`.

use workload::profile::Profile;
use workload::synth::{calibration, catalogue};

fn main() -> Result<(), workload::InputError> {
    let only = std::env::args().nth(1);
    for synth in catalogue().iter().filter(|synth| only.as_ref().is_none_or(|only| only == synth.name)) {
        println!("{}: {} [{}]", synth.name, synth.what, synth.source);
        for row in calibration(synth.name)? {
            println!("  {:20} published {:>10.4}  ours {:>10.4}", row.statistic, row.published, row.ours);
        }
        for row in synth.acceptance().into_iter().flat_map(|acceptance| acceptance.table) {
            println!(
                "  {:40} rows {:>10.4}  ours {:>10.4}{}",
                row.statistic,
                row.published,
                row.ours,
                if row.is_near() { "" } else { "  FAR" }
            );
        }
        let p = Profile::of(synth.stream(200_000, 1));
        println!(
            "  pages {} of {}, rewrite share {:.3}, near sequential reads {:.3} writes {:.3}, mean gap {:.2} ms",
            p.pages_touched, synth.span_bytes() / 4096, p.rewrite_share, p.reads.near_sequential,
            p.writes.near_sequential, p.duration_ns as f64 / 1e6 / p.requests as f64
        );
        let pages = |r: &workload::Request| (r.offset / 4096, (r.end() - 1) / 4096);
        let requests: Vec<_> = synth.stream(200_000, 1).collect();
        for entries in [1024u64, 32_768] {
            println!(
                "  hit ratio of an LRU of {entries} pages: {:.3}",
                lru(requests.iter().map(pages), entries)
            );
        }
    }
    Ok(())
}

/// Hit ratio of an LRU cache of pages.
fn lru(requests: impl Iterator<Item = (u64, u64)>, capacity: u64) -> f64 {
    let (mut last, mut order) = (std::collections::HashMap::new(), std::collections::BTreeMap::new());
    let (mut hits, mut total, mut now) = (0u64, 0u64, 0u64);
    for (first, end) in requests {
        for page in first..=end {
            total += 1;
            now += 1;
            if let Some(before) = last.insert(page, now) {
                order.remove(&before);
                hits += 1;
            } else if order.len() as u64 >= capacity {
                if let Some((_, old)) = order.pop_first() {
                    last.remove(&old);
                }
            }
            order.insert(now, page);
        }
    }
    hits as f64 / total as f64
}
