//! What a request will miss is loaded before its first page is read.
//!
//! A long read keeps dies busy with its own pages. A mapping that is missed in the middle would be read
//! behind them, and the page that it leads to would wait once more. So the first page of a request looks
//! which of the others are not in memory, and loads their mappings first. That reads no translation page
//! that would not be read anyway, and a page that such a load was made for counts as one whose mapping was
//! loaded.

use super::map::Map;
use crate::flash::Flash;
use crate::mapping::{Ask, How, Lookup};
use crate::records::Records;
use nand::{Done, Lpn, Nand, Result};
use std::collections::VecDeque;
use std::ops::Range;

/// The request that was looked through last.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The page that was asked for last.
    last: u32,
    /// Pages up to this one were looked through.
    until: u32,
    /// The end of the request.
    end: u32,
    /// Pages that mappings were loaded for, ascending, and that were not asked for yet. To count them; no
    /// firmware has this.
    loaded: VecDeque<u32>,
}

impl Seen {
    /// No request was looked through; one is, in so many chunks at most.
    pub(super) fn new(chunks: u32) -> Seen {
        Seen { last: 0, until: 0, end: 0, loaded: VecDeque::with_capacity(chunks as usize) }
    }

    /// Whether a mapping was loaded for a page of the request.
    fn take(&mut self, lpn: u32) -> bool {
        while self.loaded.front().is_some_and(|&loaded| loaded < lpn) {
            self.loaded.pop_front();
        }
        let is_loaded = self.loaded.front() == Some(&lpn);
        if is_loaded {
            self.loaded.pop_front();
        }
        is_loaded
    }
}

impl Map {
    /// Loads what pages of a request will miss, when `ask` is for the first of them, or for the first one
    /// that was not looked through. Returns what its lookup waits for, `ask.at`, or what had to be written
    /// back to make way; and whether a mapping was loaded for the page that is asked for.
    #[inline]
    pub(super) fn look_ahead<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        ask: Ask,
    ) -> Result<(Done, bool)> {
        let (lpn, end) = (ask.lpn.0, ask.lpn.0 + ask.rest);
        let Seen { last, until, end: of, .. } = self.seen;
        self.seen.last = lpn;
        if of == end && last < lpn && lpn < until {
            return Ok((ask.at, self.seen.take(lpn)));
        }
        if ask.rest == 1 {
            return Ok((ask.at, false));
        }
        let until = end.min(lpn + self.shape().most_at_once());
        (self.seen.until, self.seen.end) = (until, end);
        self.seen.loaded.clear();
        let wait = self.load_missing(flash, records, lpn..until, ask.at)?;
        Ok((wait, self.seen.take(lpn)))
    }

    /// Loads what is missing of each chunk that some LPNs lie in.
    fn load_missing<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        lpns: Range<u32>,
        at: Done,
    ) -> Result<Done> {
        let (mut from, mut wait) = (lpns.start, at);
        while from < lpns.end {
            let number = self.place(Lpn(from)).0;
            let end = lpns.end.min(self.first_lpn(number + 1).0);
            if !self.is_blank(records, number) {
                if let Some(missing) = self.cache.first_missing(Lpn(from)..Lpn(end)) {
                    let before = self.write_backs;
                    let ask = Ask { lpn: missing, rest: lpns.end - missing.0, at };
                    let Lookup { done: loaded, how, .. } = self.bring(flash, records, ask)?.0;
                    if how == How::Loaded {
                        self.seen.loaded.push_back(missing.0);
                    }
                    if self.write_backs != before {
                        // Who makes the cache write back waits for it: else write-backs would pile up.
                        wait = flash.join(wait, loaded);
                    }
                }
            }
            from = end;
        }
        Ok(wait)
    }
}
