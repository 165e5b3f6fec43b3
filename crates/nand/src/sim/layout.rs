//! Page number to (block, page, die), without a division.

use crate::{Divisor, Geometry, Pbn, Ppn};

/// Where a page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub block: Pbn,
    pub page: u32,
    pub die: u32,
}

/// The geometry's address arithmetic, prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    units: Divisor,
    pages_per_block: Divisor,
    dies: Divisor,
}

impl Layout {
    pub fn new(geometry: &Geometry) -> Layout {
        Layout {
            units: Divisor::new(geometry.units()),
            pages_per_block: Divisor::new(geometry.pages_per_block),
            dies: Divisor::new(geometry.dies()),
        }
    }

    /// Agrees with [`Geometry::block_of`]. A page number out of the device gives a block out of the device.
    #[inline(always)]
    pub fn place(&self, ppn: Ppn) -> Place {
        let (row, unit) = self.units.divide(ppn.0);
        let (superblock, page) = self.pages_per_block.divide(row);
        let (_, die) = self.dies.divide(unit);
        Place { block: Pbn(superblock * self.units.get() + unit), page, die }
    }

    /// The place's number when pages are counted block by block.
    #[inline(always)]
    pub fn number(&self, place: Place) -> usize {
        place.block.0 as usize * self.pages_per_block.get() as usize + place.page as usize
    }

    #[inline(always)]
    pub fn die_of(&self, block: Pbn) -> u32 {
        let (_, unit) = self.units.divide(block.0);
        self.dies.divide(unit).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_reciprocal_divides(n in any::<u32>(), d in 1u32.., small in 1u32..2000) {
            for d in [d, small, 1, u32::MAX] {
                for n in [n, n / d * d, (n / d * d).wrapping_sub(1), 0, u32::MAX] {
                    prop_assert_eq!(Divisor::new(d).divide(n), (n / d, n % d), "{} / {}", n, d);
                }
            }
        }

        #[test]
        fn places_agree_with_the_geometry(
            channels in 1u32..5, luns_per_channel in 1u32..5, planes_per_lun in 1u32..4,
            blocks_per_plane in 1u32..5, pages_per_block in 1u32..9,
        ) {
            let g = Geometry {
                channels, luns_per_channel, planes_per_lun, blocks_per_plane, pages_per_block,
                page_bytes: 512, oob_bytes: 16,
            };
            let layout = Layout::new(&g);
            for ppn in (0..g.pages()).map(Ppn) {
                let place = layout.place(ppn);
                prop_assert_eq!((place.block, place.page), g.block_of(ppn));
                prop_assert_eq!(place.die, g.die_of_unit(g.unit_of(place.block)));
                prop_assert_eq!(layout.die_of(place.block), place.die);
            }
        }
    }
}
