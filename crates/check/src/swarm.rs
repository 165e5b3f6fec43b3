//! Devices by chance in every respect: shape, utilisation, cache, thresholds, victims and parameters. What a
//! swarm finds is what no case that somebody thought of exercises.

use std::collections::BTreeMap;

use ftl::{Config, Parameter, Scheme, VictimPolicy};
use nand::{DeviceSpec, Geometry, SimOptions};

use crate::dice::Dice;
use crate::shape::{Ills, Shape};

/// Most pages of an array: a run must not take long.
const MOST_PAGES: u32 = 6000;
/// Attempts to find a device on which a scheme can be opened.
const ATTEMPTS: u32 = 40;
/// Words that parameters take, by the name of the parameter.
const WORDS: &[(&str, &[&str])] = &[
    ("allocation", &["shared", "group"]),
    ("batch", &["coldest", "largest"]),
    ("cluster", &["hot", "all"]),
    ("format", &["exact", "float16"]),
    ("groups", &["0", "1", "3", "48"]),
    ("method", &["runs", "ransac"]),
    ("set", &["auto", "16", "200"]),
    ("overwritten", &["top", "all"]),
    ("equal", &["random", "sequential"]),
    ("match", &["block", "page"]),
    ("order", &["oldest", "cheapest", "coldest"]),
    ("conversion", &["spread", "whole"]),
];

impl Shape {
    /// A device of the swarm, on which `S` can be opened. Parameters that are given stay as they are.
    pub fn swarm<S: Scheme>(
        dice: &mut Dice,
        ills: Ills,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Shape, String> {
        let mut refusal = String::new();
        for _ in 0..ATTEMPTS {
            match draw::<S>(dice, ills, parameters).fitted::<S>() {
                Ok(shape) => return Ok(shape),
                Err(error) => refusal = error,
            }
        }
        Err(format!("none of {ATTEMPTS} devices of the swarm fits: {refusal}"))
    }
}

fn pick<T: Copy>(dice: &mut Dice, values: &[T]) -> T {
    values[dice.below(values.len() as u32) as usize]
}

fn geometry(dice: &mut Dice) -> Geometry {
    loop {
        let (channels, luns_per_channel, planes_per_lun) =
            (dice.between(1, 4), dice.between(1, 3), dice.between(1, 2));
        let units = channels * luns_per_channel * planes_per_lun;
        let pages_per_block = pick(dice, &[4, 6, 8, 12, 16, 32, 64]);
        let most = (MOST_PAGES / (units * pages_per_block)).min(64);
        if most < 16 {
            continue;
        }
        return Geometry {
            channels,
            luns_per_channel,
            planes_per_lun,
            blocks_per_plane: dice.between(16, most),
            pages_per_block,
            page_bytes: pick(dice, &[512, 512, 1024, 2048, 4096]),
            oob_bytes: pick(dice, &[48, 64, 128]),
        };
    }
}

fn draw<S: Scheme>(dice: &mut Dice, ills: Ills, given: &BTreeMap<String, String>) -> Shape {
    let geometry = geometry(dice);
    let options = SimOptions { seed: dice.any(), ..ills.options() };
    // From a third of the array to all of it: [`Shape::fitted`] takes away what does not fit.
    let exported = geometry.pages() / 100 * dice.between(33, 98);
    let cache = (u64::from(exported) * 8) >> dice.below(9);
    let mut config = Config::new(exported.max(1), cache.max(64));
    config.foreground_superblocks = Config::FOREGROUND + pick(dice, &[0, 0, 0, 1, 3]);
    config.background_superblocks = config.foreground_superblocks + pick(dice, &[1, 1, 0, 2, 5]);
    config.victims = pick(dice, &[VictimPolicy::Greedy, VictimPolicy::CostBenefit]);
    // Those that were found with devices of the swarm stay what they are.
    let mut other = Dice::branch(options.seed, 1);
    config.wear_gap = pick(if S::REWRITES { dice } else { &mut other }, &[0, 0, 1, 3, 16]);
    for parameter in S::INFO.parameters {
        if dice.once_in(3) {
            if let Some(value) = other_value(parameter, dice) {
                config.parameters.insert(parameter.name.to_owned(), value);
            }
        }
    }
    config.parameters.extend(given.iter().map(|(name, value)| (name.clone(), value.clone())));
    Shape { device: DeviceSpec::tiny(geometry, exported.max(1)), options, config, born_bad: 0 }
}

/// Another value of a parameter: another word, some of its letters, a smaller or greater number.
fn other_value(parameter: &Parameter, dice: &mut Dice) -> Option<String> {
    if let Some((_, words)) = WORDS.iter().find(|(name, _)| *name == parameter.name) {
        return Some(pick(dice, words).to_owned());
    }
    if parameter.name == "techniques" {
        let letters: String = parameter.default.chars().filter(|_| !dice.once_in(2)).collect();
        return Some(if letters.is_empty() { "-".to_owned() } else { letters });
    }
    let by = pick(dice, &[0.0, 0.01, 0.25, 0.5, 2.0, 10.0]);
    match (parameter.default.parse::<u64>(), parameter.default.parse::<f64>()) {
        (Ok(0), _) => Some(pick(dice, &["1", "2", "4", "16"]).to_owned()),
        (Ok(number), _) => Some(((number as f64 * by).round() as u64).to_string()),
        (_, Ok(number)) => Some((number * by).to_string()),
        _ => None,
    }
}
