//! The mapping against the pages that are valid: each of them is mapped once.

use crate::flash::Flash;
use nand::{Lpn, Nand, PageKind, Ppn};

/// A count of valid pages by who knows of them. Keeps the first breach.
pub(crate) struct Audit<'a, N: Nand> {
    flash: &'a Flash<N>,
    /// One bit a page.
    seen: Vec<u64>,
    data: u64,
    breach: Option<String>,
}

impl<'a, N: Nand> Audit<'a, N> {
    /// Nothing is known of any page.
    pub fn new(flash: &'a Flash<N>) -> Audit<'a, N> {
        let words = (flash.nand().geometry().pages() as usize).div_ceil(64);
        Audit { flash, seen: vec![0; words], data: 0, breach: None }
    }

    /// Records a breach.
    pub fn breach(&mut self, what: String) {
        self.breach.get_or_insert(what);
    }

    /// Whether a page is valid, and nobody was known to have it before. Somebody is now.
    fn is_own(&mut self, ppn: Ppn) -> bool {
        let (word, bit) = (&mut self.seen[ppn.0 as usize / 64], 1 << (ppn.0 % 64));
        let fresh = *word & bit == 0;
        *word |= bit;
        fresh && self.flash.space.is_valid(ppn)
    }

    /// `lpn` is at `ppn`.
    pub fn mapped(&mut self, lpn: Lpn, ppn: Ppn) {
        self.data += 1;
        if !self.is_own(ppn) {
            let valid = self.flash.space.is_valid(ppn);
            let why = if valid { "as another LPN does" } else { "which is not valid" };
            self.breach(format!("LPN {} maps to PPN {}, {why}", lpn.0, ppn.0));
        }
    }

    /// `lpn` was at `ppn`, which is still to be invalidated.
    pub fn owed(&mut self, lpn: Lpn, ppn: Ppn) {
        self.data += 1;
        if !self.is_own(ppn) {
            self.breach(format!(
                "LPN {} is owed the invalidation of PPN {}, which is not valid, or another's",
                lpn.0, ppn.0
            ));
        }
    }

    /// Collection has copied a page to `ppn`, which the host may have overwritten since.
    pub fn moved(&mut self, ppn: Ppn) {
        self.data += u64::from(self.is_own(ppn));
    }

    /// The translation pages that the directory knows. All data pages are known.
    pub fn finish(mut self, directory: impl Iterator<Item = Ppn>) -> Result<(), String> {
        let mut directed = 0;
        for ppn in directory {
            directed += 1;
            if !self.is_own(ppn) {
                self.breach(format!(
                    "the directory leads to PPN {}, which is not a valid page of its own",
                    ppn.0
                ));
            }
        }
        if let Some(breach) = self.breach {
            return Err(breach);
        }
        let valid = self.flash.space.valid_pages(PageKind::Data);
        if self.data != valid {
            return Err(format!("{valid} data pages are valid but {} are mapped or being moved", self.data));
        }
        let valid = self.flash.space.valid_pages(PageKind::Translation);
        if directed != valid {
            return Err(format!("{valid} translation pages are valid but the directory knows {directed}"));
        }
        Ok(())
    }
}
