//! The contract between a flash translation layer and the arrays that it runs on: what each may ask, what
//! each promises.

use crate::addr::{Geometry, Lpn, Pbn, Ppn};

/// The completion of an operation, or of several joined ([`Nand::join`]).
///
/// Opaque: an FTL may keep it, pass it on as an `after`, and join it; it cannot compare it or read a time
/// from it. That is what lets the same FTL run under every clock, under none, and under the crash checker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done(pub(crate) u64);

impl Done {
    /// A completion that lies in the past: waiting for it costs nothing.
    pub const READY: Done = Done(0);
}

/// What a page holds, as its OOB says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// User data of one LPN; `Oob::id` is the LPN.
    Data = 0,
    /// A translation page; `Oob::id` is the VTPN.
    Translation = 1,
    /// FTL metadata of another kind (checkpoints, trim journal); `Oob::id` is the FTL's own.
    Metadata = 2,
}

/// The out-of-band record programmed with a page, atomically with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob {
    /// What the page holds. All pages of a block between two erases are of one kind.
    pub kind: PageKind,
    /// The LPN of user data, the VTPN of a translation page, the FTL's own number of other metadata.
    pub id: u32,
    /// Version of the content, at most [`Oob::MAX_VERSION`]: copies of the same content carry the same
    /// version and newer content of the same id carries a greater one.
    pub version: u64,
    /// Number of the opening of the block's superblock since the array was new: equal for all pages of a
    /// block between two erases, and greater for blocks opened later. Recovery tells by it what was written
    /// after a checkpoint.
    pub epoch: u32,
    /// The content was lost to an uncorrectable read before this copy was made: reading it is an error.
    pub lost: bool,
}

impl Oob {
    /// Versions are 39 bits wide: 2 PiB of 4 KiB writes.
    pub const MAX_VERSION: u64 = (1 << 39) - 1;
    /// Bytes of the record on flash; what is left of a page's OOB can hold [`SpareBytes`].
    pub const BYTES: u32 = 14;
}

/// Where the bytes of a program come from. The FTL names them and never sees user bytes.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The host's buffer for the LPN that the OOB names.
    Host,
    /// The page just read from this PPN (a copy): user data, or metadata that moves with it.
    Page(Ppn),
    /// The page of user data in this slot of the [`DataBuffer`], which keeps it.
    Buffer(u32),
    /// The metadata page at this PPN, just read or programmed last, with little-endian 32-bit words
    /// replaced: `(word index, value)`.
    Patch(Ppn, &'a [(u32, u32)]),
    /// Metadata made by the FTL; at most a page, the rest is zero.
    Metadata(&'a [u8]),
    /// No content: the page only records, by `Oob::lost`, that its data is gone.
    Nothing,
}

/// What will be needed soon, see [`Nand::expect`].
#[derive(Clone, Copy, Debug)]
pub enum Hint {
    /// The OOB of a page.
    Page(Ppn),
    /// The 32-bit word at this index of a metadata page.
    Word(Ppn, u32),
    /// Bytes of a metadata page, from the first number on and before the second.
    Bytes(Ppn, u32, u32),
}

/// Where the bytes of a read go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// The host's buffer for this LPN. Of several reads for one LPN, one after the other, the last counts.
    Host(Lpn),
    /// The controller's page buffer, from where a program may take it ([`Source::Page`]).
    Controller,
    /// This slot of the [`DataBuffer`]: user data alone.
    Buffer(u32),
}

/// Which queue an operation stands in, and whom it may overtake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// A read that a host request waits for, translation reads included.
    HostRead = 0,
    /// A program that a host request waits for, translation writes included.
    HostWrite = 1,
    /// A read made by collection or other background work.
    CollectionRead = 2,
    /// A program made by collection or other background work.
    CollectionProgram = 3,
    /// An erase, whoever asks for it.
    Erase = 4,
}

impl Class {
    /// All classes, in the order of their numbers.
    pub const ALL: [Class; 5] =
        [Class::HostRead, Class::HostWrite, Class::CollectionRead, Class::CollectionProgram, Class::Erase];
}

/// What comes of an operation on the array, or of anything that is made of such.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

/// What can keep an operation from being done. The failed attempt took its time: `done` says when it ended.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum Fault {
    /// The page cannot be read (uncorrectable, torn by a power cut, or marked lost).
    #[error("the page at PPN {} cannot be read", ppn.0)]
    Uncorrectable {
        /// The page that was read.
        ppn: Ppn,
        /// When the attempt ended.
        done: Done,
    },
    /// The program failed: the page is spent and holds nothing, the block should be retired once its other
    /// pages are moved.
    #[error("the program of PPN {} failed", ppn.0)]
    ProgramFailed {
        /// The page that is spent now.
        ppn: Ppn,
        /// When the attempt ended.
        done: Done,
    },
    /// The erase failed: the block must be retired.
    #[error("the erase of block {} failed", block.0)]
    EraseFailed {
        /// The block, which no erase will help any more.
        block: Pbn,
        /// When the attempt ended.
        done: Done,
    },
    /// There is no room for another page, and collection makes none. An array never says so: an FTL does,
    /// when retired blocks have used up what it was given to spare. What was written before stays readable.
    #[error(
        "the flash is full (superblocks: {free} free, {needed} needed): too many blocks have failed, \
         and collection frees no more"
    )]
    NoSpace {
        /// Superblocks (under a log-block scheme, blocks) that can be opened.
        free: u32,
        /// Of these, how many it takes to go on.
        needed: u32,
    },
    /// The end of a device's life: so many blocks have failed that it must not be written any more. An array
    /// never says so: [`Fault::NoSpace`] becomes this on a device with bad blocks. Everything written before
    /// stays readable.
    #[error(
        "the device is worn out: {bad_blocks} of its {blocks} blocks are bad; it can be read, not written"
    )]
    WornOut {
        /// Blocks that are bad, those from the factory included.
        bad_blocks: u32,
        /// All blocks.
        blocks: u32,
    },
    /// The medium itself is out of order (image file, host): nothing more can be promised.
    #[error("the medium is out of order")]
    Medium,
}

impl Fault {
    /// Whether the device can do nothing more. Every other fault concerns the operation that met it: one
    /// request of the host, or a piece of work that nobody asked for. The device goes on after it.
    #[inline]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Fault::Medium)
    }
}

/// A NAND array as a flash translation layer sees it.
///
/// Every operation names the completion it waits for (`after`) and returns a token for its own. Operations
/// take effect on the array's *logical* state in the order they are called; *when* they happen is the array's
/// business.
///
/// The caller promises, and the array panics otherwise (a breach is a bug in the FTL, never a fault):
/// - it programs only the next page of a block, in order, after an erase, and in no bad block;
/// - it reads only pages that were programmed (recovery uses [`Nand::scan`] instead);
/// - it erases a block only when no content in it is needed any more; `after` covers the copies made out of
///   it and whatever superseded its pages ([`Nand::settle`] covers both).
///
/// The array promises:
/// - operations on one block happen in the order given, as far as order matters: a program waits for the
///   programs before it, a read for the program of its page, an erase for everything before it;
/// - after a power cut a page holds what was programmed completely, or nothing, or is torn (uncorrectable); a
///   program has happened if its completion was reached, and may have if it was begun.
///
/// The last four methods are hints. An array may ignore them, as their default does: they change how fast it
/// is, how much memory it takes and what it can tell of itself, never what it holds or answers.
pub trait Nand: DataBuffer + SpareBytes {
    /// The shape of the array, which never changes.
    fn geometry(&self) -> &Geometry;

    /// Whether a block is bad: from the factory, or retired since.
    fn is_bad(&self, block: Pbn) -> bool;

    /// Blocks that are bad, those from the factory included.
    fn bad_blocks(&self) -> u32 {
        (0..self.geometry().blocks()).filter(|&block| self.is_bad(Pbn(block))).count() as u32
    }

    /// Reads a programmed page into `to` once `after` is reached.
    fn read(&mut self, ppn: Ppn, class: Class, to: Sink, after: Done) -> Result<(Oob, Done), Fault>;

    /// The content (`page_bytes` long) of the translation or metadata page that the last successful
    /// [`Nand::read`] with [`Sink::Controller`] brought into the controller's page buffer. Reading again, or
    /// programming with [`Source::Page`] or [`Source::Patch`] from that page, or erasing it, ends it. Panics
    /// when that was a page of user data.
    fn buffer(&self) -> &[u8];

    /// Pages of a block that are spent (programmed, torn or failed) since its erase; the next program goes
    /// there. A controller knows it of the blocks that it writes; recovery finds it by [`Nand::scan`].
    fn written(&self, block: Pbn) -> u32;

    /// Reads the OOB of a page that may be erased (`None`), at the price of a read. For recovery.
    fn scan(&mut self, ppn: Ppn, after: Done) -> Result<(Option<Oob>, Done), Fault>;

    /// Programs the next page of a block with `oob` and the bytes of `from`, atomically, once `after` is
    /// reached.
    fn program(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        class: Class,
        from: Source<'_>,
        after: Done,
    ) -> Result<Done, Fault>;

    /// Erases a block once `after` is reached, and everything submitted to it before is over.
    fn erase(&mut self, block: Pbn, after: Done) -> Result<Done, Fault>;

    /// Marks a block bad for ever: it is not programmed or erased again. Its pages stay readable as far as
    /// they were, so that a power cut before the copies made out of it are programmed loses nothing.
    fn retire(&mut self, block: Pbn);

    /// A completion that is reached when both are.
    fn join(&mut self, a: Done, b: Done) -> Done;

    /// The completion of every program submitted so far: once reached, they survive a power cut.
    fn settle(&mut self) -> Done;

    /// Controller work of `ns` nanoseconds on one of its cores, after `after`.
    fn compute(&mut self, ns: u64, after: Done) -> Done;

    /// What a page holds, free of charge and of time, with its content copied to `content` if it is metadata;
    /// `None` if it is not programmed or not readable. For invariants and the checker alone, never for a
    /// decision.
    fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob>;

    /// The content of this metadata page was superseded and will not be read any more, unless a power cut
    /// takes the newer one back: a simulated array that cannot be cut gives its memory back.
    fn superseded(&mut self, _ppn: Ppn) {}

    /// This will be needed soon: an array in memory lets the processor fetch it.
    #[inline]
    fn expect(&self, _hint: Hint) {}

    /// The id in the OOB of a valid page, where an array in memory has it at hand: to tell the processor what
    /// will be needed ([`Nand::expect`]), and for nothing else.
    #[inline]
    fn hinted_id(&self, _ppn: Ppn) -> Option<u32> {
        None
    }

    /// The 32-bit word at this index of a metadata page, as [`Nand::hinted_id`].
    #[inline]
    fn hinted_word(&self, _ppn: Ppn, _index: u32) -> Option<u32> {
        None
    }

    /// Recovery begins this step: an array that is opened by a user tells how long each took.
    fn begin_step(&mut self, _name: &'static str) {}

    /// The controller begins nothing more until all that it has begun is over. For recovery alone: no host
    /// waits then, and it reads more pages than a simulated clock can hold in flight.
    fn catch_up(&mut self) {}
}

/// Pages of user data in the controller's memory, which a power cut loses. A scheme that acknowledges writes
/// from here says so, and the checker then allows their loss up to the next flush.
///
/// The caller uses only slots that it reserved.
pub trait DataBuffer {
    /// Gives the buffer `slots` slots, all of them empty.
    fn reserve_slots(&mut self, slots: u32);

    /// Takes the host's page of LPN `oob.id` into a slot; `oob` is what it will be programmed with (its epoch
    /// means nothing here). The page stays until another takes its place.
    fn store(&mut self, slot: u32, oob: Oob);

    /// Delivers the page in a slot to the host's buffer for its LPN, and says what it is. Panics when the
    /// slot is empty.
    fn deliver(&mut self, slot: u32) -> Oob;
}

/// Bytes of the FTL's own beside the record ([`Oob::BYTES`]) in the OOB of every data page, programmed
/// atomically with it.
///
/// The caller attaches as many as it reserved.
pub trait SpareBytes {
    /// Sets `bytes` of each data page's OOB aside, before anything is programmed. Those of pages programmed
    /// before are there if the same number was reserved then. Refused, with no effect, when the OOB has no
    /// room for so many.
    fn reserve_spare(&mut self, bytes: u32) -> Result<(), SpareRefused>;

    /// The spare bytes of the next data page to be programmed. A page programmed without this call has zeros.
    fn attach(&mut self, spare: &[u8]);

    /// The spare bytes of the data page that was read or scanned last, as they were programmed with it.
    fn spare(&self) -> &[u8];

    /// The spare bytes of a programmed data page, free of charge and of time: as [`Nand::inspect`].
    fn inspect_spare(&self, ppn: Ppn) -> &[u8];
}

/// The OOB has no room for the spare bytes asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} spare bytes a page are needed, and the OOB has room for {room}")]
pub struct SpareRefused {
    /// Spare bytes a page that the FTL asked for.
    pub asked: u32,
    /// Spare bytes that fit beside the record.
    pub room: u32,
}

/// A boxed array is one, whatever is in the box.
impl<N: Nand + ?Sized> Nand for Box<N> {
    fn geometry(&self) -> &Geometry {
        (**self).geometry()
    }

    fn is_bad(&self, block: Pbn) -> bool {
        (**self).is_bad(block)
    }

    fn read(&mut self, ppn: Ppn, class: Class, to: Sink, after: Done) -> Result<(Oob, Done), Fault> {
        (**self).read(ppn, class, to, after)
    }

    fn buffer(&self) -> &[u8] {
        (**self).buffer()
    }

    fn written(&self, block: Pbn) -> u32 {
        (**self).written(block)
    }

    fn scan(&mut self, ppn: Ppn, after: Done) -> Result<(Option<Oob>, Done), Fault> {
        (**self).scan(ppn, after)
    }

    fn program(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        class: Class,
        from: Source<'_>,
        after: Done,
    ) -> Result<Done, Fault> {
        (**self).program(ppn, oob, class, from, after)
    }

    fn erase(&mut self, block: Pbn, after: Done) -> Result<Done, Fault> {
        (**self).erase(block, after)
    }

    fn retire(&mut self, block: Pbn) {
        (**self).retire(block);
    }

    fn join(&mut self, a: Done, b: Done) -> Done {
        (**self).join(a, b)
    }

    fn settle(&mut self) -> Done {
        (**self).settle()
    }

    fn compute(&mut self, ns: u64, after: Done) -> Done {
        (**self).compute(ns, after)
    }

    fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob> {
        (**self).inspect(ppn, content)
    }

    fn superseded(&mut self, ppn: Ppn) {
        (**self).superseded(ppn);
    }

    fn expect(&self, hint: Hint) {
        (**self).expect(hint);
    }

    fn hinted_id(&self, ppn: Ppn) -> Option<u32> {
        (**self).hinted_id(ppn)
    }

    fn hinted_word(&self, ppn: Ppn, index: u32) -> Option<u32> {
        (**self).hinted_word(ppn, index)
    }

    fn begin_step(&mut self, name: &'static str) {
        (**self).begin_step(name);
    }

    fn catch_up(&mut self) {
        (**self).catch_up();
    }
}

impl<N: DataBuffer + ?Sized> DataBuffer for Box<N> {
    fn reserve_slots(&mut self, slots: u32) {
        (**self).reserve_slots(slots);
    }

    fn store(&mut self, slot: u32, oob: Oob) {
        (**self).store(slot, oob);
    }

    fn deliver(&mut self, slot: u32) -> Oob {
        (**self).deliver(slot)
    }
}

impl<N: SpareBytes + ?Sized> SpareBytes for Box<N> {
    fn reserve_spare(&mut self, bytes: u32) -> Result<(), SpareRefused> {
        (**self).reserve_spare(bytes)
    }

    fn attach(&mut self, spare: &[u8]) {
        (**self).attach(spare);
    }

    fn spare(&self) -> &[u8] {
        (**self).spare()
    }

    fn inspect_spare(&self, ppn: Ppn) -> &[u8] {
        (**self).inspect_spare(ppn)
    }
}
