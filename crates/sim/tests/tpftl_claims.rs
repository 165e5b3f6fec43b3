//! The claims of the TPFTL paper (EuroSys 2015) about DFTL, S-FTL, CDFTL and TPFTL, on synthetic stand-ins
//! for its four traces: each is held to the direction the paper names and to a band around the value that it
//! has today (`tpftl_claims.txt`), and printed beside the paper's value.
//!
//! `cargo test -p ftlkit-sim --test suite tpftl_claims -- --nocapture` prints the tables, and
//! `docs/schemes/tpftl.md` explains them. The device is filled once, sequentially, then written with the
//! first part of the requests, both with the clock off, and its mapping cache is cleaned. The rest arrive
//! when the generator says (open loop) on one chip, first come first served.

use std::sync::Arc;

use nand::timing::Policy;
use nand::DeviceSpec;
use sim::results::{ratio, Phase, Run};
use sim::{compare, CacheSize, CacheState, Experiment, Listed, Load, PhaseSpec, Series, TimingModel};
use workload::fio::{BlockSize, JobSpec, Pattern};
use workload::synth::Synth;
use workload::Request;

/// A generator, its device, the cache of the paper's section 5.1, and how many requests run before and while
/// measuring.
struct Trace {
    name: &'static str,
    device: &'static str,
    cache_bytes: u64,
    before: u64,
    measured: u64,
}

const TRACES: [Trace; 4] = [
    Trace { name: "financial1", device: "tpftl-512m", cache_bytes: 8704, before: 100_000, measured: 200_000 },
    Trace { name: "financial2", device: "tpftl-512m", cache_bytes: 8704, before: 200_000, measured: 300_000 },
    Trace { name: "msr-ts", device: "tpftl-16g", cache_bytes: 278_528, before: 350_000, measured: 300_000 },
    Trace { name: "msr-src", device: "tpftl-16g", cache_bytes: 278_528, before: 350_000, measured: 300_000 },
];

/// On every trace, in this order.
const SCHEMES: [&str; 5] = ["page", "dftl", "tpftl", "sftl", "cdftl"];

/// Techniques of figures 7 and 8, on Financial1 alone.
const VARIANTS: [&str; 7] = ["-", "b", "c", "bc", "r", "s", "rs"];

/// What one scheme did on one trace.
#[derive(Clone, Copy, Debug)]
struct Found {
    hit_ratio: f64,
    /// Probability of replacing a dirty entry.
    dirty: f64,
    /// Translation pages read and written, for requests and in collection.
    table_reads: f64,
    table_writes: f64,
    response_us: f64,
    write_amplification: f64,
    erases: f64,
    /// Mappings cached at the end.
    cached: f64,
    /// Share of time the chip was busy.
    busy: f64,
    valid_per_victim: f64,
}

impl Found {
    fn of(run: &Run) -> Found {
        let phase: &Phase = &run.phases[0];
        let (host, gc) = (phase.flash["translation"], phase.flash["collection"]);
        let moved = phase.gc.valid_moved_data;
        let part =
            |name: &str| run.memory.parts.iter().find(|part| part.name == name).map_or(0, |part| part.bytes);
        Found {
            hit_ratio: phase.mapping.hit_ratio().unwrap(),
            dirty: phase.mapping.dirty_share().unwrap_or(0.0),
            // Collection reads and programs data pages that it moves; all else it reads and programs is
            // table.
            table_reads: (host.reads + gc.reads - moved) as f64,
            table_writes: (host.programs + gc.programs - moved) as f64,
            response_us: phase.mean_latency_ns().unwrap() / 1000.0,
            write_amplification: phase.write_amplification().unwrap().total,
            erases: phase.flash_total().erases as f64,
            cached: part("CMT") as f64 / 8.0 + part("CMT entries") as f64 / 6.0,
            busy: phase.die_use.unwrap().busy_mean,
            valid_per_victim: phase.gc.valid_per_collection().unwrap_or(0.0),
        }
    }
}

/// One number of the paper and ours.
struct Claim {
    figure: &'static str,
    what: String,
    paper: f64,
    ours: f64,
    /// Positive when ours points where the paper's does.
    margin: f64,
}

impl Claim {
    /// A claim that something is gained or saved.
    fn gain(figure: &'static str, what: impl Into<String>, paper: f64, ours: f64) -> Claim {
        Claim { figure, what: what.into(), paper, ours, margin: ours }
    }

    /// A claim with a measure of its own for the direction.
    fn measured(figure: &'static str, what: impl Into<String>, paper: f64, ours: f64, margin: f64) -> Claim {
        Claim { margin, ..Claim::gain(figure, what, paper, ours) }
    }
}

/// 1 - a/b.
fn saved(a: f64, b: f64) -> f64 {
    1.0 - ratio(a, b).unwrap_or(1.0)
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// The MSR traces on a device that was filled in random order, not sequentially: there S-FTL finds nothing to
/// compress but what the trace itself writes in sequence.
const FILLED_AT_RANDOM: [&str; 3] = ["dftl", "tpftl", "sftl"];

/// Writes every page once, 16 KiB at a time, in random order: runs are four pages long.
fn random_fill() -> PhaseSpec {
    let mut job = JobSpec::new("random fill");
    job.rw = Pattern::RandWrite;
    let bs = || BlockSize::Fixed(16 << 10);
    job.bs = [bs(), bs(), bs()];
    PhaseSpec::new("random fill", Load::Jobs(workload::fio::Phase { jobs: vec![job], warm_up: true }))
}

fn experiment(trace: &Trace, scheme: &str, techniques: Option<&str>) -> Experiment {
    let mut requests = Synth::open(trace.name, trace.before + trace.measured, 1).unwrap();
    let before: Vec<Request> = requests.by_ref().take(trace.before as usize).collect();
    let begun_ns = before.last().map_or(0, |request| request.arrival_ns);
    let measured: Vec<Request> =
        requests.map(|request| Request { arrival_ns: request.arrival_ns - begun_ns, ..request }).collect();
    let mut e = Experiment::new(DeviceSpec::named(trace.device).unwrap(), scheme);
    e.cache = CacheSize::Bytes(trace.cache_bytes);
    e.timing = TimingModel::Queued { policy: Some(Policy::Fcfs) };
    e.series = Series::Off;
    e.workload = trace.name.to_owned();
    if let Some(techniques) = techniques {
        e.parameters.insert("techniques".to_owned(), techniques.to_owned());
    }
    let open = |name: &str, requests: Vec<Request>| {
        let source = Arc::new(Listed::new(trace.name, requests));
        PhaseSpec::new(name, Load::Open { source, outstanding: None })
    };
    e.warm_up = vec![PhaseSpec::warm_up(workload::warm_up::FILL), open("before", before)];
    e.cache_state = CacheState::Clean;
    e.phases = vec![open("measured", measured)];
    e
}

#[test]
fn directions_of_the_paper() {
    let mut experiments = Vec::new();
    let mut names = Vec::new();
    for trace in &TRACES {
        for scheme in SCHEMES {
            experiments.push(experiment(trace, scheme, None));
            names.push(format!("{} {scheme}", trace.name));
        }
    }
    for techniques in VARIANTS {
        experiments.push(experiment(&TRACES[0], "tpftl", Some(techniques)));
        names.push(format!("financial1 tpftl {techniques}"));
    }
    for trace in &TRACES[2..] {
        for scheme in FILLED_AT_RANDOM {
            let mut e = experiment(trace, scheme, None);
            e.warm_up[0] = random_fill();
            experiments.push(e);
            names.push(format!("{} {scheme}, random fill", trace.name));
        }
    }
    let runs = compare(&experiments, 2, &());
    let found: Vec<Found> =
        runs.iter().map(|run| run.as_ref().map_or_else(|error| panic!("{error}"), Found::of)).collect();
    print_found(&names, &found);
    let mut claims = Vec::new();
    claims_about_dftl(&Findings(&found), &mut claims);
    claims_about_tpftl(&Findings(&found), &mut claims);
    claims_about_sftl(&Findings(&found), &mut claims);
    claims_about_techniques(&Findings(&found), &mut claims);
    print_claims(&claims);
    for (name, found) in names.iter().zip(&found) {
        assert!(found.busy < 0.5, "{name} is saturated: the chip is busy for {} of the time", found.busy);
    }
    for Claim { figure, what, ours, margin, .. } in &claims {
        assert!(*margin > 0.0, "figure {figure}: {what}: {ours}");
    }
    within_the_bands(&claims);
}

/// So far a claim may move from the value that it has today: of that value, or absolute, whichever is more.
const BAND: f64 = 0.1;
const BAND_OF_SMALL: f64 = 0.01;
const BANDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tpftl_claims.txt");

/// A row for each claim: figure, claim, value. `FTL_BLESS=1` writes them anew.
fn within_the_bands(claims: &[Claim]) {
    let row = |claim: &Claim| format!("{}\t{}\t{:.4}\n", claim.figure, claim.what, claim.ours);
    if std::env::var_os("FTL_BLESS").is_some() {
        std::fs::write(BANDS, claims.iter().map(row).collect::<String>()).unwrap();
    }
    let bands = std::fs::read_to_string(BANDS).unwrap();
    assert_eq!(bands.lines().count(), claims.len(), "a row for each claim: FTL_BLESS=1");
    for (claim, line) in claims.iter().zip(bands.lines()) {
        let [figure, what, today] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert_eq!((figure, what), (claim.figure, claim.what.as_str()), "the rows are those of the claims");
        let today: f64 = today.parse().unwrap();
        let room = (BAND * today.abs()).max(BAND_OF_SMALL);
        assert!(
            (claim.ours - today).abs() <= room,
            "figure {figure}: {what}: {:.4} is not within {room:.4} of {today}",
            claim.ours
        );
    }
}

/// The findings of `directions_of_the_paper`, by trace and by variant.
struct Findings<'a>(&'a [Found]);

impl Findings<'_> {
    fn ideal(&self, trace: usize) -> &Found {
        &self.0[SCHEMES.len() * trace]
    }

    fn dftl(&self, trace: usize) -> &Found {
        &self.0[SCHEMES.len() * trace + 1]
    }

    fn tpftl(&self, trace: usize) -> &Found {
        &self.0[SCHEMES.len() * trace + 2]
    }

    fn sftl(&self, trace: usize) -> &Found {
        &self.0[SCHEMES.len() * trace + 3]
    }

    fn cdftl(&self, trace: usize) -> &Found {
        &self.0[SCHEMES.len() * trace + 4]
    }

    /// DFTL, TPFTL and S-FTL on one of the MSR traces, on a device that was filled in random order.
    fn filled_at_random(&self, trace: usize) -> [&Found; 3] {
        let first = SCHEMES.len() * TRACES.len() + VARIANTS.len() + FILLED_AT_RANDOM.len() * (trace - 2);
        [first, first + 1, first + 2].map(|at| &self.0[at])
    }

    fn variant(&self, techniques: &str) -> &Found {
        let at = VARIANTS.iter().position(|variant| *variant == techniques).unwrap();
        &self.0[SCHEMES.len() * TRACES.len() + at]
    }

    /// What TPFTL saves against DFTL on each trace.
    fn saved(&self, of: fn(&Found) -> f64) -> [f64; 4] {
        [0, 1, 2, 3].map(|trace| saved(of(self.tpftl(trace)), of(self.dftl(trace))))
    }
}

/// Table 2: what DFTL loses against the ideal page map.
fn claims_about_dftl(found: &Findings, claims: &mut Vec<Claim>) {
    for (t, paper) in [0.634, 0.526, 0.594, 0.582].into_iter().enumerate() {
        let ours = saved(found.ideal(t).response_us, found.dftl(t).response_us);
        claims.push(Claim::gain(
            "T2",
            format!("DFTL's loss against the ideal, {}", TRACES[t].name),
            paper,
            ours,
        ));
    }
    for (t, paper) in [0.459, 0.526, 0.304, 0.562].into_iter().enumerate() {
        let ours = found.dftl(t).erases / found.ideal(t).erases - 1.0;
        claims.push(Claim::gain("T2", format!("DFTL's extra erasures, {}", TRACES[t].name), paper, ours));
    }
}

/// Figures 6, 7(a) and 10: TPFTL against DFTL.
fn claims_about_tpftl(found: &Findings, claims: &mut Vec<Claim>) {
    for (t, trace) in TRACES.iter().enumerate() {
        let (ours, dftl) = (found.tpftl(t).dirty, found.dftl(t).dirty);
        let what = format!("dirty replacement, {}, below", trace.name);
        claims.push(Claim::measured("6a", what, 0.04, ours, dftl / 2.0 - ours));
    }
    let mut claim = |figure, what, paper, ours| claims.push(Claim::gain(figure, what, paper, ours));
    let gained = [0, 1, 2, 3].map(|t| found.tpftl(t).hit_ratio - found.dftl(t).hit_ratio);
    claim("6b", "hit ratio gained, Financial mean", 0.148, mean(&gained[..2]));
    claim("6b", "hit ratio gained, MSR mean", 0.164, mean(&gained[2..]));
    let reads = found.saved(|f| f.table_reads);
    claim("6c", "translation page reads saved, Financial mean", 0.442, mean(&reads[..2]));
    claim("6c", "translation page reads saved, MSR mean", 0.877, mean(&reads[2..]));
    let writes = found.saved(|f| f.table_writes);
    claim("6d", "translation page writes saved, Financial mean", 0.505, mean(&writes[..2]));
    claim("6d", "translation page writes saved, MSR mean", 0.988, mean(&writes[2..]));
    let response = found.saved(|f| f.response_us);
    claim("6e", "response time saved, financial1", 0.235, response[0]);
    claim("6e", "response time saved, financial2", 0.209, response[1]);
    claim("6e", "response time saved, MSR mean", 0.576, mean(&response[2..]));
    let written = found.saved(|f| f.write_amplification);
    claim("6f", "write amplification saved, Financial mean", 0.262, mean(&written[..2]));
    claim("6f", "write amplification saved, MSR mean", 0.138, mean(&written[2..]));
    let erases = found.saved(|f| f.erases);
    claim("7a", "erasures saved, mean", 0.345, mean(&erases));
    claim("7a", "erasures saved, at most", 0.556, erases.into_iter().fold(f64::MIN, f64::max));
    let (ts, src) = (found.tpftl(2).hit_ratio, found.tpftl(3).hit_ratio);
    let margin = ts.min(src) - found.dftl(2).hit_ratio.max(found.dftl(3).hit_ratio);
    claims.push(Claim::measured("6b", "hit ratio on the MSR traces, above", 0.95, ts.min(src), margin));
    for (t, trace) in TRACES.iter().enumerate() {
        let ours = found.tpftl(t).cached / found.dftl(t).cached - 1.0;
        let margin = ours.min(1.0 / 3.0 - ours);
        let what = format!("more entries cached, {}, up to", trace.name);
        claims.push(Claim::measured("10", what, 0.33, ours, margin));
    }
}

/// Figure 6: S-FTL, and CDFTL, which the paper leaves out because S-FTL does better.
fn claims_about_sftl(found: &Findings, claims: &mut Vec<Claim>) {
    for (t, trace) in TRACES.iter().enumerate() {
        let (tpftl, sftl) = (found.tpftl(t), found.sftl(t));
        let what = format!("dirty replacement saved against S-FTL, {}", trace.name);
        claims.push(Claim::gain("6a", what, 0.58, saved(tpftl.dirty, sftl.dirty)));
        let what = format!("write amplification of CDFTL over S-FTL's, {}", trace.name);
        let ours = found.cdftl(t).write_amplification / sftl.write_amplification - 1.0;
        claims.push(Claim::gain("5.1", what, f64::NAN, ours));
    }
    let against = |of: fn(&Found) -> f64| [0, 1].map(|t| saved(of(found.tpftl(t)), of(found.sftl(t))));
    let mut claim = |figure, what, paper, ours| claims.push(Claim::gain(figure, what, paper, ours));
    let gained = [0, 1].map(|t| found.tpftl(t).hit_ratio - found.sftl(t).hit_ratio);
    claim("6b", "hit ratio gained on S-FTL, Financial mean".to_owned(), 0.155, mean(&gained));
    claim(
        "6c",
        "table reads saved against S-FTL, Financial".to_owned(),
        0.349,
        mean(&against(|f| f.table_reads)),
    );
    claim(
        "6d",
        "table writes saved against S-FTL, Financial".to_owned(),
        0.314,
        mean(&against(|f| f.table_writes)),
    );
    claim(
        "6e",
        "response time saved against S-FTL, financial1".to_owned(),
        0.241,
        against(|f| f.response_us)[0],
    );
    claim(
        "6e",
        "response time saved against S-FTL, financial2".to_owned(),
        0.117,
        against(|f| f.response_us)[1],
    );
    claim(
        "6f",
        "write amplification saved against S-FTL, Financial".to_owned(),
        0.131,
        mean(&against(|f| f.write_amplification)),
    );
    for t in [2, 3] {
        // Filled sequentially, most translation pages are a few runs, and S-FTL keeps them all: it hits more
        // often than TPFTL and writes less. What the paper found takes a table that does not
        // compress.
        let [dftl, tpftl, sftl] = found.filled_at_random(t);
        let name = TRACES[t].name;
        claim(
            "6d",
            format!("table writes saved against S-FTL, random fill, {name}"),
            0.926,
            saved(tpftl.table_writes, sftl.table_writes),
        );
        claim(
            "6d",
            format!("table writes saved against DFTL, random fill, {name}"),
            0.988,
            saved(tpftl.table_writes, dftl.table_writes),
        );
        claim(
            "6a",
            format!("dirty replacement saved against S-FTL, random fill, {name}"),
            0.58,
            saved(tpftl.dirty, sftl.dirty),
        );
        claim(
            "6b",
            format!("hit ratio of S-FTL gained on DFTL, {name}"),
            0.16,
            found.sftl(t).hit_ratio - found.dftl(t).hit_ratio,
        );
    }
}

/// Figures 7(b), 7(c) and 8: what each technique brings on Financial1.
fn claims_about_techniques(found: &Findings, claims: &mut Vec<Claim>) {
    let ours = saved(found.variant("bc").dirty, found.variant("b").dirty);
    claims.push(Claim::gain("7b", "dirty replacement saved by bc against b", 0.543, ours));
    for (techniques, paper) in [("r", 0.047), ("s", 0.056), ("rs", 0.11)] {
        let ours = found.variant(techniques).hit_ratio - found.variant("-").hit_ratio;
        claims.push(Claim::gain("7c", format!("hit ratio gained by {techniques}"), paper, ours));
    }
    for (techniques, paper) in [("bc", 0.249), ("rs", 0.104)] {
        let ours = saved(found.variant(techniques).response_us, found.variant("-").response_us);
        claims.push(Claim::gain("8a", format!("response time saved by {techniques}"), paper, ours));
    }
    for (techniques, paper) in [("bc", 0.211), ("rs", 0.091)] {
        let (with, without) = (found.variant(techniques), found.variant("-"));
        let ours = saved(with.write_amplification, without.write_amplification);
        claims.push(Claim::gain("8b", format!("write amplification saved by {techniques}"), paper, ours));
    }
}

fn print_found(names: &[String], found: &[Found]) {
    println!(
        "{:<24} {:>6} {:>6} {:>9} {:>9} {:>12} {:>6} {:>7} {:>6} {:>5} {:>6}",
        "run",
        "hit",
        "dirty",
        "tp reads",
        "tp writes",
        "response us",
        "WA",
        "erases",
        "cached",
        "busy",
        "valid"
    );
    for (name, f) in names.iter().zip(found) {
        println!(
            "{name:<24} {:>6.3} {:>6.3} {:>9} {:>9} {:>12.1} {:>6.3} {:>7} {:>6} {:>5.2} {:>6.1}",
            f.hit_ratio,
            f.dirty,
            f.table_reads,
            f.table_writes,
            f.response_us,
            f.write_amplification,
            f.erases,
            f.cached,
            f.busy,
            f.valid_per_victim
        );
    }
}

fn print_claims(claims: &[Claim]) {
    println!("\n{:<5} {:<64} {:>6} {:>7}", "fig.", "claim", "paper", "ours");
    for Claim { figure, what, paper, ours, margin } in claims {
        let verdict = if *margin > 0.0 { "" } else { "DIFFERS" };
        println!("{figure:<5} {what:<64} {paper:>6.3} {ours:>7.3} {verdict}");
    }
}
