//! Clients that would have all memory or all places, over real sockets. They have a process of their own:
//! what it holds at most is what they make the server hold.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::common::{Client, Folder, Server};

const READ: u16 = 0;
const MIB: u32 = 1 << 20;

/// The most memory that this process has held so far.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn replies_that_nobody_takes_hold_bounded_memory() {
    let folder = Folder::new("greedy");
    let image = folder.image_with("disk", "page", |device| {
        (device.geometry.blocks_per_plane, device.exported_pages) = (176, 36 * 256);
    });
    let server = Server::start(&folder, &[image]);
    let mut friend = Client::ready(&server, "disk", false);
    let before = peak_mib();
    // 120 replies of 32 MiB are 3.75 GiB.
    let ask = |_| {
        let mut client = Client::ready(&server, "disk", false);
        client.send(READ, 0, 1, 0, 32 * MIB, &[]);
        client
    };
    let greedy: Vec<Client> = (0..120).map(ask).collect();
    let begun = Instant::now();
    // Long enough for those who hold memory to be hung up on, so that the next ones get it.
    let mut round = 0u8;
    while begun.elapsed() < Duration::from_secs(7) {
        round = round.wrapping_add(1);
        friend.write(4096, &[round; 4096]);
        assert_eq!(friend.read(4096, 4096), [round; 4096]);
        std::thread::sleep(Duration::from_millis(20));
    }
    let held = peak_mib() - before;
    println!("they hold {held} MiB");
    assert!(held < 400, "they hold {held} MiB");
    assert!(held > 128, "they hold {held} MiB: nothing was asked for");
    drop(greedy);
    assert_eq!(friend.read(0, 32 * MIB).len(), 32 << 20, "who takes the reply gets it");
    assert_eq!(server.stop().panic, None);
}

#[test]
fn clients_that_are_still_give_their_places_up() {
    let folder = Folder::new("still");
    let server = Server::start(&folder, &[folder.image("disk", "page")]);
    let mut friend = Client::ready(&server, "disk", false);
    let mut still: Vec<UnixStream> = (0..255).map(|_| Client::ready(&server, "disk", false).stream).collect();
    // Whether the server says hello to a new client, or hangs up at once.
    let is_admitted = || {
        let mut stream = UnixStream::connect(&server.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.read_exact(&mut [0; 18]).is_ok()
    };
    assert!(!is_admitted(), "256 clients are the most");
    let begun = Instant::now();
    while !is_admitted() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nobody gives a place up");
        // Who does something stays.
        friend.write(0, &[1; 4096]);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(friend.read(0, 4096), [1; 4096]);
    let first = still.first_mut().unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "the one that was still for longest has left");
    drop(still);
    assert_eq!(server.stop().panic, None);
}
