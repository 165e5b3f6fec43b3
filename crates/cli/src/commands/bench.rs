//! `ftl bench`: the simulator's own speed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use papers::training::{self, TrainingBench};
use serde::{Deserialize, Serialize};
use sim::bench::{bench as measure, BenchOptions, BenchReport, Rate};
use sim::format::{bytes, count, digits, factor, maybe, NOTHING};
use sim::setup::{number, SchemeSpec};

use super::files::{self, write};
use super::interrupt;
use super::progress::Bars;
use super::stop::{say, Stop};
use crate::table::grid::Grid;

const QUICK: f64 = 0.1;

/// Arguments of `ftl bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl bench --quick
  ftl bench --schemes tpftl --json bench.json

Rates are per second of processor time of one core, with every check on that a run makes while it goes.")]
pub(crate) struct BenchArgs {
    /// Schemes to measure [default: all but the log-block schemes, which take hours: block, bast, fast, last,
    /// faster, waftl, adapt]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    schemes: Vec<SchemeSpec>,
    /// Measure a tenth of the requests, after the same preparation: less exact
    #[arg(long)]
    quick: bool,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number)]
    seed: u64,
    /// Write the numbers as JSON (`-`: to standard output, in place of the tables)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// What `ftl bench` measures and `--json` writes.
#[derive(Default, Serialize, Deserialize)]
struct Report {
    #[serde(flatten)]
    speed: BenchReport,
    /// What LearnedFTL's controller computes; measured with the scheme `learnedftl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    training: Option<TrainingBench>,
}

/// `ftl bench`.
pub(crate) fn bench(args: BenchArgs) -> Result<(), Stop> {
    files::check(&[("--json", args.json.as_deref())], &[])?;
    let mut options = BenchOptions::standard().map_err(Stop::user)?;
    if let Some(scheme) = args.schemes.iter().find(|scheme| !scheme.parameters.is_empty()) {
        return Err(Stop::user(format!(
            "ftl bench measures schemes as they are; leave the parameters out of {scheme}"
        )));
    }
    options.schemes = args.schemes.iter().map(|scheme| scheme.name.clone()).collect();
    for name in &options.schemes {
        SchemeSpec::info(name)?;
    }
    options.seed = args.seed;
    if args.quick {
        options.effort = QUICK;
    }
    let bars = Bars::new(&["bench".to_owned()], args.quiet);
    let report = if options.schemes.len() == 1 {
        let mut tell = |what: &str| bars.begin(0, what);
        let learned = options.schemes[0] == "learnedftl";
        let training = learned.then(|| {
            tell("learnedftl: training");
            training::measure(options.seed)
        });
        Report { speed: measure(&options, &mut tell).map_err(Stop::user)?, training }
    } else {
        one_process_each(&args, &options, |what| bars.begin(0, what))?
    };
    bars.finish();
    if report.speed.schemes.is_empty() {
        return Err(Stop::Interrupted("stopped before a scheme was measured".to_owned()));
    }
    let json = || Ok::<_, Stop>(sim::results::pretty(&serde_json::to_value(&report).map_err(Stop::user)?));
    match &args.json {
        Some(path) if path.as_os_str() == "-" => return say(&json()?),
        Some(path) => write(path, &json()?)?,
        None => {}
    }
    say(&tables(&report))?;
    if interrupt::asked() {
        return Err(Stop::Interrupted(format!("stopped after {} schemes", report.speed.schemes.len())));
    }
    Ok(())
}

/// Measures each scheme in a process of its own, so that none finds the memory and the caches that another
/// left.
fn one_process_each(
    args: &BenchArgs,
    options: &BenchOptions,
    mut tell: impl FnMut(&str),
) -> Result<Report, Stop> {
    let program = std::env::current_exe().map_err(Stop::user)?;
    let usual = ftl::schemes::ALL.iter().map(|info| info.name.to_owned());
    let all = usual.filter(|name| !ftl::schemes::LOG_BLOCK.contains(&name.as_str())).collect();
    let schemes: Vec<String> = if options.schemes.is_empty() { all } else { options.schemes.clone() };
    let mut report = Report::default();
    interrupt::catch()?;
    for scheme in schemes {
        tell(&scheme);
        let mut child = Command::new(&program);
        child.args([
            "bench",
            "--quiet",
            "--json",
            "-",
            "--schemes",
            &scheme,
            "--seed",
            &args.seed.to_string(),
        ]);
        if args.quick {
            child.arg("--quick");
        }
        let output = child.stderr(Stdio::inherit()).output().map_err(Stop::user)?;
        if interrupt::asked() {
            break;
        }
        if !output.status.success() {
            return Err(Stop::user(format!("the measurement of {scheme} ended with {}", output.status)));
        }
        let part: Report = serde_json::from_slice(&output.stdout).map_err(Stop::user)?;
        report.speed.device = part.speed.device;
        report.speed.small_device = part.speed.small_device;
        report.speed.schemes.extend(part.speed.schemes);
        report.speed.small.extend(part.speed.small);
        report.training = report.training.or(part.training);
    }
    Ok(report)
}

fn tables(Report { speed: report, training }: &Report) -> String {
    let per_s = |rate: &Rate| [count(rate.requests_per_s), count(rate.flash_ops_per_s)];
    let of = |value: Option<f64>| maybe(value, factor);
    let mut large = Grid::new(
        format!("{}, 64 jobs of 4 KiB: host requests and flash operations a CPU second", report.device),
        [
            "scheme",
            "reads reserved",
            "flash",
            "reads queued",
            "flash",
            "writes, no clock",
            "flash",
            "WA",
            "fill",
            "a page",
        ],
    );
    for scheme in &report.schemes {
        let [reserved, reserved_ops] = per_s(&scheme.reads_reserved);
        let [queued, queued_ops] = per_s(&scheme.reads_queued);
        let [writes, writes_ops] = per_s(&scheme.writes_no_clock);
        large.row([
            scheme.scheme.clone(),
            reserved,
            reserved_ops,
            queued,
            queued_ops,
            writes,
            writes_ops,
            of(scheme.writes_no_clock.write_amplification),
            format!("{} s", digits(scheme.precondition_s)),
            scheme.bytes_per_page.map_or_else(|| NOTHING.to_owned(), |value| format!("{} B", digits(value))),
        ]);
    }
    let mut out = large.text();
    if let Some(scheme) = report.schemes.first() {
        out += &format!(
            "fill: preconditioning with {}; a page: memory of array and scheme for each physical page\n",
            bytes(scheme.precondition_bytes)
        );
    }
    if let Some(training) = training {
        out += &format!(
            "LearnedFTL on this processor: {} us to sort and train a GTD entry, {} us a prediction (paper, Cortex-A72: 50 and 0.65)\n",
            digits(training.sort_and_train_us),
            digits(training.predict_us)
        );
    }
    if report.small.is_empty() {
        return out;
    }
    let mut small = Grid::new(
        format!(
            "{}, queued, depth 32, 4 KiB: host requests and flash operations a CPU second",
            report.small_device
        ),
        ["scheme", "sequential writes", "flash", "random reads", "flash", "random writes", "flash", "WA"],
    );
    for scheme in &report.small {
        let [sequential, sequential_ops] = per_s(&scheme.sequential_write);
        let [reads, reads_ops] = per_s(&scheme.random_read);
        let [writes, writes_ops] = per_s(&scheme.random_write);
        let wa = of(scheme.random_write.write_amplification);
        small.row([
            scheme.scheme.clone(),
            sequential,
            sequential_ops,
            reads,
            reads_ops,
            writes,
            writes_ops,
            wa,
        ]);
    }
    out + "\n" + &small.text()
}
