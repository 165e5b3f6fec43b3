//! A virtio block device for user-mode-linux, QEMU and cloud-hypervisor: vhost-user, over a unix socket.
//!
//! | file | what |
//! | --- | --- |
//! | `disk.rs` | the device: features, configuration, requests |
//! | `relay.rs` | messages on their way to the `vhost` crate |
//!
//! Requests and answers lie in the guest's memory; the socket carries set-up only. One client at a time; the
//! next one may come when it has left.

mod disk;
mod relay;

use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags};
use vhost::vhost_user::Listener;
use vhost_user_backend::{VhostUserBackend, VhostUserDaemon, VringRwLock, VringT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;

use crate::error::LiveError;
use crate::export::Export;
use crate::front::Front;
use crate::guard::{Ended, Guard};
use crate::keeper::Keeper;
use crate::listen::{Address, Listeners, Stream};
use crate::stop::Stop;
use disk::Disk;

/// A socket that clients connect to.
#[derive(Debug)]
pub struct Socket(Listeners);

impl Socket {
    /// Opens it; it is removed when this is dropped.
    pub fn bind(path: &Path) -> Result<Socket, LiveError> {
        Listeners::bind(&[Address::Unix(path.to_owned())]).map(Socket)
    }
}

/// Serves clients, one after the other, until `stop` is asked for. The device stays switched on.
pub fn serve(socket: &Socket, export: Arc<dyn Export>, name: &str, stop: &Stop) -> Result<Ended, LiveError> {
    let (front, guard) = (Front::new(export.clone()), Guard::new(vec![export], stop));
    let keeper = Keeper::start(std::slice::from_ref(&front), &guard)?;
    let mut clients = 0;
    let served = loop {
        match next(socket, stop) {
            Ok(None) => break Ok(()),
            Ok(Some(stream)) => {
                clients += 1;
                let disk = Arc::new(Disk::new(front.clone(), name, guard.clone()));
                if let Err(error) = client(stream, disk, stop) {
                    break Err(error);
                }
            }
            Err(error) => break Err(LiveError::host("waiting for clients failed")(error)),
        }
    };
    keeper.stop();
    served?;
    Ok(Ended { clients, panic: guard.panic() })
}

/// The next client, or `None` when asked to stop.
fn next(socket: &Socket, stop: &Stop) -> std::io::Result<Option<UnixStream>> {
    loop {
        let listener = &socket.0.all[0];
        let mut waiting = [PollFd::new(listener, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match poll(&mut waiting, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !waiting[1].revents().is_empty() {
            return Ok(None);
        }
        if let Some(Stream::Unix(stream)) = listener.accept() {
            return Ok(Some(stream));
        }
    }
}

/// Serves one client until it leaves, speaks nonsense, or `stop` is asked for.
fn client(stream: UnixStream, disk: Arc<Disk>, stop: &Stop) -> Result<(), LiveError> {
    /// Tells the private sockets of one process apart.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let wrong = LiveError::host::<std::io::Error>("a client cannot be served");
    let broken = |error: vhost_user_backend::Error| wrong(std::io::Error::other(error.to_string()));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("ftl-vhost-{}-{number}", std::process::id());
    let private = SocketAddr::from_abstract_name(name).map_err(&wrong)?;
    let listener = UnixListener::bind_addr(&private).map_err(&wrong)?;
    let inner = UnixStream::connect_addr(&private).map_err(&wrong)?;
    let memory = GuestMemoryAtomic::new(GuestMemoryMmap::<()>::new());
    let mut daemon = VhostUserDaemon::new("vhost".to_owned(), disk.clone(), memory).map_err(&broken)?;
    daemon.start(&mut Listener::from(listener)).map_err(&broken)?;
    let gone = Stop::new()?;
    std::thread::scope(|scope| {
        scope.spawn(|| relay::relay(&stream, &inner));
        scope.spawn(|| {
            relay::relay(&inner, &stream);
            gone.ask();
        });
        let mut waiting = [PollFd::new(&gone, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        // Woken too early, it is over for this client; nothing that was acknowledged is lost.
        let _ = poll(&mut waiting, None);
        disk.leave();
        // Ends both relays, and with them the daemon. Either may be closed already.
        let _ = (stream.shutdown(Shutdown::Both), inner.shutdown(Shutdown::Both));
    });
    // A client that speaks nonsense is left: there is nobody to tell.
    let _ = daemon.wait();
    Ok(())
}

/// A guest's ring, and where its parts lie in the guest's memory.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Descriptors.
    pub size: u16,
    /// Where descriptors, requests and answers lie.
    pub at: [u64; 3],
    /// The guest says after which answer it wants to be told.
    pub event_idx: bool,
}

/// Hands a device the memory of a guest whose ring has requests, until all are answered, or `patience` is
/// over and the guest leaves. For whoever looks for what a guest can do.
///
/// # Errors
/// The ring is not one, or the device panicked.
#[doc(hidden)]
pub fn attend(export: Arc<dyn Export>, memory: &[u8], ring: Ring, patience: Duration) -> std::io::Result<()> {
    use std::io::Error;
    let stop = Stop::new().map_err(Error::other)?;
    let guard = Guard::new(vec![export.clone()], &stop);
    let disk = Disk::new(Front::new(export), "disk", guard.clone());
    let begin = GuestAddress(0);
    let guest = GuestMemoryMmap::<()>::from_ranges(&[(begin, memory.len())]).map_err(Error::other)?;
    guest.write_slice(memory, begin).map_err(Error::other)?;
    let guest = GuestMemoryAtomic::new(guest);
    disk.update_memory(guest.clone())?;
    let vring = VringRwLock::new(guest, disk.max_queue_size() as u16).map_err(Error::other)?;
    vring.set_queue_size(ring.size);
    let told = vring.set_queue_info(ring.at[0], ring.at[1], ring.at[2]);
    told.map_err(|error| Error::new(std::io::ErrorKind::InvalidInput, error))?;
    vring.set_queue_event_idx(ring.event_idx);
    vring.set_queue_ready(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stop.wait(Some(patience));
            disk.leave();
        });
        // A ring that is none is the guest's own affair.
        let _ = disk.handle_event(0, EventSet::IN, &[vring], 0);
        stop.ask();
    });
    guard.panic().map_or(Ok(()), |words| Err(Error::other(words)))
}
