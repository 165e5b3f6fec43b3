//! Scratch memory, whose room is counted.

use std::ops::{Deref, DerefMut};

/// A vector whose copies have its room: what counts as memory of a device is the same in a copy of it.
#[derive(Debug)]
pub struct Scratch<T>(Vec<T>);

impl<T> Scratch<T> {
    /// Scratch memory with room for `count` items.
    pub fn with_room(count: usize) -> Scratch<T> {
        Scratch(Vec::with_capacity(count))
    }

    /// Bytes of its room.
    pub fn bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<T>()) as u64
    }
}

impl<T> Default for Scratch<T> {
    fn default() -> Scratch<T> {
        Scratch::with_room(0)
    }
}

impl<T: Clone> Clone for Scratch<T> {
    fn clone(&self) -> Scratch<T> {
        let mut copy = Vec::with_capacity(self.0.capacity());
        copy.extend_from_slice(&self.0);
        Scratch(copy)
    }
}

impl<T> Deref for Scratch<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}
