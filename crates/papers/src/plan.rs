//! From figures to the points of a study. What several figures share is run once.

use std::collections::BTreeMap;

use serde_json::{json, Value as Json};
use sim::results::{Phase, Run};
use sim::setup::{Resolved, SchemeSpec, Setup};
use sim::{Experiment, PhaseSpec, SetupError};
use study::{Ended, Point, Quantity};

use crate::claim::{Measured, Missing};
use crate::error::PaperError;
use crate::file::{Case, Figure, Place, Row};
use crate::live::Live;

/// Behind the name of a phase that was measured with the host's time.
pub const WITH_HOST: &str = " with host";

/// A scheme of a case, and the experiment that answers for it.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Index of the figure in the plan.
    pub figure: usize,
    /// The name of the case.
    pub case: String,
    /// As the file names the scheme.
    pub row: String,
    /// Index of the point; otherwise what this build does not have.
    pub point: Result<usize, String>,
}

/// Everything that is to be run.
#[derive(Default)]
pub struct Plan {
    /// Each set-up with each scheme once, in the order in which the figures need them.
    pub points: Vec<Point>,
    /// What each runs on a live device, if it does.
    pub live: Vec<Option<Live>>,
    /// A name for each: figure, case and scheme.
    pub labels: Vec<String>,
    /// Every scheme of every case of every figure.
    pub cells: Vec<Cell>,
    /// What the user should know of a figure's set-up, by figure.
    pub notes: Vec<Vec<String>>,
    /// Indexes of the points by their ids.
    known: BTreeMap<String, usize>,
}

impl Plan {
    /// The experiments of all figures for the schemes to keep, with those of equal set-up once. `repeat`: the
    /// command that runs these figures again, to which figure and scheme are added.
    ///
    /// # Errors
    /// [`PaperError::Case`] when a device, a workload or a scheme's parameters are impossible.
    pub fn new(
        figures: &[&Figure],
        keep: &dyn Fn(&str) -> bool,
        seed: u64,
        repeat: &str,
    ) -> Result<Plan, PaperError> {
        let mut plan = Plan { notes: vec![Vec::new(); figures.len()], ..Plan::default() };
        for (index, figure) in figures.iter().enumerate() {
            for case in &figure.cases {
                plan.case(index, figure, case, keep, seed, repeat).map_err(|error| PaperError::Case {
                    file: figure.file.clone(),
                    case: case.name.clone(),
                    error,
                })?;
            }
        }
        Ok(plan)
    }

    /// How many points, from the first on, the figures up to this one need: they are planned in that
    /// order.
    pub fn needed_up_to(&self, figure: usize) -> usize {
        let cells = self.cells.iter().filter(|cell| cell.figure <= figure);
        cells.filter_map(|cell| cell.point.as_ref().ok()).map(|&at| at + 1).max().unwrap_or(0)
    }

    fn case(
        &mut self,
        index: usize,
        figure: &Figure,
        case: &Case,
        keep: &dyn Fn(&str) -> bool,
        seed: u64,
        repeat: &str,
    ) -> Result<(), SetupError> {
        let mut cell = |row: &Row, point| {
            let (case, row) = (case.name.clone(), row.name.clone());
            self.cells.push(Cell { figure: index, case, row, point });
        };
        let unknown = |synth: &&String| workload::synth::Synth::find(synth).is_err();
        if let Some(synth) = case.setup.synth.as_ref().filter(unknown) {
            case.rows.iter().for_each(|row| cell(row, Err(format!("workload {synth}"))));
            return Ok(());
        }
        let setup = Setup { seed: Some(seed), ..case.setup.clone() };
        let resolved = setup.resolve()?;
        let notes = &mut self.notes[index];
        notes.extend(resolved.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>());
        // A job file's name is the figure's; its text decides whether set-ups are equal.
        let text = setup.jobs.as_ref().map(|jobs| jobs.text.clone());
        let setup = Setup { jobs: None, ..setup };
        let host = figure.host.as_ref().map(|host| host.time);
        for row in &case.rows {
            let name = row.spec.split(':').next().unwrap_or_default();
            if !keep(name) {
                continue;
            }
            if SchemeSpec::info(name).is_err() {
                cell(row, Err(name.to_owned()));
                continue;
            }
            let spec: SchemeSpec = row.spec.parse()?;
            let options = json!({
                "setup": format!("{setup:?}"),
                "jobs": text,
                "host": format!("{host:?}"),
                "live": format!("{:?}", case.live),
            });
            let next = self.points.len();
            let experiment = experiment(&resolved, &spec, figure, repeat);
            let point = Point::ready(next + 1, spec.clone(), seed, options, experiment);
            let at = *self.known.entry(point.id.clone()).or_insert(next);
            if at == next {
                self.points.push(point);
                self.live.push(case.live.clone());
                self.labels.push(label(figure, case, &spec));
            }
            cell(row, Ok(at));
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
fn experiment(resolved: &Resolved, spec: &SchemeSpec, figure: &Figure, repeat: &str) -> Experiment {
    let mut experiment = resolved.experiment(spec);
    experiment.command = format!("{repeat} --figure {} --schemes {}", figure.id, spec.name);
    if let Some(host) = &figure.host {
        let twice = |phase: &PhaseSpec| {
            let name = format!("{}{WITH_HOST}", phase.name);
            [phase.clone(), PhaseSpec { name, host: Some(host.time), ..phase.clone() }]
        };
        experiment.phases = experiment.phases.iter().flat_map(twice).collect();
    }
    experiment
}

/// What the runs of a plan found, as one figure sees it.
pub struct Results<'a> {
    /// What was to be run.
    pub plan: &'a Plan,
    /// How its points ended, in their order, as far as this figure needs them.
    pub ended: &'a [Ended],
    /// Index of the figure in the plan.
    pub figure: usize,
    /// What `ftl bench --json` wrote, if it was given.
    pub bench: Option<&'a Json>,
}

impl<'a> Results<'a> {
    /// The cells of the figure.
    pub fn cells(&self) -> impl Iterator<Item = &'a Cell> + '_ {
        self.plan.cells.iter().filter(|cell| cell.figure == self.figure)
    }

    /// The run behind a cell.
    ///
    /// # Errors
    /// The scheme is not built, or its run failed.
    pub fn run(&self, cell: &Cell) -> Result<&'a Run, Missing> {
        match &self.ended[cell.point.clone().map_err(Missing::NotBuilt)?] {
            Ended::Run(run) => Ok(run),
            Ended::Failed { reason, .. } => Err(Missing::Because(reason.clone())),
        }
    }

    /// Runs of the figure with their cells.
    pub fn found(&self) -> Vec<(&'a Cell, &'a Run)> {
        self.cells().filter_map(|cell| Some((cell, self.run(cell).ok()?))).collect()
    }
}

/// A run's phase of that name; the first if the name is empty. `host`: the one with the host's time.
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
        let quantity = Quantity::find(place.quantity).map_err(|error| Missing::Because(error.to_string()))?;
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
