//! Speed of the simulated array without a clock, one core: `cargo bench -p ftlkit-nand --bench array`.

use std::hint::black_box;
use std::time::Instant;

use nand::timing::NoClock;
use nand::{
    Class, DeviceError, DeviceSpec, Done, Lpn, Nand, Oob, PageKind, Pbn, Ppn, SimNand, SimOptions, Sink,
    Source,
};

const NOW: Done = Done::READY;

/// Runs `work`, which does `operations`, and prints the best of five rates.
fn rate(what: &str, operations: u64, mut work: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    let each = best / operations as f64;
    println!("{what:<44} {:8.1} M/s  {:6.1} ns each", 1e-6 / each, each * 1e9);
}

/// A reproducible sequence of page numbers below `pages`.
struct Pages {
    state: u64,
    pages: u64,
}

impl Iterator for Pages {
    type Item = Ppn;

    #[inline]
    fn next(&mut self) -> Option<Ppn> {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(Ppn((((self.state >> 32) * self.pages) >> 32) as u32))
    }
}

fn data(ppn: Ppn) -> Oob {
    Oob { kind: PageKind::Data, id: ppn.0, version: 1, epoch: 1, lost: false }
}

fn fill(nand: &mut SimNand<NoClock>) {
    let (pages, blocks) = (nand.geometry().pages(), nand.geometry().blocks());
    for block in 0..blocks {
        let _ = black_box(nand.erase(Pbn(block), NOW));
    }
    for ppn in (0..pages).map(Ppn) {
        let _ = black_box(nand.program(ppn, data(ppn), Class::HostWrite, Source::Host, NOW));
    }
}

fn read(nand: &mut SimNand<NoClock>, ppn: Ppn) -> u64 {
    nand.read(ppn, Class::HostRead, Sink::Host(Lpn(0)), NOW).map_or(0, |(oob, _)| u64::from(oob.id))
}

fn translation(device: &DeviceSpec) {
    let mut nand = SimNand::new(device, NoClock::new(), SimOptions::default());
    let pages = nand.geometry().superblock_pages();
    let table = |id, version| Oob { kind: PageKind::Translation, ..Oob { id, version, ..data(Ppn(0)) } };
    let mut version = 0;
    rate("read, look at and patch a translation page", u64::from(pages), || {
        for superblock in 0..2 {
            version += 1;
            for page in 0..pages {
                let (old, new) = (Ppn((1 - superblock) * pages + page), Ppn(superblock * pages + page));
                if version == 1 {
                    let _ = nand.program(new, table(page, 1), Class::HostWrite, Source::Metadata(&[]), NOW);
                    continue;
                }
                let _ = nand.read(old, Class::HostRead, Sink::Controller, NOW);
                black_box(nand.buffer()[(page & 4095) as usize]);
                let changes = [(page & 1023, page), ((page + 7) & 1023, 1)];
                let from = Source::Patch(old, &changes);
                let _ = nand.program(new, table(page, version), Class::HostWrite, from, NOW);
            }
            let stale = (1 - superblock) * nand.geometry().units();
            for block in stale..stale + nand.geometry().units() {
                let _ = nand.erase(Pbn(block), NOW);
            }
        }
    });
}

fn main() -> Result<(), DeviceError> {
    let device = DeviceSpec::named("femu-32g")?;
    let mut nand = SimNand::new(&device, NoClock::new(), SimOptions::default());
    let pages = nand.geometry().pages();
    rate("program, sequential (with erases)", u64::from(pages), || fill(&mut nand));
    rate("read, sequential", u64::from(pages), || {
        black_box((0..pages).fold(0, |sum, n| sum + read(&mut nand, Ppn(n))));
    });
    let random = || Pages { state: 1, pages: u64::from(pages) }.take(20_000_000);
    rate("page numbers alone, random", 20_000_000, || {
        black_box(random().fold(0, |sum, ppn| sum + u64::from(ppn.0)));
    });
    let bare = vec![[1u8; 9]; pages as usize];
    rate("a bare table of nine bytes a page, random", 20_000_000, || {
        black_box(random().fold(0, |sum, ppn| sum + u64::from(bare[ppn.0 as usize][0])));
    });
    drop(bare);
    rate("read, random", 20_000_000, || {
        black_box(random().fold(0, |sum, ppn| sum + read(&mut nand, ppn)));
    });
    let map: Vec<u32> = (0..pages).map(|lpn| lpn ^ 0x1555).collect();
    rate("look up in a flat map and read, random", 20_000_000, || {
        black_box(random().fold(0, |sum, lpn| sum + read(&mut nand, Ppn(map[lpn.0 as usize]))));
    });
    rate("read, random, each after the other", 5_000_000, || {
        let mut sum = 0;
        for ppn in random().take(5_000_000) {
            sum = read(&mut nand, Ppn(ppn.0 ^ (sum & 1) as u32)) & 1;
        }
        black_box(sum);
    });
    rate("erase and copy, sequential", u64::from(pages / 2), || {
        let (units, half) = (nand.geometry().units(), pages / 2);
        for block in nand.geometry().blocks() / 2..nand.geometry().blocks() {
            let _ = nand.erase(Pbn(block), NOW);
        }
        debug_assert!(half % units == 0);
        for ppn in (0..half).map(Ppn) {
            if let Ok((oob, _)) = nand.read(ppn, Class::CollectionRead, Sink::Controller, NOW) {
                let to = Ppn(ppn.0 + half);
                let _ = nand.program(to, oob, Class::CollectionProgram, Source::Page(ppn), NOW);
            }
        }
    });
    translation(&device);
    let start = Instant::now();
    let copy = nand.clone();
    println!(
        "clone {:.1} ms, {:.2} bytes a page",
        start.elapsed().as_secs_f64() * 1e3,
        copy.heap_bytes() as f64 / f64::from(pages)
    );
    Ok(())
}
