//! Messages on their way between the client and the `vhost` crate, with their file descriptors.
//!
//! The Linux kernel's own client (user-mode-linux) sends its memory table with room for two regions though it
//! fills one; the crate takes that for a broken message. Here it is cut to its content.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Request, flags and size of what follows, 4 bytes each.
const HEAD_BYTES: usize = 12;
const SET_MEM_TABLE: u32 = 5;
/// Number of regions and padding.
const TABLE_BYTES: usize = 8;
const REGION_BYTES: usize = 32;
/// Longest message of the protocol, and most descriptors of one.
const MOST_BYTES: usize = 1 << 16;
const MOST_FILES: usize = 32;

/// Passes messages on until one side is closed; then both are.
pub(super) fn relay(from: &UnixStream, to: &UnixStream) {
    let mut message = Vec::new();
    let mut files = Vec::new();
    while receive(from, &mut message, &mut files) {
        cut(&mut message);
        if !send(to, &message, &files) {
            break;
        }
    }
    for side in [from, to] {
        // It may be closed already.
        let _ = side.shutdown(Shutdown::Both);
    }
}

/// Takes the next whole message; false when there is none any more.
fn receive(from: &UnixStream, message: &mut Vec<u8>, files: &mut Vec<OwnedFd>) -> bool {
    message.clear();
    files.clear();
    let mut wanted = HEAD_BYTES;
    while message.len() < wanted {
        let begin = message.len();
        message.resize(wanted, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut to = [IoSliceMut::new(&mut message[begin..])];
        let got = match recvmsg(from, &mut to, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => 0,
            Ok(got) if got.bytes > 0 => {
                for found in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(sent) = found {
                        files.extend(sent);
                    }
                }
                got.bytes
            }
            _ => return false,
        };
        message.truncate(begin + got);
        if wanted == HEAD_BYTES && message.len() == HEAD_BYTES {
            wanted += word(message, 8) as usize;
            if wanted > MOST_BYTES {
                return false;
            }
        }
    }
    true
}

fn send(to: &UnixStream, message: &[u8], files: &[OwnedFd]) -> bool {
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let mut sent = 0;
    while sent < message.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        // Descriptors go with the first byte.
        if sent == 0 && !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return false;
        }
        match sendmsg(to, &[IoSlice::new(&message[sent..])], &mut control, SendFlags::NOSIGNAL) {
            Ok(bytes) => sent += bytes,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Takes away what a memory table holds behind its last region.
fn cut(message: &mut Vec<u8>) {
    if word(message, 0) != SET_MEM_TABLE || message.len() < HEAD_BYTES + TABLE_BYTES {
        return;
    }
    let size = TABLE_BYTES + (word(message, HEAD_BYTES) as usize).saturating_mul(REGION_BYTES);
    if HEAD_BYTES + size < message.len() {
        message.truncate(HEAD_BYTES + size);
        message[8..12].copy_from_slice(&(size as u32).to_ne_bytes());
    }
}

fn word(message: &[u8], at: usize) -> u32 {
    message[at..at + 4].iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_memory_table_is_cut_to_its_regions_and_keeps_its_descriptors() {
        let (mut client, front) = UnixStream::pair().unwrap();
        let (back, mut server) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || relay(&front, &back));
        let mut table =
            [5u32, 1, (TABLE_BYTES + 2 * REGION_BYTES) as u32, 1, 0].map(u32::to_le_bytes).concat();
        table.extend([7; 2 * REGION_BYTES]);
        let (given, mut kept) = UnixStream::pair().unwrap();
        assert!(send(&client, &table, &[given.into()]));
        let (mut message, mut files) = (Vec::new(), Vec::new());
        assert!(receive(&server, &mut message, &mut files));
        assert_eq!(message.len(), HEAD_BYTES + TABLE_BYTES + REGION_BYTES);
        assert_eq!((word(&message, 8) as usize, files.len()), (TABLE_BYTES + REGION_BYTES, 1));
        kept.write_all(b"x").unwrap();
        let mut through = UnixStream::from(files.remove(0));
        let mut byte = [0];
        through.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        // Anything else as it is, in pieces.
        let other = [1u32, 1, 4, 9].map(u32::to_le_bytes).concat();
        client.write_all(&other[..5]).unwrap();
        client.write_all(&other[5..]).unwrap();
        assert!(receive(&server, &mut message, &mut files));
        assert_eq!(message, other);
        drop(client);
        assert_eq!(server.read(&mut byte).unwrap(), 0);
        thread.join().unwrap();
    }
}
