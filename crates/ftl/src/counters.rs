//! What happened, counted once, at the door, the same way for every scheme.

use nand::PageKind;

/// Why a flash operation was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// The host's own page.
    Host = 0,
    /// Mapping traffic on the way of a host request: loads, write-backs.
    Translation = 1,
    /// Garbage collection: copies, erases, and mapping updates of moved pages.
    Collection = 2,
    /// Merges of log-block schemes.
    Merge = 3,
    /// Reads made because a prediction was wrong.
    Misprediction = 4,
    /// Reads and writes for training models.
    Training = 5,
    /// Refresh of old data.
    Rewrite = 6,
    /// Checkpoints and the trim journal.
    Checkpoint = 7,
    /// Recovery at start.
    Recovery = 8,
}

impl Cause {
    /// How many there are.
    pub const COUNT: usize = 9;
    /// All, in the order of their numbers.
    pub const ALL: [Cause; Cause::COUNT] = [
        Cause::Host,
        Cause::Translation,
        Cause::Collection,
        Cause::Merge,
        Cause::Misprediction,
        Cause::Training,
        Cause::Rewrite,
        Cause::Checkpoint,
        Cause::Recovery,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Translation => "translation",
            Cause::Collection => "collection",
            Cause::Merge => "merge",
            Cause::Misprediction => "misprediction",
            Cause::Training => "training",
            Cause::Rewrite => "rewrite",
            Cause::Checkpoint => "checkpoint",
            Cause::Recovery => "recovery",
        }
    }

    /// Whether a host request waits for operations of this cause.
    #[inline]
    pub(crate) fn host_waits(self) -> bool {
        matches!(self, Cause::Host | Cause::Translation | Cause::Misprediction)
    }
}

/// A statistic that a scheme counts itself, declared once in its [`Info`](crate::Info): results, tables,
/// figures and metrics take name, unit and meaning from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its place among the counters. Different for all statistics that one scheme declares.
    pub slot: usize,
    /// Its name in results and figure files.
    pub name: &'static str,
    /// What is counted, as a plural.
    pub unit: &'static str,
    /// The statistic (of the same scheme) that it is set in relation to, if any.
    pub of: Option<&'static str>,
    /// One line of meaning.
    pub what: &'static str,
}

impl Stat {
    /// Most statistics that one scheme can declare.
    pub const SLOTS: usize = 16;

    /// A statistic that stands for itself.
    pub const fn new(slot: usize, name: &'static str, unit: &'static str, what: &'static str) -> Stat {
        Stat { slot, name, unit, of: None, what }
    }

    /// The same, set in relation to `other`: as a share where the units are equal, else so many for each of
    /// the others.
    pub const fn of(self, other: &Stat) -> Stat {
        Stat { of: Some(other.name), ..self }
    }
}

/// Flash operations by cause and, for reads and programs, by what the page holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages read, `[cause][kind of the page]`.
    pub reads: [[u64; 3]; Cause::COUNT],
    /// Programs `[cause][page kind]`, failed ones included.
    pub programs: [[u64; 3]; Cause::COUNT],
    /// Blocks erased, by cause; failed ones included.
    pub erases: [u64; Cause::COUNT],
    /// Host pages read, written, trimmed.
    pub host_reads: u64,
    /// Pages that the host wrote, one for each page of a request.
    pub host_writes: u64,
    /// Pages that the host trimmed, mapped or not.
    pub host_trims: u64,
    /// Host page reads by the flash reads they waited for, one after the other: 0, 1, 2, 3, 4 or more.
    pub host_reads_by_flash_reads: [u64; 5],
    /// The flash reads that these waited for, all together.
    pub flash_reads_waited_for: u64,
    /// Mapping lookups and updates by host pages.
    pub lookups: u64,
    /// Of these, answered from the cached mapping table (or the whole table).
    pub cmt_hits: u64,
    /// Of these, answered from a cached whole translation page, by schemes that keep such beside or instead
    /// of entries.
    pub page_hits: u64,
    /// Of these, answered by a model whose prediction was read and right.
    pub model_hits: u64,
    /// Updates by host pages whose old page a model knew, so that no translation page was read for it.
    pub model_updates: u64,
    /// Units put out of the mapping cache to make room: entries, or whole translation pages where those are
    /// what a scheme replaces. LazyFTL's page says what it counts.
    pub replaced: u64,
    /// Of these, dirty when they were chosen: each counts, however many one write brings to flash.
    pub replaced_dirty: u64,
    /// Entries loaded though nobody had asked for them yet.
    pub prefetched: u64,
    /// Mappings of pages moved by collection that were in the cache, and that were not.
    pub gc_hits: u64,
    /// Mappings of pages moved by collection that had to be changed on flash.
    pub gc_misses: u64,
    /// Superblocks with user data that collection has emptied and erased. Of log-block schemes: log blocks
    /// that were emptied. The data blocks that merges erase beside them do not count.
    pub collections_data: u64,
    /// Superblocks with translation pages that collection has emptied and erased.
    pub collections_translation: u64,
    /// Groups of LPNs brought together and learned.
    pub collections_group: u64,
    /// Superblocks and parts of groups that were rewritten because they had lain long.
    pub rewrites: u64,
    /// Collections that a write had to wait for to the end.
    pub foreground_collections: u64,
    /// Valid pages moved out of data superblocks, and those of groups. Of log-block schemes: pages that
    /// merges copied, out of log and data blocks, and those moved inside the log.
    pub moved_data: u64,
    /// Of these, pages of groups, wherever they lay.
    pub moved_group: u64,
    /// Valid pages moved out of translation superblocks.
    pub moved_translation: u64,
    /// What the scheme counts beside all that: each [`Stat`] it declares, at its slot.
    pub(crate) own: [u64; Stat::SLOTS],
    /// Translation pages that could not be read and were made anew from the OOB of the data pages.
    pub rebuilt: u64,
    /// Uncorrectable reads, failed programs, failed erases.
    pub uncorrectable: u64,
    /// Programs that failed; each spends its page.
    pub programs_failed: u64,
    /// Erases that failed; each makes its block bad.
    pub erases_failed: u64,
    /// Controller work charged, ns.
    pub compute_ns: u64,
}

impl Counters {
    /// Counts `more` of a statistic that the scheme declares.
    #[inline]
    pub fn count(&mut self, stat: &Stat, more: u64) {
        self.own[stat.slot] += more;
    }

    /// The value of a statistic that the scheme declares.
    #[inline]
    pub fn value(&self, stat: &Stat) -> u64 {
        self.own[stat.slot]
    }

    /// Notes that valid pages of a kind were moved: out of victims of collection, if that is the cause.
    #[inline]
    pub(crate) fn moved(&mut self, kind: PageKind, pages: u64, cause: Cause) {
        match kind {
            _ if cause == Cause::Rewrite => {}
            PageKind::Data => self.moved_data += pages,
            _ => self.moved_translation += pages,
        }
    }

    /// Mapping lookups and updates by host pages that needed no flash read.
    #[inline]
    pub fn hits(&self) -> u64 {
        self.cmt_hits + self.page_hits + self.model_hits + self.model_updates
    }

    /// Flash pages read, whatever the cause and the kind of the page.
    pub fn all_reads(&self) -> u64 {
        self.reads.iter().flatten().sum()
    }

    /// Flash pages programmed, whatever the cause and the kind of the page.
    pub fn all_programs(&self) -> u64 {
        self.programs.iter().flatten().sum()
    }

    /// Blocks erased, whatever the cause; failed erases count.
    pub fn all_erases(&self) -> u64 {
        self.erases.iter().sum()
    }

    /// Programs of one cause.
    pub fn programs_by(&self, cause: Cause) -> u64 {
        self.programs[cause as usize].iter().sum()
    }

    /// Reads of one cause.
    pub fn reads_by(&self, cause: Cause) -> u64 {
        self.reads[cause as usize].iter().sum()
    }

    /// Programs of pages of one kind, whatever the cause.
    pub fn programs_of(&self, kind: PageKind) -> u64 {
        self.programs.iter().map(|by_kind| by_kind[kind as usize]).sum()
    }

    /// Reads of pages of one kind, whatever the cause.
    pub fn reads_of(&self, kind: PageKind) -> u64 {
        self.reads.iter().map(|by_kind| by_kind[kind as usize]).sum()
    }

    /// Flash programs per host page written; `None` when nothing was written.
    pub fn write_amplification(&self) -> Option<f64> {
        (self.host_writes > 0).then(|| self.all_programs() as f64 / self.host_writes as f64)
    }
}
