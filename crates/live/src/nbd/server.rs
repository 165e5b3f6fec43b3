//! Accepting clients, and stopping in good order.

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags};

use super::budget::Budget;
use super::handshake::{negotiate, Offer};
use super::link::Link;
use super::transmit::transmit;
use crate::error::LiveError;
use crate::export::{Export, Served};
use crate::front::Front;
use crate::guard::{Ended, Guard};
use crate::keeper::Keeper;
use crate::listen::{Listeners, Stream};
use crate::stop::Stop;

/// Longest handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most clients at a time.
const MOST_CLIENTS: usize = 256;
/// When all places are taken, a client that has been still for so long gives its own to a new one.
const IDLE: Duration = Duration::from_secs(5);
/// How long clients have to take their replies when the server stops.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Clients {
    links: BTreeMap<u64, Arc<Link>>,
    served: u64,
}

impl Clients {
    /// Makes the client that has been still for longest leave, if that is long; says whether one did.
    fn evict_idle(&mut self) -> bool {
        let longest = self.links.iter().max_by_key(|(_, link)| link.still());
        let Some((&number, link)) = longest.filter(|(_, link)| link.still() >= IDLE) else { return false };
        link.hang_up();
        // Its place is free at once; its thread finds out on its own.
        self.links.remove(&number);
        true
    }
}

/// What all threads of a server share.
struct Shared {
    fronts: Vec<Arc<Front>>,
    offers: Vec<Offer>,
    budget: Arc<Budget>,
    clients: Mutex<Clients>,
    fewer: Condvar,
    guard: Arc<Guard>,
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no client is left, or until `end`.
    fn wait(&self, end: Instant) {
        let mut clients = self.clients();
        while !clients.links.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.fewer.wait_timeout(clients, left);
            clients = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn client(&self, number: u64, link: &Arc<Link>) {
        self.guard.run(|| talk(&self.fronts, &self.offers, link, &self.budget));
        link.stream().shutdown(Shutdown::Both);
        self.clients().links.remove(&number);
        self.fewer.notify_all();
    }
}

fn talk(fronts: &[Arc<Front>], offers: &[Offer], link: &Arc<Link>, budget: &Arc<Budget>) {
    let agreed = link.stream().set_patience(Some(PATIENCE)).and_then(|()| {
        let agreed = negotiate(link.stream(), offers)?;
        link.stream().set_patience(None)?;
        Ok(agreed)
    });
    // A client that fails in its handshake is left; it has been told why where the protocol lets it be told.
    if let Ok(Some(agreed)) = agreed {
        transmit(&fronts[agreed.export], link, &agreed, budget);
    }
}

/// Serves one client over a connection that is there already, until it leaves, in the caller's thread. For
/// whoever looks for what a client can do.
#[doc(hidden)]
pub fn attend(stream: UnixStream, served: &Served) {
    let link = Arc::new(Link::new(Stream::Unix(stream)));
    talk(&[Front::new(served.export.clone())], &[offer(served)], &link, &Arc::default());
    link.hang_up();
}

fn offer(served: &Served) -> Offer {
    Offer {
        name: served.name.clone(),
        description: served.description.clone(),
        size: served.export.exported_bytes(),
        page_bytes: served.export.page_bytes(),
        read_only: served.export.is_read_only(),
    }
}

/// Serves `served` on `listeners` until `stop` is asked for. Requests under way are carried out and answered.
/// The devices stay switched on.
pub fn serve(listeners: &Listeners, served: Vec<Served>, stop: &Stop) -> Result<Ended, LiveError> {
    let exports: Vec<Arc<dyn Export>> = served.iter().map(|served| served.export.clone()).collect();
    let shared = Arc::new(Shared {
        fronts: exports.iter().cloned().map(Front::new).collect(),
        offers: served.iter().map(offer).collect(),
        budget: Arc::default(),
        clients: Mutex::new(Clients::default()),
        fewer: Condvar::new(),
        guard: Guard::new(exports, stop),
    });
    let keeper = Keeper::start(&shared.fronts, &shared.guard)?;
    let accepted = accept(listeners, &shared, stop);
    for link in shared.clients().links.values() {
        link.stream().shutdown(Shutdown::Read);
    }
    shared.wait(Instant::now() + GRACE);
    for link in shared.clients().links.values() {
        link.stream().shutdown(Shutdown::Both);
    }
    shared.wait(Instant::now() + GRACE);
    keeper.stop();
    accepted?;
    let clients = shared.clients().served;
    Ok(Ended { clients, panic: shared.guard.panic() })
}

fn accept(listeners: &Listeners, shared: &Arc<Shared>, stop: &Stop) -> Result<(), LiveError> {
    loop {
        let mut waiting: Vec<PollFd<'_>> =
            listeners.all.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        waiting.push(PollFd::new(stop, PollFlags::IN));
        match poll(&mut waiting, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(LiveError::host("waiting for clients failed")(error)),
        }
        if waiting.last().is_some_and(|stop| !stop.revents().is_empty()) {
            return Ok(());
        }
        let before = shared.clients().served;
        for listener in &listeners.all {
            while let Some(stream) = listener.accept() {
                admit(shared, stream);
            }
        }
        if shared.clients().served == before {
            // Too many files are open: those that end meanwhile make room.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn admit(shared: &Arc<Shared>, stream: Stream) {
    let link = Arc::new(Link::new(stream));
    let number = {
        let mut clients = shared.clients();
        if clients.links.len() >= MOST_CLIENTS && !clients.evict_idle() {
            return;
        }
        clients.served += 1;
        let number = clients.served;
        clients.links.insert(number, link.clone());
        number
    };
    let threads = shared.clone();
    let started = std::thread::Builder::new()
        .name(format!("client {number}"))
        .spawn(move || threads.client(number, &link));
    if started.is_err() {
        shared.clients().links.remove(&number);
    }
}
