//! What a device must hold after a power cut.
//!
//! Each page has a sequence of states, one for each write and trim that concerned it, in order of issue.
//! After a cut at `t` it may be found in a state `s` if and only if
//!
//! - `s` was issued before `t` (or is the first), and
//! - no later state was durable at `t`.
//!
//! A write is durable from its completion on; of a scheme that acknowledges writes from a volatile buffer
//! ([`ftl::Scheme::BUFFERS_WRITES`]), as a trim: from the completion of a flush on that was issued when it
//! had completed. Before that it may have happened or not.

use nand::Lpn;

/// What a page holds: a version, or nothing (never written, or trimmed).
pub type State = Option<u64>;

const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Event {
    state: State,
    issued: u64,
    /// From when on it survives a cut; `NEVER` until that is known.
    durable: u64,
}

/// A trim or buffered write that waits for a flush.
#[derive(Clone, Copy, Debug)]
struct Pending {
    lpn: u32,
    index: u32,
    done: u64,
}

/// A state in which a page must not be found after a cut, as one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Forbidden(pub String);

/// The states of every page with the times at which they were issued and became durable.
#[derive(Clone, Debug, Default)]
pub struct History {
    first: Vec<State>,
    events: Vec<Vec<Event>>,
    pending: Vec<Pending>,
}

impl History {
    /// Starts with pages that durably hold `first`.
    pub fn new(first: &[State]) -> History {
        History { first: first.to_vec(), events: vec![Vec::new(); first.len()], pending: Vec::new() }
    }

    /// Starts again; reuses every allocation.
    pub fn restart(&mut self, first: &[State]) {
        self.first.clear();
        self.first.extend_from_slice(first);
        self.events.iter_mut().for_each(Vec::clear);
        self.events.resize(first.len(), Vec::new());
        self.pending.clear();
    }

    /// `lpn` was written with `version`, and that completes at `done`.
    pub fn wrote(&mut self, lpn: Lpn, version: u64, issued: u64, done: u64) {
        self.events[lpn.0 as usize].push(Event { state: Some(version), issued, durable: done });
    }

    /// `lpn` was written with `version` to a volatile buffer, and that completes at `done`.
    pub fn buffered(&mut self, lpn: Lpn, version: u64, issued: u64, done: u64) {
        self.until_flushed(lpn, Some(version), issued, done);
    }

    /// `lpn` was trimmed, and that completes at `done`.
    pub fn trimmed(&mut self, lpn: Lpn, issued: u64, done: u64) {
        self.until_flushed(lpn, None, issued, done);
    }

    fn until_flushed(&mut self, lpn: Lpn, state: State, issued: u64, done: u64) {
        let events = &mut self.events[lpn.0 as usize];
        self.pending.push(Pending { lpn: lpn.0, index: events.len() as u32, done });
        events.push(Event { state, issued, durable: NEVER });
    }

    /// A flush was issued that completes at `done`: it covers the trims and buffered writes completed by
    /// then.
    pub fn flushed(&mut self, issued: u64, done: u64) {
        let events = &mut self.events;
        self.pending.retain(|waits| {
            let covered = waits.done <= issued;
            if covered {
                events[waits.lpn as usize][waits.index as usize].durable = done;
            }
            !covered
        });
    }

    /// Whether anything issued since the start was durable for `lpn` at `t`.
    pub fn any_durable(&self, lpn: Lpn, t: u64) -> bool {
        self.events[lpn.0 as usize].iter().any(|event| event.durable <= t)
    }

    /// Judges what was found in `lpn` after a cut at `t`.
    ///
    /// # Errors
    /// The page cannot be in that state.
    pub fn judge(&self, lpn: Lpn, found: State, t: u64) -> Result<(), Forbidden> {
        let events = &self.events[lpn.0 as usize];
        // From the youngest to the oldest: the first durable one ends the search, whatever it says.
        let mut youngest = None;
        for event in events.iter().rev().filter(|event| event.issued < t) {
            youngest = youngest.or(Some(event.state));
            if event.state == found {
                return Ok(());
            }
            if event.durable <= t {
                return Err(Forbidden(self.sentence(lpn, found, t, event.state, youngest)));
            }
        }
        let first = self.first[lpn.0 as usize];
        if first == found {
            return Ok(());
        }
        Err(Forbidden(self.sentence(lpn, found, t, first, youngest)))
    }

    fn sentence(&self, lpn: Lpn, found: State, t: u64, durable: State, last: Option<State>) -> String {
        let events = &self.events[lpn.0 as usize];
        let future = events.iter().any(|event| event.state == found && event.issued >= t);
        let kind = match (found, durable) {
            _ if future => "not issued yet",
            (Some(found), Some(durable)) if found < durable => "an older version came back",
            (None, Some(_)) => "a durable write is gone",
            (Some(_), None) => "a durable trim was undone",
            _ => "never issued for this page",
        };
        format!(
            "{kind}: LPN {} holds {}, but {} was durable and {} was issued last, at time {t}",
            lpn.0,
            name(found),
            name(durable),
            name(last.unwrap_or(durable))
        )
    }
}

/// A state in words.
pub(crate) fn name(state: State) -> String {
    state.map_or_else(|| "nothing".to_owned(), |version| format!("version {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const L: Lpn = Lpn(0);

    fn judge(history: &History, t: u64, good: &[State], bad: &[State]) {
        for &state in good {
            assert_eq!(history.judge(L, state, t), Ok(()), "{state:?} at {t}");
        }
        for &state in bad {
            assert!(history.judge(L, state, t).is_err(), "{state:?} at {t}");
        }
    }

    #[test]
    fn a_write_under_way_may_be_old_or_new_and_a_completed_one_is_new() {
        let mut history = History::new(&[Some(1)]);
        history.wrote(L, 5, 10, 20);
        judge(&history, 10, &[Some(1)], &[Some(5), None, Some(3)]);
        judge(&history, 11, &[Some(1), Some(5)], &[None, Some(3)]);
        judge(&history, 19, &[Some(1), Some(5)], &[None]);
        judge(&history, 20, &[Some(5)], &[Some(1), None]);
    }

    #[test]
    fn a_younger_write_that_completes_first_holds() {
        let mut history = History::new(&[None]);
        history.wrote(L, 1, 10, 50);
        history.wrote(L, 2, 11, 20);
        judge(&history, 15, &[None, Some(1), Some(2)], &[]);
        judge(&history, 25, &[Some(2)], &[Some(1), None]);
    }

    #[test]
    fn a_trim_is_open_until_a_flush_issued_after_it_completes() {
        let mut history = History::new(&[Some(1)]);
        history.trimmed(L, 10, 12);
        history.flushed(11, 15); // too early: the trim was not acknowledged
        judge(&history, 30, &[Some(1), None], &[Some(2)]);
        history.flushed(30, 40);
        judge(&history, 39, &[Some(1), None], &[]);
        judge(&history, 40, &[None], &[Some(1)]);
        history.wrote(L, 7, 50, 60);
        judge(&history, 55, &[None, Some(7)], &[Some(1)]);
        judge(&history, 60, &[Some(7)], &[None, Some(1)]);
    }

    #[test]
    fn a_buffered_write_is_open_until_a_flush_issued_after_it_completes() {
        let mut history = History::new(&[Some(1)]);
        history.buffered(L, 5, 10, 12);
        judge(&history, 10, &[Some(1)], &[Some(5), None]);
        judge(&history, 20, &[Some(1), Some(5)], &[None, Some(3)]);
        history.flushed(20, 30);
        history.buffered(L, 6, 21, 22);
        judge(&history, 29, &[Some(1), Some(5), Some(6)], &[None]);
        judge(&history, 30, &[Some(5), Some(6)], &[Some(1), None]);
        history.flushed(40, 50);
        judge(&history, 50, &[Some(6)], &[Some(5), Some(1), None]);
    }

    #[test]
    fn what_was_wrong_is_said() {
        let mut history = History::new(&[Some(1)]);
        history.wrote(L, 5, 10, 20);
        let said = |found, t| history.judge(L, found, t).unwrap_err().0;
        assert!(said(None, 30).starts_with("a durable write is gone: LPN 0 holds nothing, but version 5"));
        assert!(said(Some(1), 30).starts_with("an older version came back"));
        assert!(said(Some(5), 5).starts_with("not issued yet"));
        assert!(said(Some(9), 30).starts_with("never issued for this page"));
    }
}
