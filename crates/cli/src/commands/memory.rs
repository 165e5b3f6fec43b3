//! Whether there is memory enough for what shall run, asked before anything does.

use sim::format::bytes;
use sim::memory::{available, need};
use sim::Experiment;

use super::stop::Stop;

/// Refuses runs, up to `threads` of them at a time, that need more memory than there is.
pub(crate) fn check(experiments: &[Experiment], threads: usize) -> Result<(), Stop> {
    refusal(experiments, threads).map_or(Ok(()), |sentence| Err(Stop::User(sentence)))
}

/// The sentence with which [`check`] refuses.
pub(crate) fn refusal(experiments: &[Experiment], threads: usize) -> Option<String> {
    too_much(experiments.iter().map(need).collect(), threads, available()?)
}

/// What to say when runs that need so many bytes `each` are too many for those that are `free`.
fn too_much(mut each: Vec<u64>, threads: usize, free: u64) -> Option<String> {
    each.sort_unstable_by(|a, b| b.cmp(a));
    let needed: u64 = each.iter().take(threads).sum();
    if needed <= free {
        return None;
    }
    let largest = each.first().copied().unwrap_or(0);
    let instead = if largest <= free && threads > 1 {
        "give --threads 1, or a smaller device (--shrink, --shorten)"
    } else {
        "give a smaller device (--shrink, --shorten)"
    };
    Some(format!("this needs about {} of memory, and {} are free; {instead}", bytes(needed), bytes(free)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_do_not_fit_are_refused_with_what_would_do() {
        let gib = |count: u64| count << 30;
        assert_eq!(too_much(vec![gib(3), gib(4), gib(2)], 2, gib(7)), None);
        let sentence = |each, threads| too_much(each, threads, gib(5)).unwrap_or_default();
        assert_eq!(
            sentence(vec![gib(3), gib(4)], 2),
            "this needs about 7 GiB of memory, and 5 GiB are free; give --threads 1, or a smaller device (--shrink, --shorten)"
        );
        assert_eq!(
            sentence(vec![gib(6)], 2),
            "this needs about 6 GiB of memory, and 5 GiB are free; give a smaller device (--shrink, --shorten)"
        );
        assert!(available().is_none_or(|free| free > 0));
    }
}
