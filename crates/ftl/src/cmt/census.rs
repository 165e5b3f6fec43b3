//! How cached entries are spread over translation pages, counted the same way for every cache of single
//! entries.

use crate::scheme::CachedPage;
use nand::Vtpn;

/// Entries cached, and dirty ones among them, by translation page.
#[derive(Clone, Debug)]
pub struct Census {
    pages: Vec<(u32, u32)>,
    /// No translation page below this one has dirty entries.
    clean_below: usize,
}

impl Census {
    /// Nothing is cached of a table of so many translation pages.
    pub fn new(table_pages: u32) -> Census {
        Census { pages: vec![(0, 0); table_pages as usize], clean_below: table_pages as usize }
    }

    /// A clean entry was cached.
    #[inline]
    pub fn added(&mut self, vtpn: Vtpn) {
        self.pages[vtpn.0 as usize].0 += 1;
    }

    /// An entry left the cache.
    #[inline]
    pub fn removed(&mut self, vtpn: Vtpn, dirty: bool) {
        let page = &mut self.pages[vtpn.0 as usize];
        page.0 -= 1;
        page.1 -= u32::from(dirty);
    }

    /// A cached clean entry became dirty.
    #[inline]
    pub fn dirtied(&mut self, vtpn: Vtpn) {
        self.pages[vtpn.0 as usize].1 += 1;
        self.clean_below = self.clean_below.min(vtpn.0 as usize);
    }

    /// All cached entries of a translation page became clean.
    pub fn cleaned(&mut self, vtpn: Vtpn) {
        self.pages[vtpn.0 as usize].1 = 0;
    }

    /// Entries cached of a translation page.
    #[inline]
    pub fn entries(&self, vtpn: Vtpn) -> u32 {
        self.pages[vtpn.0 as usize].0
    }

    /// Dirty entries cached of a translation page.
    #[inline]
    pub fn dirty(&self, vtpn: Vtpn) -> u32 {
        self.pages[vtpn.0 as usize].1
    }

    /// The first translation page with dirty entries.
    pub fn first_dirty(&mut self) -> Option<Vtpn> {
        while self.clean_below < self.pages.len() && self.pages[self.clean_below].1 == 0 {
            self.clean_below += 1;
        }
        (self.clean_below < self.pages.len()).then_some(Vtpn(self.clean_below as u32))
    }

    /// Calls `each` for every translation page of which entries are cached.
    pub fn each(&self, each: &mut dyn FnMut(CachedPage)) {
        for (vtpn, &(entries, dirty)) in (0..).zip(&self.pages) {
            if entries > 0 {
                each(CachedPage { vtpn: Vtpn(vtpn), entries, dirty });
            }
        }
    }
}
