//! Measures what one `next()` of a job stream costs: `cargo run --release -p ftlkit-workload --example cost`.

use std::hint::black_box;
use std::time::Instant;

use workload::fio::JobFile;

const JOBS: &[(&str, &str)] = &[
    ("sequential read", "rw=read"),
    ("random read, each block once", "rw=randread"),
    ("random read, norandommap", "rw=randread\nnorandommap"),
    ("random read/write 70/30", "rw=randrw\nrwmixread=70\nnorandommap"),
    ("zipf 0.99", "rw=randread\nrandom_distribution=zipf:0.99"),
    ("pareto 0.2", "rw=randread\nrandom_distribution=pareto:0.2"),
    ("normal 10", "rw=randread\nrandom_distribution=normal:10"),
    ("bssplit", "rw=randread\nnorandommap\nbssplit=4k/60:64k/40"),
];

fn main() -> Result<(), workload::InputError> {
    for (what, text) in JOBS {
        let file = JobFile::parse("cost.fio", &format!("[job]\n{text}\nruntime=1\ntime_based\n"))?;
        for stream in file.phases[0].jobs[0].streams(30 << 30, 1)? {
            let count = 50_000_000u64;
            let begin = Instant::now();
            let mut sum = 0u64;
            for request in stream.take(count as usize) {
                sum = sum.wrapping_add(black_box(request).offset);
            }
            black_box(sum);
            println!("{what:32} {:6.2} ns", begin.elapsed().as_secs_f64() * 1e9 / count as f64);
        }
    }
    Ok(())
}
