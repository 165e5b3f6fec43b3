//! All that a device holds, read in order.

use std::ops::Range;

use bytes::Bytes;

use crate::error::LiveError;
use crate::export::Export;
use crate::request::{Op, Request};

/// Bytes read at once.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes asked about at once.
const RANGE_BYTES: u64 = 256 << 20;

/// Hears of a range of bytes: what they are, or nothing when they cannot be read.
pub(crate) type Each<'a> = &'a mut dyn FnMut(Range<u64>, Option<&[u8]>) -> Result<(), LiveError>;

/// Reads all that a device holds, in order.
pub(crate) fn walk(export: &dyn Export, each: Each<'_>) -> Result<(), LiveError> {
    let (size, page) = (export.exported_bytes(), u64::from(export.page_bytes()));
    let mut buffer = vec![0; STEP_BYTES.max(page) as usize];
    let mut at = 0;
    while at < size {
        let unknown =
            |error| LiveError::Refused(format!("asking what is mapped at byte {at} failed: {error}"));
        for extent in export.extents(at, RANGE_BYTES.min(size - at), usize::MAX).map_err(unknown)? {
            let end = at + extent.length;
            while extent.allocated && at < end {
                let length = STEP_BYTES.max(page).min(end - at);
                let bytes = &mut buffer[..length as usize];
                if read(export, at, bytes) {
                    each(at..at + length, Some(bytes))?;
                } else {
                    for at in (at..at + length).step_by(page as usize) {
                        let bytes = &mut buffer[..page.min(end - at) as usize];
                        let content = read(export, at, bytes);
                        each(at..at + bytes.len() as u64, content.then_some(&*bytes))?;
                    }
                }
                at += length;
            }
            at = end;
        }
    }
    Ok(())
}

fn read(export: &dyn Export, offset: u64, to: &mut [u8]) -> bool {
    let request = Request { op: Op::Read, offset, length: to.len() as u32, fua: false, data: Bytes::new() };
    export.request(&request, to).is_ok()
}
