//! A plain RAM disk behind the front ends of `ftl mount`, `ftl serve` and `ftl vhost`: what they cost without
//! an FTL.
//!
//!     cargo run --release -p ftlkit-live --example ram_disk -- mount DIR 1024 # MiB; fio on DIR/ram, then
//!     umount DIR cargo run --release -p ftlkit-live --example ram_disk -- serve SOCKET 1024 cargo run
//!     --release -p ftlkit-live --example ram_disk -- vhost SOCKET 1024

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use live::{
    fuse, nbd, vhost, Address, Answer, Export, Extent, IoError, Listeners, Op, PowerOffError, Reads,
    Recorder, Request, Served, Snapshot, Stop,
};

const PAGE_BYTES: usize = 4096;

/// Pages, each behind its own lock.
struct Ram(Vec<Mutex<Box<[u8]>>>);

impl Ram {
    /// Walks over the pages of a range: the page, its part of the range, and where in the request that lies.
    fn walk(&self, request: &Request, mut act: impl FnMut(&mut [u8], std::ops::Range<usize>, usize)) {
        let (mut at, end) = (request.offset as usize, request.offset as usize + request.length as usize);
        while at < end {
            let (page, within) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let take = (PAGE_BYTES - within).min(end - at);
            let mut page = self.0[page].lock().unwrap_or_else(PoisonError::into_inner);
            act(&mut page, within..within + take, at - request.offset as usize);
            at += take;
        }
    }

    fn carry_out(&self, request: &Request, reads: &mut Reads) -> Answer {
        let number = reads.next_number();
        match request.op {
            Op::Read => self.walk(request, |page, _, _| reads.push(Some(Bytes::copy_from_slice(page)))),
            Op::Write => self.walk(request, |page, part, at| {
                let data = &request.data[at..at + part.len()];
                page[part].copy_from_slice(data);
            }),
            Op::Trim | Op::WriteZeroes { .. } => self.walk(request, |page, part, _| page[part].fill(0)),
            Op::Flush => {}
        }
        if request.op == Op::Read {
            Answer::Read(number)
        } else {
            Answer::Done
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

    fn submit(&self, batch: &[Request], reads: &mut Reads, answers: &mut Vec<Result<Answer, IoError>>) {
        answers.clear();
        answers.extend(batch.iter().map(|request| Ok(self.carry_out(request, reads))));
    }

    fn make_durable(&self, _: u64) -> Result<(), IoError> {
        Ok(())
    }

    fn extents(&self, _: u64, length: u64, _: usize) -> Result<Vec<Extent>, IoError> {
        Ok(vec![Extent { length, allocated: true }])
    }

    fn tend(&self, _: &mut u64) {}

    fn is_paced(&self) -> bool {
        false
    }

    fn over(&self, _: &mut Vec<u64>) -> Result<Option<Duration>, IoError> {
        Ok(None)
    }

    fn restart(&self, _: bool) {}

    fn arrived(&self, _: usize) {}

    fn left(&self, _: usize) {}

    fn waited(&self, _: &mut dyn Iterator<Item = (usize, u64)>) {}

    fn record(&self, _: Recorder) {}

    fn snapshot(&self) -> Option<Snapshot> {
        None
    }

    fn is_off(&self) -> bool {
        false
    }

    fn power_off(&self) -> Result<(), PowerOffError> {
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
            nbd::serve(&listeners, vec![served], &stop)?;
        }
        _ => {
            let socket = vhost::Socket::bind(Path::new(place))?;
            vhost::serve(&socket, export, "ram", &stop)?;
        }
    }
    Ok(())
}
