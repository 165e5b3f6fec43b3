//! A slab of what is pending in the queue model, and the tokens that name it.

/// The null link: slot 0 is never used.
pub(super) const NONE: u32 = 0;

const INDEX_BITS: u32 = 26;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// What a slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Node {
    /// Nothing: it is in the free list.
    Free,
    Read,
    Program,
    Erase,
    /// Waits for `after`, then for the token in `extra`.
    Join,
    /// Every program up to a number; the queue of settles knows which.
    Settle,
    /// Controller work of `extra` ns after `after`.
    Compute,
    /// A further watch on a token that has one already.
    Watch,
}

/// How far a flash operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// Behind an erase of its block that was submitted earlier.
    Fence,
    /// Waits for `after`.
    After,
    /// Waits for its turn in its block.
    Turn,
    /// As `Turn`, in no list: whoever brings its turn knows it (its predecessor in the block, or the block).
    Parked,
    /// In its die's hands.
    Entered,
}

/// An intrusive FIFO of slots, linked by `Slot::next`. A slot is in one list at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// One pending thing. 64 bytes: a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// `generation << INDEX_BITS | index`; another value makes a token stale, that is: done.
    pub(super) token: u64,
    /// The token it waits for.
    pub(super) after: u64,
    /// Read: the token of the program of its page. Program: its number. Join and compute: see [`Node`].
    pub(super) extra: u64,
    /// Who waits for this.
    pub(super) waiters: List,
    pub(super) next: u32,
    /// Program: the next program submitted to its block.
    pub(super) successor: u32,
    pub(super) die: u32,
    pub(super) block: u32,
    /// What to report on completion, if `tagged`.
    pub(super) tag: u32,
    pub(super) page: u16,
    pub(super) node: Node,
    pub(super) stage: Stage,
    pub(super) tagged: bool,
    /// A host read that its policy lets overtake.
    pub(super) urgent: bool,
}

impl Slot {
    fn new(index: u64) -> Slot {
        Slot {
            token: 1 << INDEX_BITS | index,
            after: 0,
            extra: 0,
            waiters: List::default(),
            next: NONE,
            successor: NONE,
            die: 0,
            block: 0,
            tag: 0,
            page: 0,
            node: Node::Free,
            stage: Stage::After,
            tagged: false,
            urgent: false,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: u32,
}

impl std::ops::Index<u32> for Slots {
    type Output = Slot;
    #[inline]
    fn index(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Slots {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }
}

impl Slots {
    pub(super) fn with_capacity(capacity: usize) -> Slots {
        let mut slots = Vec::with_capacity(capacity);
        // No token equals this one, so that index 0 (and with it `Done::READY`) is always done.
        slots.push(Slot { token: u64::MAX, ..Slot::new(0) });
        Slots { slots, free: NONE }
    }

    /// The most slots that were ever taken at once.
    #[inline]
    pub(super) fn most(&self) -> usize {
        self.slots.len() - 1
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    #[inline]
    pub(super) fn allocate(&mut self, node: Node, after: u64) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = slot.next;
        slot.after = after;
        slot.extra = 0;
        slot.waiters = List::default();
        slot.successor = NONE;
        slot.node = node;
        slot.stage = Stage::Fence;
        slot.tagged = false;
        index
    }

    #[cold]
    fn grow(&mut self) {
        let index = self.slots.len() as u64;
        assert!(index <= INDEX_MASK, "more than {INDEX_MASK} operations in flight");
        self.slots.push(Slot::new(index));
        self.free = index as u32;
    }

    /// Makes every token of the slot stale and the slot free. Its waiters must have been taken over.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.token = slot.token.wrapping_add(1 << INDEX_BITS);
        slot.node = Node::Free;
        slot.next = self.free;
        self.free = index;
    }

    /// The slot that `token` names, or [`NONE`] when it is done.
    #[inline]
    pub(super) fn pending(&self, token: u64) -> u32 {
        let index = (token & INDEX_MASK) as u32;
        if self[index].token == token {
            index
        } else {
            NONE
        }
    }

    /// Appends `index` to those who wait for `target`.
    #[inline]
    pub(super) fn attach(&mut self, target: u32, index: u32) {
        let mut waiters = self[target].waiters;
        self.push(&mut waiters, index);
        self[target].waiters = waiters;
    }

    #[inline]
    pub(super) fn push(&mut self, list: &mut List, index: u32) {
        self[index].next = NONE;
        self.append(list, List { head: index, tail: index });
    }

    /// Appends `more`, which must not be empty.
    #[inline]
    pub(super) fn append(&mut self, list: &mut List, more: List) {
        if list.head == NONE {
            list.head = more.head;
        } else {
            self[list.tail].next = more.head;
        }
        list.tail = more.tail;
    }

    #[inline]
    pub(super) fn pop(&self, list: &mut List) -> u32 {
        let head = list.head;
        if head != NONE {
            list.head = self[head].next;
        }
        head
    }
}
