//! The digest of all flash commands: two runs that agree in it did the same.

use crate::dice::Dice;
use crate::failure::Failure;
use crate::host::{Habits, Host, Session};
use crate::shape::Shape;
use crate::world::{inside, World};
use ftl::schemes::{self, Visitor};
use ftl::{Config, Scheme};
use nand::{
    Class, DataBuffer, Done, Fault, Geometry, Lpn, Nand, Oob, OpCounts, Pbn, Ppn, Sink, Source, SpareBytes,
    SpareRefused,
};

/// An array that keeps a digest (FNV-1a, 64 bit) of the commands given to it.
#[derive(Clone, Debug)]
pub struct Recorder<N> {
    nand: N,
    digest: u64,
    commands: u64,
}

impl<N> Recorder<N> {
    /// Puts a recorder before `nand`.
    pub fn new(nand: N) -> Recorder<N> {
        Recorder { nand, digest: 0xCBF2_9CE4_8422_2325, commands: 0 }
    }

    /// The digest of all commands so far.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// How many commands that were.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// The array.
    pub fn inner(&self) -> &N {
        &self.nand
    }

    fn note(&mut self, command: u8, words: &[u64]) {
        self.commands += 1;
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        for byte in std::iter::once(command).chain(bytes) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
        }
    }
}

impl<N: Nand> Nand for Recorder<N> {
    fn geometry(&self) -> &Geometry {
        self.nand.geometry()
    }

    fn is_bad(&self, block: Pbn) -> bool {
        self.nand.is_bad(block)
    }

    fn read(&mut self, ppn: Ppn, class: Class, to: Sink, after: Done) -> Result<(Oob, Done), Fault> {
        self.note(1, &[u64::from(ppn.0), class as u64]);
        self.nand.read(ppn, class, to, after)
    }

    fn buffer(&self) -> &[u8] {
        self.nand.buffer()
    }

    fn written(&self, block: Pbn) -> u32 {
        self.nand.written(block)
    }

    fn scan(&mut self, ppn: Ppn, after: Done) -> Result<(Option<Oob>, Done), Fault> {
        self.note(2, &[u64::from(ppn.0)]);
        self.nand.scan(ppn, after)
    }

    fn program(
        &mut self,
        ppn: Ppn,
        oob: Oob,
        class: Class,
        from: Source<'_>,
        after: Done,
    ) -> Result<Done, Fault> {
        let what = [u64::from(ppn.0), class as u64, oob.kind as u64, u64::from(oob.id), oob.version];
        self.note(3, &what);
        self.nand.program(ppn, oob, class, from, after)
    }

    fn erase(&mut self, block: Pbn, after: Done) -> Result<Done, Fault> {
        self.note(4, &[u64::from(block.0)]);
        self.nand.erase(block, after)
    }

    fn retire(&mut self, block: Pbn) {
        self.note(5, &[u64::from(block.0)]);
        self.nand.retire(block);
    }

    fn join(&mut self, a: Done, b: Done) -> Done {
        self.nand.join(a, b)
    }

    fn settle(&mut self) -> Done {
        self.nand.settle()
    }

    fn compute(&mut self, ns: u64, after: Done) -> Done {
        self.nand.compute(ns, after)
    }

    fn inspect(&self, ppn: Ppn, content: &mut Vec<u8>) -> Option<Oob> {
        self.nand.inspect(ppn, content)
    }

    fn superseded(&mut self, ppn: Ppn) {
        self.nand.superseded(ppn);
    }
}

impl<N: Nand> DataBuffer for Recorder<N> {
    fn reserve_slots(&mut self, slots: u32) {
        self.nand.reserve_slots(slots);
    }

    fn store(&mut self, slot: u32, oob: Oob) {
        self.note(6, &[u64::from(slot), u64::from(oob.id), oob.version]);
        self.nand.store(slot, oob);
    }

    fn deliver(&mut self, slot: u32) -> Oob {
        self.note(7, &[u64::from(slot)]);
        self.nand.deliver(slot)
    }
}

impl<N: Nand> SpareBytes for Recorder<N> {
    fn reserve_spare(&mut self, bytes: u32) -> Result<(), SpareRefused> {
        self.nand.reserve_spare(bytes)
    }

    fn attach(&mut self, spare: &[u8]) {
        self.nand.attach(spare);
    }

    fn spare(&self) -> &[u8] {
        self.nand.spare()
    }

    fn inspect_spare(&self, ppn: Ppn) -> &[u8] {
        self.nand.inspect_spare(ppn)
    }
}

impl<N: World> World for Recorder<N> {
    fn now(&self) -> u64 {
        self.nand.now()
    }

    fn arrival(&self) -> Done {
        self.nand.arrival()
    }

    fn time(&self, done: Done) -> u64 {
        self.nand.time(done)
    }

    fn advance(&mut self, done: Done) {
        self.nand.advance(done);
    }

    fn drain(&mut self) {
        self.nand.drain();
    }

    fn counts(&self) -> OpCounts {
        self.nand.counts()
    }
}

/// The digest and the number of flash commands of a fixed workload on a fixed tiny device, decided by `seed`
/// alone: the device filled, overwritten, trimmed, read, switched off and on again.
pub fn commands(scheme: &str, seed: u64) -> Result<(u64, u64), Failure> {
    struct Run<'a>(&'a str, u64);
    impl Visitor for Run<'_> {
        type Out = Result<(u64, u64), String>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            commands_on::<S>(&Shape::fixed::<S>(self.0)?, self.1)
        }
    }
    let failure = |what| Failure::new(scheme, seed, "digest of commands", what);
    schemes::with(scheme, Run(scheme, seed))
        .ok_or_else(|| failure("there is no such scheme".to_owned()))?
        .map_err(failure)
}

pub(crate) fn commands_on<S: Scheme>(shape: &Shape, seed: u64) -> Result<(u64, u64), String> {
    commands_of_array::<S, _>(shape.array(), &shape.config, seed)
}

pub(crate) fn commands_of_array<S: Scheme, N: World>(
    array: N,
    config: &Config,
    seed: u64,
) -> Result<(u64, u64), String> {
    let mut host = Host::new(vec![None; config.exported_pages as usize], Habits::all(), Dice::new(seed));
    let mut session: Session<S> = Session::open(Recorder::new(array), config)?;
    for lpn in 0..config.exported_pages {
        host.write(&mut session, Lpn(lpn), 1)?;
    }
    for _ in 0..1000 {
        host.step(&mut session)?;
    }
    session = host.power_cycle(session, config)?;
    for _ in 0..200 {
        host.step(&mut session)?;
    }
    host.read_all(&mut session)?;
    let recorder: &Recorder<N> = inside(session.device.nand());
    Ok((recorder.digest(), recorder.commands()))
}
