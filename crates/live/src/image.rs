//! Images by name: made for a scheme, and opened with the scheme that they were made for.

use std::path::Path;
use std::sync::Arc;

use ftl::schemes::{self, Visitor};
use ftl::Scheme;
use nand::timing::NoClock;
use nand::{Description, DeviceSpec, FileNand, SimNand, SimOptions};

use crate::engine::{Engine, Opening};
use crate::error::LiveError;
use crate::export::Export;
use crate::settings::Settings;
use crate::snapshot::Opened;

/// Makes the image of a fresh device for a scheme: all of it, or nothing.
pub fn create(path: &Path, device: &DeviceSpec, settings: &Settings) -> Result<(), LiveError> {
    /// Opens the scheme on an array in memory: what does not fit is told before there is a file.
    struct Try<'a>(&'a DeviceSpec, &'a Settings);
    impl Visitor for Try<'_> {
        type Out = Result<(), LiveError>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            let array = SimNand::new(self.0, NoClock::new(), SimOptions::default());
            let opened = ftl::Device::<S, _>::open(array, &self.1.config(self.0));
            opened.map(|_| ()).map_err(LiveError::Unfit)
        }
    }
    let fits = schemes::with(&settings.scheme, Try(device, settings));
    fits.ok_or_else(|| LiveError::Unknown(settings.scheme.clone()))??;
    Ok(FileNand::create(path, &Description { device: device.clone(), settings: settings.text()? })?)
}

/// What an image says of itself, in use or not.
pub fn describe(path: &Path) -> Result<(DeviceSpec, Settings), LiveError> {
    let Description { device, settings } = nand::describe(path)?;
    Ok((device, Settings::parse(path, &settings)?))
}

/// Opens an image with its scheme, recovering what a crash left.
pub fn open(path: &Path, how: Opening) -> Result<(Arc<dyn Export>, Opened), LiveError> {
    struct Open<'a>(&'a Path, Opening);
    impl Visitor for Open<'_> {
        type Out = Result<(Arc<dyn Export>, Opened), LiveError>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            let (engine, opened) = Engine::<S>::open(self.0, self.1)?;
            Ok((Arc::new(engine), opened))
        }
    }
    let (_, settings) = describe(path)?;
    let opened = schemes::with(&settings.scheme, Open(path, how));
    opened.ok_or_else(|| LiveError::Settings {
        image: path.to_owned(),
        why: LiveError::Unknown(settings.scheme).to_string(),
    })?
}
