//! What the array keeps of a programmed page: nine bytes, side by side, so that a page costs one cache line
//! (or, one time in eight, two adjacent ones).

use crate::{Oob, PageKind};

/// Kind and epoch are the block's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Id and low 32 bits of the version, little-endian.
    word: [u8; 8],
    /// [`LOST`] and the version's high 7 bits.
    last: u8,
}

/// Bit of the last byte: [`Oob::lost`].
const LOST: u8 = 0x80;

impl Record {
    /// Of an erased page, whose record means nothing.
    pub const ERASED: Record = Record { word: [0; 8], last: 0 };
    /// Of a torn page. Its OOB would be [`Oob::lost`] with the greatest id and version, and [`Record::holds`]
    /// refuses that one.
    pub const TORN: Record = Record { word: [u8::MAX; 8], last: u8::MAX };

    /// Whether 9 bytes are enough for `oob`.
    #[inline(always)]
    pub fn holds(oob: Oob) -> bool {
        oob.version <= Oob::MAX_VERSION && Record::pack(oob) != Record::TORN
    }

    #[inline(always)]
    pub fn pack(oob: Oob) -> Record {
        let word = u64::from(oob.id) | (oob.version << 32);
        let last = (oob.version >> 32) as u8 | if oob.lost { LOST } else { 0 };
        Record { word: word.to_le_bytes(), last }
    }

    #[inline(always)]
    pub fn unpack(self, kind: PageKind, epoch: u32) -> Oob {
        let word = u64::from_le_bytes(self.word);
        let version = (word >> 32) | (u64::from(self.last & !LOST) << 32);
        Oob { kind, id: word as u32, version, epoch, lost: self.is_lost() }
    }

    /// Whether the page cannot be read: lost or torn.
    #[inline(always)]
    pub fn is_lost(self) -> bool {
        self.last & LOST != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_keeps_an_oob(id in any::<u32>(), version in 0..=Oob::MAX_VERSION, lost in any::<bool>()) {
            let oob = Oob { kind: PageKind::Translation, id, version, epoch: 7, lost };
            prop_assert!(Record::holds(oob));
            prop_assert_eq!(Record::pack(oob).unpack(PageKind::Translation, 7), oob);
            prop_assert_eq!(Record::pack(oob).is_lost(), lost);
        }
    }

    #[test]
    fn a_record_has_nine_bytes_and_one_of_them_is_torn() {
        assert_eq!(size_of::<Record>(), 9);
        let greatest =
            Oob { kind: PageKind::Data, id: u32::MAX, version: Oob::MAX_VERSION, epoch: 0, lost: false };
        assert!(Record::holds(greatest));
        assert!(!Record::holds(Oob { lost: true, ..greatest }));
        assert!(!Record::holds(Oob { version: Oob::MAX_VERSION + 1, ..greatest }));
        assert!(Record::TORN.is_lost());
    }
}
