//! The simplest scheme that survives power cuts, and its faulty brothers: the checker must let the one pass
//! and catch the others.
//!
//! A page map in memory, rebuilt by a scan of all OOB. Trims are versions of "nothing", kept by groups of
//! LPNs in metadata pages, which are collected like data.

use ftl::{Breach, Cause, Config, ConfigError, Flash, Info, Memory, OpenError, Scheme};
use nand::{Class, Done, Fault, Lpn, Nand, Oob, PageKind, Pbn, Ppn, Sink, Source};

/// Nothing is wrong.
pub const SOUND: u8 = 0;
/// A flush writes no trim.
pub const TRIM_DROPPED: u8 = 1;
/// Collection copies pages that are not valid, and maps to the copies.
pub const STALE_REVIVED: u8 = 2;
/// A flush waits for nothing.
pub const FLUSH_AT_ONCE: u8 = 3;
/// A write is acknowledged before it is programmed.
pub const WRITE_AT_ONCE: u8 = 4;
/// Recovery takes the page it finds first.
pub const FIRST_FOUND: u8 = 5;
/// Erases wait for nothing.
pub const ERASE_AT_ONCE: u8 = 6;
/// Recovery does not know that a trim is newer than what it trims.
pub const TRIM_FORGOTTEN: u8 = 7;
/// Erases are not counted.
pub const UNCOUNTED: u8 = 8;

const NONE: u32 = u32::MAX;

/// A page map with the bug `BUG`.
#[derive(Clone, Debug)]
pub struct Toy<const BUG: u8> {
    map: Vec<u32>,
    /// By LPN: the version of its last trim.
    trimmed: Vec<u32>,
    /// By group of LPNs: where its trims are.
    groups: Vec<u32>,
    dirty: Vec<bool>,
    per_group: usize,
    /// By PPN: the page is needed.
    valid: Vec<bool>,
    /// Blocks being written: one of each unit for data, one for trims.
    open: Vec<Pbn>,
    opens: Vec<u32>,
    turn: usize,
    epoch: u32,
    free: u32,
}

impl<const BUG: u8> Toy<BUG> {
    fn new<N: Nand>(flash: &Flash<N>, exported: u32) -> Self {
        let g = flash.nand().geometry();
        let per_group = g.page_bytes as usize / 4;
        Toy {
            map: vec![NONE; exported as usize],
            trimmed: vec![0; exported as usize],
            groups: vec![NONE; (exported as usize).div_ceil(per_group)],
            dirty: vec![false; (exported as usize).div_ceil(per_group)],
            per_group,
            valid: vec![false; g.pages() as usize],
            open: vec![Pbn(NONE); g.units() as usize + 1],
            opens: vec![0; g.blocks() as usize],
            turn: 0,
            epoch: 0,
            free: 0,
        }
    }

    /// Reads a page; a metadata page that cannot be read is read again.
    fn read_page<N: Nand>(
        flash: &mut Flash<N>,
        ppn: Ppn,
        kind: PageKind,
        class: Class,
        after: Done,
    ) -> Result<(Oob, Done), Fault> {
        let mut after = after;
        loop {
            flash.counters.reads[Cause::Host as usize][kind as usize] += 1;
            match flash.nand_mut().read(ppn, class, Sink::Controller, after) {
                Err(Fault::Uncorrectable { done, .. }) if kind != PageKind::Data => after = done,
                result => return result,
            }
        }
    }

    fn scan<N: Nand>(flash: &mut Flash<N>, ppn: Ppn) -> Result<(Option<Oob>, Done), Fault> {
        flash.counters.reads[Cause::Recovery as usize][0] += 1;
        flash.nand_mut().scan(ppn, Done::READY)
    }

    fn is_free<N: Nand>(&self, flash: &Flash<N>, block: Pbn) -> bool {
        !flash.nand().is_bad(block) && flash.nand().written(block) == 0 && !self.open.contains(&block)
    }

    /// The next page for `kind`.
    fn next_page<N: Nand>(&mut self, flash: &Flash<N>, kind: PageKind) -> (Ppn, u32) {
        let g = flash.nand().geometry();
        let units = self.open.len() - 1;
        let line = if kind == PageKind::Data {
            self.turn = (self.turn + 1) % units;
            self.turn
        } else {
            units
        };
        let block = self.open[line];
        let full = |block: Pbn| flash.nand().written(block) == g.pages_per_block;
        if block.0 == NONE || full(block) {
            let mut free = (0..g.blocks()).map(Pbn).filter(|&block| self.is_free(flash, block));
            let first = free.next().expect("a free block");
            let here = |block: &Pbn| g.unit_of(*block) as usize == line;
            self.open[line] = Some(first).filter(here).or_else(|| free.find(here)).unwrap_or(first);
            self.free -= 1;
            self.epoch += 1;
            self.opens[self.open[line].0 as usize] = self.epoch;
        }
        let block = self.open[line];
        (g.page_in(block, flash.nand().written(block)), self.opens[block.0 as usize])
    }

    fn program<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        oob: Oob,
        class: Class,
        from: Source<'_>,
        after: Done,
    ) -> Result<(Ppn, Done), Fault> {
        let mut after = after;
        loop {
            let (ppn, epoch) = self.next_page(flash, oob.kind);
            flash.counters.programs[Cause::Host as usize][oob.kind as usize] += 1;
            match flash.nand_mut().program(ppn, Oob { epoch, ..oob }, class, from, after) {
                Ok(done) => {
                    self.valid[ppn.0 as usize] = true;
                    return Ok((ppn, done));
                }
                Err(Fault::ProgramFailed { done, .. }) => after = done,
                Err(fault) => return Err(fault),
            }
        }
    }

    fn forget(&mut self, ppn: u32) {
        if ppn != NONE {
            self.valid[ppn as usize] = false;
        }
    }

    fn write_trims<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        for group in 0..self.groups.len() {
            if !std::mem::take(&mut self.dirty[group]) || BUG == TRIM_DROPPED {
                continue;
            }
            let first = group * self.per_group;
            let end = (first + self.per_group).min(self.trimmed.len());
            let bytes: Vec<u8> = self.trimmed[first..end].iter().flat_map(|v| v.to_le_bytes()).collect();
            let version = flash.next_version();
            let oob = Oob { kind: PageKind::Metadata, id: group as u32, version, epoch: 0, lost: false };
            let from = Source::Metadata(&bytes);
            let (ppn, _) = self.program(flash, oob, Class::HostWrite, from, Done::READY)?;
            self.forget(self.groups[group]);
            self.groups[group] = ppn.0;
        }
        Ok(())
    }

    fn make_room<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        while self.free < self.open.len() as u32 + 4 {
            let g = flash.nand().geometry().clone();
            let pages = |block: Pbn| (0..g.pages_per_block).map(move |page| (block, page));
            let valid = |toy: &Self, block: Pbn| {
                pages(block).filter(|&(block, page)| toy.valid[g.page_in(block, page).0 as usize]).count()
            };
            let closed = |block: &Pbn| {
                !flash.nand().is_bad(*block) && flash.nand().written(*block) > 0 && !self.open.contains(block)
            };
            let victim = (0..g.blocks()).map(Pbn).filter(closed).min_by_key(|&block| valid(self, block));
            let victim = victim.expect("a block to collect");
            self.collect(flash, victim)?;
        }
        Ok(())
    }

    fn collect<N: Nand>(&mut self, flash: &mut Flash<N>, victim: Pbn) -> Result<(), Fault> {
        // What was trimmed may be erased only when the trim is on flash: otherwise an older version remains.
        self.write_trims(flash)?;
        let g = flash.nand().geometry().clone();
        let mut revived = 0;
        for page in 0..flash.nand().written(victim) {
            let from = g.page_in(victim, page);
            let needed = self.valid[from.0 as usize];
            if !needed && (BUG != STALE_REVIVED || revived > 0 || page % 4 != 0) {
                continue;
            }
            let (mut oob, mut done) = match Self::scan(flash, from) {
                Ok((Some(oob), done)) => (oob, done),
                _ => continue,
            };
            if !needed && oob.kind != PageKind::Data {
                continue;
            }
            revived += u32::from(!needed);
            let mut source = Source::Page(from);
            match Self::read_page(flash, from, oob.kind, Class::CollectionRead, done) {
                Ok((_, read)) => done = read,
                Err(_) => (oob.lost, source) = (true, Source::Nothing),
            }
            let copied = self.program(flash, oob, Class::CollectionProgram, source, done)?;
            let home = match oob.kind {
                PageKind::Data => &mut self.map[oob.id as usize],
                _ => &mut self.groups[oob.id as usize],
            };
            let old = std::mem::replace(home, copied.0 .0);
            self.forget(old);
        }
        let safe = if BUG == ERASE_AT_ONCE { Done::READY } else { flash.settle() };
        flash.counters.erases[Cause::Collection as usize] += u64::from(BUG != UNCOUNTED);
        flash.counters.collections_data += 1;
        match flash.nand_mut().erase(victim, safe) {
            Ok(_) => self.free += 1,
            Err(_) => flash.nand_mut().retire(victim),
        }
        Ok(())
    }

    fn recover<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<(), Fault> {
        let g = flash.nand().geometry().clone();
        let mut newest = vec![0u64; self.map.len()];
        let mut newest_group = vec![0u64; self.groups.len()];
        let mut last = 0;
        for ppn in (0..g.pages()).map(Ppn) {
            let (block, _) = g.block_of(ppn);
            let Ok((Some(oob), _)) = Self::scan(flash, ppn) else { continue };
            last = last.max(oob.version);
            self.epoch = self.epoch.max(oob.epoch);
            self.opens[block.0 as usize] = oob.epoch;
            let (home, newest) = match oob.kind {
                PageKind::Data => (&mut self.map[oob.id as usize], &mut newest[oob.id as usize]),
                _ => (&mut self.groups[oob.id as usize], &mut newest_group[oob.id as usize]),
            };
            if oob.version > *newest && !(BUG == FIRST_FOUND && *newest > 0) {
                (*home, *newest) = (ppn.0, oob.version);
            }
        }
        for group in 0..self.groups.len() {
            if self.groups[group] == NONE {
                continue;
            }
            let ppn = Ppn(self.groups[group]);
            self.valid[ppn.0 as usize] = true;
            Self::read_page(flash, ppn, PageKind::Metadata, Class::HostRead, Done::READY)?;
            let trimmed = &mut self.trimmed[group * self.per_group..];
            for (version, word) in trimmed.iter_mut().zip(flash.nand().buffer().chunks_exact(4)) {
                *version = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                last = last.max(u64::from(*version));
            }
        }
        for (lpn, &version) in newest.iter().enumerate() {
            if version < u64::from(self.trimmed[lpn]) && BUG != TRIM_FORGOTTEN {
                self.map[lpn] = NONE;
            } else if self.map[lpn] != NONE {
                self.valid[self.map[lpn] as usize] = true;
            }
        }
        while flash.version() < last {
            flash.next_version();
        }
        self.free = (0..g.blocks()).filter(|&block| self.is_free(flash, Pbn(block))).count() as u32;
        Ok(())
    }
}

impl<const BUG: u8> Scheme for Toy<BUG> {
    const INFO: Info =
        Info { name: "toy", what: "a page map for tests", paper: "none", parameters: &[], stats: &[] };

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        config.check_parameters(&Self::INFO)?;
        let reserve = 7 * flash.nand().geometry().superblock_pages();
        if config.exported_pages == 0 || config.exported_pages + reserve > flash.nand().geometry().pages() {
            return Err(ConfigError("nothing, or too much, is exported".to_owned()).into());
        }
        let mut toy = Toy::new(flash, config.exported_pages);
        toy.recover(flash)?;
        Ok(toy)
    }

    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        _rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
        match self.map[lpn.0 as usize] {
            NONE => Ok((None, at)),
            ppn => {
                let (oob, done) = Self::read_page(flash, Ppn(ppn), PageKind::Data, Class::HostRead, at)?;
                assert_eq!(oob.id, lpn.0, "the page of another LPN");
                Ok((Some(oob), done))
            }
        }
    }

    fn write<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        _rest: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        self.make_room(flash)?;
        let version = flash.next_version();
        let oob = Oob { kind: PageKind::Data, id: lpn.0, version, epoch: 0, lost: false };
        let (ppn, done) = self.program(flash, oob, Class::HostWrite, Source::Host, at)?;
        self.forget(self.map[lpn.0 as usize]);
        self.map[lpn.0 as usize] = ppn.0;
        Ok(if BUG == WRITE_AT_ONCE { at } else { done })
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        let version = flash.next_version() as u32;
        for lpn in first.0 as usize..(first.0 + pages) as usize {
            let old = std::mem::replace(&mut self.map[lpn], NONE);
            self.forget(old);
            self.trimmed[lpn] = version;
            self.dirty[lpn / self.per_group] = true;
        }
        Ok(at)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault> {
        self.make_room(flash)?;
        self.write_trims(flash)?;
        let settled = flash.settle();
        Ok(if BUG == FLUSH_AT_ONCE { at } else { flash.join(at, settled) })
    }

    fn idle<N: Nand>(&mut self, _flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        Ok(None)
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.flush(flash, Done::READY)
    }

    fn mapping<N: Nand>(&self, _flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        for (lpn, &ppn) in (0..).zip(&self.map).filter(|(_, &ppn)| ppn != NONE) {
            each(Lpn(lpn), Ppn(ppn));
        }
    }

    fn check<N: Nand>(&self, _flash: &Flash<N>) -> Result<(), Breach> {
        let invalid = self.map.iter().find(|&&ppn| ppn != NONE && !self.valid[ppn as usize]);
        invalid.map_or(Ok(()), |ppn| Err(Breach(format!("PPN {ppn} is mapped but not valid"))))
    }

    fn memory(&self) -> Memory {
        Memory { parts: vec![("map", self.map.len() as u64 * 4)] }
    }
}
