//! Ctrl-C while simulations run: the first asks them to stop, and what has ended is kept; the second ends the
//! command at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use super::stop::{Stop, INTERRUPTED};

/// Signals belong to the process, and so does what they ask for.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on SIGINT and SIGTERM ask the command to stop.
pub(crate) fn catch() -> Result<(), Stop> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        register_conditional_shutdown(signal, i32::from(INTERRUPTED), asked.clone())
            .and_then(|_| register(signal, asked.clone()))
            .map_err(|error| Stop::user(format!("signals cannot be caught ({error})")))?;
    }
    Ok(())
}

/// Whether the command was asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}
