//! What is written to an image that is opened to be read alone: it stays in memory.

use std::collections::hash_map::Entry;
use std::io::{self, IoSlice};
use std::sync::{PoisonError, RwLock};

use rustc_hash::FxHashMap;

/// Bytes kept together; a multiple of a sector.
const PIECE: usize = 4096;

/// Pieces that differ from the file, by number.
#[derive(Debug, Default)]
pub(super) struct Kept(RwLock<FxHashMap<u64, Box<[u8; PIECE]>>>);

impl Kept {
    /// Puts what was written over `bytes`, which were read from the file at `offset`.
    pub fn patch(&self, bytes: &mut [u8], offset: u64) {
        let pieces = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if pieces.is_empty() {
            return;
        }
        for_pieces(offset, bytes.len(), |number, within, at| {
            if let Some(piece) = pieces.get(&number) {
                bytes[at..at + within.len()].copy_from_slice(&piece[within]);
            }
        });
    }

    /// Keeps what is written at `offset`; `read` gives what the file has of a piece.
    pub fn write(
        &self,
        parts: &[IoSlice<'_>],
        offset: u64,
        read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut pieces = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut offset = offset;
        for part in parts {
            let mut result = Ok(());
            for_pieces(offset, part.len(), |number, within, at| {
                let piece = match pieces.entry(number) {
                    Entry::Occupied(piece) => piece.into_mut(),
                    Entry::Vacant(place) => {
                        let mut piece = Box::new([0; PIECE]);
                        if within.len() < PIECE && result.is_ok() {
                            result = read(&mut piece[..], number * PIECE as u64);
                        }
                        place.insert(piece)
                    }
                };
                piece[within.clone()].copy_from_slice(&part[at..at + within.len()]);
            });
            result?;
            offset += part.len() as u64;
        }
        Ok(())
    }
}

/// Calls `each` for each piece in a range of bytes: its number, the part of it that lies in the range, and
/// where in the range that begins.
fn for_pieces(offset: u64, length: usize, mut each: impl FnMut(u64, std::ops::Range<usize>, usize)) {
    let mut at = 0;
    while at < length {
        let here = offset + at as u64;
        let within = (here % PIECE as u64) as usize;
        let take = (PIECE - within).min(length - at);
        each(here / PIECE as u64, within..within + take, at);
        at += take;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_kept_is_read_and_the_file_stays(
            writes in proptest::collection::vec((0..20_000u64, 1..9_000usize, any::<u8>()), 1..8),
        ) {
            let file: Vec<u8> = (0..32 << 10).map(|at: u32| (at >> 5) as u8).collect();
            let mut model = file.clone();
            let kept = Kept::default();
            let read = |to: &mut [u8], offset: u64| {
                to.copy_from_slice(&file[offset as usize..][..to.len()]);
                Ok(())
            };
            for (offset, length, fill) in writes {
                let bytes = vec![fill; length];
                let (one, two) = bytes.split_at(length / 3);
                kept.write(&[IoSlice::new(one), IoSlice::new(two)], offset, read).unwrap();
                model[offset as usize..][..length].copy_from_slice(&bytes);
            }
            let mut found = file[100..].to_vec();
            kept.patch(&mut found, 100);
            prop_assert_eq!(&found[..], &model[100..]);
        }
    }
}
