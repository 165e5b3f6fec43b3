//! What a request will miss is loaded before its first page is read.
//!
//! A long read keeps dies busy with its own pages. A mapping that is missed in the middle would be read
//! behind them, and the page that it leads to would wait once more. So the first page of a request looks
//! which of the others are not in memory, and loads their mappings first. That reads no translation page
//! that would not be read anyway.

use super::map::Map;
use crate::flash::Flash;
use crate::mapping::Ask;
use crate::records::Records;
use nand::{Done, Lpn, Nand, Result};
use std::ops::Range;

/// The request that was looked through last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// The page that was asked for last.
    last: u32,
    /// Pages up to this one were looked through.
    until: u32,
    /// The end of the request.
    end: u32,
}

impl Map {
    /// Loads what later pages of a request will miss, when `ask` is for the first of them, or for the first
    /// one that was not looked through. Returns what its lookup waits for: `ask.at`, or what had to be
    /// written back to make way.
    #[inline]
    pub(super) fn look_ahead<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        records: &mut Records,
        ask: Ask,
    ) -> Result<Done> {
        let (lpn, end) = (ask.lpn.0, ask.lpn.0 + ask.rest);
        let Seen { last, until, end: of } = self.seen;
        self.seen.last = lpn;
        if ask.rest == 1 || of == end && last < lpn && lpn < until {
            return Ok(ask.at);
        }
        let until = end.min(lpn + self.most_at_once());
        self.seen = Seen { last: lpn, until, end };
        self.load_missing(flash, records, lpn..until, ask.at)
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
                    let loaded = self.bring(flash, records, ask)?.0.done;
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
