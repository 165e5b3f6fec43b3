//! A guest of the virtio disk: its memory, with a ring of requests in it, is the input.
//!
//! The first 8 bytes say where the parts of the ring lie (2 each, in units of 16 bytes), its size as a power
//! of two (1), and whether the guest says when it wants to be told (1).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use live::vhost::{attend, Ring};
use live::Export;

use crate::image::fresh;
use crate::scratch::folder;

/// The guest's memory.
const MEMORY: usize = 1 << 16;
/// A guest that has requests for ever leaves then.
const PATIENCE: Duration = Duration::from_millis(200);

/// One device for all inputs of a process; its image has no name.
fn export() -> Arc<dyn Export> {
    static EXPORT: OnceLock<Arc<dyn Export>> = OnceLock::new();
    let made = EXPORT.get_or_init(|| {
        let folder = folder();
        fresh(&folder.path().join("image"), "page")
    });
    made.clone()
}

/// Whatever the memory says, the guest is answered or left, and the device stays consistent.
pub fn guest(bytes: &[u8]) {
    let Some((head, content)) = bytes.split_first_chunk::<8>() else { return };
    let at = [0, 2, 4].map(|byte| u64::from(u16::from_le_bytes([head[byte], head[byte + 1]])) * 16);
    let ring = Ring { size: 1 << (head[6] % 9), at, event_idx: head[7] % 2 == 1 };
    let mut memory = content[..content.len().min(MEMORY)].to_vec();
    memory.resize(MEMORY, 0);
    match attend(export(), &memory, ring, PATIENCE) {
        Err(error) if error.kind() == std::io::ErrorKind::Other => panic!("{error}"),
        _ => {}
    }
    export().check().unwrap_or_else(|error| panic!("the device: {error}"));
}
