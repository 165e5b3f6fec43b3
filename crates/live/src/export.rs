//! Images by name, opened with the scheme they were made for.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use ftl::schemes::{self, Visitor};
use ftl::Scheme;
use nand::timing::NoClock;
use nand::{Description, Device, FileNand, SimNand, SimOptions};

use crate::engine::{Answer, Engine, Extent, IoError, Opened, Request, Snapshot};
use crate::front::Asked;
use crate::nbd::{Agreed, Link};
use crate::reads::Reads;
use crate::record::Recorder;
use crate::settings::Settings;

/// Why an image could not be made or served: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LiveError(pub String);

impl From<nand::ImageError> for LiveError {
    fn from(error: nand::ImageError) -> LiveError {
        LiveError(error.to_string())
    }
}

/// A live device as a front end sees it before the transmission begins. From then on the code is the scheme's own.
pub trait Export: Send + Sync {
    /// Bytes that clients see.
    fn exported_bytes(&self) -> u64;
    /// Bytes of a page.
    fn page_bytes(&self) -> u32;
    /// Serves a client until it leaves.
    fn transmit(&self, link: &Arc<Link>, agreed: &Agreed);
    /// Carries a batch out, in order. Each request is answered when its promise is kept and, on a paced device, when the
    /// model is done: before this returns, or later by another thread.
    fn carry_out(&self, asked: Vec<Asked>);
    /// Tells `to` of every request that the device takes from now on.
    fn record(&self, to: Recorder);
    /// Carries one request out and waits for it; a read fills `to`. For tools: a front end submits batches.
    fn request(&self, request: &Request, to: &mut [u8]) -> Result<(), IoError>;
    /// As [`Engine::extents`].
    fn extents(&self, offset: u64, length: u64, most: usize) -> Result<Vec<Extent>, IoError>;
    /// As [`Engine::restart`].
    fn restart(&self, paced: bool);
    /// Gives the answers of a paced device when they are due, until `stop`; returns at once for any other.
    fn pace(&self, stop: &AtomicBool);
    /// Makes durable what answers of [`Export::carry_out`] wait for, until `stop`.
    fn settle(&self, stop: &AtomicBool);
    /// As [`Engine::tend`].
    fn tend(&self, seen: &mut u64);
    /// As [`Engine::snapshot`].
    fn snapshot(&self) -> Option<Snapshot>;
    /// As [`Engine::power_off`].
    fn power_off(&self) -> Result<(), String>;
}

/// Makes the image of a fresh device for a scheme: all of it, or nothing.
pub fn create(path: &Path, device: &Device, settings: &Settings) -> Result<(), LiveError> {
    /// Opens the scheme on an array in memory: what does not fit is told before there is a file.
    struct Try<'a>(&'a Device, &'a Settings);
    impl Visitor for Try<'_> {
        type Out = Result<(), String>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            let array = SimNand::new(self.0, NoClock::new(), SimOptions::default());
            let opened = ftl::Device::<S, _>::open(array, &self.1.config(self.0));
            opened.map(|_| ()).map_err(|error| error.to_string())
        }
    }
    let fits = schemes::with(&settings.scheme, Try(device, settings));
    fits.ok_or_else(|| unknown(&settings.scheme))?.map_err(LiveError)?;
    let settings = settings.text().map_err(LiveError)?;
    Ok(FileNand::create(path, &Description { device: device.clone(), settings })?)
}

fn unknown(scheme: &str) -> LiveError {
    let known: Vec<&str> = schemes::ALL.iter().map(|info| info.name).collect();
    LiveError(format!("there is no scheme `{scheme}`; there are {}", known.join(", ")))
}

/// What an image says of itself, in use or not.
pub fn describe(path: &Path) -> Result<(Device, Settings), LiveError> {
    let Description { device, settings } = nand::describe(path)?;
    let settings = Settings::parse(&settings).map_err(|error| {
        LiveError(format!("{}: the settings in the image are not understood ({error})", path.display()))
    })?;
    Ok((device, settings))
}

/// Opens an image with its scheme, recovering what a crash left. `paced`: answers wait for the device model.
pub fn open(path: &Path, paced: bool) -> Result<(Arc<dyn Export>, Opened), LiveError> {
    struct Open<'a>(&'a Path, bool);
    impl Visitor for Open<'_> {
        type Out = Result<(Arc<dyn Export>, Opened), String>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            let (engine, opened) = Engine::<S>::open(self.0, self.1)?;
            Ok((Arc::new(engine), opened))
        }
    }
    let (_, settings) = describe(path)?;
    let opened = schemes::with(&settings.scheme, Open(path, paced));
    opened
        .ok_or_else(|| LiveError(format!("{}: {}", path.display(), unknown(&settings.scheme))))?
        .map_err(LiveError)
}

impl<S: Scheme + Send + 'static> Export for Engine<S> {
    fn exported_bytes(&self) -> u64 {
        Engine::exported_bytes(self)
    }

    fn page_bytes(&self) -> u32 {
        Engine::page_bytes(self)
    }

    fn transmit(&self, link: &Arc<Link>, agreed: &Agreed) {
        crate::nbd::transmit(self, link, agreed);
    }

    fn carry_out(&self, asked: Vec<Asked>) {
        Engine::carry_out(self, asked);
    }

    fn record(&self, to: Recorder) {
        Engine::record(self, to);
    }

    fn settle(&self, stop: &AtomicBool) {
        Engine::settle(self, stop);
    }

    fn request(&self, request: &Request, to: &mut [u8]) -> Result<(), IoError> {
        let (mut reads, mut answers) = (Reads::new(Engine::page_bytes(self)), Vec::new());
        self.submit(std::slice::from_ref(request), &mut reads, &mut answers);
        match answers.pop().unwrap_or(Err(IoError::Off))? {
            Answer::Read(number) => reads.fill(number, request, to),
            Answer::Durable(operation) => self.make_durable(operation),
            Answer::Done => Ok(()),
        }
    }

    fn extents(&self, offset: u64, length: u64, most: usize) -> Result<Vec<Extent>, IoError> {
        Engine::extents(self, offset, length, most)
    }

    fn restart(&self, paced: bool) {
        Engine::restart(self, paced);
    }

    fn pace(&self, stop: &AtomicBool) {
        if let Some(pacer) = &self.pacer {
            pacer.run(self, stop);
        }
    }

    fn tend(&self, seen: &mut u64) {
        Engine::tend(self, seen);
    }

    fn snapshot(&self) -> Option<Snapshot> {
        Engine::snapshot(self)
    }

    fn power_off(&self) -> Result<(), String> {
        Engine::power_off(self)
    }
}
