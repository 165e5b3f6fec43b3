//! Devices that fail: full flash refuses writes alone, a broken medium ends a device, and a panic ends no
//! other one.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Client as NbdClient, Folder, Server};
use bytes::Bytes;
use check::LossyMedium;
use ftl::schemes::page::PageMap;
use ftl::{Breach, Config, Flash, Info, Memory, OpenError, Scheme};
use live::{Answer, Engine, Export, IoError, Op, Opening, PowerOffError, Reads, Request, Served};
use nand::{Description, DeviceSpec, Done, Fault, FileNand, Geometry, Lpn, Nand, Oob, Ppn};

const PAGE: u32 = 4096;
const FULL: Fault = Fault::NoSpace { free: 2, needed: 3 };

/// There is no room for idle work, nor for any page but page 0.
const FULL_FLASH: u8 = 0;
/// Idle work finds that the medium is broken, too.
const BROKEN_MEDIUM: u8 = 1;
/// Reading page 1 panics, too.
const PANIC: u8 = 2;

/// The page map on a device that fails in this way.
struct Failing<const HOW: u8>(PageMap);

impl<const HOW: u8> Scheme for Failing<HOW> {
    const INFO: Info = Info { name: "failing", what: "", paper: "", parameters: &[], stats: &[] };

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        PageMap::open(flash, config).map(Failing)
    }

    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
        assert!(HOW != PANIC || lpn.0 != 1, "page 1 is read");
        self.0.read(flash, lpn, rest, at)
    }

    fn write<N: Nand>(&mut self, flash: &mut Flash<N>, lpn: Lpn, rest: u32, at: Done) -> Result<Done, Fault> {
        if lpn.0 > 0 {
            return Err(FULL);
        }
        self.0.write(flash, lpn, rest, at)
    }

    fn trim<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        first: Lpn,
        pages: u32,
        at: Done,
    ) -> Result<Done, Fault> {
        self.0.trim(flash, first, pages, at)
    }

    fn flush<N: Nand>(&mut self, flash: &mut Flash<N>, at: Done) -> Result<Done, Fault> {
        self.0.flush(flash, at)
    }

    fn idle<N: Nand>(&mut self, _flash: &mut Flash<N>) -> Result<Option<Done>, Fault> {
        Err(if HOW == BROKEN_MEDIUM { Fault::Medium } else { FULL })
    }

    fn power_off<N: Nand>(&mut self, flash: &mut Flash<N>) -> Result<Done, Fault> {
        self.0.power_off(flash)
    }

    fn mapping<N: Nand>(&self, flash: &Flash<N>, each: &mut dyn FnMut(Lpn, Ppn)) {
        self.0.mapping(flash, each);
    }

    fn check<N: Nand>(&self, flash: &Flash<N>) -> Result<(), Breach> {
        self.0.check(flash)
    }

    fn memory(&self) -> Memory {
        self.0.memory()
    }
}

struct Client<const HOW: u8> {
    engine: Engine<Failing<HOW>, LossyMedium>,
    reads: Reads<LossyMedium>,
}

fn description() -> Description {
    let geometry = Geometry {
        channels: 2,
        luns_per_channel: 2,
        planes_per_lun: 1,
        blocks_per_plane: 48,
        pages_per_block: 16,
        page_bytes: PAGE,
        oob_bytes: 64,
    };
    let settings = "scheme = \"failing\"\ncache_bytes = 65536\nforeground_superblocks = 3\n\
                    background_superblocks = 4\ncost_benefit = false\n";
    Description { device: DeviceSpec::tiny(geometry, 1500), settings: settings.to_owned() }
}

impl<const HOW: u8> Client<HOW> {
    fn new() -> Self {
        let medium = LossyMedium::new();
        FileNand::format(&medium, Path::new("image"), &description()).unwrap();
        let (engine, _) = Engine::open_on(medium, Path::new("image")).unwrap();
        Client { engine, reads: Reads::new(PAGE) }
    }

    fn ask(&mut self, op: Op, page: u32, data: Bytes) -> Result<Answer, IoError> {
        let offset = u64::from(page) * u64::from(PAGE);
        let request = Request { op, offset, length: PAGE, fua: false, data };
        let mut answers = Vec::new();
        self.engine.submit(std::slice::from_ref(&request), &mut self.reads, &mut answers);
        answers.pop().unwrap()
    }

    fn write(&mut self, page: u32) -> Result<Answer, IoError> {
        self.ask(Op::Write, page, Bytes::from(vec![7; PAGE as usize]))
    }

    fn read(&mut self, page: u32) -> Result<Answer, IoError> {
        self.reads.clear();
        self.ask(Op::Read, page, Bytes::new())
    }

    /// Two looks without a request in between: the second does idle work.
    fn rest(&self) {
        let mut seen = u64::MAX;
        self.engine.tend(&mut seen);
        self.engine.tend(&mut seen);
    }
}

#[test]
fn a_full_device_refuses_writes_and_goes_on_reading() {
    let mut client = Client::<FULL_FLASH>::new();
    assert_eq!(client.write(0), Ok(Answer::Done));
    assert_eq!(client.write(1), Err(IoError::Full));
    client.rest();
    assert!(client.read(0).is_ok() && client.read(1).is_ok());
    assert_eq!(client.write(0), Ok(Answer::Done));
    // What was read last would keep the image open.
    client.reads.clear();
    client.engine.power_off().unwrap();
}

#[test]
fn a_medium_that_breaks_in_idle_time_ends_the_device() {
    let mut client = Client::<BROKEN_MEDIUM>::new();
    assert_eq!(client.write(0), Ok(Answer::Done));
    client.rest();
    assert_eq!(client.read(0), Err(IoError::Device));
}

/// A device that panics, as a server has it.
fn panicking(folder: &Folder) -> Served {
    let path = folder.0.join("bad");
    FileNand::create(&path, &description()).unwrap();
    let (engine, _) = Engine::<Failing<PANIC>>::open(&path, Opening::default()).unwrap();
    Served { name: "bad".to_owned(), description: String::new(), export: Arc::new(engine) }
}

#[test]
fn a_panic_in_one_device_leaves_the_others_on() {
    let folder = Folder::new("panic");
    let good = folder.image("good", "page");
    let export = live::open(&good, Opening::default()).unwrap().0;
    let good = Served { name: "good".to_owned(), description: String::new(), export };
    let mut server = Server::of(&folder, vec![panicking(&folder), good]);
    let mut neighbour = NbdClient::ready(&server, "good", true);
    neighbour.write(0, &[7; PAGE as usize]);
    let mut victim = NbdClient::ready(&server, "bad", true);
    victim.write(0, &[8; PAGE as usize]);
    victim.send(0, 0, 1, u64::from(PAGE), PAGE, &[]);
    assert!(victim.is_left());
    // ESHUTDOWN from then on, and nothing else has happened.
    let mut later = NbdClient::ready(&server, "bad", true);
    assert_eq!(later.ask(0, 0, 0, PAGE, &[]).error, 108);
    assert_eq!(neighbour.read(0, PAGE), [7; PAGE as usize]);
    let ended = server.end();
    assert!(ended.panic.is_some_and(|panic| panic.contains("page 1 is read")));
    assert!(matches!(server.served[0].export.power_off(), Err(PowerOffError::Panicked)));
    server.served[1].export.power_off().unwrap();
}

#[test]
fn a_server_whose_only_device_panics_stops() {
    let folder = Folder::new("last");
    let mut server = Server::of(&folder, vec![panicking(&folder)]);
    let mut client = NbdClient::ready(&server, "bad", true);
    client.send(0, 0, 1, u64::from(PAGE), PAGE, &[]);
    // Nobody asks it to.
    assert!(server.wait().panic.is_some());
}
