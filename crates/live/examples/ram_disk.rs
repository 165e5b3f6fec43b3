//! A plain RAM disk behind the front ends of `ftl mount`, `ftl serve` and `ftl vhost`: what they cost without an FTL.
//!
//!     cargo run --release -p ftlkit-live --example ram_disk -- mount DIR 1024     # MiB; fio on DIR/ram, then umount DIR
//!     cargo run --release -p ftlkit-live --example ram_disk -- serve SOCKET 1024
//!     cargo run --release -p ftlkit-live --example ram_disk -- vhost SOCKET 1024

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use live::nbd::{serve, Agreed, Link, Served};
use live::{
    fuse, vhost, Address, Asked, Export, Extent, IoError, Listeners, Op, Recorder, Request, Snapshot, Stop,
};

const PAGE_BYTES: usize = 4096;

/// Pages, each behind its own lock.
struct Ram(Vec<Mutex<Box<[u8]>>>);

impl Ram {
    /// Walks over the pages of a range: a page's part, and where in the request it lies.
    fn walk(&self, request: &Request, mut act: impl FnMut(&mut [u8], usize)) {
        let (mut at, end) = (request.offset as usize, request.offset as usize + request.length as usize);
        while at < end {
            let (page, within) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let take = (PAGE_BYTES - within).min(end - at);
            let mut page = self.0[page].lock().unwrap_or_else(PoisonError::into_inner);
            act(&mut page[within..within + take], at - request.offset as usize);
            at += take;
        }
    }
}

/// Bytes of an NBD request without its payload.
const HEAD: usize = 28;

impl Ram {
    /// NBD's requests as fio makes them: everything that has arrived is carried out, its replies go out in one write.
    fn converse(&self, link: &Link, structured: bool) -> io::Result<()> {
        let (mut input, mut out, mut chunk) = (Vec::new(), Vec::new(), vec![0; 256 << 10]);
        loop {
            let mut at = 0;
            while input.len() - at >= HEAD {
                let head = &input[at..at + HEAD];
                let (command, cookie) = (u16::from_be_bytes([head[6], head[7]]), head[8..16].to_vec());
                let number =
                    |from: usize, to: usize| head[from..to].iter().fold(0, |n, &b| n << 8 | u64::from(b));
                let (offset, length) = (number(16, 24), number(24, 28) as usize);
                let payload = if command == 1 { length } else { 0 };
                if input.len() - at < HEAD + payload {
                    break;
                }
                let data = input[at + HEAD..at + HEAD + payload].to_vec().into();
                at += HEAD + payload;
                let op = match command {
                    0 => Op::Read,
                    1 => Op::Write,
                    2 => return Ok(()),
                    3 => Op::Flush,
                    _ => Op::Trim,
                };
                let long = op == Op::Read && structured;
                out.extend(if long { 0x668e_33ef_u32 } else { 0x6744_6698 }.to_be_bytes());
                // A chunk of data that is the last one; or no error.
                out.extend(if long { [0, 1, 0, 1] } else { [0; 4] });
                out.extend(cookie);
                if long {
                    out.extend((length as u32 + 8).to_be_bytes());
                    out.extend(offset.to_be_bytes());
                }
                let begin = out.len();
                out.resize(begin + if op == Op::Read { length } else { 0 }, 0);
                let request = Request { op, offset, length: length as u32, fua: false, data };
                self.request(&request, &mut out[begin..]).map_err(io::Error::other)?;
            }
            input.drain(..at);
            (&mut link.stream()).write_all(&out)?;
            out.clear();
            match (&mut link.stream()).read(&mut chunk)? {
                0 => return Ok(()),
                bytes => input.extend_from_slice(&chunk[..bytes]),
            }
        }
    }
}

impl Export for Ram {
    fn exported_bytes(&self) -> u64 {
        (self.0.len() * PAGE_BYTES) as u64
    }

    fn page_bytes(&self) -> u32 {
        PAGE_BYTES as u32
    }

    fn transmit(&self, link: &Arc<Link>, agreed: &Agreed) {
        // A client that leaves has what it wanted.
        let _ = self.converse(link, agreed.structured);
    }

    fn carry_out(&self, asked: Vec<Asked>) {
        for Asked { request, reply } in asked {
            let mut bytes = vec![0; if request.op == Op::Read { request.length as usize } else { 0 }];
            let done = self.request(&request, &mut bytes);
            reply(done.map(|()| &bytes[..]));
        }
    }

    fn record(&self, _: Recorder) {}

    fn request(&self, request: &Request, to: &mut [u8]) -> Result<(), IoError> {
        match request.op {
            Op::Read => self.walk(request, |page, at| to[at..at + page.len()].copy_from_slice(page)),
            Op::Write => {
                self.walk(request, |page, at| page.copy_from_slice(&request.data[at..at + page.len()]));
            }
            Op::Trim | Op::WriteZeroes { .. } => self.walk(request, |page, _| page.fill(0)),
            Op::Flush => {}
        }
        Ok(())
    }

    fn extents(&self, _: u64, length: u64, _: usize) -> Result<Vec<Extent>, IoError> {
        Ok(vec![Extent { length, allocated: true }])
    }

    fn restart(&self, _: bool) {}

    fn pace(&self, _: &AtomicBool) {}

    fn settle(&self, _: &AtomicBool) {}

    fn tend(&self, _: &mut u64) {}

    fn snapshot(&self) -> Option<Snapshot> {
        None
    }

    fn power_off(&self) -> Result<(), String> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, place, mib] = &arguments[..] else {
        return Err("give mount DIR MIB, serve SOCKET MIB, or vhost SOCKET MIB".into());
    };
    let pages = mib.parse::<usize>()? << 20 >> 12;
    let ram = Ram((0..pages).map(|_| Mutex::new(vec![0; PAGE_BYTES].into())).collect());
    let (export, stop) = (Arc::new(ram), Stop::new()?);
    match kind.as_str() {
        "mount" => {
            let mounted = fuse::mount(export, "ram", Path::new(place), &stop)?;
            println!("mounted {}", mounted.file().display());
            mounted.run(&stop, None, &mut || {})?;
        }
        "serve" => {
            let listeners = Listeners::bind(&[Address::Unix(place.into())])?;
            println!("listening {place}");
            let served = Served { name: "ram".to_owned(), description: String::new(), export };
            serve(&listeners, vec![served], &stop)?;
        }
        _ => {
            let socket = vhost::Socket::bind(Path::new(place))?;
            vhost::serve(&socket, export, "ram", &stop)?;
        }
    }
    Ok(())
}
