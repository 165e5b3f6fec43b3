//! Describes traces: `cargo run --release -p ftlkit-workload --example info FILE...`.

use std::time::Instant;

use workload::trace::{info, TraceOptions};

fn main() -> Result<(), workload::InputError> {
    for file in std::env::args().skip(1) {
        let begin = Instant::now();
        let i = info(&file, &TraceOptions::default())?;
        let seconds = begin.elapsed().as_secs_f64();
        let p = &i.profile;
        println!(
            "{file}: {} {} rows {} bad {} other {} adjusted {} in {seconds:.2} s",
            i.format.name(),
            i.compression.name(),
            i.rows,
            i.bad_rows,
            i.other_lines,
            i.adjusted_rows
        );
        for sample in &i.bad_samples {
            println!("  {sample}");
        }
        println!(
            "  write {:.3} mean {:.0} seq r {:.3} w {:.3} near r {:.3} w {:.3} span {} MiB pages {} r {} w {} rewrite {:.3} {:.1} s {:.0} IOPS gap {:.1} s trims {} flushes {}",
            p.write_share, p.mean_bytes, p.reads.sequential, p.writes.sequential, p.reads.near_sequential,
            p.writes.near_sequential, p.span_bytes >> 20, p.pages_touched, p.reads.pages, p.writes.pages,
            p.rewrite_share, p.duration_ns as f64 / 1e9, p.mean_iops, p.longest_gap_ns as f64 / 1e9, p.trims.count, p.flushes
        );
        println!("  {:?}\n  {:?}", p.sizes.iter().map(|s| (s.bytes, s.count)).collect::<Vec<_>>(), i.devices);
        if std::env::var_os("SKETCH").is_some() {
            print!("{}", i.sketch.render());
        }
    }
    Ok(())
}
