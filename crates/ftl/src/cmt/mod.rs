//! Cached mapping tables: entries in memory, found by LPN, in lists that say which one leaves next.

pub mod census;
pub mod entries;
pub mod index;
pub mod pages;
pub mod segmented;
pub mod two_level;

#[cfg(test)]
pub(crate) mod tests;
