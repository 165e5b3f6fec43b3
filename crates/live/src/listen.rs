//! Sockets: unix, TCP, or given by whoever started this process (socket activation).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::error::LiveError;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// A text that is no [`Address`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address; write HOST:PORT such as 127.0.0.1:10809, or the path of a unix socket")]
pub struct AddressError(pub String);

impl FromStr for Address {
    type Err = AddressError;

    /// `HOST:PORT` for TCP; anything with a slash, or after `unix:`, is a path.
    fn from_str(text: &str) -> Result<Address, AddressError> {
        let path = text.strip_prefix("unix:").or_else(|| text.contains('/').then_some(text));
        if let Some(path) = path {
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        found.map(Address::Tcp).ok_or_else(|| AddressError(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "{}", path.display()),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Over a unix socket.
    Unix(UnixStream),
    /// Over TCP.
    Tcp(TcpStream),
}

impl Stream {
    /// Ends one or both directions, for every thread that uses the stream.
    pub fn shutdown(&self, how: Shutdown) {
        // A peer that left first has done it already.
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tcp(stream) => stream.shutdown(how),
        };
    }

    /// Longest wait for a byte; `None` waits for ever.
    pub fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_read_timeout(patience),
            Stream::Tcp(stream) => stream.set_read_timeout(patience),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(bytes),
            Stream::Tcp(stream) => (&mut &*stream).read(bytes),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// A connection that waits, if there is one.
    pub fn accept(&self) -> Option<Stream> {
        match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(false).ok()?;
                Some(Stream::Unix(stream))
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true)).ok()?;
                Some(Stream::Tcp(stream))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Sockets that are listened on. Unix sockets made here are removed when this is dropped.
#[derive(Debug, Default)]
pub struct Listeners {
    pub(crate) all: Vec<Listener>,
    addresses: Vec<Address>,
}

impl Listeners {
    /// The sockets that whoever started this process has opened for it; `None` without any.
    pub fn activated() -> Result<Option<Listeners>, LiveError> {
        let mut given = listenfd::ListenFd::from_env();
        let mut listeners = Listeners::default();
        for index in 0..given.len() {
            let wrong =
                LiveError::host::<io::Error>(format!("socket {index} of LISTEN_FDS is no listening socket"));
            let listener = match given.take_unix_listener(index) {
                Ok(Some(listener)) => Listener::Unix(listener),
                _ => match given.take_tcp_listener(index).map_err(&wrong)? {
                    Some(listener) => Listener::Tcp(listener),
                    None => continue,
                },
            };
            listeners.add(listener).map_err(wrong)?;
        }
        Ok((!listeners.all.is_empty()).then_some(listeners))
    }

    /// Opens sockets at `addresses`.
    pub fn bind(addresses: &[Address]) -> Result<Listeners, LiveError> {
        let mut listeners = Listeners::default();
        for address in addresses {
            let wrong = LiveError::host::<io::Error>(format!("cannot listen on {address}"));
            match address {
                Address::Unix(path) => {
                    make_way(path)?;
                    let listener = UnixListener::bind(path).map_err(&wrong)?;
                    listeners.addresses.push(address.clone());
                    listeners.add(Listener::Unix(listener)).map_err(wrong)?;
                }
                Address::Tcp(at) => {
                    let listener = TcpListener::bind(at).map_err(&wrong)?;
                    let at = listener.local_addr().map_err(&wrong)?;
                    listeners.addresses.push(Address::Tcp(at));
                    listeners.add(Listener::Tcp(listener)).map_err(wrong)?;
                }
            }
        }
        Ok(listeners)
    }

    fn add(&mut self, listener: Listener) -> io::Result<()> {
        match &listener {
            Listener::Unix(listener) => listener.set_nonblocking(true)?,
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        self.all.push(listener);
        Ok(())
    }

    /// Where is listened on; nothing for sockets that were given.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        for address in &self.addresses {
            if let Address::Unix(path) = address {
                // Somebody may have removed it before us.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Removes a socket that a server which died has left; refuses everything else that is there.
fn make_way(path: &Path) -> Result<(), LiveError> {
    let name = path.display();
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(LiveError::Refused(format!(
            "{name}: there is a file that is no socket; choose another path"
        )));
    }
    if UnixStream::connect(path).is_ok() {
        return Err(LiveError::Refused(format!(
            "{name}: another server listens on this socket; stop it, or choose another path"
        )));
    }
    std::fs::remove_file(path).map_err(LiveError::host(format!("{name}: the old socket cannot be removed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths_or_ports() {
        assert_eq!("/tmp/x".parse(), Ok(Address::Unix("/tmp/x".into())));
        assert_eq!("unix:x".parse(), Ok(Address::Unix("x".into())));
        assert_eq!("127.0.0.1:7".parse(), Ok(Address::Tcp(([127, 0, 0, 1], 7).into())));
        assert!("nonsense".parse::<Address>().is_err_and(|error| error.to_string().contains("HOST:PORT")));
    }

    #[test]
    fn an_old_socket_gives_way_and_a_file_does_not() {
        let path = std::env::temp_dir().join(format!("ftl-live-{}-socket", std::process::id()));
        let address = [Address::Unix(path.clone())];
        drop(UnixListener::bind(&path).unwrap());
        let listeners = Listeners::bind(&address).unwrap();
        assert!(Listeners::bind(&address).is_err_and(|error| error.to_string().contains("another server")));
        drop(listeners);
        assert!(!path.exists());
        std::fs::write(&path, "").unwrap();
        assert!(Listeners::bind(&address).is_err_and(|error| error.to_string().contains("no socket")));
        std::fs::remove_file(&path).unwrap();
    }
}
