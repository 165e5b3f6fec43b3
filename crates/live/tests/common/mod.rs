//! An NBD client of our own: as careless as a test needs it.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use live::nbd::serve;
use live::{Address, Ended, Listeners, Served, Settings, Stop};
use nand::{DeviceSpec, Geometry};

pub const EXPORTED: u64 = 1500 * 4096;

/// A folder of this test's own, removed when it ends.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ftl-live-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// A small image for a scheme.
    pub fn image(&self, name: &str, scheme: &str) -> PathBuf {
        self.image_with(name, scheme, |_| {})
    }

    /// The same of a changed device.
    pub fn image_with(&self, name: &str, scheme: &str, change: impl Fn(&mut DeviceSpec)) -> PathBuf {
        let geometry = Geometry {
            channels: 2,
            luns_per_channel: 2,
            planes_per_lun: 1,
            blocks_per_plane: 48,
            pages_per_block: 16,
            page_bytes: 4096,
            oob_bytes: 64,
        };
        let path = self.0.join(name);
        let mut device = DeviceSpec::tiny(geometry, 1500);
        change(&mut device);
        // As little memory for mapping as the scheme agrees to.
        let mut cache = 16 << 10;
        while let Err(error) = live::create(&path, &device, &Settings::new(scheme, cache)) {
            assert!(cache < 16 << 20, "{error}");
            cache *= 2;
        }
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server of some images in this process.
pub struct Server {
    pub socket: PathBuf,
    pub served: Vec<Served>,
    stop: Stop,
    thread: Option<JoinHandle<Ended>>,
}

impl Server {
    pub fn start(folder: &Folder, images: &[PathBuf]) -> Server {
        Server::start_as(folder, images, false)
    }

    /// Starts it, paced or not.
    pub fn start_as(folder: &Folder, images: &[PathBuf], paced: bool) -> Server {
        let open = |image: &PathBuf| Served {
            name: image.file_name().unwrap().to_string_lossy().into_owned(),
            description: "for a test".to_owned(),
            export: live::open(image, live::Opening { paced, read_only: false }).unwrap().0,
        };
        Server::of(folder, images.iter().map(open).collect())
    }

    /// Serves devices that are open.
    pub fn of(folder: &Folder, served: Vec<Served>) -> Server {
        let socket = folder.0.join("socket");
        let listeners = Listeners::bind(&[Address::Unix(socket.clone())]).unwrap();
        let stop = Stop::new().unwrap();
        let (theirs, asked) = (served.clone(), stop.clone());
        let thread = std::thread::spawn(move || serve(&listeners, theirs, &asked).unwrap());
        Server { socket, served, stop, thread: Some(thread) }
    }

    /// Stops it in good order and switches the devices off.
    pub fn stop(mut self) -> Ended {
        let ended = self.end();
        self.served.iter().for_each(|served| served.export.power_off().unwrap());
        ended
    }

    /// Stops it in good order and leaves the devices on.
    pub fn end(&mut self) -> Ended {
        self.stop.ask();
        self.wait()
    }

    /// Waits until it stops.
    pub fn wait(&mut self) -> Ended {
        self.thread.take().unwrap().join().unwrap()
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.ask();
    }
}

/// A reply of the transmission: error, and chunks `(type, payload)` if it was structured.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub chunks: Vec<(u16, Vec<u8>)>,
}

pub struct Client {
    pub stream: UnixStream,
}

impl Client {
    pub fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = Client { stream };
        let hello = client.take(18);
        assert_eq!(&hello[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(hello[16..], [0, 3]);
        client.put(&3u32.to_be_bytes());
        client
    }

    /// A client that has chosen an export, with structured replies and `base:allocation`, or neither.
    pub fn ready(server: &Server, export: &str, structured: bool) -> Client {
        let mut client = server.client();
        if structured {
            assert_eq!(client.option(8, &[]), [(1, Vec::new())]);
            let found = client.option(10, &meta(export, &["base:allocation"]));
            assert_eq!(found.last().unwrap().0, 1);
        }
        let answers = client.option(7, &go(export));
        assert_eq!(answers.last().unwrap().0, 1, "{answers:?}");
        client
    }

    pub fn put(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// Whether the server has hung up.
    pub fn is_left(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0) | Err(_))
    }

    pub fn put_option(&mut self, option: u32, data: &[u8]) {
        self.put(b"IHAVEOPT");
        self.put(&option.to_be_bytes());
        self.put(&(data.len() as u32).to_be_bytes());
        self.put(data);
    }

    /// Asks for an option and takes its replies: type and data, up to the last.
    pub fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.put_option(option, data);
        self.option_replies(option)
    }

    pub fn option_replies(&mut self, option: u32) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            assert_eq!(self.number(8), 0x0003_e889_0455_65a9);
            assert_eq!(self.number(4), u64::from(option));
            let (kind, length) = (self.number(4) as u32, self.number(4) as usize);
            replies.push((kind, self.take(length)));
            if kind == 1 || kind >> 31 == 1 {
                return replies;
            }
        }
    }

    pub fn send(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, length: u32, data: &[u8]) {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.put(&bytes);
    }

    /// The next reply. `plain` is the length of a simple reply's payload.
    pub fn reply(&mut self, plain: usize) -> Reply {
        match self.number(4) {
            0x6744_6698 => {
                let (error, cookie) = (self.number(4) as u32, self.number(8));
                let payload = if error == 0 && plain > 0 { self.take(plain) } else { Vec::new() };
                let chunks = if payload.is_empty() { Vec::new() } else { vec![(0, payload)] };
                Reply { cookie, error, chunks }
            }
            0x668e_33ef => {
                let mut reply = Reply { cookie: 0, error: 0, chunks: Vec::new() };
                loop {
                    let (flags, kind) = (self.number(2), self.number(2) as u16);
                    reply.cookie = self.number(8);
                    let length = self.number(4) as usize;
                    let payload = self.take(length);
                    if kind >> 15 == 1 {
                        reply.error = u32::from_be_bytes(payload[..4].try_into().unwrap());
                    }
                    reply.chunks.push((kind, payload));
                    if flags & 1 == 1 {
                        return reply;
                    }
                    assert_eq!(self.number(4), 0x668e_33ef);
                }
            }
            other => panic!("{other:x} is no reply"),
        }
    }

    /// One request and its reply.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Reply {
        self.send(command, flags, 99, offset, length, data);
        let reply = self.reply(if command == 0 { length as usize } else { 0 });
        assert_eq!(reply.cookie, 99);
        reply
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        assert_eq!(self.ask(1, 0, offset, data.len() as u32, data).error, 0);
    }

    /// Reads, over structured replies or simple ones.
    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let reply = self.ask(0, 0, offset, length, &[]);
        assert_eq!(reply.error, 0);
        let mut bytes = vec![0xEE; length as usize];
        for (kind, payload) in reply.chunks {
            match kind {
                0 => bytes = payload,
                1 => {
                    let at = (u64::from_be_bytes(payload[..8].try_into().unwrap()) - offset) as usize;
                    bytes[at..at + payload.len() - 8].copy_from_slice(&payload[8..]);
                }
                2 => {
                    let at = (u64::from_be_bytes(payload[..8].try_into().unwrap()) - offset) as usize;
                    let hole = u32::from_be_bytes(payload[8..].try_into().unwrap()) as usize;
                    bytes[at..at + hole].fill(0);
                }
                other => panic!("a chunk of type {other}"),
            }
        }
        bytes
    }
}

/// The data of `GO` and `INFO`.
pub fn go(name: &str) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend([0, 3, 0, 1, 0, 2, 0, 3]);
    data
}

/// The data of the metadata context options.
pub fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(query.as_bytes());
    }
    data
}
