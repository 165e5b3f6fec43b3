//! What must stand beside every number: device, memory, workload, and whether the invariants held.

use crate::format::{bytes, exact_time, maybe, percent, whole};
use crate::results::{DeviceInfo, Phase, Run};

/// Phases of the same name in several runs.
pub struct Group<'a> {
    /// The phase's name; numbered when a run has it more than once.
    pub name: String,
    /// Index of the run in the slice, the run, and its phase.
    pub members: Vec<(usize, &'a Run, &'a Phase)>,
}

/// The runs' phases, grouped by name, in the order in which they first appear.
pub fn groups(runs: &[Run]) -> Vec<Group<'_>> {
    let mut found: Vec<((&str, usize), Group)> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for (position, phase) in run.phases.iter().enumerate() {
            let before = run.phases[..position].iter().filter(|earlier| earlier.name == phase.name).count();
            let key = (phase.name.as_str(), before);
            let member = (index, run, phase);
            match found.iter_mut().find(|(other, _)| *other == key) {
                Some((_, group)) => group.members.push(member),
                None => {
                    let number = if before == 0 { String::new() } else { format!(" ({})", before + 1) };
                    let name = if phase.name.is_empty() { "phase" } else { &phase.name };
                    found.push((key, Group { name: format!("{name}{number}"), members: vec![member] }));
                }
            }
        }
    }
    found.into_iter().map(|(_, group)| group).collect()
}

/// A short unique name for each run, as the command line takes it: its scheme's, with the parameters that
/// differ from the scheme's defaults or tell two runs of it apart.
pub fn labels(runs: &[Run]) -> Vec<String> {
    let mut labels: Vec<String> = Vec::with_capacity(runs.len());
    for run in runs {
        let same: Vec<&Run> = runs.iter().filter(|other| other.scheme.name == run.scheme.name).collect();
        let differs = |name: &String| {
            same.iter().any(|other| other.scheme.parameters.get(name) != run.scheme.parameters.get(name))
        };
        let parameters: Vec<String> = run
            .scheme
            .parameters
            .iter()
            .filter(|(name, value)| {
                differs(name) || default_of(&run.scheme.name, name).is_some_and(|usual| usual != *value)
            })
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut label = run.scheme.name.clone();
        if !parameters.is_empty() {
            label = format!("{label}:{}", parameters.join(":"));
        }
        let mut unique = label.clone();
        let mut number = 2;
        while labels.contains(&unique) {
            unique = format!("{label} #{number}");
            number += 1;
        }
        labels.push(unique);
    }
    labels
}

/// The default of a registered scheme's parameter.
fn default_of(scheme: &str, parameter: &str) -> Option<&'static str> {
    let info = ftl::schemes::ALL.iter().find(|info| info.name == scheme)?;
    info.parameters.iter().find(|known| known.name == parameter).map(|known| known.default)
}

/// Named facts of the runs in plain words. What differs between the runs appears once for each difference.
pub fn facts(runs: &[Run]) -> Vec<(String, String)> {
    let labels = labels(runs);
    let mut out = Vec::new();
    distinct(runs, &labels, "Device", &mut out, |run| device(&run.device));
    distinct(runs, &labels, "Layout", &mut out, |run| layout(&run.device));
    distinct(runs, &labels, "Reserve", &mut out, |run| reserve(&run.device));
    distinct(runs, &labels, "Timing", &mut out, |run| timing(&run.device));
    distinct(runs, &labels, "Cache", &mut out, cache);
    let used: Vec<String> = runs
        .iter()
        .zip(&labels)
        .map(|(run, label)| format!("{label} {}", bytes(run.memory.total_bytes())))
        .collect();
    if !used.is_empty() {
        out.push(("Memory".to_owned(), format!("in use: {}", used.join(", "))));
    }
    distinct(runs, &labels, "Workload", &mut out, workload);
    distinct(runs, &labels, "Warm-up", &mut out, warm_up);
    for (run, label) in runs.iter().zip(&labels) {
        let owed = debt(run).into_iter().chain(room(run));
        out.extend(owed.map(|debt| ("Debt".to_owned(), format!("{label}: {debt}"))));
    }
    out
}

/// A debt that is not worth a word: this share of the flash programs measured.
const SMALL_DEBT: f64 = 0.01;

/// A sentence on what the measured phases paid for the warm-up, where that can be more than 1 % of their
/// flash programs.
pub fn debt(run: &Run) -> Option<String> {
    let share = run.warm_up_debt().filter(|&share| share > SMALL_DEBT)?;
    let dirty = run.cache_before?.dirty;
    Some(format!(
        "the warm-up left {} dirty mapping entries; up to {} of the flash programs measured write them back (cache \
         state clean or warm measures without them)",
        whole(dirty),
        percent(share),
    ))
}

/// A sentence on free pages that the measured phases made and did not use, or used and did not make, where
/// they are more than 1 % of the flash programs. What they cost in copies depends on what was collected for
/// them, and is not said.
pub fn room(run: &Run) -> Option<String> {
    let share = run.free_pages_share().filter(|share| share.abs() > SMALL_DEBT)?;
    let (change, copies) = match share > 0.0 {
        true => ("more", "the copies that made them are counted"),
        false => ("fewer", "copies that make them anew are not counted"),
    };
    Some(format!(
        "{} {change} pages are free at the end than at the beginning, as many as {} of the flash programs measured; \
         {copies}",
        whole(run.free_pages_gained().unsigned_abs()),
        percent(share.abs()),
    ))
}

fn warm_up(run: &Run) -> String {
    let written = if run.workload.warm_up.is_empty() { "none" } else { &run.workload.warm_up };
    match run.workload.cache_state.as_str() {
        "" => written.to_owned(),
        state => format!("{written}; mapping cache {state}"),
    }
}

/// The names that [`run_facts`] gives, in order.
pub const RUN_FACTS: [&str; 5] = ["Device", "Timing", "Cache", "Workload", "Warm-up"];

/// Named facts of one run in plain words.
pub fn run_facts(run: &Run) -> Vec<(&'static str, String)> {
    let facts = [device(&run.device), timing(&run.device), cache(run), workload(run), warm_up(run)];
    RUN_FACTS.into_iter().zip(facts).collect()
}

/// Adds `of(run)` under `name`; when the runs disagree, once for each answer with the runs it holds for.
fn distinct(
    runs: &[Run],
    labels: &[String],
    name: &str,
    out: &mut Vec<(String, String)>,
    of: impl Fn(&Run) -> String,
) {
    let mut answers: Vec<(String, Vec<&str>)> = Vec::new();
    for (run, label) in runs.iter().zip(labels) {
        let answer = of(run);
        match answers.iter_mut().find(|(other, _)| *other == answer) {
            Some((_, who)) => who.push(label),
            None => answers.push((answer, vec![label])),
        }
    }
    let agree = answers.len() == 1;
    for (answer, who) in answers {
        out.push((name.to_owned(), if agree { answer } else { format!("{}: {answer}", who.join(", ")) }));
    }
}

fn device(device: &DeviceInfo) -> String {
    format!(
        "{}: {} raw, {} exported = utilisation {} of raw; over-provisioning {} = {} of exported",
        device.name,
        bytes(device.raw_bytes),
        bytes(device.exported_bytes),
        maybe(device.utilisation(), percent),
        bytes(device.over_provisioning_bytes),
        maybe(device.over_provisioning(), percent),
    )
}

fn layout(device: &DeviceInfo) -> String {
    let bad = if device.bad_blocks == 0 {
        String::new()
    } else {
        format!(", {}", number(device.bad_blocks, "bad block"))
    };
    format!(
        "{} x {} x {} x {} x {} x {}{bad}",
        number(device.channels, "channel"),
        number(device.luns_per_channel, "lun"),
        number(device.planes_per_lun, "plane"),
        number(device.blocks_per_plane, "block"),
        number(device.pages_per_block, "page"),
        bytes(u64::from(device.page_bytes)),
    )
}

fn reserve(device: &DeviceInfo) -> String {
    let reserve = &device.gc_reserve;
    let background = match reserve.background_superblocks {
        0 => "no background collection".to_owned(),
        free => format!("background below {free}"),
    };
    format!(
        "collection keeps {} ({}); foreground below {} free, {background}",
        number(reserve.superblocks, "superblock"),
        bytes(reserve.bytes),
        reserve.foreground_superblocks,
    )
}

fn timing(device: &DeviceInfo) -> String {
    let timing = &device.timing;
    if timing.model == "none" {
        return "no clock: operations are counted, not timed".to_owned();
    }
    let mut out = format!(
        "{}{}{}: read {}, program {}, erase {}",
        timing.model,
        if timing.policy.is_empty() { "" } else { ", " },
        timing.policy,
        exact_time(timing.read_ns),
        exact_time(timing.program_ns),
        exact_time(timing.erase_ns),
    );
    if timing.transfer_ns > 0 {
        out += &format!(", transfer {}", exact_time(timing.transfer_ns));
    }
    if timing.host_overhead_ns > 0 {
        out +=
            &format!("; host {} a request on {} CPUs", exact_time(timing.host_overhead_ns), timing.host_cpus);
    }
    out
}

fn cache(run: &Run) -> String {
    format!(
        "{} = {} of the full table of {}",
        bytes(run.memory.cache_bytes),
        maybe(run.memory.cache_share(), percent),
        bytes(run.memory.full_table_bytes),
    )
}

fn workload(run: &Run) -> String {
    let source =
        if run.workload.source.is_empty() { String::new() } else { format!(" ({})", run.workload.source) };
    format!("{}{source}, seed {}", run.workload.name, run.workload.seed)
}

fn number(count: impl Into<u64>, word: &str) -> String {
    let count = count.into();
    format!(
        "{} {word}{}",
        whole(count),
        if count == 1 {
            ""
        } else if word.chars().all(char::is_uppercase) {
            "S"
        } else {
            "s"
        }
    )
}

/// Whether the invariants held, and each that did not.
pub struct Verdict {
    /// One sentence for all runs.
    pub sentence: String,
    /// `scheme: invariant: numbers` for each broken one.
    pub broken: Vec<String>,
    /// Labels of runs that checked nothing.
    pub unchecked: Vec<String>,
}

impl Verdict {
    /// Whether every run was checked and every check passed.
    pub fn good(&self) -> bool {
        self.broken.is_empty() && self.unchecked.is_empty()
    }
}

/// Sums up the invariants of all runs.
pub fn verdict(runs: &[Run]) -> Verdict {
    let labels = labels(runs);
    let checked: usize = runs.iter().map(|run| run.invariants.len()).sum();
    let mut broken = Vec::new();
    let mut unchecked = Vec::new();
    for (run, label) in runs.iter().zip(&labels) {
        if run.invariants.is_empty() {
            unchecked.push(label.clone());
        }
        broken.extend(run.broken().map(|bad| format!("{label}: {}: {}", bad.name, bad.detail)));
    }
    let sentence = if !broken.is_empty() {
        format!(
            "{} OF {} BROKEN: do not use these results",
            number(broken.len() as u64, "INVARIANT"),
            checked
        )
    } else if !unchecked.is_empty() {
        format!("NOT CHECKED: no invariants recorded for {}", unchecked.join(", "))
    } else {
        format!("all {} of {} held", number(checked as u64, "invariant"), number(runs.len() as u64, "run"))
    };
    Verdict { sentence, broken, unchecked }
}
