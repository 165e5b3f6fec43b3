//! For a pool of blocks that manages the array: in its superblocks no bucket has to be kept.

use super::Space;
use crate::bits;
use nand::Ppn;

impl Space {
    /// Leaves superblocks to a pool of blocks ([`crate::log_block::pool::Pool`]), which has so many free now.
    /// Valid pages are still recorded here.
    pub(crate) fn lent(&mut self, free_blocks: u32) {
        self.free.clear();
        self.pooled = free_blocks;
    }

    /// Marks a page of a superblock; [`Space::count_marked`] is to be told of all of them.
    #[inline]
    pub(crate) fn mark(&mut self, ppn: Ppn, is_valid: bool) {
        let changed = bits::set(&mut self.valid, ppn.0, is_valid);
        assert!(changed, "page {} marked {is_valid} twice", ppn.0);
    }

    /// So many pages of the superblock of `ppn` were marked.
    pub(crate) fn count_marked(&mut self, ppn: Ppn, pages: u32, are_valid: bool) {
        let superblock = self.superblock_of(ppn);
        assert!(!self.is_listed(superblock));
        let it = &mut self.superblocks[superblock as usize];
        let all = &mut self.valid_pages[it.kind as usize];
        if are_valid {
            (it.valid, *all) = (it.valid + pages, *all + u64::from(pages));
        } else {
            (it.valid, *all) = (it.valid - pages, *all - u64::from(pages));
        }
    }
}
