//! Addresses as newtypes, and the geometry that relates them.
//!
//! Physical page numbers (PPN) run in *superblock-striped* order: consecutive PPNs lie on consecutive
//! parallel units (channel first, then lun, then plane), then on the next page, then in the next superblock.
//! A superblock is the set of blocks that carry the same number in every unit.

/// Logical page number: what the host addresses, in units of one flash page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpn(pub u32);

/// Physical page number in superblock-striped order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppn(pub u32);

/// Physical block number: `superblock * units + unit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pbn(pub u32);

/// Virtual translation page number: the index of a translation page in the mapping table (GTD index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vtpn(pub u32);

/// A physical page spelled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAddress {
    /// Channel that the die hangs on, `0..channels`.
    pub channel: u32,
    /// Lun (die) on its channel, `0..luns_per_channel`.
    pub lun: u32,
    /// Plane in its lun, `0..planes_per_lun`.
    pub plane: u32,
    /// Block in its plane, `0..blocks_per_plane`; also the superblock's number.
    pub block: u32,
    /// Page in its block, `0..pages_per_block`.
    pub page: u32,
}

/// The shape of a NAND array. All counts are at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Channels: buses, each with a queue of transfers of its own.
    pub channels: u32,
    /// Luns on each channel. A lun is a die: it does one operation at a time.
    pub luns_per_channel: u32,
    /// Planes in each lun: with the luns they make the parallel units, over which consecutive pages are
    /// spread.
    pub planes_per_lun: u32,
    /// Blocks in each plane; also the number of superblocks.
    pub blocks_per_plane: u32,
    /// Pages in each block, programmed in order and erased together.
    pub pages_per_block: u32,
    /// User bytes in a page, the unit of reading, programming and mapping.
    pub page_bytes: u32,
    /// Out-of-band bytes beside each page: [`crate::Oob::BYTES`] for the record, the rest for ECC and spare
    /// bytes.
    pub oob_bytes: u32,
}

impl Geometry {
    /// Dies in the device: how many operations can go on at once.
    pub fn dies(&self) -> u32 {
        self.channels * self.luns_per_channel
    }

    /// Parallel units (planes) in the device: the width of a superblock in blocks.
    pub fn units(&self) -> u32 {
        self.dies() * self.planes_per_lun
    }

    /// Superblocks in the device, one for each block of a plane.
    pub fn superblocks(&self) -> u32 {
        self.blocks_per_plane
    }

    /// Blocks in the device, bad ones included; PBNs are below this.
    pub fn blocks(&self) -> u32 {
        self.units() * self.blocks_per_plane
    }

    /// Pages in a superblock, bad blocks included.
    pub fn superblock_pages(&self) -> u32 {
        self.units() * self.pages_per_block
    }

    /// Physical pages in the device; fits `u32` by [`Geometry::check`].
    pub fn pages(&self) -> u32 {
        self.superblock_pages() * self.blocks_per_plane
    }

    /// User bytes of all pages, bad blocks and over-provisioning included.
    pub fn raw_bytes(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.page_bytes)
    }

    /// Page `page` of block `block`.
    #[inline]
    pub fn page_in(&self, block: Pbn, page: u32) -> Ppn {
        debug_assert!(page < self.pages_per_block);
        let units = self.units();
        let (superblock, unit) = (block.0 / units, block.0 % units);
        Ppn((superblock * self.pages_per_block + page) * units + unit)
    }

    /// The block that holds `ppn` and the page's number in it.
    #[inline]
    pub fn block_of(&self, ppn: Ppn) -> (Pbn, u32) {
        let units = self.units();
        let (row, unit) = if units.is_power_of_two() {
            (ppn.0 >> units.trailing_zeros(), ppn.0 & (units - 1))
        } else {
            (ppn.0 / units, ppn.0 % units)
        };
        let pages = self.pages_per_block;
        let (superblock, page) = if pages.is_power_of_two() {
            (row >> pages.trailing_zeros(), row & (pages - 1))
        } else {
            (row / pages, row % pages)
        };
        (Pbn(superblock * units + unit), page)
    }

    /// The superblock that holds `ppn`.
    #[inline]
    pub fn superblock_of(&self, ppn: Ppn) -> u32 {
        ppn.0 / self.superblock_pages()
    }

    /// The parallel unit of a block, `0..units()`.
    #[inline]
    pub fn unit_of(&self, block: Pbn) -> u32 {
        block.0 % self.units()
    }

    /// The die of a parallel unit, `0..dies()`.
    #[inline]
    pub fn die_of_unit(&self, unit: u32) -> u32 {
        unit % self.dies()
    }

    /// The channel of a die, `0..channels`.
    #[inline]
    pub fn channel_of_die(&self, die: u32) -> u32 {
        die % self.channels
    }

    /// Channel, lun, plane, block and page of a page number.
    pub fn address(&self, ppn: Ppn) -> PageAddress {
        let (block, page) = self.block_of(ppn);
        let unit = self.unit_of(block);
        PageAddress {
            channel: unit % self.channels,
            lun: unit / self.channels % self.luns_per_channel,
            plane: unit / self.dies(),
            block: block.0 / self.units(),
            page,
        }
    }

    /// The inverse of [`Geometry::address`].
    pub fn ppn(&self, at: PageAddress) -> Ppn {
        let unit = at.channel + self.channels * (at.lun + self.luns_per_channel * at.plane);
        self.page_in(Pbn(at.block * self.units() + unit), at.page)
    }

    /// The number that a page has when its address fields are put together from the highest level of the
    /// device to the lowest: channel, lun, plane, block, page. LearnedFTL's paper (HPCA 2024, III-C) calls
    /// this the PPN, and ours, whose fields come in the order of allocation (channel fastest, then lun,
    /// plane, page, block), the virtual PPN: in it, pages that a stream writes one after the other are
    /// consecutive, though they lie on different dies.
    pub fn hierarchical(&self, ppn: Ppn) -> u32 {
        let PageAddress { channel, lun, plane, block, page } = self.address(ppn);
        let plane = (channel * self.luns_per_channel + lun) * self.planes_per_lun + plane;
        (plane * self.blocks_per_plane + block) * self.pages_per_block + page
    }

    /// The inverse of [`Geometry::hierarchical`].
    pub fn from_hierarchical(&self, number: u32) -> Ppn {
        let (rest, page) = (number / self.pages_per_block, number % self.pages_per_block);
        let (rest, block) = (rest / self.blocks_per_plane, rest % self.blocks_per_plane);
        let (rest, plane) = (rest / self.planes_per_lun, rest % self.planes_per_lun);
        let (channel, lun) = (rest / self.luns_per_channel, rest % self.luns_per_channel);
        self.ppn(PageAddress { channel, lun, plane, block, page })
    }

    /// Checks what the newtypes rely on: every count is at least one, and page numbers fit 32 bits.
    pub fn check(&self) -> Result<(), GeometryError> {
        let counts = [
            ("channels", self.channels),
            ("luns_per_channel", self.luns_per_channel),
            ("planes_per_lun", self.planes_per_lun),
            ("blocks_per_plane", self.blocks_per_plane),
            ("pages_per_block", self.pages_per_block),
        ];
        if let Some(&(field, _)) = counts.iter().find(|&&(_, count)| count == 0) {
            return Err(GeometryError::Zero(field));
        }
        if self.pages_per_block > GeometryError::MOST_PAGES_PER_BLOCK {
            return Err(GeometryError::PagesPerBlock(self.pages_per_block));
        }
        if !self.page_bytes.is_power_of_two() || self.page_bytes < 512 || self.page_bytes > 1 << 16 {
            return Err(GeometryError::PageBytes(self.page_bytes));
        }
        let pages = counts.iter().fold(1u128, |product, &(_, count)| product * u128::from(count));
        if pages > u128::from(GeometryError::MOST_PAGES) {
            return Err(GeometryError::Pages(pages));
        }
        Ok(())
    }
}

/// Why an array cannot have a shape: one sentence with the field, its value and what would be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// This field counts something of which there must be one.
    #[error("{0} is 0; it must be at least 1")]
    Zero(&'static str),
    /// A block has more pages than the array's state of a block can count.
    #[error("pages_per_block is {0}; at most {most} are supported", most = Self::MOST_PAGES_PER_BLOCK)]
    PagesPerBlock(u32),
    /// The size of a page is no power of two, or out of the range of real flash.
    #[error("page_bytes is {0}; a power of two from 512 to 65536 is needed")]
    PageBytes(u32),
    /// There are more pages than 32-bit numbers for them.
    #[error("{0} pages; page numbers are 32-bit, so at most {most} are supported", most = Self::MOST_PAGES)]
    Pages(u128),
}

impl GeometryError {
    const MOST_PAGES_PER_BLOCK: u32 = 1 << 15;
    /// The greatest number is left for "no page".
    const MOST_PAGES: u32 = u32::MAX - 1;

    /// The field of [`Geometry`] that is wrong; `None` when it is all of them together.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            GeometryError::Zero(field) => Some(field),
            GeometryError::PagesPerBlock(_) => Some("pages_per_block"),
            GeometryError::PageBytes(_) => Some("page_bytes"),
            GeometryError::Pages(_) => None,
        }
    }
}

/// Divides any `u32` by a fixed one with a multiplication, where addresses are taken apart for every page.
///
/// ```
/// assert_eq!(nand::Divisor::new(7).divide(100), (14, 2));
/// ```
///
/// `(n + 1) * floor((2^64 - 1) / d) >> 64 == n / d` for all `n`, `d` of 32 bits: the error of the reciprocal
/// adds up to less than `2^-32`, which is at most the distance `1 / d` to the next quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisor {
    reciprocal: u64,
    divisor: u32,
}

impl Divisor {
    /// By `divisor`, which is not 0.
    pub fn new(divisor: u32) -> Divisor {
        Divisor { reciprocal: u64::MAX / u64::from(divisor), divisor }
    }

    /// Quotient and remainder of `n` by the divisor, without a division instruction.
    #[inline(always)]
    pub fn divide(self, n: u32) -> (u32, u32) {
        let quotient = (((u128::from(n) + 1) * u128::from(self.reciprocal)) >> 64) as u32;
        (quotient, n - quotient * self.divisor)
    }

    /// What it divides by.
    #[inline(always)]
    pub fn get(self) -> u32 {
        self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn geometry() -> impl Strategy<Value = Geometry> {
        (1u32..5, 1u32..5, 1u32..3, 1u32..9, 1u32..17).prop_map(
            |(channels, luns_per_channel, planes_per_lun, blocks_per_plane, pages_per_block)| Geometry {
                channels,
                luns_per_channel,
                planes_per_lun,
                blocks_per_plane,
                pages_per_block,
                page_bytes: 4096,
                oob_bytes: 64,
            },
        )
    }

    proptest! {
        #[test]
        fn page_numbers_and_addresses_are_a_bijection(g in geometry()) {
            for n in 0..g.pages() {
                let ppn = Ppn(n);
                prop_assert_eq!(g.ppn(g.address(ppn)), ppn);
                prop_assert_eq!(g.from_hierarchical(g.hierarchical(ppn)), ppn);
                prop_assert!(g.hierarchical(ppn) < g.pages());
                let (block, page) = g.block_of(ppn);
                prop_assert_eq!(g.page_in(block, page), ppn);
                prop_assert_eq!(g.superblock_of(ppn), g.address(ppn).block);
            }
        }

        #[test]
        fn consecutive_pages_lie_on_consecutive_units(g in geometry()) {
            for n in 1..g.pages() {
                let unit = |n| g.unit_of(g.block_of(Ppn(n)).0);
                prop_assert_eq!(unit(n), (unit(n - 1) + 1) % g.units());
            }
        }
    }

    /// Figure 12 of LearnedFTL's paper: LPNs 1001 to 1003 lie at PPNs 5013631, 6062207 and 7110783, each on
    /// another channel. (The virtual PPNs printed there are not consecutive themselves, by slips of the pen;
    /// the pages are.)
    #[test]
    fn the_example_of_learnedftl_becomes_consecutive() {
        let g = Geometry {
            channels: 8,
            luns_per_channel: 8,
            planes_per_lun: 1,
            blocks_per_plane: 256,
            pages_per_block: 512,
            page_bytes: 4096,
            oob_bytes: 64,
        };
        let pages = [5_013_631, 6_062_207, 7_110_783].map(|number| g.from_hierarchical(number));
        assert_eq!(pages, [Ppn(2_105_332), Ppn(2_105_333), Ppn(2_105_334)]);
        let PageAddress { channel, lun, block, page, .. } = g.address(pages[0]);
        assert_eq!((channel, lun, block, page), (4, 6, 64, 127));
    }

    #[test]
    fn an_impossible_geometry_is_refused_in_one_sentence() {
        let mut g = Geometry {
            channels: 8,
            luns_per_channel: 8,
            planes_per_lun: 1,
            blocks_per_plane: 256,
            pages_per_block: 512,
            page_bytes: 4096,
            oob_bytes: 64,
        };
        assert_eq!(g.check(), Ok(()));
        g.page_bytes = 4000;
        assert!(g.check().is_err_and(|e| e.to_string().contains("page_bytes is 4000")));
        g.page_bytes = 4096;
        g.blocks_per_plane = 1 << 20;
        assert!(g.check().is_err_and(|e| e.to_string().contains("32-bit")));
    }
}
