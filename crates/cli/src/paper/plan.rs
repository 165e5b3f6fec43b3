//! From figures to experiments. What several figures share is run once.

use std::collections::BTreeMap;

use clap::Parser;
use serde_json::Value as Json;
use sim::results::{Phase, Run};
use sim::{Experiment, PhaseSpec, RunError};

use super::claim::{Measured, Missing};
use super::file::{Case, Figure, Host, Place};
use super::live::Live;
use super::quantity::Quantity;
use crate::commands::options::Options;
use crate::commands::setup::{JobText, Setup};
use crate::commands::stop::Stop;
use crate::commands::values::SchemeSpec;

/// Behind the name of a phase that was measured with the host's time.
pub(crate) const WITH_HOST: &str = " with host";
/// Jobs that stand for a program's requests where an experiment needs some and nobody runs them.
const NOTHING_RUN: &str = "[program]\nrw=read\n";

#[derive(Debug, Parser)]
#[command(name = "ftl compare", no_binary_name = true)]
struct Call {
    #[command(flatten)]
    options: Options,
}

/// A scheme of a case, and the experiment that answers for it.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) figure: usize,
    pub(crate) case: String,
    /// As the file names the scheme.
    pub(crate) row: String,
    /// Index of the experiment; otherwise what this build does not have.
    pub(crate) experiment: Result<usize, String>,
}

/// Everything that is to be run.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) experiments: Vec<Experiment>,
    /// What each runs on a live device, if it does.
    pub(crate) live: Vec<Option<Live>>,
    /// A name for each.
    pub(crate) labels: Vec<String>,
    pub(crate) cells: Vec<Cell>,
    /// What the user should know of a figure's set-up, by figure.
    pub(crate) notes: Vec<Vec<String>>,
    known: BTreeMap<String, usize>,
}

impl Plan {
    /// The experiments of all figures, with those of equal set-up once.
    pub(crate) fn new(
        figures: &[&Figure],
        keep: &dyn Fn(&str) -> bool,
        seed: u64,
        repeat: &str,
    ) -> Result<Plan, Stop> {
        let mut plan = Plan { notes: vec![Vec::new(); figures.len()], ..Plan::default() };
        for (index, figure) in figures.iter().enumerate() {
            for case in &figure.cases {
                let at = |stop: Stop| match stop {
                    Stop::User(what) => Stop::user(format!("{}: case `{}`: {what}", figure.file, case.name)),
                    other => other,
                };
                plan.case(index, figure, case, keep, seed, repeat).map_err(at)?;
            }
        }
        Ok(plan)
    }

    /// How many experiments, from the first on, the figures up to this one need: they are planned in that order.
    pub(crate) fn needed_up_to(&self, figure: usize) -> usize {
        let cells = self.cells.iter().filter(|cell| cell.figure <= figure);
        cells.filter_map(|cell| cell.experiment.as_ref().ok()).map(|&at| at + 1).max().unwrap_or(0)
    }

    fn case(
        &mut self,
        index: usize,
        figure: &Figure,
        case: &Case,
        keep: &dyn Fn(&str) -> bool,
        seed: u64,
        repeat: &str,
    ) -> Result<(), Stop> {
        let at = case.words.iter().position(|word| word == "--synth");
        let synth = at.and_then(|at| case.words.get(at + 1));
        if let Some(synth) = synth.filter(|synth| workload::synth::Synth::find(synth).is_err()) {
            for row in &case.rows {
                let experiment = Err(format!("workload {synth}"));
                self.cells.push(Cell {
                    figure: index,
                    case: case.name.clone(),
                    row: row.name.clone(),
                    experiment,
                });
            }
            return Ok(());
        }
        let mut words = case.words.clone();
        words.extend(["--seed".to_owned(), seed.to_string()]);
        let call = Call::try_parse_from(&words).map_err(|error| Stop::of_clap(&error, &[]))?;
        let live = &case.live;
        let text = case.jobs.as_deref().unwrap_or(if live.is_some() { NOTHING_RUN } else { "" });
        let setup = Setup::with_jobs(&call.options, JobText { name: &format!("{}.fio", figure.id), text })?;
        for note in &setup.notes {
            if !self.notes[index].contains(note) {
                self.notes[index].push(note.clone());
            }
        }
        for row in &case.rows {
            let name = row.spec.split(':').next().unwrap_or_default();
            if !keep(name) {
                continue;
            }
            let built = ftl::schemes::ALL.iter().any(|info| info.name == name);
            let experiment = if built {
                let spec: SchemeSpec = row.spec.parse()?;
                let host = figure.host.as_ref().map(|host| host.time);
                let key = format!("{spec}\n{words:?}\n{text}\n{host:?}\n{live:?}");
                let next = self.experiments.len();
                let at = *self.known.entry(key).or_insert(next);
                if at == next {
                    self.experiments.push(experiment(&setup, &spec, figure.host.as_ref(), repeat, figure));
                    self.live.push(live.clone());
                    self.labels.push(label(figure, case, &spec));
                }
                Ok(at)
            } else {
                Err(name.to_owned())
            };
            self.cells.push(Cell {
                figure: index,
                case: case.name.clone(),
                row: row.name.clone(),
                experiment,
            });
        }
        Ok(())
    }
}

fn label(figure: &Figure, case: &Case, spec: &SchemeSpec) -> String {
    if figure.cases.len() == 1 {
        format!("{} {spec}", figure.id)
    } else {
        format!("{} {} {spec}", figure.id, case.name)
    }
}

/// One scheme under a case. With a host, each phase is measured a second time with its time added.
fn experiment(
    setup: &Setup,
    spec: &SchemeSpec,
    host: Option<&Host>,
    repeat: &str,
    figure: &Figure,
) -> Experiment {
    let mut experiment = setup.base().clone();
    experiment.scheme.clone_from(&spec.name);
    experiment.parameters.clone_from(&spec.parameters);
    experiment.command = format!("{repeat} --figure {} --schemes {}", figure.id, spec.name);
    if let Some(host) = host {
        let twice = |phase: &PhaseSpec| {
            let name = format!("{}{WITH_HOST}", phase.name);
            [phase.clone(), PhaseSpec { name, host: Some(host.time), ..phase.clone() }]
        };
        experiment.phases = experiment.phases.iter().flat_map(twice).collect();
    }
    experiment
}

/// What the runs of a plan found, as one figure sees it.
pub(crate) struct Results<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) runs: &'a [Result<Run, RunError>],
    pub(crate) figure: usize,
    pub(crate) bench: Option<&'a Json>,
}

impl<'a> Results<'a> {
    /// The cells of the figure.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &'a Cell> + '_ {
        self.plan.cells.iter().filter(|cell| cell.figure == self.figure)
    }

    /// The run behind a cell, or why there is none.
    pub(crate) fn run(&self, cell: &Cell) -> Result<&'a Run, Missing> {
        match &self.runs[cell.experiment.clone().map_err(Missing::NotBuilt)?] {
            Ok(run) => Ok(run),
            Err(error) => Err(Missing::Because(error.to_string())),
        }
    }

    /// Runs of the figure with their cells.
    pub(crate) fn found(&self) -> Vec<(&'a Cell, &'a Run)> {
        self.cells().filter_map(|cell| Some((cell, self.run(cell).ok()?))).collect()
    }
}

/// A run's phase of that name; the first if it has none.
pub(crate) fn phase<'a>(run: &'a Run, name: &str, host: bool) -> Option<&'a Phase> {
    let suffix = if host { WITH_HOST } else { "" };
    if name.is_empty() {
        return run.phases.iter().find(|phase| phase.name.ends_with(WITH_HOST) == host);
    }
    run.phase(&format!("{name}{suffix}"))
}

impl Measured for Results<'_> {
    fn at(&self, place: &Place, host: bool) -> Result<f64, Missing> {
        let cell = self.cells().find(|cell| cell.case == place.case && cell.row == place.scheme);
        let cell = cell.ok_or_else(|| Missing::Because(format!("{} was left out", place.scheme)))?;
        let run = self.run(cell)?;
        let quantity = Quantity::find(place.quantity).map_err(Missing::Because)?;
        let phase = phase(run, &place.phase, host)
            .ok_or_else(|| Missing::Because(format!("there is no phase `{}`", place.phase)))?;
        quantity.of(run, phase).ok_or_else(|| {
            let name = &place.scheme;
            Missing::Because(format!("{name} has no {} in phase {}", quantity.name, phase.name))
        })
    }

    fn bench(&self) -> Option<&Json> {
        self.bench
    }
}
