//! Damaged image files: bits that flip and sectors that are lost, anywhere in an image.
//!
//! A device is filled, overwritten and trimmed on an image; then the image is closed, or its process dies, or
//! its host loses power. Each try damages one place of it, opens it, and reads every page. A page must read
//! as what it may hold, or as an error; an image may be refused. Then the device is written, closed, opened
//! and read again. What is never right: other content, or a panic.

mod device;

use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::Arc;

use ftl::schemes::{self, Visitor};
use ftl::Scheme;
use nand::{image_parts, Description, FileNand, Medium};

use crate::dice::Dice;
use crate::failure::{panic_text, Failure};
use crate::lossy::{Loss, LossyMedium};
use crate::shape::{Ills, Shape};
use device::{Owner, Served};

/// Tries on images of one seed: each takes one of its three images.
const TRIES_A_SEED: u64 = 300;
/// Sectors of a part that are looked at for one that is in use.
const ATTEMPTS: u32 = 64;
/// One try in so many damages the other copy, too.
const BOTH: u64 = 5;

/// What to damage.
#[derive(Clone, Debug)]
pub struct DamageOptions {
    /// The scheme's name.
    pub scheme: String,
    /// Its parameters, where they differ from the defaults.
    pub parameters: BTreeMap<String, String>,
    /// First seed; each run of 300 tries takes the next.
    pub seed: u64,
    /// Tries.
    pub tries: u64,
    /// Only this try of the run with `seed`.
    pub only: Option<u64>,
    /// Whether somebody wants it to end: it ends before the images of the next seed.
    pub stop: fn() -> bool,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Every page reads as what it may hold.
    Right,
    /// Some pages cannot be read; all others are right.
    Error,
    /// The image was not opened, and nothing was written to it.
    Refused,
    /// A page reads as something else.
    Wrong,
    /// A panic.
    Panic,
}

impl Outcome {
    /// All of them, in the order of their badness.
    pub const ALL: [Outcome; 5] =
        [Outcome::Right, Outcome::Error, Outcome::Refused, Outcome::Wrong, Outcome::Panic];
}

/// What the tries came to.
#[derive(Clone, Debug, Default)]
pub struct DamageReport {
    /// How many ended how, by what was damaged and whether it was in both copies; each in the order of
    /// [`Outcome::ALL`].
    pub parts: BTreeMap<(&'static str, bool), [u64; 5]>,
    /// The first finding.
    pub finding: Option<Failure>,
}

impl DamageReport {
    /// How many tries ended so.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.parts.values().map(|counts| counts[outcome as usize]).sum()
    }

    /// How many places were damaged, whatever came of it.
    pub fn tries(&self) -> u64 {
        Outcome::ALL.iter().map(|&outcome| self.count(outcome)).sum()
    }
}

/// Damages images of a scheme. Fails when an image cannot be made, or is not right before it is damaged.
pub fn damage(options: &DamageOptions, progress: &mut dyn FnMut(u64, u64)) -> Result<DamageReport, Failure> {
    struct Run<'a>(&'a DamageOptions, &'a mut dyn FnMut(u64, u64));
    impl Visitor for Run<'_> {
        type Out = Result<DamageReport, Failure>;
        fn visit<S: Scheme + Clone + Send + 'static>(self) -> Self::Out {
            campaign::<S>(self.0, self.1)
        }
    }
    let none = || Err(finding(options, options.seed, 0, "there is no such scheme".to_owned()));
    schemes::with(&options.scheme, Run(options, progress)).unwrap_or_else(none)
}

fn finding(options: &DamageOptions, seed: u64, number: u64, what: String) -> Failure {
    let failure = Failure::new(&options.scheme, seed, "damaging an image", what);
    Failure { cut: Some(number), damage: true, ..failure.with_parameters(&options.parameters) }
}

fn campaign<S: Scheme + Clone>(
    options: &DamageOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<DamageReport, Failure> {
    let mut report = DamageReport::default();
    let (mut seed, mut done) = (options.seed, 0);
    while done < options.tries && !(options.stop)() {
        let images = Image::all::<S>(options, seed).map_err(|what| finding(options, seed, 0, what))?;
        let numbers = match options.only {
            Some(number) => number..number + 1,
            None => 0..TRIES_A_SEED.min(options.tries - done),
        };
        for number in numbers {
            let mut dice = Dice::branch(seed, 1000 + number);
            let image = &images[(number % 3) as usize];
            let mut place = image.place(&mut dice);
            if number % BOTH == BOTH - 1 {
                image.damage_the_other_copy(&mut place);
            }
            let (outcome, what) = image.attempt::<S>(&place, &mut dice);
            report.parts.entry(place.name()).or_default()[outcome as usize] += 1;
            if outcome >= Outcome::Wrong {
                let what = format!("{} of an image that {}: {what}", place.in_words(), image.how);
                report.finding.get_or_insert_with(|| finding(options, seed, number, what));
            }
            done += 1;
            progress(done, options.tries);
        }
        if options.only.is_some() {
            break;
        }
        seed += 1;
    }
    Ok(report)
}

/// What is damaged: from `at` on these bytes are found.
struct Place {
    part: &'static str,
    at: u64,
    /// Where the same is found in the other copy.
    other: Option<u64>,
    bytes: Vec<u8>,
    how: &'static str,
}

impl Place {
    /// The part, and whether it is damaged in both copies.
    fn name(&self) -> (&'static str, bool) {
        (self.part, self.other.is_some())
    }

    fn in_words(&self) -> String {
        let other = self.other.map_or(String::new(), |other| format!(", and at byte {other}"));
        format!("{} at byte {}{other} of the file ({})", self.how, self.at, self.part)
    }
}

/// An image and what it holds.
struct Image {
    shape: Shape,
    how: &'static str,
    bytes: Arc<Vec<u8>>,
    /// The host has been started anew since.
    restarted: bool,
    owner: Owner,
}

impl Image {
    /// An image that was closed, one whose process died, and one whose host lost power.
    fn all<S: Scheme + Clone>(options: &DamageOptions, seed: u64) -> Result<[Image; 3], String> {
        let make = |how, loss| Image::make::<S>(options, seed, how, loss);
        Ok([
            make("was closed", None)?,
            make("a process was killed over", Some(Loss::Process))?,
            make("a host lost power over", Some(Loss::Power))?,
        ])
    }

    fn make<S: Scheme + Clone>(
        options: &DamageOptions,
        seed: u64,
        how: &'static str,
        loss: Option<Loss>,
    ) -> Result<Image, String> {
        let mut dice = Dice::branch(seed, 900);
        let parameters = schemes::parameters(&options.scheme, &options.parameters);
        let shape = Shape::random::<S>(&mut dice, Ills::default(), &parameters)?;
        let medium = LossyMedium::new();
        let description = Description { device: shape.device.clone(), settings: String::new() };
        FileNand::format(&medium, Path::new("image"), &description).map_err(|error| error.to_string())?;
        let mut owner = Owner::new(shape.config.exported_pages, loss, S::BUFFERS_WRITES);
        let mut served: Served<S> = Served::open(medium.clone(), &shape.config)?;
        owner.live(&mut served, &mut dice)?;
        let medium = match loss {
            None => {
                served.close()?;
                medium
            }
            Some(loss) => medium.after(loss, &mut dice),
        };
        let parts = image_parts(&shape.device.geometry);
        let end = parts.iter().map(|(_, range)| range.end).max().unwrap_or(0);
        let mut bytes = vec![0; end.next_multiple_of(1 << 20) as usize];
        medium.read_at(&mut bytes, 0).map_err(|error| error.to_string())?;
        let restarted = loss == Some(Loss::Power);
        let image = Image { shape, how, bytes: Arc::new(bytes), restarted, owner };
        let nothing = Place { part: "nothing", at: 0, other: None, bytes: Vec::new(), how: "nothing" };
        match image.attempt::<S>(&nothing, &mut dice) {
            (Outcome::Right, _) => Ok(image),
            (outcome, what) => Err(format!("an undamaged image that {how}: {outcome:?}, {what}")),
        }
    }

    /// One place of some part that is in use, and what is found there.
    fn place(&self, dice: &mut Dice) -> Place {
        let parts = image_parts(&self.shape.device.geometry);
        let names =
            ["header", "state", "block records", "page records", "spare bytes", "data", "mirrored data"];
        loop {
            // Records of pages are what most depends on.
            let name = if dice.once_in(3) { "page records" } else { names[dice.below(7) as usize] };
            let mut of_name: Vec<_> =
                parts.iter().filter(|(part, range)| *part == name && !range.is_empty()).collect();
            if of_name.is_empty() {
                continue;
            }
            let (part, range) = of_name.swap_remove(dice.below(of_name.len() as u32) as usize);
            for _ in 0..ATTEMPTS {
                let at = range.start + dice.any() % (range.end - range.start);
                let sector = (at / 512 * 512) as usize;
                if self.bytes[sector..sector + 512].iter().any(|&byte| byte != 0) {
                    return self.damage_at(part, at, dice);
                }
            }
        }
    }

    fn damage_at(&self, part: &'static str, at: u64, dice: &mut Dice) -> Place {
        if !dice.once_in(4) {
            let bytes = vec![self.bytes[at as usize] ^ 1 << dice.below(8)];
            return Place { part, at, other: None, bytes, how: "a flipped bit" };
        }
        let length = [512, 4096][dice.below(2) as usize];
        let (bytes, how) = match dice.below(3) {
            0 => (vec![0; length as usize], "zeros"),
            1 => (vec![0xFF; length as usize], "ones"),
            _ => ((0..length).map(|_| dice.any() as u8).collect(), "noise"),
        };
        Place { part, at: at / length * length, other: None, bytes, how }
    }

    /// Damages the same bytes of the other copy of a place, if it has one. Nothing vouches for what a dead
    /// process had not made durable: zeros in both copies of the newest of that read as never written.
    fn damage_the_other_copy(&self, place: &mut Place) {
        if place.how == "zeros" && self.owner.loss == Some(Loss::Process) {
            return;
        }
        let parts = image_parts(&self.shape.device.geometry);
        let twin = match place.part {
            "data" => "mirrored data",
            "mirrored data" => "data",
            part => part,
        };
        let Some(here) =
            parts.iter().position(|(part, range)| *part == place.part && range.contains(&place.at))
        else {
            return;
        };
        let same: Vec<usize> = (0..parts.len()).filter(|&index| parts[index].0 == twin).collect();
        // Copies of a part follow one another: of the state, those of even generations first.
        let other = match same.iter().position(|&index| index == here) {
            Some(at) => same[at ^ 1],
            None => same[0],
        };
        let at = place.at - parts[here].1.start + parts[other].1.start;
        let is_used = self.bytes[at as usize / 512 * 512..][..512].iter().any(|&byte| byte != 0);
        place.other = Some(at).filter(|_| is_used);
    }

    /// Damages the image there, opens it and reads it; twice, with writes in between.
    fn attempt<S: Scheme + Clone>(&self, place: &Place, dice: &mut Dice) -> (Outcome, String) {
        let medium = LossyMedium::of_image(self.bytes.clone(), self.restarted);
        for at in [Some(place.at), place.other].into_iter().flatten() {
            medium.damage(at, &place.bytes);
        }
        let tried = catch_unwind(AssertUnwindSafe(|| self.judge::<S>(&medium, dice)));
        tried.unwrap_or_else(|panic| (Outcome::Panic, panic_text(panic.as_ref())))
    }

    fn judge<S: Scheme + Clone>(&self, medium: &LossyMedium, dice: &mut Dice) -> (Outcome, String) {
        let mut owner = self.owner.clone();
        let mut worst = (Outcome::Right, String::new());
        for round in 0..2 {
            let mut served: Served<S> = match Served::open(medium.clone(), &self.shape.config) {
                Ok(served) => served,
                Err(what) if medium.was_written() => {
                    return (Outcome::Wrong, format!("it was written to, and then refused: {what}"));
                }
                Err(what) if round > 0 => {
                    return (Outcome::Wrong, format!("it was opened once, and then refused: {what}"));
                }
                Err(what) => return owner.salvage(medium, &self.shape.device, what),
            };
            match owner.compare(&mut served) {
                Ok(None) => {}
                Ok(Some(error)) => worst = worst.max((Outcome::Error, error)),
                Err(wrong) => return (Outcome::Wrong, wrong),
            }
            // A device that goes on with what it found must not lose more. What fails here is an error.
            let ended = owner.go_on(&mut served, dice).and_then(|()| served.close());
            if let Err(error) = ended {
                return worst.max((Outcome::Error, error));
            }
            medium.was_written();
        }
        worst
    }
}
