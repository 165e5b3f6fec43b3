//! Why something live could not be done: one sentence with what, where and what would be right.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use ftl::{schemes, Breach, OpenError};
use nand::{Fault, ImageError};

use crate::request::IoError;

/// Why an image could not be made, opened or served.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The image itself: it is missing, in use, damaged, or no image at all.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image is one, but the settings in it are not those of this version.
    #[error("{}: the settings in the image are not understood ({why})", image.display())]
    Settings {
        /// The file.
        image: PathBuf,
        /// What the parser says of them.
        why: String,
    },
    /// Somebody asked to stop.
    #[error("stopped before the end")]
    Stopped,
    /// No scheme is registered under this name.
    #[error("there is no scheme `{0}`; there are {known}", known = schemes_in_words())]
    Unknown(String),
    /// The scheme does not fit the device, so no image was made.
    #[error(transparent)]
    Unfit(OpenError),
    /// The scheme could not be opened on an image.
    #[error("{}: {error}", image.display())]
    Open {
        /// The file.
        image: PathBuf,
        /// What the scheme says.
        error: OpenError,
    },
    /// The scheme's recovery panicked: a bug, or damage that nothing vouches for.
    #[error("{}: recovery panicked ({words}); the image is as it was", image.display())]
    Panicked {
        /// The file.
        image: PathBuf,
        /// What the panic said.
        words: String,
    },
    /// The host's operating system refused something.
    #[error("{what} ({error})")]
    Host {
        /// What was attempted, and what would help.
        what: String,
        /// What it said.
        error: io::Error,
    },
    /// What was asked for cannot be done here.
    #[error("{0}")]
    Refused(String),
}

impl LiveError {
    /// Makes the error of an attempt that the operating system refused.
    pub(crate) fn host<E: Into<io::Error>>(what: impl Display) -> impl Fn(E) -> LiveError {
        let what = what.to_string();
        move |error| LiveError::Host { what: what.clone(), error: error.into() }
    }

    /// Makes the error of an image that could not be written to.
    pub(crate) fn unwritten(image: &Path) -> impl Fn(io::Error) -> LiveError {
        LiveError::host(format!("{}: the image cannot be written", image.display()))
    }
}

fn schemes_in_words() -> String {
    schemes::ALL.iter().map(|info| info.name).collect::<Vec<_>>().join(", ")
}

/// Why a check of a device did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The device cannot be asked.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The scheme's structures contradict each other or the array.
    #[error(transparent)]
    Breach(#[from] Breach),
}

/// Why a device was not switched off in good order. Its next start recovers, as after a power cut.
#[derive(Debug, thiserror::Error)]
pub enum PowerOffError {
    /// A bug: the scheme or the array panicked before.
    #[error("the FTL panicked")]
    Panicked,
    /// The image failed while the device was on.
    #[error("the image could not be written to before")]
    Broken,
    /// The scheme could not write its last state.
    #[error(transparent)]
    Fault(Fault),
    /// The image could not be closed.
    #[error(transparent)]
    Image(#[from] io::Error),
}
