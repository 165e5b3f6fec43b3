//! How much processor time the simulator itself takes.

use std::time::Instant;

/// Measures the processor time of the thread that made it; on systems without `/proc/thread-self/schedstat`
/// the time on the wall instead.
#[derive(Debug)]
pub struct Stopwatch {
    cpu_ns: Option<u64>,
    wall: Instant,
}

impl Stopwatch {
    /// A watch that counts from now on.
    pub fn start() -> Stopwatch {
        Stopwatch { cpu_ns: thread_cpu_ns(), wall: Instant::now() }
    }

    /// Seconds since the start; never negative.
    pub fn seconds(&self) -> f64 {
        match (self.cpu_ns, thread_cpu_ns()) {
            (Some(from), Some(to)) if to > from => (to - from) as f64 * 1e-9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

/// Time this thread has spent on a processor; exact to the scheduler's tick (a few ms).
fn thread_cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().filter(|&ns| ns > 0)
}

/// Memory that this process has for its data, program and libraries not counted, as far as it is in RAM now,
/// bytes; `None` where `/proc` does not tell.
pub(crate) fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("RssAnon:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_goes_forward() {
        let watch = Stopwatch::start();
        let mut x = 1_u64;
        for n in 0..20_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(n | 1));
        }
        assert!(x != 0 || watch.seconds() > 0.0);
        assert!(watch.seconds() > 0.0);
    }
}
