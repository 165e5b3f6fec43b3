//! The virtio block device (virtio 1.2, section 5.2) that a guest sees.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost::vhost_user::Backend;
use vhost_user_backend::{VhostUserBackend, VringRwLock, VringT};
use virtio_queue::{DescriptorChain, QueueOwnedT};
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{new_event_consumer_and_notifier, EventConsumer, EventFlag, EventNotifier};

use crate::front::{Asked, Front};
use crate::guard::Guard;
use crate::request::{IoError, Op, Request};

/// Queues, each with a thread.
const QUEUES: usize = 2;
const QUEUE_SIZE: usize = 256;
const SECTOR: u64 = 512;
/// Segments of a request: a queue's descriptors less those of its head and its status.
const MOST_SEGMENTS: u32 = QUEUE_SIZE as u32 - 2;
/// Longest read or write.
const MOST_BYTES: usize = 32 << 20;
/// Sectors of one discard or write-zeroes.
const MOST_SECTORS: u32 = 1 << 21;

const FEATURE_SEG_MAX: u64 = 1 << 2;
const FEATURE_RO: u64 = 1 << 5;
const FEATURE_BLK_SIZE: u64 = 1 << 6;
const FEATURE_FLUSH: u64 = 1 << 9;
const FEATURE_TOPOLOGY: u64 = 1 << 10;
const FEATURE_MQ: u64 = 1 << 12;
const FEATURE_DISCARD: u64 = 1 << 13;
const FEATURE_WRITE_ZEROES: u64 = 1 << 14;
const FEATURE_INDIRECT: u64 = 1 << 28;
const FEATURE_EVENT_IDX: u64 = 1 << 29;
const FEATURE_VERSION_1: u64 = 1 << 32;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
/// Of a write-zeroes: the pages may go.
const MAY_UNMAP: u32 = 1;

const STATUS_OK: u8 = 0;
const STATUS_IOERR: u8 = 1;
const STATUS_UNSUPPORTED: u8 = 2;

type Memory = GuestMemoryAtomic<GuestMemoryMmap<()>>;
type Chain = DescriptorChain<Arc<GuestMemoryMmap<()>>>;
type Vring = VringRwLock<Memory>;

/// What a guest may hold of the device.
pub(super) struct Disk {
    front: Arc<Front>,
    name: String,
    memory: Mutex<Option<Memory>>,
    /// The way back to the client. Nothing is sent, but some need it to be kept open.
    back: Mutex<Option<Backend>>,
    /// Requests under way.
    under_way: Arc<(Mutex<usize>, Condvar)>,
    guard: Arc<Guard>,
    /// The client has left: its rings are not looked at any more.
    gone: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a request asks for.
enum Wish {
    Io(Request),
    /// The device's name.
    Id,
    /// Answered with this status at once.
    Refused(u8),
}

impl Disk {
    pub fn new(front: Arc<Front>, name: &str, guard: Arc<Guard>) -> Disk {
        Disk {
            front,
            name: name.to_owned(),
            memory: Mutex::new(None),
            back: Mutex::new(None),
            under_way: Arc::default(),
            guard,
            gone: AtomicBool::new(false),
        }
    }

    /// The client has left. Whoever still holds the guest's memory could have requests for ever.
    pub fn leave(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// `struct virtio_blk_config`.
    fn config(&self) -> Vec<u8> {
        let page_sectors = u64::from(self.front.export().page_bytes()) / SECTOR;
        let mut config = vec![0; 60];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.front.export().exported_bytes() / SECTOR).to_le_bytes());
        put(12, &MOST_SEGMENTS.to_le_bytes());
        put(20, &(SECTOR as u32).to_le_bytes());
        // A page of flash, as a power of two of sectors; the least and the best size of a request.
        put(24, &[page_sectors.ilog2() as u8, 0]);
        put(26, &(page_sectors as u16).to_le_bytes());
        put(28, &(page_sectors as u32).to_le_bytes());
        // A write cache that a flush empties.
        put(32, &[1]);
        put(34, &(QUEUES as u16).to_le_bytes());
        for (sectors, segments) in [(36, 40), (48, 52)] {
            put(sectors, &MOST_SECTORS.to_le_bytes());
            put(segments, &1u32.to_le_bytes());
        }
        put(44, &(page_sectors as u32).to_le_bytes());
        put(56, &[1]);
        config
    }

    /// Takes every request that is in a ring, as one batch.
    fn take(&self, vring: &Vring, memory: &Arc<GuestMemoryMmap<()>>) -> io::Result<bool> {
        let chains: Vec<Chain> = {
            let mut state = vring.get_mut();
            let found = state.get_queue_mut().iter(memory.clone()).map_err(io::Error::other)?;
            found.collect()
        };
        let mut asked = Vec::with_capacity(chains.len());
        let any = !chains.is_empty();
        for chain in chains {
            let wish = wish(&chain, memory).unwrap_or(Wish::Refused(STATUS_IOERR));
            *lock(&self.under_way.0) += 1;
            let mut answer = Answering {
                given: false,
                vring: vring.clone(),
                chain,
                memory: memory.clone(),
                under_way: self.under_way.clone(),
            };
            match wish {
                Wish::Refused(status) => answer.give(&[], status),
                Wish::Id => {
                    let mut id = [0; 20];
                    let name = self.name.as_bytes();
                    let length = name.len().min(id.len());
                    id[..length].copy_from_slice(&name[..length]);
                    answer.give(&id, STATUS_OK);
                }
                Wish::Io(request) => {
                    let reply = Box::new(move |outcome: Result<&[u8], IoError>| match outcome {
                        Ok(bytes) => answer.give(bytes, STATUS_OK),
                        Err(_) => answer.give(&[], STATUS_IOERR),
                    });
                    asked.push(Asked { request, reply });
                }
            }
        }
        if !asked.is_empty() {
            self.guard.run(|| self.front.carry_out(asked));
        }
        Ok(any)
    }
}

/// What a chain of descriptors asks for; `Err` when it is no request.
fn wish(chain: &Chain, memory: &GuestMemoryMmap<()>) -> io::Result<Wish> {
    let mut reader = chain.clone().reader(memory).map_err(io::Error::other)?;
    let writable = chain.clone().writer(memory).map_err(io::Error::other)?.available_bytes();
    let mut head = [0; 16];
    reader.read_exact(&mut head)?;
    let number = |at: usize, bytes: usize| {
        head[at..at + bytes].iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let (kind, sector) = (number(0, 4) as u32, number(8, 8));
    let sent = reader.available_bytes();
    // The last byte is for the status.
    let length = if kind == READ { writable.saturating_sub(1) } else { sent };
    let Some(offset) = sector.checked_mul(SECTOR) else { return Ok(Wish::Refused(STATUS_IOERR)) };
    if writable == 0 || length > MOST_BYTES {
        return Ok(Wish::Refused(STATUS_IOERR));
    }
    let request = |op, offset, length, data| Request { op, offset, length, fua: false, data };
    Ok(match kind {
        READ | WRITE if length % SECTOR as usize != 0 => Wish::Refused(STATUS_IOERR),
        READ => Wish::Io(request(Op::Read, offset, length as u32, Bytes::new())),
        WRITE => {
            let mut data = vec![0; length];
            reader.read_exact(&mut data)?;
            Wish::Io(request(Op::Write, offset, length as u32, data.into()))
        }
        FLUSH => Wish::Io(request(Op::Flush, 0, 0, Bytes::new())),
        GET_ID => Wish::Id,
        DISCARD | WRITE_ZEROES => {
            let mut segment = [0; 16];
            reader.read_exact(&mut segment)?;
            if reader.available_bytes() > 0 {
                // More than the one segment that is offered.
                return Ok(Wish::Refused(STATUS_UNSUPPORTED));
            }
            let number = |at: usize, bytes: usize| {
                segment[at..at + bytes].iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte))
            };
            let (sector, sectors, flags) = (number(0, 8), number(8, 4) as u32, number(12, 4) as u32);
            let known = if kind == WRITE_ZEROES { MAY_UNMAP } else { 0 };
            if flags & !known != 0 {
                return Ok(Wish::Refused(STATUS_UNSUPPORTED));
            }
            let Some(offset) = sector.checked_mul(SECTOR).filter(|_| sectors <= MOST_SECTORS) else {
                return Ok(Wish::Refused(STATUS_IOERR));
            };
            let op = match kind {
                DISCARD => Op::Trim,
                _ => Op::WriteZeroes { allocate: flags & MAY_UNMAP == 0 },
            };
            Wish::Io(request(op, offset, sectors * SECTOR as u32, Bytes::new()))
        }
        _ => Wish::Refused(STATUS_UNSUPPORTED),
    })
}

/// A request that is to be answered. Dropped without an answer, it failed.
struct Answering {
    given: bool,
    vring: Vring,
    chain: Chain,
    memory: Arc<GuestMemoryMmap<()>>,
    under_way: Arc<(Mutex<usize>, Condvar)>,
}

impl Answering {
    /// Writes the bytes and the status behind them, and tells the guest.
    fn give(&mut self, bytes: &[u8], status: u8) {
        self.given = true;
        let written =
            self.chain.clone().writer(&self.memory).map_err(io::Error::other).and_then(|mut writer| {
                // The status is the last byte, wherever the content ends.
                let room = writer.available_bytes().saturating_sub(1);
                let mut last = writer.split_at(room).map_err(io::Error::other)?;
                writer.write_all(&bytes[..bytes.len().min(room)])?;
                last.write_all(&[status])?;
                Ok(bytes.len().min(room) as u32 + 1)
            });
        // A guest that gives addresses outside its memory hears nothing of them.
        let told = self.vring.add_used(self.chain.head_index(), written.unwrap_or(0));
        if told.is_ok() && self.vring.needs_notification().unwrap_or(true) {
            // A client that has left does not hear of it.
            let _ = self.vring.signal_used_queue();
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.given {
            self.give(&[], STATUS_IOERR);
        }
        let (count, none) = &*self.under_way;
        let mut count = lock(count);
        *count -= 1;
        if *count == 0 {
            none.notify_all();
        }
    }
}

impl VhostUserBackend for Disk {
    type Bitmap = ();
    type Vring = Vring;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        let read_only = if self.front.export().is_read_only() { FEATURE_RO } else { 0 };
        FEATURE_SEG_MAX
            | read_only
            | FEATURE_BLK_SIZE
            | FEATURE_FLUSH
            | FEATURE_TOPOLOGY
            | FEATURE_MQ
            | FEATURE_DISCARD
            | FEATURE_WRITE_ZEROES
            | FEATURE_INDIRECT
            | FEATURE_EVENT_IDX
            | FEATURE_VERSION_1
            | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            // Linux' own client does not start without it.
            | VhostUserProtocolFeatures::BACKEND_REQ
    }

    /// The rings know it themselves.
    fn set_event_idx(&self, _: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let mut config = self.config();
        config.resize(config.len().max(offset as usize + size as usize), 0);
        config[offset as usize..][..size as usize].to_vec()
    }

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        *lock(&self.memory) = Some(memory);
        Ok(())
    }

    fn set_backend_req_fd(&self, back: Backend) {
        *lock(&self.back) = Some(back);
    }

    fn queues_per_thread(&self) -> Vec<u64> {
        (0..QUEUES).map(|queue| 1 << queue).collect()
    }

    fn exit_event(&self, _: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC).ok()
    }

    fn stop_vring(&self, _: u32) -> io::Result<()> {
        let (count, none) = &*self.under_way;
        let mut count = lock(count);
        while *count > 0 {
            count = none.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn handle_event(&self, event: u16, _: EventSet, vrings: &[Vring], _: usize) -> io::Result<()> {
        let Some(memory) = lock(&self.memory).as_ref().map(|memory| memory.memory().into_inner()) else {
            return Ok(());
        };
        let Some(vring) = vrings.get(usize::from(event)) else { return Ok(()) };
        loop {
            vring.disable_notification().map_err(io::Error::other)?;
            while self.take(vring, &memory)? {
                if self.gone.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            // What came in between is not announced.
            let more = vring.enable_notification().map_err(io::Error::other)?;
            if !more || self.gone.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
}
