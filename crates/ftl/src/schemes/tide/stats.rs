//! What Tide counts beside switch merges and full merges.

use crate::counters::Stat;

pub(super) const LOG_PAGES: Stat = Stat::new(3, "log_pages", "pages", "pages that the host wrote to the log");
pub(super) const MERGED_PAGES: Stat =
    Stat::new(4, "merged_log_pages", "pages", "of these, valid until their group was merged").of(&LOG_PAGES);
pub(super) const HOME_PAGES: Stat =
    Stat::new(5, "home_pages", "pages", "pages that the host wrote straight to a home");
pub(super) const BINS: Stat = Stat::new(6, "bins", "bins", "bins whose groups were all merged");
pub(super) const EARLY: Stat = Stat::new(
    7,
    "early_erases",
    "blocks",
    "log blocks erased before their turn, as nothing in them was valid",
);
pub(super) const COMPACTED: Stat =
    Stat::new(8, "compacted_pages", "pages", "pages copied out of log blocks much of which was overwritten");
pub(super) const PUT_OFF: Stat =
    Stat::new(9, "put_off_pages", "pages", "log pages moved to a later bin, as their group had few");
