//! `ftl compare` and `ftl run`.

use std::time::Instant;

use clap::Args;
use sim::facts::labels;
use sim::format::{digits, time};
use sim::results::Run;
use sim::setup::{Resolved, SchemeSpec};
use sim::{Experiment, RunError};

use super::interrupt;
use super::memory;
use super::options::{threads, Options};
use super::output::{self, Detail};
use super::progress::Bars;
use super::repeat::Again;
use super::stop::{note, Stop};
#[cfg(feature = "complete")]
use super::watched::Watched;
use crate::report::Origin;

const COMPARE_EXAMPLES: &str = "\
Examples:
  ftl compare
      a first look in seconds: 4 KiB random and sequential reads and writes of 64 jobs on a small device
  ftl compare --device femu-32g
      the same jobs in full on 32 GiB, in minutes
  ftl compare jobs.fio --device femu-32g --export 30GiB --cache 3% --report out.html
  ftl compare --trace Financial1.spc.xz --cache 1%
      recorded arrival times, on the smallest preset that holds the trace
  ftl compare --trace prxy_0.csv.gz --mode closed --depth 64 --rows 0..100000
  ftl compare --schemes page,tpftl,tpftl:techniques=rs,tpftl:techniques=- --synth financial1
      one row for each variant of a scheme
  ftl compare jobs.fio --timing reserved --host-overhead-us 5 --host-cpus 4
  ftl compare jobs.fio --output-format=fio-json > fio.json

Sizes are bytes, or KiB, MiB, GiB, TiB (powers of 1024); shares are percent; times take us, ms, s, min, h.";

const RUN_EXAMPLES: &str = "\
Examples:
  ftl run tpftl                                        the built-in jobs, short, on a small device
  ftl run tpftl:techniques=rs --trace Financial1.spc.xz
  ftl run dftl jobs.fio --verify --faults program=20,erase=5
  ftl run page --synth websearch1 --requests 100000 --json -

Sizes are bytes, or KiB, MiB, GiB, TiB (powers of 1024); shares are percent; times take us, ms, s, min, h.";

/// Arguments of `ftl compare`.
#[derive(Args, Debug)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Schemes, with parameters where they differ from the defaults: NAME[:key=value…],… (see `ftl schemes`)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "page,dftl,tpftl")]
    schemes: Vec<SchemeSpec>,
    #[command(flatten)]
    options: Options,
}

/// Arguments of `ftl run`.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// Scheme, with parameters where they differ from the defaults (see `ftl schemes`)
    #[arg(help_heading = "Arguments", value_name = "SCHEME[:key=value…]")]
    scheme: SchemeSpec,
    #[command(flatten)]
    options: Options,
}

/// `ftl compare`.
pub(crate) fn compare(args: CompareArgs, again: &Again) -> Result<(), Stop> {
    for (index, scheme) in args.schemes.iter().enumerate() {
        if args.schemes[..index].contains(scheme) {
            return Err(Stop::user(format!("--schemes has {scheme} twice; give each variant once")));
        }
    }
    all(&args.schemes, &args.options, again, Detail::SideBySide)
}

/// `ftl run`.
pub(crate) fn run(args: RunArgs, again: &Again) -> Result<(), Stop> {
    all(&[args.scheme], &args.options, again, Detail::Full)
}

fn all(schemes: &[SchemeSpec], options: &Options, again: &Again, detail: Detail) -> Result<(), Stop> {
    let setup = options.setup()?;
    output::check(&options.output, &[], &setup.files())?;
    let setup = setup.resolve()?;
    let experiment =
        |scheme| Experiment { command: again.run(scheme, options.input.seed), ..setup.experiment(scheme) };
    let experiments: Vec<Experiment> = schemes.iter().map(experiment).collect();
    memory::check(&experiments, threads(options.running.threads))?;
    for experiment in &experiments {
        rehearse(experiment)?;
    }
    if !options.running.quiet {
        setup.notes.iter().for_each(|text| note(text));
    }
    interrupt::catch()?;
    let began = Instant::now();
    let names: Vec<String> = schemes.iter().map(ToString::to_string).collect();
    let bars = Bars::new(&names, options.running.quiet);
    let progress = &bars;
    #[cfg(feature = "complete")]
    let progress = &Watched::new(progress, &names, options.running.metrics)?;
    let results = sim::compare(&experiments, threads(options.running.threads), progress);
    bars.finish();
    conclude(results, &setup, options, detail, (began, again.origin()))
}

/// As [`sim::rehearse`].
pub(crate) fn rehearse(experiment: &Experiment) -> Result<(), Stop> {
    sim::rehearse(experiment).map_err(|error| in_words(&error))
}

/// Shows what there is, also when some runs failed or were stopped, and decides how the command ends.
fn conclude(
    results: Vec<Result<Run, RunError>>,
    setup: &Resolved,
    options: &Options,
    detail: Detail,
    (began, origin): (Instant, &Origin),
) -> Result<(), Stop> {
    let (mut runs, mut stops) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(run) => runs.push(run),
            Err(error) => {
                stops.push(in_words(&error));
                if let RunError::Broken { run, .. } = error {
                    runs.push(*run);
                }
            }
        }
    }
    let worst = stops.into_iter().min_by_key(|stop| match stop {
        Stop::Finding(_) => 0,
        Stop::Interrupted(_) => 2,
        _ => 1,
    });
    match worst {
        Some(stop) if runs.is_empty() => return Err(stop),
        _ => {}
    }
    output::show(&runs, &options.output, detail, began.elapsed(), origin)?;
    if !options.running.quiet {
        for (run, label) in runs.iter().zip(labels(&runs)) {
            let elapsed_ns = run.phases.iter().map(|phase| phase.elapsed_ns).sum();
            saturation(setup, &label, elapsed_ns).iter().for_each(|text| note(text));
        }
    }
    worst.map_or(Ok(()), Err)
}

/// A note when requests of an open-loop replay waited ever longer.
fn saturation(setup: &Resolved, label: &str, elapsed_ns: u64) -> Option<String> {
    let end = setup.arrivals_end_ns?;
    let late = elapsed_ns.saturating_sub(end);
    (late > end / 20 && late > 1_000_000_000).then(|| {
        format!(
            "{label} cannot keep up with the arrivals: it ended {} after the last one, so latencies tell the length of the \
             trace; replay it {} times as slowly (--time-scale), or without its times (--mode closed)",
            time(late as f64),
            digits((end + late) as f64 / end.max(1) as f64)
        )
    })
}

/// How the command ends for an error of a run.
pub(super) fn in_words(error: &RunError) -> Stop {
    match error {
        RunError::Stopped { .. } => Stop::Interrupted(error.to_string()),
        RunError::Broken { .. } | RunError::Panicked { .. } => Stop::Finding(error.to_string()),
        RunError::Overload { .. } => Stop::User(format!(
            "{error}; replay it more slowly (--time-scale), without its times (--mode closed), or with fewer requests in the \
             device at once (--depth)"
        )),
        _ => Stop::User(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        #[derive(clap::Parser)]
        struct Call {
            #[command(flatten)]
            options: Options,
        }
        let call = <Call as clap::Parser>::try_parse_from(["ftl", "--device", "tpftl-512m", "--quiet"]);
        call.expect("a call").options
    }

    /// What the command says when a run ends like this.
    fn ended(error: RunError) -> Stop {
        let options = options();
        let setup = options.setup().expect("no standard input").resolve().expect("a set-up");
        let ended = conclude(
            vec![Err(error)],
            &setup,
            &options,
            Detail::SideBySide,
            (Instant::now(), &Origin::default()),
        );
        ended.expect_err("a stop")
    }

    #[test]
    fn a_broken_invariant_is_a_finding_with_the_command_that_repeats_it() {
        let broken = RunError::Broken {
            run: Box::default(),
            first: "issued = completed (3, 2)".to_owned(),
            repeat: "ftl run dftl a.fio --seed 3".to_owned(),
        };
        let Stop::Finding(sentence) = ended(broken) else { panic!("no finding") };
        assert_eq!(
            sentence,
            "broken invariant: issued = completed (3, 2); repeat with: ftl run dftl a.fio --seed 3"
        );
    }

    #[test]
    fn a_load_that_is_too_much_names_the_options_that_help() {
        let overload = RunError::Overload {
            scheme: "dftl".to_owned(),
            phase: "log".to_owned(),
            request: 7,
            operations: 1000,
        };
        let Stop::User(sentence) = ended(overload) else { panic!("no mistake of the user") };
        assert!(
            sentence.contains("over 1000 flash operations wait in it (scheme dftl, phase log, request 7)")
        );
        assert!(["--time-scale", "--mode closed", "--depth"].iter().all(|option| sentence.contains(option)));
    }

    #[test]
    fn a_panic_of_a_scheme_is_a_finding_and_bad_input_is_not() {
        let panicked = RunError::Panicked {
            scheme: "dftl".to_owned(),
            phase: "mixed".to_owned(),
            seed: 3,
            message: "left\nright".to_owned(),
            repeat: "ftl run dftl a.fio --seed 3".to_owned(),
        };
        assert!(
            matches!(ended(panicked), Stop::Finding(text) if text.contains("repeat with: ftl run dftl a.fio"))
        );
        assert!(
            matches!(ended(RunError::Spec(sim::BadValue("too small".to_owned()))), Stop::User(text) if text == "too small")
        );
    }
}
