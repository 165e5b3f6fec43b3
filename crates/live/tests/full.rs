//! Flash that is full: writes are refused with what happened, reads go on, and idle work without room ends nothing.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use bytes::Bytes;
use check::LossyMedium;
use ftl::schemes::page::PageMap;
use ftl::{Breach, Config, Flash, Info, Memory, OpenError, Scheme};
use live::{Answer, Engine, IoError, Op, Reads, Request};
use nand::{Description, Device, Done, Fault, FileNand, Geometry, Lpn, Nand, Oob, Ppn};

const PAGE: u32 = 4096;
const FULL: Fault = Fault::NoSpace { free: 2, needed: 3 };

/// The page map, for which there is room for page 0 only, and none for idle work. `BROKEN`: the medium is, too.
struct Full<const BROKEN: bool>(PageMap);

impl<const BROKEN: bool> Scheme for Full<BROKEN> {
    const INFO: Info = Info { name: "full", what: "", paper: "", parameters: &[], stats: &[] };

    fn open<N: Nand>(flash: &mut Flash<N>, config: &Config) -> Result<Self, OpenError> {
        PageMap::open(flash, config).map(Full)
    }

    fn read<N: Nand>(
        &mut self,
        flash: &mut Flash<N>,
        lpn: Lpn,
        rest: u32,
        at: Done,
    ) -> Result<(Option<Oob>, Done), Fault> {
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
        Err(if BROKEN { Fault::Medium } else { FULL })
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

struct Client<const BROKEN: bool> {
    engine: Engine<Full<BROKEN>, LossyMedium>,
    reads: Reads<LossyMedium>,
}

impl<const BROKEN: bool> Client<BROKEN> {
    fn new() -> Self {
        let geometry = Geometry {
            channels: 2,
            luns_per_channel: 2,
            planes_per_lun: 1,
            blocks_per_plane: 48,
            pages_per_block: 16,
            page_bytes: PAGE,
            oob_bytes: 64,
        };
        let settings = "scheme = \"full\"\ncache_bytes = 65536\nforeground_superblocks = 3\n\
                        background_superblocks = 4\ncost_benefit = false\n";
        let medium = LossyMedium::new();
        let description = Description { device: Device::tiny(geometry, 1500), settings: settings.to_owned() };
        FileNand::format(&medium, Path::new("image"), &description).unwrap();
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
    let mut client = Client::<false>::new();
    assert_eq!(client.write(0), Ok(Answer::Done));
    assert_eq!(client.write(1), Err(IoError::Full));
    client.rest();
    assert!(client.read(0).is_ok() && client.read(1).is_ok());
    assert_eq!(client.write(0), Ok(Answer::Done));
    assert_eq!(client.engine.power_off(), Ok(()));
}

#[test]
fn a_medium_that_breaks_in_idle_time_ends_the_device() {
    let mut client = Client::<true>::new();
    assert_eq!(client.write(0), Ok(Answer::Done));
    client.rest();
    assert_eq!(client.read(0), Err(IoError::Device));
}
