//! Accepting clients, and stopping in good order.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags};

use super::handshake::{negotiate, Offer};
use super::transmit::Link;
use crate::export::{Export, LiveError};
use crate::keeper::{panic_text, Keeper, Stop};
use crate::listen::{Listeners, Stream};

/// Longest handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most clients at a time.
const MOST_CLIENTS: usize = 256;
/// How long clients have to take their replies when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// An export with its name.
#[derive(Clone)]
pub struct Served {
    /// Its name for clients.
    pub name: String,
    /// What it is, in one line.
    pub description: String,
    /// The device.
    pub export: Arc<dyn Export>,
}

/// How a server ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Clients that were served.
    pub clients: u64,
    /// What went wrong within, if anything did: a bug.
    pub panic: Option<String>,
}

#[derive(Default)]
struct Clients {
    links: BTreeMap<u64, Arc<Link>>,
    served: u64,
    panic: Option<String>,
}

/// What all threads of a server share.
struct Shared {
    served: Vec<Served>,
    offers: Vec<Offer>,
    clients: Mutex<Clients>,
    fewer: Condvar,
    stop: Stop,
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
        let served = catch_unwind(AssertUnwindSafe(|| self.talk(link)));
        link.stream().shutdown(Shutdown::Both);
        let mut clients = self.clients();
        clients.links.remove(&number);
        if let Err(panic) = served {
            clients.panic.get_or_insert_with(|| panic_text(panic.as_ref()));
            self.stop.ask();
        }
        self.fewer.notify_all();
    }

    fn talk(&self, link: &Arc<Link>) {
        let agreed = link.stream().set_patience(Some(PATIENCE)).and_then(|()| {
            let agreed = negotiate(link.stream(), &self.offers)?;
            link.stream().set_patience(None)?;
            Ok(agreed)
        });
        // A client that fails in its handshake is left; it has been told why where the protocol lets it be told.
        if let Ok(Some(agreed)) = agreed {
            self.served[agreed.export].export.transmit(link, &agreed);
        }
    }
}

/// Serves `served` on `listeners` until `stop` is asked for. Requests under way are carried out and answered. The devices
/// stay switched on.
pub fn serve(listeners: &Listeners, served: Vec<Served>, stop: &Stop) -> Result<Ended, LiveError> {
    let offer = |served: &Served| Offer {
        name: served.name.clone(),
        description: served.description.clone(),
        size: served.export.exported_bytes(),
        page_bytes: served.export.page_bytes(),
    };
    let offers = served.iter().map(offer).collect();
    let shared = Arc::new(Shared {
        served,
        offers,
        clients: Mutex::new(Clients::default()),
        fewer: Condvar::new(),
        stop: stop.clone(),
    });
    let keeper = Keeper::start(shared.served.iter().map(|served| served.export.clone()).collect(), stop)?;
    let accepted = accept(listeners, &shared, stop);
    for link in shared.clients().links.values() {
        link.stream().shutdown(Shutdown::Read);
    }
    shared.wait(Instant::now() + GRACE);
    for link in shared.clients().links.values() {
        link.stream().shutdown(Shutdown::Both);
    }
    shared.wait(Instant::now() + GRACE);
    let tended = keeper.stop();
    accepted.map_err(|error| LiveError(format!("waiting for clients failed ({error})")))?;
    let clients = shared.clients();
    let panic = clients.panic.clone().or(tended);
    Ok(Ended { clients: clients.served, panic })
}

fn accept(listeners: &Listeners, shared: &Arc<Shared>, stop: &Stop) -> io::Result<()> {
    loop {
        let mut waiting: Vec<PollFd<'_>> =
            listeners.all.iter().map(|listener| PollFd::new(listener, PollFlags::IN)).collect();
        waiting.push(PollFd::new(stop, PollFlags::IN));
        match poll(&mut waiting, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if waiting.last().is_some_and(|stop| !stop.revents().is_empty()) {
            return Ok(());
        }
        for listener in &listeners.all {
            while let Some(stream) = listener.accept() {
                admit(shared, stream);
            }
        }
    }
}

fn admit(shared: &Arc<Shared>, stream: Stream) {
    let link = Arc::new(Link::new(stream));
    let number = {
        let mut clients = shared.clients();
        if clients.links.len() >= MOST_CLIENTS {
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
