//! Any of the three models, chosen when a device is made.

use super::{DieUse, NoClock, Operation, Queued, Reserved, Timing};
use crate::Done;

/// One of the three timing models.
///
/// The model is a value here and not a type: a scheme is compiled once for all three, as the live device and
/// the checker want it. That costs 5 to 10 % of the speed, so the simulator names the model as a type.
#[derive(Clone, Debug)]
pub enum AnyTiming {
    /// No operation takes time: for counting, and for warm-ups.
    NoClock(NoClock),
    /// The die is booked at submission.
    Reserved(Box<Reserved>),
    /// A queue per die and per channel.
    Queued(Box<Queued>),
}

impl AnyTiming {
    /// When the next of its own events falls due, ns ([`Queued::next_ns`]); `None` under the other models,
    /// which have none.
    pub fn next_ns(&mut self) -> Option<u64> {
        match self {
            AnyTiming::Queued(queued) => queued.next_ns(),
            _ => None,
        }
    }
}

impl From<NoClock> for AnyTiming {
    fn from(model: NoClock) -> AnyTiming {
        AnyTiming::NoClock(model)
    }
}

impl From<Reserved> for AnyTiming {
    fn from(model: Reserved) -> AnyTiming {
        AnyTiming::Reserved(Box::new(model))
    }
}

impl From<Queued> for AnyTiming {
    fn from(model: Queued) -> AnyTiming {
        AnyTiming::Queued(Box::new(model))
    }
}

/// The same call on whichever model it is.
macro_rules! ask {
    ($timing:expr, $model:ident => $call:expr) => {
        match $timing {
            AnyTiming::NoClock($model) => $call,
            AnyTiming::Reserved($model) => $call,
            AnyTiming::Queued($model) => $call,
        }
    };
}

impl Timing for AnyTiming {
    fn start(&mut self, written: &[u16]) {
        ask!(self, model => model.start(written));
    }

    #[inline(always)]
    fn operate(&mut self, op: Operation, after: Done) -> Done {
        ask!(self, model => model.operate(op, after))
    }

    #[inline]
    fn compute(&mut self, ns: u64, after: Done) -> Done {
        ask!(self, model => model.compute(ns, after))
    }

    #[inline]
    fn join(&mut self, a: Done, b: Done) -> Done {
        ask!(self, model => model.join(a, b))
    }

    #[inline]
    fn settle(&mut self) -> Done {
        ask!(self, model => model.settle())
    }

    #[inline]
    fn now(&self) -> u64 {
        ask!(self, model => model.now())
    }

    #[inline]
    fn arrival(&self) -> Done {
        ask!(self, model => model.arrival())
    }

    #[inline(always)]
    fn watch(&mut self, done: Done, tag: u32) {
        ask!(self, model => model.watch(done, tag));
    }

    #[inline(always)]
    fn alarm(&mut self, at_ns: u64, tag: u32) {
        ask!(self, model => model.alarm(at_ns, tag));
    }

    #[inline(always)]
    fn next(&mut self) -> Option<(u32, u64)> {
        ask!(self, model => model.next())
    }

    fn drain(&mut self) {
        ask!(self, model => model.drain());
    }

    #[inline(always)]
    fn most_pending(&self) -> usize {
        ask!(self, model => model.most_pending())
    }

    fn die_use(&self) -> Vec<DieUse> {
        ask!(self, model => model.die_use())
    }
}
