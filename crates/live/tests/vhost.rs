//! A guest of our own on the virtio block device: rings in shared memory, requests of every kind, nonsense.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::common::{Folder, EXPORTED};
use ftl::schemes;
use live::{vhost as server, Ended, Export, Stop};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::eventfd::EventFd;

const MEMORY: usize = 4 << 20;
const RING: u16 = 256;
const DESCRIPTORS: u64 = 0;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
/// Each request has three descriptors and a place for its head, its status and its data.
const SLOTS: u64 = 0x10000;
const SLOT: u64 = 0x2000;
const VERSION_1: u64 = 1 << 32;
const PROTOCOL: u64 = 1 << 30;
const FLUSH: u64 = 1 << 9;

struct Server {
    socket: PathBuf,
    export: Arc<dyn Export>,
    stop: Stop,
    thread: JoinHandle<Ended>,
}

impl Server {
    fn start(folder: &Folder, image: &Path, paced: bool) -> Server {
        Server::open(folder, image, live::Opening { paced, read_only: false })
    }

    fn open(folder: &Folder, image: &Path, how: live::Opening) -> Server {
        let path = folder.0.join("vhost");
        let socket = server::Socket::bind(&path).unwrap();
        let (export, stop) = (live::open(image, how).unwrap().0, Stop::new().unwrap());
        let (theirs, asked) = (export.clone(), stop.clone());
        let thread = std::thread::spawn(move || server::serve(&socket, theirs, "disk", &asked).unwrap());
        Server { socket: path, export, stop, thread }
    }

    fn stop(self) -> Ended {
        self.stop.ask();
        let ended = self.thread.join().unwrap();
        assert!(!self.socket.exists());
        self.export.power_off().unwrap();
        ended
    }
}

struct Guest {
    memory: GuestMemoryMmap<()>,
    kick: EventFd,
    /// Requests sent and answered so far.
    sent: u16,
    seen: u16,
    capacity: u64,
    /// Kept open: the device leaves a client that hangs up.
    _front: Frontend,
}

impl Guest {
    fn boot(folder: &Folder, server: &Server) -> Guest {
        let mut front = Frontend::connect(&server.socket, 2).unwrap();
        front.set_owner().unwrap();
        let offered = front.get_features().unwrap();
        for bit in [6, 9, 13, 14, 30, 32] {
            assert!(offered >> bit & 1 == 1, "feature {bit} is not offered");
        }
        let read_only = u64::from(server.export.is_read_only()) << 5;
        assert_eq!(offered & 1 << 5, read_only);
        front.set_features(VERSION_1 | PROTOCOL | FLUSH | 1 << 13 | 1 << 14 | read_only).unwrap();
        let protocol = front.get_protocol_features().unwrap();
        front.set_protocol_features(protocol & VhostUserProtocolFeatures::CONFIG).unwrap();
        let (_, config) = front.get_config(0, 60, VhostUserConfigFlags::WRITABLE, &[0; 60]).unwrap();
        let capacity = u64::from_le_bytes(config[..8].try_into().unwrap());
        assert_eq!(config[34], 2, "two queues");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(folder.0.join("memory"))
            .unwrap();
        file.set_len(MEMORY as u64).unwrap();
        let range = (GuestAddress(0), MEMORY, Some(FileOffset::new(file, 0)));
        let memory = GuestMemoryMmap::<()>::from_ranges_with_files([range]).unwrap();
        let region = memory.iter().next().unwrap();
        front.set_mem_table(&[VhostUserMemoryRegionInfo::from_guest_region(region).unwrap()]).unwrap();
        assert_eq!(region.len(), MEMORY as u64);
        let place = |at| memory.get_host_address(GuestAddress(at)).unwrap() as u64;
        let addresses = VringConfigData {
            queue_max_size: RING,
            queue_size: RING,
            flags: 0,
            desc_table_addr: place(DESCRIPTORS),
            used_ring_addr: place(USED),
            avail_ring_addr: place(AVAILABLE),
            log_addr: None,
        };
        let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
        front.set_vring_num(0, RING).unwrap();
        front.set_vring_addr(0, &addresses).unwrap();
        front.set_vring_base(0, 0).unwrap();
        front.set_vring_call(0, &call).unwrap();
        front.set_vring_kick(0, &kick).unwrap();
        front.set_vring_enable(0, true).unwrap();
        Guest { memory, kick, sent: 0, seen: 0, capacity, _front: front }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn get(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }

    fn describe(&self, index: u64, at: u64, length: usize, flags: u16, next: u16) {
        let mut bytes = at.to_le_bytes().to_vec();
        bytes.extend((length as u32).to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.put(DESCRIPTORS + 16 * index, &bytes);
    }

    /// Puts a request into the ring; `slot` is one that is free.
    fn send(&mut self, slot: u16, kind: u32, sector: u64, data: &[u8], read: usize) {
        let (first, place) = (u64::from(slot) * 3, SLOTS + u64::from(slot) * SLOT);
        self.put(place, &[&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat());
        self.put(place + 0x100, &[0xFF]);
        self.put(place + 0x1000, data);
        let (next, writable) = (1, 2);
        let length = data.len().max(read);
        let after = if length > 0 { 1 } else { 2 };
        self.describe(first, place, 16, next, (first + after) as u16);
        let direction = if read > 0 { writable } else { 0 };
        self.describe(first + 1, place + 0x1000, length, next | direction, first as u16 + 2);
        self.describe(first + 2, place + 0x100, 1, writable, 0);
        let entry = AVAILABLE + 4 + 2 * u64::from(self.sent % RING);
        self.put(entry, &(first as u16).to_le_bytes());
        self.sent += 1;
    }

    /// Announces what was put into the ring, and waits until all of it is answered.
    fn wait(&mut self) {
        self.put(AVAILABLE + 2, &self.sent.to_le_bytes());
        self.kick.write(1).unwrap();
        let begun = Instant::now();
        while self.seen != self.sent {
            let used = self.get(USED + 2, 2);
            self.seen = u16::from_le_bytes([used[0], used[1]]);
            assert!(begun.elapsed() < Duration::from_secs(20), "no answer");
            std::thread::yield_now();
        }
    }

    fn answer(&self, slot: u16, length: usize) -> (u8, Vec<u8>) {
        let place = SLOTS + u64::from(slot) * SLOT;
        (self.get(place + 0x100, 1)[0], self.get(place + 0x1000, length))
    }

    /// One request: its status, and what was read.
    fn ask(&mut self, kind: u32, sector: u64, data: &[u8], read: usize) -> (u8, Vec<u8>) {
        self.send(0, kind, sector, data, read);
        self.wait();
        self.answer(0, read)
    }
}

fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
}

#[test]
fn a_guest_reads_what_it_wrote() {
    let folder = Folder::new("vhost");
    for info in schemes::ALL {
        let image = folder.image(info.name, info.name);
        let server = Server::start(&folder, &image, false);
        let mut guest = Guest::boot(&folder, &server);
        assert_eq!(guest.capacity, EXPORTED / 512);
        // 80 requests at a time, several times over the device.
        for round in 0..20u64 {
            for slot in 0..80u16 {
                let page = (round * 80 + u64::from(slot)) * 7 % 1500;
                guest.send(slot, 1, page * 8, &[(round + 3 * page) as u8; 4096], 0);
            }
            guest.wait();
            for slot in 0..80u16 {
                assert_eq!(guest.answer(slot, 0).0, 0, "{}", info.name);
                let page = (round * 80 + u64::from(slot)) * 7 % 1500;
                guest.send(slot, 0, page * 8, &[], 4096);
            }
            guest.wait();
            for slot in 0..80u16 {
                let page = (round * 80 + u64::from(slot)) * 7 % 1500;
                assert_eq!(
                    guest.answer(slot, 4096),
                    (0, vec![(round + 3 * page) as u8; 4096]),
                    "{}",
                    info.name
                );
            }
        }
        assert_eq!(guest.ask(4, 0, &[], 0).0, 0);
        // Part of a page; the rest stays.
        assert_eq!(guest.ask(1, 80, &[9; 4096], 0).0, 0);
        assert_eq!(guest.ask(1, 83, &[5; 512], 0).0, 0);
        assert_eq!(guest.ask(0, 82, &[], 1536).1, [vec![9; 512], vec![5; 512], vec![9; 512]].concat());
        // Discard, zeros that may be holes, zeros that may not.
        assert_eq!(guest.ask(11, 0, &range(80, 8, 0), 0).0, 0);
        assert_eq!(guest.ask(0, 80, &[], 4096), (0, vec![0; 4096]));
        assert!(!server.export.extents(40960, 4096, 1).unwrap()[0].allocated);
        assert_eq!(guest.ask(1, 80, &[9; 4096], 0).0, 0);
        assert_eq!(guest.ask(13, 0, &range(80, 2, 1), 0).0, 0);
        assert_eq!(guest.ask(0, 80, &[], 2048).1, [vec![0; 1024], vec![9; 1024]].concat());
        assert_eq!(guest.ask(13, 0, &range(80, 8, 0), 0).0, 0);
        assert!(server.export.extents(40960, 4096, 1).unwrap()[0].allocated);
        let (status, name) = guest.ask(8, 0, &[], 20);
        assert_eq!((status, &name[..5]), (0, &b"disk\0"[..]));
        drop(guest);
        // The next machine finds what the last one left.
        let mut guest = Guest::boot(&folder, &server);
        assert_eq!(guest.ask(0, 80, &[], 4096), (0, vec![0; 4096]));
        drop(guest);
        assert_eq!(server.stop(), Ended { clients: 2, panic: None });
        std::fs::remove_file(image).unwrap();
    }
}

#[test]
fn a_guest_that_may_only_read_writes_nothing() {
    let folder = Folder::new("looking");
    let image = folder.image("disk", "tpftl");
    let server = Server::start(&folder, &image, false);
    let mut guest = Guest::boot(&folder, &server);
    assert_eq!(guest.ask(1, 80, &[9; 4096], 0).0, 0);
    drop(guest);
    server.stop();
    let before = std::fs::read(&image).unwrap();
    let server = Server::open(&folder, &image, live::Opening { paced: false, read_only: true });
    let mut guest = Guest::boot(&folder, &server);
    assert_eq!(guest.ask(1, 80, &[1; 4096], 0).0, 1, "a write");
    assert_eq!(guest.ask(11, 0, &range(80, 8, 0), 0).0, 1, "a discard");
    assert_eq!(guest.ask(13, 0, &range(80, 8, 0), 0).0, 1, "zeros");
    assert_eq!(guest.ask(0, 80, &[], 4096), (0, vec![9; 4096]));
    drop(guest);
    server.stop();
    assert!(std::fs::read(&image).unwrap() == before);
}

#[test]
fn nonsense_harms_nobody() {
    let folder = Folder::new("nonsense");
    let server = Server::start(&folder, &folder.image("disk", "page"), false);
    // No message of the protocol.
    let mut stream = UnixStream::connect(&server.socket).unwrap();
    stream.write_all(&[0xFF; 64]).unwrap();
    drop(stream);
    let mut guest = Guest::boot(&folder, &server);
    assert_eq!(guest.ask(1, 8, &[3; 4096], 0).0, 0);
    let end = EXPORTED / 512;
    assert_eq!(guest.ask(0, end, &[], 512).0, 1, "behind the end");
    assert_eq!(guest.ask(1, end - 1, &[1; 1024], 0).0, 1);
    assert_eq!(guest.ask(0, u64::MAX, &[], 512).0, 1);
    assert_eq!(guest.ask(0, 0, &[], 100).0, 1, "no whole sector");
    assert_eq!(guest.ask(77, 0, &[], 0).0, 2, "no such request");
    assert_eq!(guest.ask(11, 0, &range(0, 8, 1), 0).0, 2, "a discard knows no flags");
    assert_eq!(guest.ask(13, 0, &range(0, u32::MAX, 0), 0).0, 1);
    assert_eq!(guest.ask(13, 0, &[range(0, 8, 0), range(8, 8, 0)].concat(), 0).0, 2);
    // Content outside the guest's memory, and a chain that ends in itself.
    guest.send(0, 1, 0, &[1; 512], 0);
    guest.describe(1, 1 << 40, 512, 1, 2);
    guest.wait();
    guest.send(0, 1, 0, &[1; 512], 0);
    guest.describe(1, SLOTS + 0x1000, 512, 1, 1);
    guest.wait();
    assert_eq!(guest.ask(0, 8, &[], 4096), (0, vec![3; 4096]));
    drop(guest);
    assert_eq!(server.stop().panic, None);
}

#[test]
fn a_paced_answer_waits_for_the_model() {
    let folder = Folder::new("paced");
    let image = folder.image_with("disk", "page", |device| device.program_ns = 8_000_000);
    let server = Server::start(&folder, &image, true);
    let mut guest = Guest::boot(&folder, &server);
    let begun = Instant::now();
    for slot in 0..8 {
        guest.send(slot, 1, u64::from(slot) * 8, &[1; 4096], 0);
    }
    guest.wait();
    // Four dies, eight pages.
    assert!(begun.elapsed() >= Duration::from_millis(16), "{:?}", begun.elapsed());
    assert_eq!(guest.ask(4, 0, &[], 0).0, 0);
    drop(guest);
    server.stop();
}
