//! Doubly linked lists through the elements of an array: the order of use of what is cached, and queues of
//! superblocks.

/// In place of an index: there is no such element.
pub const NONE: u32 = u32::MAX;

/// An element's neighbours, or [`NONE`].
#[derive(Clone, Copy, Debug)]
pub struct Links {
    /// Index of the neighbour towards the head.
    pub prev: u32,
    /// Index of the neighbour towards the tail.
    pub next: u32,
}

impl Links {
    /// Of an element that is in no list.
    pub const NONE: Links = Links { prev: NONE, next: NONE };
}

/// An element of an array that can be in a list.
pub trait Linked {
    /// Its neighbours.
    fn links(&self) -> Links;

    /// Its neighbours, to change them.
    fn links_mut(&mut self) -> &mut Links;
}

/// Makes a structure with a field `links` [`Linked`].
macro_rules! linked {
    ($element:ty) => {
        impl $crate::list::Linked for $element {
            #[inline]
            fn links(&self) -> $crate::list::Links {
                self.links
            }

            #[inline]
            fn links_mut(&mut self) -> &mut $crate::list::Links {
                &mut self.links
            }
        }
    };
}
pub(crate) use linked;

/// A list. Where it is an order of use, the head is the most recently used element.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List::EMPTY
    }
}

impl List {
    /// A list without elements.
    pub const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };

    /// Elements in the list.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first element, or [`NONE`].
    #[inline]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The last element, or [`NONE`].
    #[inline]
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// Puts an element that is in no list at the head.
    #[inline]
    pub fn push_front<T: Linked>(&mut self, elements: &mut [T], at: u32) {
        self.insert(elements, at, Links { prev: NONE, next: self.head });
    }

    /// Puts an element that is in no list at the tail.
    #[inline]
    pub fn push_back<T: Linked>(&mut self, elements: &mut [T], at: u32) {
        self.insert(elements, at, Links { prev: self.tail, next: NONE });
    }

    /// Puts an element that is in no list between two neighbours.
    #[inline]
    pub fn insert<T: Linked>(&mut self, elements: &mut [T], at: u32, between: Links) {
        *elements[at as usize].links_mut() = between;
        match between.prev {
            NONE => self.head = at,
            prev => elements[prev as usize].links_mut().next = at,
        }
        match between.next {
            NONE => self.tail = at,
            next => elements[next as usize].links_mut().prev = at,
        }
        self.len += 1;
    }

    /// Takes out an element of this list.
    #[inline]
    pub fn unlink<T: Linked>(&mut self, elements: &mut [T], at: u32) {
        let Links { prev, next } = elements[at as usize].links();
        match prev {
            NONE => self.head = next,
            prev => elements[prev as usize].links_mut().next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => elements[next as usize].links_mut().prev = prev,
        }
        self.len -= 1;
    }

    /// Brings an element of this list to the head.
    #[inline]
    pub fn touch<T: Linked>(&mut self, elements: &mut [T], at: u32) {
        if self.head != at {
            self.unlink(elements, at);
            self.push_front(elements, at);
        }
    }

    /// The elements, from the head to the tail.
    pub fn iter<'a, T: Linked>(&self, elements: &'a [T]) -> impl Iterator<Item = u32> + use<'a, T> {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let here = at;
            (here != NONE).then(|| {
                at = elements[here as usize].links().next;
                here
            })
        })
    }
}
