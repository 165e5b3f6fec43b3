//! What LazyFTL counts.

use crate::counters::Stat;

/// Blocks that became data blocks.
pub(super) const CONVERSIONS: Stat =
    Stat::new(0, "conversions", "blocks", "blocks of the areas that were converted to data blocks");
/// Their price.
pub(super) const COMMITS: Stat =
    Stat::new(1, "commits", "pages", "translation pages written with the mappings of the UMT");
/// What they brought.
pub(super) const COMMITTED: Stat =
    Stat::new(2, "committed", "mappings", "mappings in these commits").of(&COMMITS);
/// What collection was spared.
pub(super) const SUPERSEDED: Stat = Stat::new(
    3,
    "superseded",
    "pages",
    "pages that collection read and did not copy, because the UMT has a newer one",
);
/// All of them.
pub(super) const ALL: [Stat; 4] = [CONVERSIONS, COMMITS, COMMITTED, SUPERSEDED];
