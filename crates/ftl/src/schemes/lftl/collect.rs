//! Collection of linear groups: a page is mapped as soon as it is copied.
//!
//! A page is copied in the place in which it lies, so that the LPAs of a stream stay in order, to a linear
//! group that all victims share; its mapping is a log mapping like that of a page of the host, and is trained
//! like one. So a copy takes no read of a translation page, and counts as soon as it is made: until the
//! victim is erased, which waits for the copies, the original is there for a power cut to find.

use crate::counters::Cause;
use crate::engine::collector::copy;
use crate::engine::{Copies, Parts, Placement};
use crate::flash::Flash;
use crate::mapping::Update;
use crate::scheme::Coming;
use crate::space::Stream;
use nand::{Done, Lpn, Nand, Ppn, Result};

/// So many pages ahead of the one that is copied the processor is told what its mapping will touch.
const AHEAD: u32 = 12;

/// Copies that are committed one by one.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce;

impl<M: Update, P: Placement<M>> Copies<M, P> for AtOnce {
    const IN_PIECES: bool = true;

    fn new<N: Nand>(_flash: &Flash<N>, _parts: &Parts<M, P>) -> AtOnce {
        AtOnce
    }

    fn steps(&self, valid: u32) -> u32 {
        valid
    }

    fn is_empty(&self) -> bool {
        true
    }

    fn take<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        parts: &mut Parts<M, P>,
        from: Ppn,
        stream: Stream,
        cause: Cause,
    ) -> Result<Done> {
        let ahead = Ppn((from.0 + AHEAD).min(flash.nand().geometry().pages() - 1));
        if let Some(id) = flash.space.is_valid(ahead).then(|| flash.nand().hinted_id(ahead)).flatten() {
            parts.mapping.expect(flash, &parts.pages, Lpn(id), Coming::Later);
        }
        let moved = copy(flash, parts, from, stream, cause)?;
        let done = parts.mapping.moved(flash, &mut parts.pages, &[moved])?;
        flash.invalidate(from);
        Ok(done)
    }

    fn commit<N: Nand>(
        &mut self,
        _flash: &mut Flash<N>,
        _parts: &mut Parts<M, P>,
        _cause: Cause,
    ) -> Result<Option<Done>> {
        Ok(None)
    }
}
