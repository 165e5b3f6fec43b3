//! Every scheme, with bytes: random requests of any alignment against a model, cuts of process and host, a
//! full disk.

use std::path::Path;
use std::sync::{mpsc, Arc};
use std::time::Duration;

use bytes::Bytes;
use check::{Dice, Loss, LossyMedium};
use ftl::schemes::{self, Visitor};
use ftl::{Config, Scheme};
use live::{Answer, Engine, Export, IoError, Op, Reads, Request};
use nand::{Description, DeviceSpec, FileNand, Geometry};

const SECTOR: u32 = 512;
const EXPORTED_PAGES: u32 = 1500;
const SECTORS: u32 = EXPORTED_PAGES * 8;

fn device() -> DeviceSpec {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 48,
        pages_per_block: 16,
        page_bytes: 4096,
        oob_bytes: 64,
    };
    DeviceSpec::tiny(geometry, EXPORTED_PAGES)
}

/// A fresh image for a scheme, with as little memory for mapping as it agrees to.
fn image<S: Scheme + Send>(scheme: &str, wear_gap: u32) -> LossyMedium {
    let mut cache_bytes = 16 << 10;
    loop {
        let medium = LossyMedium::new();
        let settings = format!(
            "scheme = \"{scheme}\"\ncache_bytes = {cache_bytes}\nforeground_superblocks = {}\n\
             background_superblocks = {}\ncost_benefit = false\nwear_gap = {wear_gap}\n",
            Config::FOREGROUND,
            Config::BACKGROUND
        );
        let description = Description { device: device(), settings };
        FileNand::format(&medium, Path::new("image"), &description).unwrap();
        match Engine::<S, _>::open_on(medium.clone(), Path::new("image")) {
            Ok((engine, _)) => {
                engine.power_off().unwrap();
                return medium;
            }
            Err(error) => assert!(cache_bytes < 16 << 20, "{error}"),
        }
        cache_bytes *= 2;
    }
}

/// What each sector may hold: the number of the write that filled it, 0 for zeros.
struct Model<S> {
    engine: Engine<S, LossyMedium>,
    medium: LossyMedium,
    reads: Reads<LossyMedium>,
    dice: Dice,
    last: Vec<u64>,
    /// States since the sector was last durable, older ones first.
    older: Vec<Vec<u64>>,
    /// Whether the last change was a trim, which the death of the process may take back.
    forgotten: Vec<bool>,
    writes: u64,
}

fn content(sector: u32, write: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    if write > 0 {
        for (at, word) in bytes.chunks_exact_mut(16).enumerate() {
            word[..8].copy_from_slice(&write.to_le_bytes());
            word[8..12].copy_from_slice(&sector.to_le_bytes());
            word[12..].copy_from_slice(&(at as u32).to_le_bytes());
        }
    }
    bytes
}

impl<S: Scheme + Send> Model<S> {
    fn new(scheme: &str, seed: u64) -> Model<S> {
        Model::levelling(scheme, seed, (seed % 2) as u32)
    }

    fn levelling(scheme: &str, seed: u64, wear_gap: u32) -> Model<S> {
        let medium = image::<S>(scheme, wear_gap);
        let (engine, _) = Engine::open_on(medium.clone(), Path::new("image")).unwrap();
        let (last, forgotten) = (vec![0; SECTORS as usize], vec![false; SECTORS as usize]);
        let older = vec![Vec::new(); SECTORS as usize];
        let dice = Dice::new(seed);
        Model { engine, medium, reads: Reads::new(4096), dice, last, older, forgotten, writes: 0 }
    }

    fn submit(&mut self, batch: &[Request]) -> Vec<Result<Answer, IoError>> {
        let mut answers = Vec::new();
        self.engine.submit(batch, &mut self.reads, &mut answers);
        answers
    }

    fn range(&mut self) -> (u32, u32) {
        let longest = [1, 8, 40, 300][self.dice.below(4) as usize];
        let first = self.dice.below(SECTORS);
        let first = if self.dice.once_in(2) { first / 8 * 8 } else { first };
        (first, self.dice.between(1, longest).min(SECTORS - first))
    }

    fn write_page(&mut self, page: u32) {
        self.writes += 1;
        let sectors = page * 8..page * 8 + 8;
        let data: Vec<u8> = sectors.clone().flat_map(|sector| content(sector, self.writes)).collect();
        let offset = u64::from(page) * 4096;
        let request = Request { op: Op::Write, offset, length: 4096, fua: false, data: data.into() };
        assert!(matches!(self.submit(&[request])[..], [Ok(_)]));
        sectors.for_each(|sector| self.change(sector, self.writes, false));
    }

    /// A batch of random requests, each acted on by the model.
    fn step(&mut self) {
        let mut batch = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..self.dice.between(1, 6) {
            let (first, count) = self.range();
            let op = match self.dice.below(20) {
                0..=8 => Op::Write,
                9..=15 => Op::Read,
                16 => Op::Trim,
                17 => Op::WriteZeroes { allocate: false },
                18 => Op::WriteZeroes { allocate: true },
                _ => Op::Flush,
            };
            let (first, count) = if op == Op::Flush { (0, 0) } else { (first, count) };
            let mut data = Vec::new();
            let before: Vec<u64> = self.last[first as usize..][..count as usize].to_vec();
            self.writes += 1;
            for sector in first..first + count {
                let whole = sector / 8 * 8 >= first && (sector / 8 + 1) * 8 <= first + count;
                match op {
                    Op::Write => {
                        data.extend_from_slice(&content(sector, self.writes));
                        self.change(sector, self.writes, false);
                    }
                    Op::Trim if whole => self.change(sector, 0, true),
                    Op::WriteZeroes { allocate } => self.change(sector, 0, whole && !allocate),
                    _ => {}
                }
            }
            let fua = op != Op::Read && self.dice.once_in(10);
            let (offset, length) = (u64::from(first * SECTOR), count * SECTOR);
            batch.push(Request { op, offset, length, fua, data: data.into() });
            expected.push(before);
            if fua || op == Op::Flush {
                // What follows in the batch need not be durable with it.
                break;
            }
        }
        let answers = self.submit(&batch);
        for ((request, before), answer) in batch.iter().zip(expected).zip(answers) {
            let sectors = (request.offset / 512) as u32..(request.offset / 512) as u32 + request.length / 512;
            match answer.unwrap() {
                Answer::Read(number) => {
                    let mut bytes = vec![0xEE; request.length as usize];
                    self.reads.fill(number, request, &mut bytes).unwrap();
                    for ((sector, &write), found) in sectors.zip(&before).zip(bytes.chunks_exact(512)) {
                        assert!(
                            found == content(sector, write),
                            "sector {sector} is not as write {write} left it"
                        );
                    }
                }
                Answer::Done => assert!(!request.fua),
                Answer::Durable(operation) => {
                    self.engine.make_durable(operation).unwrap();
                    let covered = if request.op == Op::Flush { 0..SECTORS } else { sectors };
                    for sector in covered {
                        self.older[sector as usize].clear();
                    }
                }
            }
        }
        self.reads.clear();
    }

    fn change(&mut self, sector: u32, to: u64, forgotten: bool) {
        let at = sector as usize;
        self.older[at].push(self.last[at]);
        self.last[at] = to;
        self.forgotten[at] = forgotten;
    }

    /// Everything as it reads.
    fn read_all(&mut self) -> Vec<u64> {
        let length = SECTORS * SECTOR;
        let request = Request { op: Op::Read, offset: 0, length, fua: false, data: Bytes::new() };
        let answer = self.submit(std::slice::from_ref(&request))[0];
        let Ok(Answer::Read(number)) = answer else { panic!("reading everything: {answer:?}") };
        let mut bytes = vec![0; length as usize];
        self.reads.fill(number, &request, &mut bytes).unwrap();
        self.reads.clear();
        let sectors = (0..).zip(bytes.chunks_exact(512));
        sectors
            .map(|(sector, bytes)| {
                let write = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!(bytes == content(sector, write), "sector {sector} holds no write of ours");
                write
            })
            .collect()
    }

    fn check_all(&mut self) {
        let found = self.read_all();
        assert!(found == self.last, "a sector is not as it was left");
        let extents = self.engine.extents(0, u64::from(SECTORS * SECTOR), usize::MAX).unwrap();
        assert_eq!(extents.iter().map(|extent| extent.length).sum::<u64>(), u64::from(SECTORS * SECTOR));
        let mut at = 0;
        for extent in extents {
            let end = at + (extent.length / 512) as usize;
            assert!(extent.allocated || self.last[at..end].iter().all(|&write| write == 0));
            at = end;
        }
    }

    fn cut(&mut self, loss: Loss) {
        self.medium = self.medium.after(loss, &mut self.dice);
        self.engine = Engine::open_on(self.medium.clone(), Path::new("image")).unwrap().0;
        let found = self.read_all();
        for (at, &found) in found.iter().enumerate() {
            let (last, older) = (self.last[at], &self.older[at]);
            let kept = loss == Loss::Process && !self.forgotten[at] && !S::BUFFERS_WRITES;
            assert!(
                found == last || (!kept && older.contains(&found)),
                "{loss:?}: sector {at} holds write {found}, not {last} or one of {older:?}"
            );
        }
        self.last = found;
        self.older.iter_mut().for_each(Vec::clear);
        // Somebody has seen it now; the model takes it for durable, so it must be.
        let flush = Request { op: Op::Flush, offset: 0, length: 0, fua: false, data: Bytes::new() };
        let Ok(Answer::Durable(operation)) = self.submit(&[flush])[0] else { panic!("flush failed") };
        self.engine.make_durable(operation).unwrap();
    }
}

fn for_every_scheme<V: Visitor<Out = ()>>(visitor: impl Fn(&'static str) -> V) {
    for info in schemes::ALL {
        println!("{}", info.name);
        schemes::with(info.name, visitor(info.name)).unwrap();
    }
}

#[test]
fn bytes_survive_the_process_and_flushed_ones_the_host() {
    struct Cuts(&'static str);
    impl Visitor for Cuts {
        type Out = ();
        fn visit<S: Scheme + Clone + Send + 'static>(self) {
            for seed in 0..3 {
                let mut model: Model<S> = Model::new(self.0, seed);
                for round in 0..12 {
                    for _ in 0..60 {
                        model.step();
                    }
                    model.check_all();
                    if round % 4 == 3 {
                        model.engine.power_off().unwrap();
                        model.older.iter_mut().for_each(Vec::clear);
                        model.forgotten.fill(false);
                    }
                    model.cut([Loss::Process, Loss::Power][round % 2]);
                }
            }
        }
    }
    for_every_scheme(Cuts);
}

#[test]
fn a_device_moves_what_lies_and_keeps_it() {
    /// How unevenly blocks are erased when a tenth of the device is overwritten and the power cut often.
    struct Uneven(&'static str, u32);
    impl Visitor for Uneven {
        type Out = f64;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> f64 {
            let mut model: Model<S> = Model::levelling(self.0, 7, self.1);
            for page in 0..EXPORTED_PAGES {
                model.write_page(page);
            }
            for round in 0..6 {
                for _ in 0..3000 {
                    let page = model.dice.below(EXPORTED_PAGES / 10);
                    model.write_page(page);
                }
                model.cut([Loss::Process, Loss::Power][round % 2]);
                model.check_all();
            }
            let wear = model.engine.snapshot().unwrap().wear;
            println!("{}, gap {}: {} to {} erases", self.0, self.1, wear.min, wear.max);
            wear.stddev / wear.mean
        }
    }
    for scheme in ["page", "fast", "tide"] {
        let [without, with] = [0, 2].map(|gap| schemes::with(scheme, Uneven(scheme, gap)).unwrap());
        assert!(
            with < without * 0.75,
            "{scheme}: {without:.2} of the mean without levelling, {with:.2} with it"
        );
    }
}

#[test]
fn a_full_disk_stops_writes_and_loses_nothing() {
    struct Full(&'static str);
    impl Visitor for Full {
        type Out = ();
        fn visit<S: Scheme + Clone + Send + 'static>(self) {
            let mut model: Model<S> = Model::new(self.0, 5);
            for _ in 0..40 {
                model.step();
            }
            model.medium.fill_up(Some(0));
            let sector = content(3, 77);
            let data = Bytes::copy_from_slice(&sector);
            // With FUA, which no write buffer can answer for the disk.
            let write = Request { op: Op::Write, offset: 3 * 512, length: 512, fua: true, data };
            for _ in 0..20 {
                assert_eq!(model.submit(std::slice::from_ref(&write)), [Err(IoError::NoSpace)]);
            }
            // Not acknowledged: either is right, and reading works.
            let found = model.read_all();
            assert!(found[3] == 77 || found[3] == model.last[3]);
            assert!(found.iter().zip(&model.last).enumerate().all(|(at, (a, b))| at == 3 || a == b));
            model.medium.fill_up(None);
            assert!(matches!(model.submit(&[write])[..], [Ok(Answer::Durable(_))]));
            model.change(3, 77, false);
            model.check_all();
            model.cut(Loss::Process);
        }
    }
    for_every_scheme(Full);
}

#[test]
fn a_disk_that_fills_up_at_any_write_and_has_room_later_loses_nothing() {
    struct Filling(&'static str);
    impl Visitor for Filling {
        type Out = ();
        fn visit<S: Scheme + Clone + Send + 'static>(self) {
            let mut model: Model<S> = Model::new(self.0, 6);
            for (round, room) in (0..).zip([0, 1, 2, 5, 9, 17, 40, 90, 200, 0]) {
                for _ in 0..10 {
                    model.step();
                }
                model.medium.fill_up(Some(room));
                for write in 0..25 {
                    let (sector, to) = (model.dice.below(SECTORS), 1_000_000 + 100 * round + write);
                    let data = Bytes::copy_from_slice(&content(sector, to));
                    let offset = u64::from(sector * SECTOR);
                    let write = Request { op: Op::Write, offset, length: SECTOR, fua: true, data };
                    let refused = match model.submit(&[write])[0] {
                        Ok(Answer::Durable(_)) => false,
                        Err(IoError::NoSpace) => true,
                        answer => panic!("a write on a disk with room for {room} writes: {answer:?}"),
                    };
                    let before = model.last[sector as usize];
                    model.change(sector, to, refused);
                    let found = model.read_all();
                    assert!(found[sector as usize] == to || refused && found[sector as usize] == before);
                    model.last = found;
                }
                if round % 2 == 0 {
                    model.medium.fill_up(None);
                    model.check_all();
                }
                // With a full disk a process that ends takes along what could not be written.
                model.cut(Loss::Process);
                model.medium.fill_up(None);
            }
        }
    }
    for_every_scheme(Filling);
}

#[test]
fn what_is_outside_is_refused_and_a_device_switched_off_says_so() {
    struct Refuse(&'static str);
    impl Visitor for Refuse {
        type Out = ();
        fn visit<S: Scheme + Clone + Send + 'static>(self) {
            let mut model: Model<S> = Model::new(self.0, 1);
            let request = |op, offset, length: u32| {
                let data = if op == Op::Write { vec![1; length as usize] } else { Vec::new() };
                Request { op, offset, length, fua: false, data: data.into() }
            };
            let size = u64::from(SECTORS * SECTOR);
            for op in [Op::Read, Op::Write, Op::Trim, Op::WriteZeroes { allocate: true }] {
                for offset in [size, size - 512, u64::MAX - 512, u64::MAX] {
                    assert_eq!(model.submit(&[request(op, offset, 1024)]), [Err(IoError::Outside)]);
                }
            }
            model.engine.power_off().unwrap();
            model.engine.power_off().unwrap();
            assert_eq!(model.submit(&[request(Op::Read, 0, 512)]), [Err(IoError::Off)]);
            assert_eq!(model.engine.extents(0, 512, 1), Err(IoError::Off));
        }
    }
    for_every_scheme(Refuse);
}

#[test]
fn several_clients_never_mix_their_bytes() {
    struct Clients(&'static str);
    impl Visitor for Clients {
        type Out = ();
        fn visit<S: Scheme + Clone + Send + 'static>(self) {
            let (engine, _) = Engine::<S, _>::open_on(image::<S>(self.0, 0), Path::new("image")).unwrap();
            std::thread::scope(|scope| {
                for client in 0..4u64 {
                    let engine = &engine;
                    scope.spawn(move || hammer(engine, client));
                }
                scope.spawn(|| (0..20).for_each(|_| engine.tend(&mut 0)));
            });
            engine.power_off().unwrap();
        }
    }
    /// Each client owns every fourth run of 5 sectors: pages are shared, sectors are not.
    fn hammer<S: Scheme + Send>(engine: &Engine<S, LossyMedium>, client: u64) {
        let mut dice = Dice::new(client);
        let (mut reads, mut answers) = (Reads::new(4096), Vec::new());
        let mut last = vec![0u64; SECTORS as usize / 20];
        for write in 1..1500 {
            let run = dice.below(last.len() as u32);
            let first = run * 20 + client as u32 * 5;
            let number = client << 32 | write;
            let data: Vec<u8> = (first..first + 5).flat_map(|sector| content(sector, number)).collect();
            let request = |op, data: Vec<u8>| {
                let offset = u64::from(first * SECTOR);
                Request { op, offset, length: 5 * SECTOR, fua: false, data: data.into() }
            };
            let batch = [request(Op::Read, Vec::new()), request(Op::Write, data)];
            engine.submit(&batch, &mut reads, &mut answers);
            let Ok(Answer::Read(at)) = answers[0] else { panic!("{:?}", answers[0]) };
            let mut bytes = vec![0; 5 * 512];
            reads.fill(at, &batch[0], &mut bytes).unwrap();
            reads.clear();
            for (sector, found) in (first..).zip(bytes.chunks_exact(512)) {
                assert!(found == content(sector, last[run as usize]), "client {client}, sector {sector}");
            }
            last[run as usize] = number;
        }
    }
    for_every_scheme(Clients);
}

/// A scrub holds its own state while it waits for the device, and a snapshot holds the device.
#[test]
fn a_scrub_and_snapshots_never_wait_for_each_other() {
    let medium = image::<schemes::page::PageMap>("page", 0);
    let (engine, _) = Engine::<schemes::page::PageMap, _>::open_on(medium, Path::new("image")).unwrap();
    let engine = Arc::new(engine);
    engine.scrub_every(Duration::from_micros(50));
    let (ended, all) = mpsc::channel();
    let keeper = (engine.clone(), ended.clone());
    std::thread::spawn(move || {
        let mut seen = 0;
        (0..3000).for_each(|_| keeper.0.tend(&mut seen));
        let _ = keeper.1.send(());
    });
    std::thread::spawn(move || {
        (0..3000).for_each(|_| assert!(engine.snapshot().unwrap().scrubbed.is_some()));
        let _ = ended.send(());
    });
    for _ in 0..2 {
        all.recv_timeout(Duration::from_secs(120)).expect("both go on");
    }
}
