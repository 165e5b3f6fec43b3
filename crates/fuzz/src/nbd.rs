//! A client of the NBD server, over a pair of sockets: whatever it sends, it is answered or left, and the
//! device stays as consistent as it was.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use live::{nbd, Export, Served};

use crate::image::fresh;
use crate::scratch::folder;

/// Longest input: more requests say no more.
const MOST_BYTES: usize = 4096;
/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// An option: this magic, its number, and the length of what follows.
const OPTION: &[u8; 8] = b"IHAVEOPT";
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;

/// One device for all inputs of a process; its image has no name.
fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(|| {
        let folder = folder();
        let export: Arc<dyn Export> = fresh(&folder.path().join("image"), "dftl");
        Served { name: "disk".to_owned(), description: "fuzzed".to_owned(), export }
    })
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [OPTION, &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// What a client sends that knows the protocol, up to its first request.
fn handshake(is_structured: bool) -> Vec<u8> {
    // Fixed newstyle, no zeroes; then the export of the empty name, without questions.
    let mut sent = 3u32.to_be_bytes().to_vec();
    if is_structured {
        let context = b"base:allocation";
        let query =
            [&0u32.to_be_bytes()[..], &1u32.to_be_bytes(), &(context.len() as u32).to_be_bytes(), context];
        sent.extend(option(STRUCTURED_REPLY, &[]));
        sent.extend(option(SET_META_CONTEXT, &query.concat()));
    }
    sent.extend(option(GO, &[0; 6]));
    sent
}

/// The first byte says how far the protocol is kept: not at all, or up to the first request, in either form.
pub fn client(bytes: &[u8]) {
    let Some((&how, sent)) = bytes.split_first() else { return };
    let mut all = match how % 3 {
        0 => Vec::new(),
        form => handshake(form == 2),
    };
    all.extend(&sent[..sent.len().min(MOST_BYTES)]);
    let (ours, theirs) = UnixStream::pair().unwrap_or_else(|error| panic!("no sockets: {error}"));
    let set = ours.set_read_timeout(Some(PATIENCE)).and_then(|()| ours.set_write_timeout(Some(PATIENCE)));
    set.unwrap_or_else(|error| panic!("no patience: {error}"));
    let is_left = std::thread::scope(|scope| {
        let talking = scope.spawn(|| {
            let sending = scope.spawn(|| {
                // A server that leaves early reads no more.
                let _ = (&ours).write_all(&all);
                let _ = ours.shutdown(Shutdown::Write);
            });
            let mut answer = vec![0; 1 << 16];
            let is_left = loop {
                match (&ours).read(&mut answer) {
                    Ok(0) => break true,
                    Ok(_) => {}
                    Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
                }
            };
            let _ = (ours.shutdown(Shutdown::Both), sending.join());
            is_left
        });
        nbd::attend(theirs, served());
        talking.join().unwrap_or(false)
    });
    assert!(is_left, "a client that said its last word got no end of the connection in {PATIENCE:?}");
    served().export.check().unwrap_or_else(|error| panic!("the device: {error}"));
}
