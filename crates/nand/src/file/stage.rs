//! What was done to the array and is not in the file yet: pages in runs that lie side by side, and changed
//! blocks.
//!
//! Each stream of an FTL writes pages with consecutive numbers, so a run becomes two writes, one for the data
//! and one for the records, however long it is.

use std::io::{self, IoSlice};

use bytes::Bytes;

use super::format::{BlockRecord, Places, COPIES, RECORD_BYTES};
use super::medium::Medium;
use crate::{Pbn, Ppn};

#[derive(Debug, Default)]
struct Run {
    first: u32,
    data: Vec<Bytes>,
    records: Vec<u8>,
    /// Empty, or as long as the file has room for beside each page.
    spare: Vec<u8>,
    /// The data are written twice.
    mirrored: bool,
}

impl Run {
    fn end(&self) -> u32 {
        self.first + self.data.len() as u32
    }

    fn get(&self, ppn: Ppn) -> Option<&Bytes> {
        self.data.get(ppn.0.checked_sub(self.first)? as usize)
    }

    fn write_data<M: Medium>(&self, medium: &M, at: u64) -> io::Result<()> {
        match &self.data[..] {
            [one] => medium.write_at(&[IoSlice::new(one)], at),
            many => {
                let parts: Vec<IoSlice<'_>> = many.iter().map(|data| IoSlice::new(data)).collect();
                medium.write_at(&parts, at)
            }
        }
    }
}

/// Operations on their way to the file.
#[derive(Debug, Default)]
pub(super) struct Stage {
    runs: Vec<Run>,
    /// Emptied runs, kept for their memory.
    emptied: Vec<Run>,
    /// Blocks whose record changed, with what it became.
    blocks: Vec<(Pbn, BlockRecord)>,
    pages: usize,
}

impl Stage {
    /// Pages that wait here for their write to the image.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Adds a page with its record and what lies beside it; `mirrored`: its data are written twice.
    pub fn page(
        &mut self,
        ppn: Ppn,
        data: Bytes,
        record: &[u8; RECORD_BYTES],
        beside: &[u8],
        mirrored: bool,
    ) {
        self.pages += 1;
        let same = |run: &&mut Run| {
            run.end() == ppn.0 && run.spare.len() == run.data.len() * beside.len() && run.mirrored == mirrored
        };
        let open = self.runs.iter_mut().rev().find(same);
        let run = match open {
            Some(run) => run,
            None => {
                let mut run = self.emptied.pop().unwrap_or_default();
                run.first = ppn.0;
                run.mirrored = mirrored;
                self.runs.push(run);
                let last = self.runs.len() - 1;
                &mut self.runs[last]
            }
        };
        run.data.push(data);
        run.records.extend_from_slice(record);
        run.spare.extend_from_slice(beside);
    }

    /// Notes that the record of a block changed.
    pub fn block(&mut self, block: Pbn, record: BlockRecord) {
        self.blocks.push((block, record));
    }

    /// The data of a page that is not in the file yet.
    #[inline]
    pub fn get(&self, ppn: Ppn) -> Option<&Bytes> {
        self.runs.iter().find_map(|run| run.get(ppn))
    }

    /// Writes everything. What could not be written stays.
    pub fn land<M: Medium>(&mut self, medium: &M, places: &Places) -> io::Result<()> {
        while let Some(run) = self.runs.last() {
            run.write_data(medium, places.data(run.first))?;
            if run.mirrored {
                run.write_data(medium, places.mirror(run.first))?;
            }
            if !run.spare.is_empty() {
                for copy in 0..COPIES {
                    medium.write_at(&[IoSlice::new(&run.spare)], places.spare(copy, run.first))?;
                }
            }
            // Last: a page with a record is there as a whole, whenever this process dies.
            for copy in 0..COPIES {
                medium.write_at(&[IoSlice::new(&run.records)], places.page(copy, run.first))?;
            }
            if let Some(mut run) = self.runs.pop() {
                self.pages -= run.data.len();
                run.data.clear();
                run.records.clear();
                run.spare.clear();
                self.emptied.push(run);
            }
        }
        // After the pages: an erase is only given when what it waits for has been.
        for (block, record) in &self.blocks {
            let record = record.bytes(block.0);
            for copy in 0..COPIES {
                medium.write_at(&[IoSlice::new(&record)], places.block(copy, block.0))?;
            }
        }
        self.blocks.clear();
        Ok(())
    }
}
