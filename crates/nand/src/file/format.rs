//! Bytes of an image file, as docs/format.md ("Image file") lays them down.

use std::ops::Range;

use crate::{Geometry, Oob, PageKind};

/// First bytes of every image.
pub(super) const MAGIC: [u8; 8] = *b"FTLIMAGE";
/// The format that this code reads and writes.
pub(super) const FORMAT: u32 = 2;
/// Bytes of a copy of the header: what the image is, written once.
pub(super) const HEADER_BYTES: usize = 1 << 15;
/// Where the copies of the header lie.
pub(super) const HEADER_AT: [u64; COPIES] = [0, 1 << 15];
/// Bytes of the header before its texts.
pub(super) const HEADER_FIXED: usize = 32;
/// Where states lie: by the parity of their generation, and for each the places of its copies. Each has a
/// sector of its own.
pub(super) const STATE_AT: [[u64; COPIES]; 2] = [[0x1_0000, 0x1_8000], [0x1_1000, 0x1_9000]];
/// Bytes of a state.
pub(super) const STATE_BYTES: usize = 48;
const STATE_MAGIC: [u8; 4] = *b"FTLS";
/// Where the records of blocks begin.
const BLOCKS_AT: u64 = 1 << 17;
/// What begins on a multiple of this: the records of pages, and the data.
const ALIGNMENT: u64 = 1 << 20;
/// Most spare bytes of a page: a record counts them in one byte.
const MOST_SPARE: u32 = 255;
/// Bytes of the CRC behind the spare bytes of a page.
const SPARE_CRC_BYTES: usize = 4;
/// Bytes of the record of a page or of a block. They divide 512, so that no record lies in two sectors.
pub(super) const RECORD_BYTES: usize = 32;
/// Everything but user data is there so often, far apart.
pub(super) const COPIES: usize = 2;
/// What was running when an image was begun: [`super::Medium::boot`]. Zeros: nobody knows.
pub(super) type Boot = [u8; 16];

/// Where things lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    blocks_at: [u64; COPIES],
    pages_at: [u64; COPIES],
    spare_at: [u64; COPIES],
    /// The data of all pages, and once more those of translation and metadata pages.
    data_at: [u64; COPIES],
    page_bytes: u64,
    /// Spare bytes that the file has room for beside each page.
    pub spare_bytes: usize,
    /// The same, with their CRC.
    pub spare_stride: usize,
    /// Bytes of the whole file.
    pub end: u64,
}

impl Places {
    pub fn new(geometry: &Geometry) -> Places {
        let pages = u64::from(geometry.pages());
        let spare_bytes = geometry.oob_bytes.saturating_sub(Oob::BYTES).min(MOST_SPARE) as usize;
        let spare_stride = if spare_bytes > 0 { spare_bytes + SPARE_CRC_BYTES } else { 0 };
        let mut places = Places {
            blocks_at: [0; COPIES],
            pages_at: [0; COPIES],
            spare_at: [0; COPIES],
            data_at: [0; COPIES],
            page_bytes: u64::from(geometry.page_bytes),
            spare_bytes,
            spare_stride,
            end: BLOCKS_AT,
        };
        let aligned = |at: u64| at.next_multiple_of(ALIGNMENT);
        for copy in 0..COPIES {
            places.blocks_at[copy] = places.end;
            let blocks_end = places.end + RECORD_BYTES as u64 * u64::from(geometry.blocks());
            places.pages_at[copy] = aligned(blocks_end);
            places.spare_at[copy] = aligned(places.pages_at[copy] + RECORD_BYTES as u64 * pages);
            places.data_at[copy] = aligned(places.spare_at[copy] + spare_stride as u64 * pages);
            places.end = aligned(places.data_at[copy] + geometry.raw_bytes());
        }
        places
    }

    pub fn block(&self, copy: usize, block: u32) -> u64 {
        self.blocks_at[copy] + RECORD_BYTES as u64 * u64::from(block)
    }

    pub fn page(&self, copy: usize, page: u32) -> u64 {
        self.pages_at[copy] + RECORD_BYTES as u64 * u64::from(page)
    }

    pub fn spare(&self, copy: usize, page: u32) -> u64 {
        self.spare_at[copy] + self.spare_stride as u64 * u64::from(page)
    }

    /// Where the data of a page lie.
    pub fn data(&self, page: u32) -> u64 {
        self.data_at[0] + self.page_bytes * u64::from(page)
    }

    /// Where they lie once more, if the page holds no user data.
    pub fn mirror(&self, page: u32) -> u64 {
        self.data_at[1] + self.page_bytes * u64::from(page)
    }

    /// The parts of an image that are in use, each under its name: for whoever damages one on purpose.
    pub fn parts(&self, geometry: &Geometry) -> Vec<(&'static str, Range<u64>)> {
        let (blocks, pages) = (geometry.blocks(), geometry.pages());
        let mut parts: Vec<_> = HEADER_AT.map(|at| ("header", at..at + HEADER_BYTES as u64)).into();
        parts.extend(STATE_AT.as_flattened().iter().map(|&at| ("state", at..at + STATE_BYTES as u64)));
        for copy in 0..COPIES {
            parts.push(("block records", self.block(copy, 0)..self.block(copy, blocks)));
            parts.push(("page records", self.page(copy, 0)..self.page(copy, pages)));
            parts.push(("spare bytes", self.spare(copy, 0)..self.spare(copy, pages)));
        }
        parts.push(("data", self.data(0)..self.data(pages)));
        parts.push(("mirrored data", self.mirror(0)..self.mirror(pages)));
        parts
    }
}

/// The header of an image with these two texts; `None` when they are too long.
pub(super) fn header(device: &str, settings: &str) -> Option<Vec<u8>> {
    let length = HEADER_FIXED + device.len() + settings.len();
    if length > HEADER_BYTES {
        return None;
    }
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    put32(&mut bytes, 8, FORMAT);
    put32(&mut bytes, 16, device.len() as u32);
    put32(&mut bytes, 20, settings.len() as u32);
    bytes[HEADER_FIXED..][..device.len()].copy_from_slice(device.as_bytes());
    bytes[HEADER_FIXED + device.len()..length].copy_from_slice(settings.as_bytes());
    let crc = crc32fast::hash(&bytes[16..length]);
    put32(&mut bytes, 12, crc);
    Some(bytes)
}

/// Why a header is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    Magic,
    Format(u32),
    Damaged,
}

/// The two texts of a header.
pub(super) fn parse_header(bytes: &[u8]) -> Result<(String, String), BadHeader> {
    if bytes.len() < HEADER_FIXED || bytes[..8] != MAGIC {
        return Err(BadHeader::Magic);
    }
    if get32(bytes, 8) != FORMAT {
        return Err(BadHeader::Format(get32(bytes, 8)));
    }
    let lengths = (get32(bytes, 16) as usize, get32(bytes, 20) as usize);
    let end = HEADER_FIXED.checked_add(lengths.0).and_then(|at| at.checked_add(lengths.1));
    let end = end.filter(|&end| end <= bytes.len()).ok_or(BadHeader::Damaged)?;
    if crc32fast::hash(&bytes[16..end]) != get32(bytes, 12) {
        return Err(BadHeader::Damaged);
    }
    let text = |from: usize, to: usize| String::from_utf8(bytes[from..to].to_vec());
    let middle = HEADER_FIXED + lengths.0;
    match (text(HEADER_FIXED, middle), text(middle, end)) {
        (Ok(device), Ok(settings)) => Ok((device, settings)),
        _ => Err(BadHeader::Damaged),
    }
}

/// How far the image is known to be durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Grows with every writing of the state; its parity says which copy it is.
    pub generation: u64,
    /// Every program and erase up to this number is durable.
    pub durable: u64,
    /// The image was closed in good order, and not opened since.
    pub clean: bool,
    /// The digest of all records after operation `durable` ([`super::vouch`]); `None`: nobody knows.
    pub vouch: Option<u32>,
    /// Under which boot of the host it was begun.
    pub boot: Boot,
}

impl State {
    pub fn bytes(&self) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        bytes[..4].copy_from_slice(&STATE_MAGIC);
        put64(&mut bytes, 8, self.generation);
        put64(&mut bytes, 16, self.durable);
        put32(&mut bytes, 24, u32::from(self.clean) | u32::from(self.vouch.is_some()) << 1);
        put32(&mut bytes, 28, self.vouch.unwrap_or(0));
        bytes[32..48].copy_from_slice(&self.boot);
        let crc = crc32fast::hash(&bytes[8..]);
        put32(&mut bytes, 4, crc);
        bytes
    }

    pub fn parse(bytes: &[u8; STATE_BYTES]) -> Option<State> {
        let good = bytes[..4] == STATE_MAGIC && get32(bytes, 4) == crc32fast::hash(&bytes[8..]);
        let mut boot = Boot::default();
        boot.copy_from_slice(&bytes[32..48]);
        good.then(|| State {
            generation: get64(bytes, 8),
            durable: get64(bytes, 16),
            clean: get32(bytes, 24) & 1 == 1,
            vouch: (get32(bytes, 24) & 2 == 2).then(|| get32(bytes, 28)),
            boot,
        })
    }
}

/// What the image keeps of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockRecord {
    /// Number of its last erase; 0 for none.
    pub erased: u64,
    /// Number of the erase before: a power cut may take the last one back.
    pub before: u64,
    /// Erases of the block since the image was made.
    pub erases: u32,
    pub bad: bool,
}

impl BlockRecord {
    pub fn bytes(&self, block: u32) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        put64(&mut bytes, 0, self.erased);
        put64(&mut bytes, 8, self.before);
        put32(&mut bytes, 16, self.erases);
        put32(&mut bytes, 20, u32::from(self.bad));
        let crc = salted(&bytes[..28], block);
        put32(&mut bytes, 28, crc);
        bytes
    }

    /// The block's last erase up to operation `sequence`, 0 for none; `None`: there were two after that, and
    /// the record knows no other.
    pub fn erased_by(&self, sequence: u64) -> Option<u64> {
        [self.erased, self.before].into_iter().find(|&erased| erased <= sequence)
    }

    /// Of two copies, which counts: that of the later erase. A block that is bad stays so.
    pub fn counts_more_than(&self, other: &BlockRecord) -> bool {
        (self.erased, self.bad) > (other.erased, other.bad)
    }

    /// `None`: damaged. A record of zeros is that of a block never erased.
    pub fn parse(bytes: &[u8], block: u32) -> Option<BlockRecord> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Some(BlockRecord::default());
        }
        (get32(bytes, 28) == salted(&bytes[..28], block)).then(|| BlockRecord {
            erased: get64(bytes, 0),
            before: get64(bytes, 8),
            erases: get32(bytes, 16),
            bad: get32(bytes, 20) & 1 == 1,
        })
    }
}

/// What the image keeps beside a page: its OOB, its number in the order of operations, and the CRC of its
/// data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRecord {
    pub sequence: u64,
    pub oob: Oob,
    pub data_crc: u32,
    /// Spare bytes that were programmed with it.
    pub spare: u8,
}

/// A record as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The page was not programmed since its block was erased.
    Blank,
    Page(PageRecord),
    /// The page is spent and holds nothing, since this operation.
    Torn(u64),
    /// The bytes are not a record. A crash leaves none such, as a record lies in one sector.
    Damaged,
}

impl Found {
    /// The number of the operation that it records; 0 for none.
    pub fn sequence(&self) -> u64 {
        match *self {
            Found::Page(PageRecord { sequence, .. }) | Found::Torn(sequence) => sequence,
            Found::Blank | Found::Damaged => 0,
        }
    }

    /// Of two copies, which counts: the one that knows of the later operation.
    pub fn counts_more_than(&self, other: &Found) -> bool {
        let rank = |found: &Found| {
            let class = match found {
                Found::Damaged => 0,
                Found::Blank => 1,
                Found::Page(_) => 2,
                Found::Torn(_) => 3,
            };
            (class > 0, found.sequence(), class)
        };
        rank(self) > rank(other)
    }
}

const LOST: u64 = 1 << 58;
const KIND_SHIFT: u32 = 56;
const SPARE_SHIFT: u32 = 40;
const TORN: u64 = 3;

impl PageRecord {
    /// The record of page `page`.
    pub fn bytes(&self, page: u32) -> [u8; RECORD_BYTES] {
        let oob = &self.oob;
        let lost = if oob.lost { LOST } else { 0 };
        let word =
            oob.version | (oob.kind as u64) << KIND_SHIFT | u64::from(self.spare) << SPARE_SHIFT | lost;
        let mut bytes = [0; RECORD_BYTES];
        put64(&mut bytes, 0, self.sequence);
        put64(&mut bytes, 8, word);
        put32(&mut bytes, 16, oob.id);
        put32(&mut bytes, 20, oob.epoch);
        put32(&mut bytes, 24, self.data_crc);
        let crc = salted(&bytes[..28], page);
        put32(&mut bytes, 28, crc);
        bytes
    }

    /// The record of a page that was found torn when the last operation seen was `sequence`: a kind that no
    /// OOB has.
    pub fn torn(page: u32, sequence: u64) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        put64(&mut bytes, 0, sequence);
        put64(&mut bytes, 8, TORN << KIND_SHIFT);
        let crc = salted(&bytes[..28], page);
        put32(&mut bytes, 28, crc);
        bytes
    }

    /// What a record says.
    pub fn parse(bytes: &[u8], page: u32) -> Found {
        if bytes.iter().all(|&byte| byte == 0) {
            return Found::Blank;
        }
        if get32(bytes, 28) != salted(&bytes[..28], page) {
            return Found::Damaged;
        }
        let (sequence, word) = (get64(bytes, 0), get64(bytes, 8));
        let kind = match (word >> KIND_SHIFT) & 3 {
            0 => PageKind::Data,
            1 => PageKind::Translation,
            2 => PageKind::Metadata,
            _ => return Found::Torn(sequence),
        };
        let version = word & Oob::MAX_VERSION;
        let oob =
            Oob { kind, id: get32(bytes, 16), version, epoch: get32(bytes, 20), lost: word & LOST != 0 };
        let spare = (word >> SPARE_SHIFT) as u8;
        Found::Page(PageRecord { sequence, oob, data_crc: get32(bytes, 24), spare })
    }

    /// The spare bytes of page `page` as they lie beside it: with their CRC, in `stride` bytes.
    pub fn beside(&self, page: u32, spare: &[u8], stride: usize) -> Vec<u8> {
        let mut bytes = spare.to_vec();
        bytes.resize(stride, 0);
        let crc = self.spare_crc(page, spare);
        put32(&mut bytes, stride - SPARE_CRC_BYTES, crc);
        bytes
    }

    /// The spare bytes in what lies beside page `page`, if they are those programmed with it.
    pub fn spare_in<'s>(&self, page: u32, beside: &'s [u8]) -> Option<&'s [u8]> {
        let end = beside.len().checked_sub(SPARE_CRC_BYTES)?;
        let spare = beside[..end].get(..usize::from(self.spare))?;
        (get32(beside, end) == self.spare_crc(page, spare)).then_some(spare)
    }

    /// The number of the operation is in it, so that those of an older page at this place are told apart.
    pub fn spare_crc(&self, page: u32, spare: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(spare);
        hasher.update(&page.to_le_bytes());
        hasher.update(&self.sequence.to_le_bytes());
        hasher.finalize()
    }
}

/// CRC of a record and of the number of its block or page, so that a record in a wrong place is not one.
pub(super) fn salted(bytes: &[u8], number: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(bytes);
    hasher.update(&number.to_le_bytes());
    hasher.finalize()
}

/// Whether the CRC-32s of two texts of this length differ as those of texts do that differ in one bit.
pub(super) fn is_one_bit(difference: u32, bytes: usize) -> bool {
    // That of the last bit; a bit further to the front is shifted once more.
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let shift = |it: &u32| Some(it >> 1 ^ if it & 1 == 1 { POLYNOMIAL } else { 0 });
    std::iter::successors(Some(POLYNOMIAL), shift).take(8 * bytes).any(|it| it == difference)
}

pub(super) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(super) fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn get64(bytes: &[u8], at: usize) -> u64 {
    u64::from(get32(bytes, at)) | u64::from(get32(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn page_records_are_kept_and_damage_is_seen(
            id in any::<u32>(), version in 0..=Oob::MAX_VERSION, epoch in any::<u32>(), lost in any::<bool>(),
            kind in 0..3u8, sequence in 1..u64::MAX, data_crc in any::<u32>(), page in any::<u32>(), flip in 0..256usize,
            spare in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let kind = [PageKind::Data, PageKind::Translation, PageKind::Metadata][kind as usize];
            let oob = Oob { kind, id, version, epoch, lost };
            let record = PageRecord { sequence, oob, data_crc, spare: spare.len() as u8 };
            let mut bytes = record.bytes(page);
            prop_assert_eq!(PageRecord::parse(&bytes, page), Found::Page(record));
            prop_assert_eq!(PageRecord::parse(&bytes, page ^ 1), Found::Damaged);
            let mut beside = record.beside(page, &spare, 60);
            prop_assert_eq!(record.spare_in(page, &beside), Some(&spare[..]));
            prop_assert_eq!(PageRecord { sequence: sequence ^ 1, ..record }.spare_in(page, &beside), None);
            if !spare.is_empty() {
                beside[flip % spare.len()] ^= 1;
                prop_assert_eq!(record.spare_in(page, &beside), None);
            }
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(PageRecord::parse(&bytes, page), Found::Damaged);
        }

        #[test]
        fn block_records_are_kept_and_damage_is_seen(
            erased in 1..u64::MAX, before in any::<u64>(), erases in any::<u32>(), bad in any::<bool>(),
            block in any::<u32>(), flip in 0..256usize,
        ) {
            let record = BlockRecord { erased, before, erases, bad };
            let mut bytes = record.bytes(block);
            prop_assert_eq!(BlockRecord::parse(&bytes, block), Some(record));
            bytes[flip / 8] ^= 1 << (flip % 8);
            prop_assert_eq!(BlockRecord::parse(&bytes, block), None);
        }
    }

    #[test]
    fn a_header_says_why_it_is_none() {
        let good = header("device", "settings").unwrap();
        assert_eq!(parse_header(&good), Ok(("device".into(), "settings".into())));
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            parse_header(&bytes)
        };
        assert_eq!(with(0, 0), Err(BadHeader::Magic));
        assert_eq!(with(8, 9), Err(BadHeader::Format(9)));
        assert_eq!(with(40, 0), Err(BadHeader::Damaged));
        assert_eq!(with(19, 127), Err(BadHeader::Damaged));
        assert_eq!(parse_header(&[]), Err(BadHeader::Magic));
        assert_eq!(header(&"x".repeat(HEADER_BYTES), ""), None);
    }

    #[test]
    fn a_state_survives_and_a_damaged_one_does_not() {
        let state = State { generation: 7, durable: 99, clean: true, vouch: Some(5), boot: [3; 16] };
        let mut bytes = state.bytes();
        assert_eq!(State::parse(&bytes), Some(state));
        for at in 0..STATE_BYTES {
            bytes[at] ^= 1;
            assert_eq!(State::parse(&bytes), None, "byte {at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn one_wrong_bit_is_told_from_more() {
        let page: Vec<u8> = (0..512).map(|at| (at * 7) as u8).collect();
        let right = crc32fast::hash(&page);
        for bit in 0..8 * page.len() {
            let mut wrong = page.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(is_one_bit(crc32fast::hash(&wrong) ^ right, page.len()), "bit {bit}");
            wrong[(bit / 8 + 3) % 512] ^= 0x10;
            assert!(!is_one_bit(crc32fast::hash(&wrong) ^ right, page.len()), "bit {bit} and another");
        }
        assert!(!is_one_bit(0, page.len()));
    }

    #[test]
    fn the_copy_that_knows_of_the_later_operation_counts() {
        assert_eq!(PageRecord::parse(&PageRecord::torn(5, 9), 5), Found::Torn(9));
        assert_eq!(PageRecord::parse(&[0; RECORD_BYTES], 5), Found::Blank);
        let oob = Oob { kind: PageKind::Data, id: 1, version: 1, epoch: 1, lost: false };
        let page = |sequence| Found::Page(PageRecord { sequence, oob, data_crc: 0, spare: 0 });
        let rising = [Found::Damaged, Found::Blank, page(3), Found::Torn(3), page(4)];
        for (at, more) in rising.iter().enumerate() {
            assert!(rising[..at].iter().all(|less| more.counts_more_than(less)), "{more:?}");
            assert!(!rising[at..].iter().any(|other| more.counts_more_than(other)), "{more:?}");
        }
    }
}
