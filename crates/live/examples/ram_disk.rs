//! A plain RAM disk behind the front ends of `ftl mount` and `ftl vhost`: what they cost without an FTL.
//!
//!     cargo run --release -p ftlkit-live --example ram_disk -- mount DIR 1024     # MiB; fio on DIR/ram, then umount DIR
//!     cargo run --release -p ftlkit-live --example ram_disk -- vhost SOCKET 1024

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use live::nbd::{Agreed, Link};
use live::{fuse, vhost, Asked, Export, Extent, IoError, Op, Recorder, Request, Snapshot, Stop};

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

impl Export for Ram {
    fn exported_bytes(&self) -> u64 {
        (self.0.len() * PAGE_BYTES) as u64
    }

    fn page_bytes(&self) -> u32 {
        PAGE_BYTES as u32
    }

    fn transmit(&self, _: &Arc<Link>, _: &Agreed) {}

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
        return Err("give mount DIR MIB, or vhost SOCKET MIB".into());
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
        _ => {
            let socket = vhost::Socket::bind(Path::new(place))?;
            vhost::serve(&socket, export, "ram", &stop)?;
        }
    }
    Ok(())
}
