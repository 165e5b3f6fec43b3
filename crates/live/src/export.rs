//! A live device as everything above it sees it, whatever its scheme.

use std::sync::Arc;
use std::time::Duration;

use nand::{ImageFile, Medium, Scrubbed};

use crate::error::{CheckError, PowerOffError};
use crate::reads::Reads;
use crate::record::Recorder;
use crate::request::{Answer, Extent, IoError, Request};
use crate::snapshot::Snapshot;

/// A device that is switched on, with its image on `M`. A call is one virtual call for a whole batch; below
/// it the code is the scheme's own.
pub trait Export<M: Medium = ImageFile>: Send + Sync {
    /// Bytes that clients see.
    fn exported_bytes(&self) -> u64;

    /// Size of a flash page, in bytes: writes of whole pages need no read.
    fn page_bytes(&self) -> u32;

    /// Carries out a batch, in order. `answers` gets one answer for each request; the bytes of reads come
    /// from `reads`, which has to be cleared soon.
    fn submit(&self, batch: &[Request], reads: &mut Reads<M>, answers: &mut Vec<Result<Answer, IoError>>);

    /// Returns when everything up to `operation` is durable.
    fn make_durable(&self, operation: u64) -> Result<(), IoError>;

    /// What of a range is allocated, from its begin on: at most `most` extents, perhaps less than the range.
    fn extents(&self, offset: u64, length: u64, most: usize) -> Result<Vec<Extent>, IoError>;

    /// Carries one request out and waits for it; a read fills `to`. For tools: a front end submits batches.
    fn request(&self, request: &Request, to: &mut [u8]) -> Result<(), IoError> {
        let (mut reads, mut answers) = (Reads::new(self.page_bytes()), Vec::new());
        self.submit(std::slice::from_ref(request), &mut reads, &mut answers);
        match answers.pop().unwrap_or(Err(IoError::Off))? {
            Answer::Read(number) => reads.fill(number, request, to),
            Answer::Durable(operation) => self.make_durable(operation),
            Answer::Done => Ok(()),
        }
    }

    /// Does what there is to do while nobody asks for anything; to be called every now and then. `seen` is
    /// the caller's, 0 at first.
    fn tend(&self, seen: &mut u64);

    /// Whether it was opened for pacing: [`Reads`] then has a ticket for each request, and its answer is due
    /// when that is over.
    fn is_paced(&self) -> bool;

    /// Whether it was opened to be read alone: every request that changes something fails.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Reads some pages of the array from page `from` on, beside clients, and adds what was found. What has
    /// another copy is mended. Gives the page to go on with, or `None` at the end. A device without an image
    /// has nothing to be read.
    fn scrub(&self, _from: u32, _found: &mut Scrubbed) -> Result<Option<u32>, IoError> {
        Ok(None)
    }

    /// From now on [`Export::tend`] does so, too: with the whole array in each `period`.
    fn scrub_every(&self, _period: Duration) {}

    /// Checks the scheme's own structures against each other and the array.
    fn check(&self) -> Result<(), CheckError> {
        Ok(())
    }

    /// Moves virtual time to the wall's, and adds to `tickets` those of requests that are over. Gives how
    /// long no other one will be, unless it comes meanwhile.
    fn over(&self, tickets: &mut Vec<u64>) -> Result<Option<Duration>, IoError>;

    /// Begins to count anew. From now on answers wait for the model, or not; only a device that was opened
    /// for pacing can be paced. To be called while no client waits.
    fn restart(&self, paced: bool);

    /// So many requests have arrived at the front end.
    fn arrived(&self, requests: usize);

    /// So many requests have been answered by the front end.
    fn left(&self, requests: usize);

    /// How long clients waited, ns, by kind of request ([`crate::Latencies::KINDS`]).
    fn waited(&self, waits: &mut dyn Iterator<Item = (usize, u64)>);

    /// Tells `to` of every request that the device takes from now on.
    fn record(&self, to: Recorder);

    /// The device now; `None` when it is switched off.
    fn snapshot(&self) -> Option<Snapshot>;

    /// Whether it is switched off, or a panic in it has left it unusable.
    fn is_off(&self) -> bool;

    /// Switches the device off in good order. An error says why it was not; then it is as after a power cut.
    fn power_off(&self) -> Result<(), PowerOffError>;
}

/// A device with its name for clients.
#[derive(Clone)]
pub struct Served {
    /// Its name; a client that names none gets the first device of a server.
    pub name: String,
    /// What it is, in one line that clients can show.
    pub description: String,
    /// The device.
    pub export: Arc<dyn Export>,
}
