//! Ctrl-C while simulations run: the first asks them to stop, and what has ended is kept; the second ends the
//! command at once. Where nothing has ended that could be kept, the first ends it, with its temporary files.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use signal_hook::iterator::Signals;

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

/// Removes a temporary folder when a signal ends the command: destructors do not run then. Commands that
/// [`catch`] signals end in good order.
pub(crate) fn remove_at_end(temporary: &Path) -> Result<(), Stop> {
    let uncaught = |error| Stop::user(format!("signals cannot be caught ({error})"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(uncaught)?;
    let temporary = temporary.to_owned();
    thread::spawn(move || {
        for _ in signals.forever() {
            if ASKED.get().is_none() {
                let _ = fs::remove_dir_all(&temporary);
                std::process::exit(i32::from(INTERRUPTED));
            }
        }
    });
    Ok(())
}

/// Whether the command was asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed))
}
