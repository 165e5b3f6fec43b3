//! What log-block schemes count. Each scheme declares those that it can count in its [`Info`](crate::Info).

use crate::counters::Stat;

/// Merges by kind, at the index that [`Merge`](super::Merge) gives: one for each logical block merged.
pub const MERGES: [Stat; 3] = [
    Stat::new(0, "merges_switch", "merges", "log blocks that became data blocks as they were"),
    Stat::new(
        1,
        "merges_partial",
        "merges",
        "log blocks that became data blocks after the rest was copied behind them",
    ),
    Stat::new(
        2,
        "merges_full",
        "merges",
        "logical blocks whose newest pages were gathered into another block",
    ),
];
/// The first of [`MERGES`].
pub const SWITCH_MERGES: Stat = MERGES[0];
/// The second of [`MERGES`].
pub const PARTIAL_MERGES: Stat = MERGES[1];
/// The third of [`MERGES`].
pub const FULL_MERGES: Stat = MERGES[2];

/// Victims of the random log area.
pub const LOG_VICTIMS: Stat = Stat::new(3, "log_victims", "blocks", "random log blocks emptied to make room");
/// What was left in them.
pub const LOG_VICTIM_PAGES: Stat =
    Stat::new(4, "log_victim_pages", "pages", "valid pages in these when they were chosen").of(&LOG_VICTIMS);

/// Moves inside the log.
pub const SECOND_CHANCES: Stat = Stat::new(
    5,
    "second_chances",
    "pages",
    "valid log pages moved on inside the log instead of being merged",
);
/// Moves that spared a merge.
pub const SECOND_CHANCES_USED: Stat = Stat::new(
    6,
    "second_chances_used",
    "pages",
    "of these, rewritten or trimmed by the host before they came round again",
)
.of(&SECOND_CHANCES);

/// Log blocks of the sequential area.
pub const SEQUENTIAL_BLOCKS: Stat =
    Stat::new(7, "sequential_blocks", "blocks", "log blocks opened for sequential writes");

/// Log blocks that nothing had to be copied out of.
pub const EARLY_REUSES: Stat = Stat::new(
    8,
    "early_reuses",
    "blocks",
    "log blocks reused before their turn because nothing in them was valid",
);
