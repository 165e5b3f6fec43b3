//! The mapping against the pages that are valid: each of them is mapped once.

use super::{Copies, Ftl, Parts, Placement, Predict};
use crate::bits;
use crate::breach::Breach;
use crate::flash::Flash;
use crate::mapping::{Mapping, Pages, Unit};
use crate::table::mapped;
use nand::{Lpn, Nand, PageKind, Ppn};

impl<M: Mapping, P> Parts<M, P> {
    /// Calls `each` for `pages` LPNs from `first` on, in ascending order, with their entries, free of charge.
    pub(crate) fn each_entry<N: Nand>(
        &self,
        flash: &Flash<N>,
        first: Lpn,
        pages: u32,
        mut each: impl FnMut(Lpn, u32),
    ) {
        let units = self.pages.units();
        let (mut content, mut entries) = (Vec::new(), Vec::new());
        let (mut lpn, end) = (first.0, first.0 + pages);
        while lpn < end {
            let (unit, slot) = units.place(Lpn(lpn));
            self.pages.inspect(flash, unit, &mut content);
            let of = Unit { flash, pages: &self.pages, unit, content: &content };
            self.mapping.entries(of, &mut entries);
            let count = (end - lpn).min(units.lpns_in(unit) - slot);
            for &entry in &entries[slot as usize..(slot + count) as usize] {
                each(Lpn(lpn), entry);
                lpn += 1;
            }
        }
    }
}

impl<M: Mapping, P: Placement<M>, G: Predict<M>> Ftl<M, P, G> {
    /// As [`crate::Scheme::check`].
    pub(crate) fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        let Parts { mapping, pages, placement } = self.parts();
        flash.space.check()?;
        pages.check(flash)?;
        mapping.check(flash, pages)?;
        placement.check()?;
        let mut audit = Audit::new(flash);
        self.parts().each_entry(flash, Lpn(0), pages.units().lpns(), |lpn, entry| {
            if let Some(ppn) = mapped(entry) {
                audit.mapped(lpn, ppn);
            }
        });
        mapping.owed(flash, pages, &mut |lpn, ppn| audit.owed(lpn, ppn));
        self.collector.copies().each(&mut |copy| audit.moved(copy));
        audit.finish(pages.directory())
    }
}

/// A count of valid pages by who knows of them. Keeps the first breach.
struct Audit<'a, N: Nand> {
    flash: &'a Flash<N>,
    /// One bit a page.
    seen: Vec<u64>,
    data: u64,
    breach: Option<String>,
}

impl<'a, N: Nand> Audit<'a, N> {
    /// Nothing is known of any page.
    fn new(flash: &'a Flash<N>) -> Audit<'a, N> {
        let words = (flash.nand().geometry().pages() as usize).div_ceil(64);
        Audit { flash, seen: vec![0; words], data: 0, breach: None }
    }

    fn breach(&mut self, what: String) {
        self.breach.get_or_insert(what);
    }

    /// Whether a page is valid, and nobody was known to have it before. Somebody is now.
    fn is_own(&mut self, ppn: Ppn) -> bool {
        bits::set(&mut self.seen, ppn.0, true) && self.flash.space.is_valid(ppn)
    }

    /// `lpn` is at `ppn`.
    fn mapped(&mut self, lpn: Lpn, ppn: Ppn) {
        self.data += 1;
        if !self.is_own(ppn) {
            let valid = self.flash.space.is_valid(ppn);
            let why = if valid { "as another LPN does" } else { "which is not valid" };
            self.breach(format!("LPN {} maps to PPN {}, {why}", lpn.0, ppn.0));
        }
    }

    /// `lpn` was at `ppn`, which is still to be invalidated.
    fn owed(&mut self, lpn: Lpn, ppn: Ppn) {
        self.data += 1;
        if !self.is_own(ppn) {
            self.breach(format!(
                "LPN {} is owed the invalidation of PPN {}, which is not valid, or another's",
                lpn.0, ppn.0
            ));
        }
    }

    /// Collection has copied a page to `ppn`, which the host may have overwritten since.
    fn moved(&mut self, ppn: Ppn) {
        self.data += u64::from(self.is_own(ppn));
    }

    /// The translation pages that the directory knows. All data pages are known.
    fn finish(mut self, directory: impl Iterator<Item = Ppn>) -> Result<(), Breach> {
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
            return Err(breach.into());
        }
        let valid = self.flash.space.valid_pages(PageKind::Data);
        if self.data != valid {
            return Err(
                format!("{valid} data pages are valid but {} are mapped or being moved", self.data).into()
            );
        }
        let valid = self.flash.space.valid_pages(PageKind::Translation);
        if directed != valid {
            return Err(
                format!("{valid} translation pages are valid but the directory knows {directed}").into()
            );
        }
        Ok(())
    }
}
