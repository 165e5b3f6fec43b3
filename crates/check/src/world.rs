//! The arrays that a checked device runs on, and their clocks.

use nand::timing::NoClock;
use nand::{CrashNand, Done, FileNand, Medium, Nand, OpCounts, SimNand};
use std::any::Any;

/// Any array. It is in a box, so that each scheme is compiled once for all of them: the checker is not what
/// speed is measured by.
pub(crate) type Array = Box<dyn World>;

/// What is in the box.
///
/// # Panics
/// It is an array of another type.
pub(crate) fn unboxed<W: World>(array: Array) -> W {
    let array: Box<dyn Any> = array;
    array.downcast().map_or_else(|_| panic!("{OTHER}"), |array| *array)
}

/// A look at what is in the box; panics as [`unboxed`].
pub(crate) fn inside<W: World>(array: &Array) -> &W {
    let array: &dyn Any = &**array;
    array.downcast_ref().unwrap_or_else(|| panic!("{OTHER}"))
}

/// The same, to do something with it.
pub(crate) fn inside_mut<W: World>(array: &mut Array) -> &mut W {
    let array: &mut dyn Any = &mut **array;
    array.downcast_mut().unwrap_or_else(|| panic!("{OTHER}"))
}

const OTHER: &str = "the array in the box is of another type";

/// An array whose clock the host moves.
pub trait World: Nand + Any {
    /// The present.
    fn now(&self) -> u64;

    /// A token for the present: what a request that arrives now waits for.
    fn arrival(&self) -> Done;

    /// When `done` is reached.
    fn time(&self, done: Done) -> u64;

    /// Lets time pass until `done` is reached.
    fn advance(&mut self, done: Done);

    /// Lets time pass until nothing is in flight.
    fn drain(&mut self);

    /// Operations so far.
    fn counts(&self) -> OpCounts;
}

/// A world whose power can be cut: [`CrashNand`], or something around one (the canaries put a saboteur
/// there).
pub trait Cuttable: World + Sized {
    /// Wraps an array.
    fn wrap(nand: CrashNand) -> Self;

    /// The array.
    fn crash(&self) -> &CrashNand;

    /// Gives the array back.
    fn into_crash(self) -> CrashNand;
}

impl World for SimNand<NoClock> {
    fn now(&self) -> u64 {
        0
    }

    fn arrival(&self) -> Done {
        Done::READY
    }

    fn time(&self, _done: Done) -> u64 {
        0
    }

    fn advance(&mut self, _done: Done) {}

    fn drain(&mut self) {}

    fn counts(&self) -> OpCounts {
        *SimNand::counts(self)
    }
}

impl<M: Medium> World for FileNand<M> {
    fn now(&self) -> u64 {
        0
    }

    fn arrival(&self) -> Done {
        Done::READY
    }

    fn time(&self, _done: Done) -> u64 {
        0
    }

    fn advance(&mut self, _done: Done) {}

    fn drain(&mut self) {}

    fn counts(&self) -> OpCounts {
        *FileNand::counts(self)
    }
}

impl World for CrashNand {
    fn now(&self) -> u64 {
        CrashNand::now(self)
    }

    fn arrival(&self) -> Done {
        CrashNand::arrival(self)
    }

    fn time(&self, done: Done) -> u64 {
        CrashNand::time(self, done)
    }

    fn advance(&mut self, done: Done) {
        CrashNand::advance(self, done);
    }

    fn drain(&mut self) {
        CrashNand::drain(self);
    }

    fn counts(&self) -> OpCounts {
        *self.array().counts()
    }
}

impl Cuttable for CrashNand {
    fn wrap(nand: CrashNand) -> CrashNand {
        nand
    }

    fn crash(&self) -> &CrashNand {
        self
    }

    fn into_crash(self) -> CrashNand {
        self
    }
}
