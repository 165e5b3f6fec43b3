//! How much processor time the simulator itself takes.

use std::time::Duration;

use rustix::time::{clock_gettime, ClockId};

/// Measures the processor time of the thread that made it, in nanoseconds.
#[derive(Debug)]
pub struct Stopwatch {
    start: Duration,
}

impl Stopwatch {
    /// A watch that counts from now on.
    pub fn start() -> Stopwatch {
        Stopwatch { start: thread_time() }
    }

    /// Seconds since the start; never negative.
    pub fn seconds(&self) -> f64 {
        thread_time().saturating_sub(self.start).as_secs_f64()
    }
}

/// Processor time of this thread so far. The kernel counts it to the nanosecond, while that of
/// `/proc/thread-self/schedstat` is only as new as the last tick, 4 ms: 3 % of a phase of a quick bench.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
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
        let first = watch.seconds();
        assert!(watch.seconds() > first);
    }
}
