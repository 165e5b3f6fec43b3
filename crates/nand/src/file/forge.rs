//! Good CRCs for what somebody has changed in an image.

use std::io::{self, IoSlice};

use super::format::{
    get32, put32, salted, Found, PageRecord, Places, HEADER_AT, HEADER_BYTES, HEADER_FIXED, RECORD_BYTES,
    STATE_AT, STATE_BYTES,
};
use super::Medium;
use crate::Geometry;

/// Gives what lies at `at` in an image of this shape a good CRC again, if it has one: for whoever looks for
/// what readers do with records that nobody wrote.
///
/// # Errors
/// The image cannot be read or written there.
#[doc(hidden)]
pub fn forge<M: Medium>(medium: &M, geometry: &Geometry, at: u64) -> io::Result<()> {
    let places = Places::new(geometry);
    let Some((part, range)) = places.parts(geometry).into_iter().find(|(_, range)| range.contains(&at))
    else {
        return Ok(());
    };
    let record = |width: u64| ((at - range.start) / width) as u32;
    match part {
        "header" => {
            let begin = HEADER_AT.into_iter().rev().find(|&begin| begin <= at).unwrap_or(0);
            rewrite(medium, begin, HEADER_BYTES, |header| {
                let texts = get32(header, 16) as usize + get32(header, 20) as usize;
                if let Some(covered) = header.get(16..HEADER_FIXED + texts) {
                    let crc = crc32fast::hash(covered);
                    put32(header, 12, crc);
                }
            })
        }
        "state" => {
            let begin = STATE_AT.into_iter().flatten().filter(|&begin| begin <= at).max().unwrap_or(at);
            rewrite(medium, begin, STATE_BYTES, |state| {
                let crc = crc32fast::hash(&state[8..]);
                put32(state, 4, crc);
            })
        }
        "block records" | "page records" => seal(medium, range.start, record(RECORD_BYTES as u64)),
        "spare bytes" => {
            let page = record(places.spare_stride as u64);
            let Some(found) = page_record(medium, &places, page)? else { return Ok(()) };
            rewrite(
                medium,
                range.start + places.spare_stride as u64 * u64::from(page),
                places.spare_stride,
                |beside| {
                    let end = places.spare_bytes;
                    let crc = found.spare_crc(page, &beside[..usize::from(found.spare).min(end)]);
                    put32(beside, end, crc);
                },
            )
        }
        _ => {
            let page = record(u64::from(geometry.page_bytes));
            let mut data = vec![0; geometry.page_bytes as usize];
            medium.read_at(&mut data, places.data(page))?;
            let Some(found) = page_record(medium, &places, page)? else { return Ok(()) };
            let bytes = PageRecord { data_crc: crc32fast::hash(&data), ..found }.bytes(page);
            (0..2).try_for_each(|copy| medium.write_at(&[IoSlice::new(&bytes)], places.page(copy, page)))?;
            medium.write_at(&[IoSlice::new(&data)], places.mirror(page))
        }
    }
}

/// Changes some bytes of an image.
fn rewrite<M: Medium>(medium: &M, at: u64, bytes: usize, change: impl FnOnce(&mut [u8])) -> io::Result<()> {
    let mut content = vec![0; bytes];
    medium.read_at(&mut content, at)?;
    change(&mut content);
    medium.write_at(&[IoSlice::new(&content)], at)
}

/// Gives record `number` of those that begin at `begin` a good CRC.
fn seal<M: Medium>(medium: &M, begin: u64, number: u32) -> io::Result<()> {
    rewrite(medium, begin + RECORD_BYTES as u64 * u64::from(number), RECORD_BYTES, |record| {
        let crc = salted(&record[..28], number);
        put32(record, 28, crc);
    })
}

fn page_record<M: Medium>(medium: &M, places: &Places, page: u32) -> io::Result<Option<PageRecord>> {
    let mut record = [0; RECORD_BYTES];
    medium.read_at(&mut record, places.page(0, page))?;
    Ok(match PageRecord::parse(&record, page) {
        Found::Page(found) => Some(found),
        _ => None,
    })
}
