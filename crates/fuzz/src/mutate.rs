//! Inputs made of a corpus by chance.

use check::Dice;

/// Longest input.
const MOST_BYTES: usize = 1 << 16;
/// Most changes of one input.
const MOST_CHANGES: u32 = 6;
/// Where readers go wrong, by their widths.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    511,
    512,
    4096,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x1_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFE,
    0xFFFF_FFFF,
    0x1_0000_0000,
    1 << 53,
    1 << 60,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// One input of a corpus, changed in a few places; `words` are put into text.
pub fn mutation(corpus: &[Vec<u8>], words: &[&str], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = one_of(corpus, dice).cloned().unwrap_or_default();
    for _ in 0..dice.between(1, MOST_CHANGES) {
        change(&mut bytes, corpus, words, dice);
        bytes.truncate(MOST_BYTES);
    }
    bytes
}

fn one_of<'a, T>(all: &'a [T], dice: &mut Dice) -> Option<&'a T> {
    (!all.is_empty()).then(|| &all[dice.below(all.len() as u32) as usize])
}

/// A place in `bytes`, or its end.
fn place(bytes: &[u8], dice: &mut Dice) -> usize {
    dice.below(bytes.len() as u32 + 1) as usize
}

/// Some bytes in a row, most often few.
fn stretch(bytes: &[u8], dice: &mut Dice) -> std::ops::Range<usize> {
    let most = [1, 4, 16, 64, 1024][dice.below(5) as usize];
    let from = place(bytes, dice);
    from..(from + dice.between(1, most) as usize).min(bytes.len())
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str], dice: &mut Dice) {
    let kinds = if words.is_empty() { 8 } else { 11 };
    let at = place(bytes, dice);
    match dice.below(kinds) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
        }
        1 => {
            let value = [0, 0xFF, 0x7F, 0x80, dice.any() as u8][dice.below(5) as usize];
            let stretch = stretch(bytes, dice);
            bytes[stretch].fill(value);
        }
        2 => {
            let edge = one_of(EDGES, dice).copied().unwrap_or(0);
            let width = [1, 2, 4, 8][dice.below(4) as usize];
            let (little, big) = (edge.to_le_bytes(), edge.to_be_bytes());
            let number = if dice.once_in(2) { &little[..width] } else { &big[8 - width..] };
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&number[..end - at]);
        }
        3 => {
            let new: Vec<u8> = (0..dice.between(1, 8)).map(|_| dice.any() as u8).collect();
            bytes.splice(at..at, new);
        }
        4 => drop(bytes.drain(stretch(bytes, dice))),
        5 => {
            let again = bytes[stretch(bytes, dice)].to_vec();
            let times = dice.between(1, 4) as usize;
            bytes.splice(at..at, again.repeat(times));
        }
        6 => {
            let other = one_of(corpus, dice).map_or(&[][..], Vec::as_slice);
            bytes.truncate(at);
            bytes.extend(&other[place(other, dice)..]);
        }
        7 => bytes.truncate(at),
        8 | 9 => {
            let word = one_of(words, dice).copied().unwrap_or_default();
            let replaced = if dice.once_in(2) { at..at } else { word_at(bytes, at) };
            bytes.splice(replaced, word.bytes());
        }
        _ => {
            let number = one_of(EDGES, dice).copied().unwrap_or(0).to_string();
            let digits = digits_from(bytes, at);
            bytes.splice(digits, number.bytes());
        }
    }
}

/// The word that `at` lies in.
fn word_at(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-';
    let from = at - bytes[..at].iter().rev().take_while(|byte| is_part(byte)).count();
    from..at + bytes[at..].iter().take_while(|byte| is_part(byte)).count()
}

/// The next number from `at` on.
fn digits_from(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let from = at + bytes[at..].iter().take_while(|byte| !byte.is_ascii_digit()).count();
    from..from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}
