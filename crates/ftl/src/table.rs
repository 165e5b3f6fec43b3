//! The mapping table as it lies on flash: translation pages, and the global translation directory (GTD) that
//! finds them.
//!
//! A translation page holds the PPNs of consecutive LPNs, 4 bytes each, little-endian, [`UNMAPPED`] for none.
//! The directory (in memory, 4 bytes a translation page) holds the PPN of each translation page, or that it
//! was never written, in which case all its LPNs are unmapped and no flash read is needed to know.
//!
//! Beyond the table's own pages the directory may lead to *further pages*, whose content is the mapping's
//! affair and which recovery does not look for.
//!
//! A controller that keeps the translation page that it programmed last in memory updates it again without
//! reading it back. That *program buffer* is memory as any other: it takes a flash page out of the budget and
//! is listed among the bytes in use. A scheme that has a use for it lists [`PROGRAM_BUFFER`] among its
//! parameters. `auto` gives it a buffer where that takes at most a sixteenth of the budget. With less memory
//! entries are worth more than the buffer, and the page is read back, as in the papers' simulators. Nothing
//! but an update of the same page finds the page there: a lookup that misses reads flash.

use crate::breach::Breach;
use crate::counters::Cause;
use crate::flash::{Content, Flash};
use crate::mapping::{Moved, Pages, Unit, Units};
use crate::recover::{News, Recovery, Since};
use crate::scheme::{Coming, Config, ConfigError, Info, Parameter};
use crate::space::Stream;
use nand::{Done, Fault, Hint, Lpn, Nand, PageKind, Ppn, Result, Source, Vtpn};
use std::ops::Range;

/// The entry of an LPN that is mapped nowhere.
pub const UNMAPPED: u32 = u32::MAX;

/// The parameter of schemes that update translation pages in part.
pub const PROGRAM_BUFFER: Parameter = Parameter {
    name: "program_buffer",
    default: "auto",
    what: "a flash page of memory keeps the translation page programmed last, whose next update needs no read (1), \
           or not (0); auto: where it takes at most a 16th of the cache",
};

/// An entry as an option.
#[inline]
pub fn mapped(entry: u32) -> Option<Ppn> {
    (entry != UNMAPPED).then_some(Ppn(entry))
}

/// An option as an entry.
#[inline]
pub fn entry(ppn: Option<Ppn>) -> u32 {
    ppn.map_or(UNMAPPED, |ppn| ppn.0)
}

/// The entry at `slot` of a translation page's content.
#[inline]
pub fn entry_in(content: &[u8], slot: u32) -> u32 {
    let at = slot as usize * 4;
    u32::from_le_bytes([content[at], content[at + 1], content[at + 2], content[at + 3]])
}

/// Starts bringing into the processor's cache what a read of a page will touch, or a write that invalidates
/// it. The page need not exist.
#[inline]
pub(crate) fn expect_page<N: Nand>(flash: &Flash<N>, ppn: Ppn, coming: Coming) {
    match coming {
        Coming::Write => flash.space.expect(ppn),
        _ => flash.nand().expect(Hint::Page(ppn)),
    }
}

/// A program buffer takes at most one part in so many of the budget, unless it is asked for.
const BUFFER_SHARE: u64 = 16;

/// Directory and translation pages.
#[derive(Clone, Debug)]
pub struct Table {
    /// Of the table's pages, then of further ones.
    directory: Vec<u32>,
    units: Units,
    /// Whether there is a program buffer.
    has_program_buffer: bool,
    /// The translation page that the program buffer holds, and what its program waited for: a program of the
    /// same content with more changes has to wait for that too.
    in_program_buffer: Option<(Vtpn, Done)>,
    /// A translation page without mappings, to make the first version of one from.
    blank: Vec<u8>,
}

impl Table {
    /// Mappings in a translation page.
    pub fn entries_per_page(&self) -> u32 {
        self.units.size()
    }

    /// Translation pages of the table.
    pub fn pages(&self) -> u32 {
        self.units.count()
    }

    /// Lets the directory lead to `pages` further pages, whose VTPNs follow those of the table.
    pub fn add_further_pages(&mut self, pages: u32) {
        self.directory.resize(self.directory.len() + pages as usize, UNMAPPED);
    }

    /// Further pages that the directory may lead to.
    pub fn further_pages(&self) -> u32 {
        self.directory.len() as u32 - self.pages()
    }

    /// LPNs of the table.
    pub fn exported_pages(&self) -> u32 {
        self.units.lpns()
    }

    /// Bytes of the budget that directory and program buffer take.
    pub fn memory_bytes(&self) -> u64 {
        self.memory().into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes of the budget that are left for a cache beside them; at least `least`, else an error.
    pub fn cache_bytes(&self, scheme: &str, config: &Config, least: u64) -> Result<u64, ConfigError> {
        let taken = self.memory_bytes();
        let left = config.cache_bytes.saturating_sub(taken);
        if left < least {
            let buffer = if self.has_program_buffer { " and the program buffer take" } else { " takes" };
            return Err(ConfigError(format!(
                "scheme {scheme}: a cache of {} bytes is too small; give at least {}: the directory{buffer} {taken} \
                 and {least} more are needed",
                config.cache_bytes,
                taken + least,
            )));
        }
        Ok(left)
    }

    /// The translation page of an LPN and the entry's place in it.
    #[inline]
    pub fn place(&self, lpn: Lpn) -> (Vtpn, u32) {
        self.units.place(lpn)
    }

    /// The first LPN of a translation page.
    #[inline]
    pub fn first_lpn(&self, vtpn: Vtpn) -> Lpn {
        self.units.first_lpn(vtpn)
    }

    /// LPNs in a translation page; the last one may be cut short by the device's end.
    pub fn lpns_in(&self, vtpn: Vtpn) -> u32 {
        self.units.lpns_in(vtpn)
    }

    /// Where a translation page lies.
    #[inline]
    pub fn page(&self, vtpn: Vtpn) -> Option<Ppn> {
        mapped(self.directory[vtpn.0 as usize])
    }

    #[inline]
    fn programmed(&mut self, vtpn: Vtpn, ppn: Ppn, after: Done) {
        self.directory[vtpn.0 as usize] = ppn.0;
        self.in_program_buffer = self.has_program_buffer.then_some((vtpn, after));
    }

    /// Reads a translation page into the controller's buffer ([`Flash::buffer`]). `None`: it was never
    /// written, all its LPNs are unmapped, and nothing was read.
    #[inline]
    pub fn load<N: Nand>(
        &self,
        flash: &mut Flash<N>,
        vtpn: Vtpn,
        cause: Cause,
        at: Done,
    ) -> Result<Option<Done>> {
        match self.page(vtpn) {
            Some(ppn) => flash.read_metadata(ppn, PageKind::Translation, cause, at).map(Some),
            None => Ok(None),
        }
    }

    /// Changes entries `(slot, entry)` of a translation page: one read and one program. No read when it was
    /// never written, or when the program buffer holds it. (Without a buffer updates of one translation page
    /// in a row each wait for the program before, and read it back: 240 us on common flash.)
    ///
    /// `at` must cover the programs of the data pages that the edits point to: else a cut could leave a
    /// mapping to a page that was never programmed.
    pub fn store<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        vtpn: Vtpn,
        edits: &[(u32, u32)],
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        if let Some((_, waited)) = self.in_program_buffer.filter(|&(buffered, _)| buffered == vtpn) {
            let at = flash.join(at, waited);
            return self.store_loaded(flash, vtpn, edits, cause, at);
        }
        match self.load(flash, vtpn, cause, at)? {
            Some(read) => self.store_loaded(flash, vtpn, edits, cause, read),
            None => self.store_first(flash, vtpn, edits, cause, at),
        }
    }

    /// As [`Table::store`], for a translation page that was just read: one program.
    pub fn store_loaded<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        vtpn: Vtpn,
        edits: &[(u32, u32)],
        cause: Cause,
        read: Done,
    ) -> Result<Done> {
        let Some(old) = self.page(vtpn) else {
            return self.store_first(flash, vtpn, edits, cause, read);
        };
        let content = Content::version(flash.next_metadata_version());
        let from = Source::Patch(old, edits);
        let (ppn, done) =
            flash.program(Stream::TRANSLATION, PageKind::Translation, vtpn.0, content, from, cause, read)?;
        flash.invalidate(old);
        self.programmed(vtpn, ppn, read);
        Ok(done)
    }

    fn store_first<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        vtpn: Vtpn,
        edits: &[(u32, u32)],
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        for &(slot, entry) in edits {
            let at = slot as usize * 4;
            self.blank[at..at + 4].copy_from_slice(&entry.to_le_bytes());
        }
        let content = Content::version(flash.next_metadata_version());
        let from = Source::Metadata(&self.blank);
        let programmed =
            flash.program(Stream::TRANSLATION, PageKind::Translation, vtpn.0, content, from, cause, at);
        for &(slot, _) in edits {
            let at = slot as usize * 4;
            self.blank[at..at + 4].copy_from_slice(&UNMAPPED.to_le_bytes());
        }
        let (ppn, done) = programmed?;
        self.programmed(vtpn, ppn, at);
        Ok(done)
    }

    /// Replaces a whole translation page by `content` without reading the old one: one program.
    pub fn replace<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        vtpn: Vtpn,
        content: &[u8],
        cause: Cause,
        at: Done,
    ) -> Result<Done> {
        let version = Content::version(flash.next_metadata_version());
        let from = Source::Metadata(content);
        let (ppn, done) =
            flash.program(Stream::TRANSLATION, PageKind::Translation, vtpn.0, version, from, cause, at)?;
        if let Some(old) = self.page(vtpn) {
            flash.invalidate(old);
        }
        self.programmed(vtpn, ppn, at);
        Ok(done)
    }

    /// Forgets a translation page in which nothing is mapped any more. Takes no flash operation.
    pub fn forget<N: Nand>(&mut self, flash: &mut Flash<N>, vtpn: Vtpn) {
        if let Some(old) = self.page(vtpn) {
            flash.invalidate(old);
            self.directory[vtpn.0 as usize] = UNMAPPED;
            self.in_program_buffer = self.in_program_buffer.filter(|&(buffered, _)| buffered != vtpn);
        }
    }

    /// Unmaps the LPNs at `slots` of a translation page, and invalidates their pages: one read and at most
    /// one program, however many they are. `forget` drops an LPN from the cache and returns what the
    /// cache held.
    pub fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        vtpn: Vtpn,
        slots: Range<u32>,
        at: Done,
        mut forget: impl FnMut(Lpn) -> Option<Option<Ppn>>,
    ) -> Result<Done> {
        let loaded = self.load(flash, vtpn, Cause::Translation, at)?;
        let first = self.first_lpn(vtpn).0;
        let mut edits = Vec::with_capacity(slots.len());
        let mut others = false;
        for slot in 0..self.lpns_in(vtpn) {
            let on_flash = loaded.map_or(UNMAPPED, |_| entry_in(flash.buffer(), slot));
            if !slots.contains(&slot) {
                others |= on_flash != UNMAPPED;
                continue;
            }
            if let Some(old) = forget(Lpn(first + slot)).unwrap_or(mapped(on_flash)) {
                flash.invalidate(old);
            }
            if on_flash != UNMAPPED {
                edits.push((slot, UNMAPPED));
            }
        }
        match loaded {
            Some(read) if others && !edits.is_empty() => {
                self.store_loaded(flash, vtpn, &edits, Cause::Translation, read)
            }
            Some(read) => {
                if !others {
                    self.forget(flash, vtpn);
                }
                Ok(read)
            }
            None => Ok(at),
        }
    }

    /// Starts bringing the entry of an LPN into the processor's cache and, when that was done before, what
    /// is known of the page it leads to. A matter of speed alone.
    #[inline]
    pub fn expect<N: Nand>(&self, flash: &Flash<N>, lpn: Lpn, coming: Coming) {
        let (vtpn, slot) = self.place(lpn);
        let Some(page) = self.page(vtpn) else { return };
        if coming == Coming::Later {
            flash.nand().expect(Hint::Word(page, slot));
        } else if let Some(word) = flash.nand().hinted_word(page, slot) {
            expect_page(flash, Ppn(word), coming);
        }
    }

    /// Changes the mappings of pages that collection moved: in memory, where `held` finds and changes one;
    /// the others by one update of their translation page, listed in `edits`.
    pub fn moved<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        moves: &[Moved],
        edits: &mut Vec<(u32, u32)>,
        mut held: impl FnMut(&mut Flash<N>, &Moved) -> bool,
    ) -> Result<Done> {
        edits.clear();
        let mut copied = Done::READY;
        for moved in moves {
            if !held(flash, moved) {
                edits.push((moved.slot, moved.to.0));
                copied = flash.join(copied, moved.done);
            }
        }
        flash.counters.gc_hits += (moves.len() - edits.len()) as u64;
        flash.counters.gc_misses += edits.len() as u64;
        if edits.is_empty() {
            return Ok(Done::READY);
        }
        self.store(flash, self.place(moves[0].lpn).0, edits, Cause::Collection, copied)
    }

    // Recovery

    /// As [`Pages::restore`], with the mapping beside it. `keep` is offered the entries of each translation
    /// page as they are now, and whether that is newer than on flash; it returns whether memory keeps
    /// what is newer. The rest is written.
    pub fn restore_beside<N: Nand>(
        &mut self,
        recovery: &mut Recovery<'_, N>,
        mut keep: impl FnMut(&Table, Vtpn, &[u32], bool) -> bool,
    ) -> Result<()> {
        self.find_pages(recovery)?;
        self.drop_lost_pages(recovery)?;
        let mut news = recovery.take_news(self.exported_pages());
        let mut entries = Vec::with_capacity(self.entries_per_page() as usize);
        if recovery.flash.free_superblocks() < 2 {
            self.gain_room(recovery, &mut news, &mut entries)?;
        }
        let mut behind = Vec::new();
        let begin = recovery.at;
        for vtpn in (0..self.pages()).map(Vtpn) {
            let changes = self.found(recovery, begin, vtpn, &news, &mut entries)?;
            for &entry in entries.iter().filter(|&&entry| entry != UNMAPPED) {
                recovery.flash.space.validate_found(Ppn(entry));
            }
            if !keep(self, vtpn, &entries, !changes.is_empty()) && !changes.is_empty() {
                behind.push((vtpn, changes));
            }
        }
        recovery.begin("update");
        for (vtpn, changes) in behind {
            recovery.at = self.make_room(recovery.flash, recovery.at)?;
            recovery.at = self.store(recovery.flash, vtpn, &changes, Cause::Recovery, recovery.at)?;
        }
        Ok(())
    }

    /// Takes translation pages that cannot be read for such as were never written: what was mapped there
    /// counts as written since. Only after a restart, as else it is not known what was trimmed.
    fn drop_lost_pages<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>) -> Result<()> {
        if !recovery.can_rescue() {
            return Ok(());
        }
        let mut lost = Vec::new();
        for vtpn in (0..self.pages()).map(Vtpn) {
            match self.load(recovery.flash, vtpn, Cause::Recovery, recovery.at) {
                Ok(_) => {}
                Err(Fault::Uncorrectable { ppn, .. }) => {
                    recovery.flash.invalidate(ppn);
                    self.directory[vtpn.0 as usize] = UNMAPPED;
                    let first = self.first_lpn(vtpn).0;
                    lost.push(first..first + self.lpns_in(vtpn));
                }
                Err(fault) => return Err(fault),
            }
        }
        recovery.rescue(lost)
    }

    /// As [`Recovery::gain_room`], for the translation pages of which something is news.
    fn gain_room<N: Nand>(
        &self,
        recovery: &mut Recovery<'_, N>,
        news: &mut News,
        entries: &mut Vec<u32>,
    ) -> Result<()> {
        let begin = recovery.at;
        let mut current = Vec::with_capacity(self.exported_pages() as usize);
        for vtpn in (0..self.pages()).map(Vtpn) {
            self.found(recovery, begin, vtpn, news, entries)?;
            current.extend(entries.iter().copied().map(mapped));
        }
        let is_behind = |vtpn: &Vtpn, news: &News| {
            let (first, lpns) = (self.first_lpn(*vtpn).0, self.lpns_in(*vtpn));
            news.of(first..first + lpns).take(lpns as usize).any(|(_, since)| since != Since::Nothing)
        };
        recovery.gain_room(current, news, |news| {
            (0..self.pages()).map(Vtpn).filter(|vtpn| is_behind(vtpn, news)).count() as u32
        })
    }

    /// Sets `entries` to those of a translation page as they are now, and returns those that are newer than
    /// on flash.
    fn found<N: Nand>(
        &self,
        recovery: &mut Recovery<'_, N>,
        begin: Done,
        vtpn: Vtpn,
        news: &News,
        entries: &mut Vec<u32>,
    ) -> Result<Vec<(u32, u32)>> {
        let (first, lpns) = (self.first_lpn(vtpn).0, self.lpns_in(vtpn));
        entries.clear();
        match self.load(recovery.flash, vtpn, Cause::Recovery, begin)? {
            Some(done) => {
                entries.extend((0..lpns).map(|slot| entry_in(recovery.flash.buffer(), slot)));
                recovery.at = recovery.flash.join(recovery.at, done);
            }
            None => entries.resize(lpns as usize, UNMAPPED),
        }
        let mut changes = Vec::new();
        let newer = news.of(first..first + lpns);
        if newer.is_something() {
            for ((slot, recorded), (_, since)) in (0..).zip(entries).zip(newer) {
                let now = entry(since.or(mapped(*recorded)));
                if now != *recorded {
                    changes.push((slot, now));
                    *recorded = now;
                }
            }
        }
        Ok(changes)
    }

    /// Finds the newest version of each translation page: one that the search found, else that of the
    /// checkpoint, if it has not been erased since. That happens without a newer one being written when
    /// everything in it was trimmed.
    fn find_pages<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>) -> Result<()> {
        for id in 0..self.pages() {
            let checkpointed = recovery.checkpoint.directory.get(id as usize).copied().and_then(mapped);
            let page = match (recovery.translation[id as usize], checkpointed) {
                (Some((_, _, ppn)), _) => Some(ppn),
                (None, Some(ppn)) => recovery.checkpointed_page(ppn, id)?.map(|_| ppn),
                (None, None) => None,
            };
            self.directory[id as usize] = entry(page);
            if let Some(ppn) = page {
                recovery.flash.space.validate_found(ppn);
            }
        }
        Ok(())
    }
}

impl<N> Unit<'_, N, Table> {
    /// Sets `entries` to those of the translation page; where `held` has one for an LPN, to that.
    pub fn entries_or(&self, entries: &mut Vec<u32>, mut held: impl FnMut(Lpn) -> Option<u32>) {
        let first = self.pages.first_lpn(self.unit).0;
        let entry = |slot| held(Lpn(first + slot)).unwrap_or_else(|| entry_in(self.content, slot));
        entries.clear();
        entries.extend((0..self.pages.lpns_in(self.unit)).map(entry));
    }
}

impl Pages for Table {
    const DIRECTORY: &'static str = "directory (GTD)";
    const ONE_RECORD_A_TRIM: bool = false;

    fn new(exported_pages: u32, page_bytes: u32) -> Table {
        let units = Units::new(exported_pages, (page_bytes / 4).trailing_zeros());
        Table {
            directory: vec![UNMAPPED; units.count() as usize],
            units,
            has_program_buffer: false,
            in_program_buffer: None,
            blank: vec![0xff; page_bytes as usize],
        }
    }

    fn provide_buffer(&mut self, info: &Info, config: &Config) -> Result<(), ConfigError> {
        if !info.parameters.iter().any(|known| known.name == PROGRAM_BUFFER.name) {
            return Ok(());
        }
        self.has_program_buffer = match config.parameter(info, PROGRAM_BUFFER.name).as_str() {
            "auto" => config.cache_bytes / BUFFER_SHARE >= self.blank.len() as u64,
            "0" => false,
            "1" => true,
            given => {
                return Err(ConfigError(format!(
                    "scheme {}: program_buffer = '{given}'; auto, 0 or 1 is needed",
                    info.name
                )))
            }
        };
        Ok(())
    }

    #[inline]
    fn units(&self) -> Units {
        self.units
    }

    fn most_pages(&self) -> u32 {
        self.directory.len() as u32
    }

    /// 4 bytes a translation page.
    fn directory_bytes(&self) -> u64 {
        4 * self.directory.len() as u64
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let buffer = self.has_program_buffer.then_some(("program buffer", self.blank.len() as u64));
        [(Self::DIRECTORY, self.directory_bytes())].into_iter().chain(buffer).collect()
    }

    /// Without further pages, which recovery does not look for.
    fn words(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.directory[..self.pages() as usize].iter().copied()
    }

    fn directory(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.directory.iter().copied().filter_map(mapped)
    }

    fn relocate<N: Nand>(&mut self, flash: &mut Flash<N>, from: Ppn, at: Done) -> Result<Done> {
        let (id, to, read, done) = flash.move_translation(from, at)?;
        let vtpn = Vtpn(id);
        assert!(
            self.page(vtpn) == Some(from),
            "PPN {} is valid as a translation page but the directory does not lead there",
            from.0
        );
        self.programmed(vtpn, to, read);
        Ok(done)
    }

    fn restore<N: Nand>(&mut self, recovery: &mut Recovery<'_, N>) -> Result<()> {
        self.restore_beside(recovery, |_, _, _, _| false)
    }

    fn read_unit<N: Nand>(&self, flash: &mut Flash<N>, unit: Vtpn, at: Done) -> Result<Done> {
        Ok(self.load(flash, unit, Cause::Translation, at)?.unwrap_or(at))
    }

    fn inspect<N: Nand>(&self, flash: &Flash<N>, vtpn: Vtpn, content: &mut Vec<u8>) {
        let found = self.page(vtpn).and_then(|ppn| flash.nand().inspect(ppn, content));
        if found.is_none() {
            content.clear();
            content.resize(self.blank.len(), 0xff);
        }
    }

    /// There is nothing beside the directory to check it against.
    fn check<N: Nand>(&self, _flash: &Flash<N>) -> Result<(), Breach> {
        Ok(())
    }
}
