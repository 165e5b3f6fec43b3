//! From quantities to the number that a paper states, and how the two compare.

use serde_json::Value as Json;
use sim::format::Unit;
use study::Quantity;

use crate::file::{Bound, Claim, Exercised, Figure, Kind, Pick, Place};

/// An effect of ours up to this is as good as none, where the paper has none or a small one.
const NO_EFFECT: f64 = 0.05;
/// An effect of the paper's up to this is a small one.
const SMALL_IN_PAPER: f64 = 0.02;
/// An effect of ours below this is none, where the paper has one.
const NO_EFFECT_OF_OURS: f64 = 0.01;
/// So near to the paper's, of the effect or of the value, counts as the same.
const CLOSE: f64 = 0.25;
/// So near counts as the same for shares, which may be near 0.
const CLOSE_SHARE: f64 = 0.05;

/// Where numbers come from; `host`: from the measurement with the host's time.
pub trait Measured {
    /// The quantity at a place.
    ///
    /// # Errors
    /// The scheme did not run there, or has no such quantity.
    fn at(&self, place: &Place, host: bool) -> Result<f64, Missing>;
    /// The document that `--bench` names.
    fn bench(&self) -> Option<&Json>;
}

/// Why there is no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A scheme that this build does not have.
    NotBuilt(String),
    /// Anything else, in words.
    Because(String),
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Missing::NotBuilt(scheme) => write!(f, "{scheme} is not built"),
            Missing::Because(why) => f.write_str(why),
        }
    }
}

/// One number of the paper beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The claim, with its placeholders replaced.
    pub what: String,
    /// How both numbers are written.
    pub unit: Unit,
    /// One number, or the two ends of a range.
    pub paper: Vec<f64>,
    /// What the paper's number means.
    pub bound: Bound,
    /// The number derived from what was measured.
    pub ours: Result<f64, Missing>,
    /// The same with the host's time, where the figure asks for it.
    pub with_host: Option<Result<f64, Missing>>,
    /// How the two lie to each other.
    pub verdict: Verdict,
    /// Why ours differs, in the file's words.
    pub differs: String,
}

/// How ours lies to the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A bound that holds.
    Holds,
    /// A bound that does not.
    Broken,
    /// The same within a quarter.
    Close,
    /// The same direction, where the paper has no number.
    SameSide,
    /// The same direction, the effect is smaller.
    Smaller,
    /// The same direction, the effect is larger.
    Larger,
    /// The other direction.
    Opposite,
    /// No effect where the paper has one.
    NoEffect,
    /// An effect where the paper has none.
    Effect,
    /// A value above the paper's.
    Higher,
    /// A value below the paper's.
    Lower,
    /// The mechanism that the paper's number is about did not run.
    NotExercised,
    /// The number comes from a generator that was never held against rows of the paper's workload.
    Unproven,
    /// No number of ours.
    Missing,
}

impl Verdict {
    /// A few words for a table; in capitals when ours contradicts the paper.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Broken => "DOES NOT HOLD",
            Verdict::Close => "close",
            Verdict::SameSide => "same direction",
            Verdict::Smaller => "same direction, smaller",
            Verdict::Larger => "same direction, larger",
            Verdict::Opposite => "OTHER DIRECTION",
            Verdict::NoEffect => "NO EFFECT",
            Verdict::Effect => "AN EFFECT, PAPER: NONE",
            Verdict::Higher => "higher",
            Verdict::Lower => "lower",
            Verdict::NotExercised => "not exercised",
            Verdict::Unproven => "stand-in without rows",
            Verdict::Missing => "-",
        }
    }

    /// Whether ours points where the paper's does; `None` for values, which point nowhere, and for what did
    /// not run, rests on a stand-in without rows, or is missing.
    pub fn agrees(self) -> Option<bool> {
        match self {
            Verdict::Holds | Verdict::Close | Verdict::SameSide | Verdict::Smaller | Verdict::Larger => {
                Some(true)
            }
            Verdict::Broken | Verdict::Opposite | Verdict::NoEffect | Verdict::Effect => Some(false),
            Verdict::Higher
            | Verdict::Lower
            | Verdict::NotExercised
            | Verdict::Unproven
            | Verdict::Missing => None,
        }
    }
}

impl Finding {
    /// The paper's number as a table shows it, with its bound.
    pub fn paper_text(&self) -> String {
        let show = |value: &f64| self.unit.show(*value);
        let text = self.paper.iter().map(show).collect::<Vec<_>>().join(" to ");
        match self.bound {
            Bound::About | Bound::Range => text,
            Bound::AtMost => format!("<= {text}"),
            Bound::AtLeast => format!(">= {text}"),
            Bound::Above => format!("> {text}"),
            Bound::Below => format!("< {text}"),
            Bound::Within => format!("+-{text} at most"),
        }
    }

    /// A number of ours as a table shows it; a dash where there is none.
    pub fn text(&self, ours: &Result<f64, Missing>) -> String {
        match ours {
            Ok(value) => self.unit.show(*value),
            Err(Missing::NotBuilt(_)) => "not built".to_owned(),
            Err(Missing::Because(_)) => "-".to_owned(),
        }
    }

    /// Ours over the paper's; `None` for a range, and where one of them is missing or 0.
    pub fn ratio(&self) -> Option<f64> {
        let [paper] = self.paper[..] else { return None };
        sim::results::ratio(*self.ours.as_ref().ok()?, paper)
    }
}

/// Everything that a figure claims, beside what was measured.
pub fn findings(figure: &Figure, measured: &dyn Measured) -> Vec<Finding> {
    figure.claims.iter().flat_map(|claim| of_claim(claim, figure, measured)).collect()
}

fn of_claim(claim: &Claim, figure: &Figure, measured: &dyn Measured) -> Vec<Finding> {
    let host = figure.host.is_some();
    if !claim.bench.is_empty() {
        return claim
            .bench
            .iter()
            .enumerate()
            .map(|(at, path)| of_bench(claim, at, path, measured))
            .collect();
    }
    let count = claim.of.len().max(claim.over.len());
    let pair = |at: usize| {
        let of = &claim.of[at.min(claim.of.len() - 1)];
        (of, claim.over.get(at.min(claim.over.len().saturating_sub(1))))
    };
    let numbers = |host: bool| -> Vec<Result<(f64, Option<f64>), Missing>> {
        let number = |at| {
            let (of, over) = pair(at);
            Ok((measured.at(of, host)?, over.map(|over| measured.at(over, host)).transpose()?))
        };
        (0..count).map(number).collect()
    };
    let unit = unit(claim);
    let finding = |what: String, at: usize, ours: Result<f64, Missing>, with_host| {
        let paper = paper_value(claim, at);
        let verdict = match &ours {
            Err(_) => Verdict::Missing,
            Ok(_) if !is_exercised(claim, at, measured) => Verdict::NotExercised,
            Ok(_) if is_unproven(claim, at, figure) => Verdict::Unproven,
            Ok(ours) => verdict(claim, unit, &paper, *ours),
        };
        Finding {
            what,
            unit,
            paper,
            bound: claim.bound,
            ours,
            with_host,
            verdict,
            differs: claim.differs.clone(),
        }
    };
    if let Some(pick) = claim.pick {
        let picked = |host| picked(claim.kind, pick, numbers(host));
        return vec![finding(claim.what.clone(), 0, picked(false), host.then(|| picked(true)))];
    }
    let flash = numbers(false);
    let with_host = if host { numbers(true) } else { Vec::new() };
    let mut with_host = with_host.into_iter();
    let one = |(at, number): (usize, Result<(f64, Option<f64>), Missing>)| {
        let (of, over) = pair(at);
        let what = claim
            .what
            .replace("{of}", &of.scheme)
            .replace("{over}", over.map_or("", |over| &over.scheme))
            .replace("{case}", &of.case);
        let derived = |number: Result<_, Missing>| number.and_then(|pair| derive(claim.kind, pair));
        finding(what, at, derived(number), with_host.next().map(derived))
    };
    flash.into_iter().enumerate().map(one).collect()
}

/// Whether the mechanism that the claim is about ran where its number comes from.
fn is_exercised(claim: &Claim, at: usize, measured: &dyn Measured) -> bool {
    let Some(Exercised { quantity, scheme }) = &claim.exercised else { return true };
    any_place(claim, at, |place| {
        let scheme = scheme.as_ref().unwrap_or(&place.scheme).clone();
        let counted = Place { quantity, scheme, ..place.clone() };
        measured.at(&counted, false).is_ok_and(|ran| ran > 0.0)
    })
}

/// Whether the number comes from a stand-in without rows.
fn is_unproven(claim: &Claim, at: usize, figure: &Figure) -> bool {
    any_place(claim, at, |place| figure.cases.iter().any(|case| case.unproven && case.name == place.case))
}

/// Whether something holds at a place that the `at`-th number comes from: at any of them where one number
/// is picked out of all.
fn any_place(claim: &Claim, at: usize, holds: impl Fn(&Place) -> bool) -> bool {
    match claim.pick {
        Some(_) => claim.of.iter().any(holds),
        None => holds(&claim.of[at.min(claim.of.len() - 1)]),
    }
}

fn of_bench(claim: &Claim, at: usize, path: &str, measured: &dyn Measured) -> Finding {
    let ours = match measured.bench() {
        None => Err(Missing::Because(
            "measured by `ftl bench --json FILE`; give the file with --bench".to_owned(),
        )),
        Some(found) => found
            .pointer(path)
            .and_then(Json::as_f64)
            .ok_or_else(|| Missing::Because(format!("the file of --bench has no number at {path}"))),
    };
    let paper = paper_value(claim, at);
    let verdict = ours.as_ref().map_or(Verdict::Missing, |&ours| verdict(claim, Unit::Micros, &paper, ours));
    let what = claim.what.replace("{of}", path);
    let differs = claim.differs.clone();
    Finding { what, unit: Unit::Micros, paper, bound: claim.bound, ours, with_host: None, verdict, differs }
}

/// The paper's value for the `at`-th place; both ends of a range.
fn paper_value(claim: &Claim, at: usize) -> Vec<f64> {
    match claim.bound {
        Bound::Range => claim.paper.clone(),
        _ => vec![claim.paper[at.min(claim.paper.len() - 1)]],
    }
}

/// How the derived number is written.
fn unit(claim: &Claim) -> Unit {
    let quantity = claim.of.first().and_then(|place| Quantity::find(place.quantity).ok());
    let own = quantity.map_or(Unit::Factor, |quantity| quantity.unit);
    match claim.kind {
        Kind::Value | Kind::Difference => own,
        Kind::Ratio => Unit::Factor,
        Kind::Reduction | Kind::Increase => Unit::Share,
    }
}

/// One number from what is compared.
fn derive(kind: Kind, (of, over): (f64, Option<f64>)) -> Result<f64, Missing> {
    let over = over.unwrap_or(0.0);
    let nothing = || Missing::Because("what it is compared with is 0".to_owned());
    let quotient = || sim::results::ratio(of, over).ok_or_else(nothing);
    Ok(match kind {
        Kind::Value => of,
        Kind::Ratio => quotient()?,
        Kind::Reduction => 1.0 - quotient()?,
        Kind::Increase => quotient()? - 1.0,
        Kind::Difference => of - over,
    })
}

/// One number out of several.
fn picked(kind: Kind, pick: Pick, numbers: Vec<Result<(f64, Option<f64>), Missing>>) -> Result<f64, Missing> {
    let numbers = numbers.into_iter().collect::<Result<Vec<_>, _>>()?;
    if pick == Pick::Sums {
        let sum = |(a, b): (f64, Option<f64>), &(of, over): &(f64, Option<f64>)| {
            (a + of, over.map(|over| over + b.unwrap_or(0.0)))
        };
        return derive(kind, numbers.iter().fold((0.0, None), sum));
    }
    let derived = numbers.into_iter().map(|pair| derive(kind, pair)).collect::<Result<Vec<_>, _>>()?;
    Ok(match pick {
        Pick::Max => derived.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Pick::Min => derived.iter().copied().fold(f64::INFINITY, f64::min),
        Pick::Mean | Pick::Sums => derived.iter().sum::<f64>() / derived.len().max(1) as f64,
    })
}

/// The number that means "no effect"; none for plain values.
fn neutral(kind: Kind) -> Option<f64> {
    match kind {
        Kind::Value => None,
        Kind::Ratio => Some(1.0),
        Kind::Reduction | Kind::Increase | Kind::Difference => Some(0.0),
    }
}

fn verdict(claim: &Claim, unit: Unit, paper: &[f64], ours: f64) -> Verdict {
    let held = |holds| if holds { Verdict::Holds } else { Verdict::Broken };
    let (first, last) = (paper[0], paper[paper.len() - 1]);
    let side = |same| if same { Verdict::SameSide } else { Verdict::Opposite };
    match (claim.bound, neutral(claim.kind)) {
        (Bound::AtMost, _) => held(ours <= first),
        (Bound::AtLeast, _) => held(ours >= first),
        (Bound::Above, _) => side(ours > first),
        (Bound::Below, _) => side(ours < first),
        (Bound::Within, neutral) => held((ours - neutral.unwrap_or(0.0)).abs() <= first),
        (Bound::Range, _) if (first..=last).contains(&ours) => Verdict::Close,
        (Bound::Range, None) | (Bound::About, None) => {
            of_value(unit, if ours < first { first } else { last }, ours)
        }
        (Bound::Range, Some(neutral)) => {
            of_effect(if ours < first { first } else { last } - neutral, ours - neutral)
        }
        (Bound::About, Some(neutral)) => of_effect(first - neutral, ours - neutral),
    }
}

fn of_value(unit: Unit, paper: f64, ours: f64) -> Verdict {
    let room = if unit == Unit::Share { (CLOSE * paper.abs()).max(CLOSE_SHARE) } else { CLOSE * paper.abs() };
    if (ours - paper).abs() <= room {
        Verdict::Close
    } else if ours > paper {
        Verdict::Higher
    } else {
        Verdict::Lower
    }
}

fn of_effect(paper: f64, ours: f64) -> Verdict {
    if paper.abs() <= SMALL_IN_PAPER && ours.abs() <= NO_EFFECT {
        return Verdict::Close;
    }
    if paper == 0.0 {
        return Verdict::Effect;
    }
    let share = ours / paper;
    if (share - 1.0).abs() <= CLOSE {
        Verdict::Close
    } else if ours.abs() <= NO_EFFECT_OF_OURS {
        Verdict::NoEffect
    } else if share < 0.0 {
        Verdict::Opposite
    } else if share < 1.0 {
        Verdict::Smaller
    } else {
        Verdict::Larger
    }
}
