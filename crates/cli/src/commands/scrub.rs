//! `ftl scrub`: is an image whole, and what can be read of it?

use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;
use live::{SalvageReport, ScrubReport};
use nand::PageKind;
use serde::Serialize;
use sim::format::{bytes, whole};

use super::files;
use super::progress::Bars;
use super::serving::recovered;
use super::stop::{say, Stop};

/// Ranges that cannot be read, named one by one.
const MOST_NAMED: usize = 8;

/// Arguments of `ftl scrub`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl scrub disk.ftl                       read and verify everything; nothing is written
  ftl scrub disk.ftl --repair              the same, and mend what has another copy
  ftl scrub disk.ftl --salvage rescued     copy what can be read into rescued/disk.raw, and say what is missing

Everything but user data is in an image twice. --repair restores the damaged copy, recovers what a crash left, and closes the
image in good order. User data are there once; a page of them that is damaged stays an error until it is written or trimmed.
--salvage also works with an image that cannot be opened: the OOB of each page says what it holds. `ftl serve --scrub 24h`
does the same beside clients. Exit code 1 when something cannot be read, or contradicts itself.")]
pub(crate) struct ScrubArgs {
    /// An image; nobody may be writing to it
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Mend what has another copy, and close the image in good order
    #[arg(long, conflicts_with = "salvage")]
    repair: bool,
    /// Copy what can be read into this folder, as a sparse file, with a list of what cannot
    #[arg(long, value_name = "DIR")]
    salvage: Option<PathBuf>,
    /// Write what was found as JSON (`-`: to standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// `ftl scrub`.
pub(crate) fn scrub(args: &ScrubArgs) -> Result<(), Stop> {
    files::check(&[("--json", args.json.as_deref())], std::slice::from_ref(&args.image))?;
    let bars = Bars::new(&[args.image.display().to_string()], args.quiet);
    let what = if args.salvage.is_some() { "copying what can be read" } else { "reading everything" };
    bars.begin(0, what);
    let mut progress = |done: u64, all: u64| bars.done(0, done as f64 / all.max(1) as f64);
    let ended = match &args.salvage {
        Some(folder) => live::salvage(&args.image, folder, &mut progress).map(Ended::Salvaged),
        None => live::scrub(&args.image, args.repair, &mut progress).map(Box::new).map(Ended::Scrubbed),
    };
    bars.finish();
    let ended = ended.map_err(|error| match error {
        live::LiveError::Image(error @ nand::ImageError::Damaged { .. }) => Stop::Finding(error.to_string()),
        error => error.into(),
    })?;
    match &args.json {
        Some(file) if files::is_stdout(file) => say(&ended.json()?)?,
        Some(file) => {
            files::write(file, &ended.json()?)?;
            say(&ended.text(&args.image, args.repair))?;
        }
        None => say(&ended.text(&args.image, args.repair))?,
    }
    ended.verdict(&args.image)
}

/// What was done.
enum Ended {
    Scrubbed(Box<ScrubReport>),
    Salvaged(SalvageReport),
}

/// A range of the device, bytes.
#[derive(Serialize)]
struct Piece {
    offset: u64,
    bytes: u64,
}

/// What `--json` says of a scrub.
#[derive(Serialize)]
struct Scrubbed<'a> {
    /// It was closed in good order.
    clean: bool,
    pages_read: u64,
    copies_damaged: u64,
    records_lost: u64,
    pages_damaged: u64,
    bytes_readable: u64,
    bytes_lost: u64,
    lost: Vec<Piece>,
    breach: Option<&'a str>,
}

/// What `--json` says of a salvage.
#[derive(Serialize)]
struct Salvaged<'a> {
    content: &'a Path,
    list: &'a Path,
    refused: Option<&'a str>,
    bytes_copied: u64,
    bytes_older: u64,
    bytes_lost: u64,
    records_lost: u64,
    untraced: bool,
}

impl Ended {
    fn json(&self) -> Result<String, Stop> {
        let json = match self {
            Ended::Scrubbed(report) => serde_json::to_string_pretty(&Scrubbed {
                clean: report.opened.mounted.clean,
                pages_read: report.array.pages,
                copies_damaged: report.mendable(),
                records_lost: report.array.unrecorded,
                pages_damaged: report.array.lost.len() as u64,
                bytes_readable: report.readable,
                bytes_lost: report.lost_bytes(),
                lost: report.lost.iter().map(piece).collect(),
                breach: report.breach.as_deref(),
            }),
            Ended::Salvaged(report) => serde_json::to_string_pretty(&Salvaged {
                content: &report.content,
                list: &report.list,
                refused: report.refused.as_deref(),
                bytes_copied: report.copied,
                bytes_older: report.older,
                bytes_lost: report.lost,
                records_lost: report.unrecorded,
                untraced: report.untraced,
            }),
        };
        json.map(|json| json + "\n").map_err(Stop::user)
    }

    fn text(&self, image: &Path, repair: bool) -> String {
        match self {
            Ended::Scrubbed(report) => scrubbed(image, report, repair),
            Ended::Salvaged(report) => salvaged(image, report),
        }
    }

    fn verdict(&self, image: &Path) -> Result<(), Stop> {
        let name = image.display();
        match self {
            Ended::Scrubbed(report) if report.is_whole() => Ok(()),
            Ended::Scrubbed(report) => Err(Stop::Finding(match &report.breach {
                Some(breach) => format!("{name}: the scheme's structures are wrong: {breach}"),
                None if report.lost.is_empty() => format!(
                    "{name}: {} records cannot be read in either copy; copy the data out with --salvage DIR",
                    whole(report.array.unrecorded)
                ),
                None => format!(
                    "{name}: {} cannot be read; write or trim them, or copy the rest out with --salvage DIR",
                    bytes(report.lost_bytes())
                ),
            })),
            Ended::Salvaged(report) if report.untraced => Err(Stop::Finding(format!(
                "{name}: records are gone without a trace: what was not found may be lost, and what was found may be old"
            ))),
            Ended::Salvaged(report) if report.lost + report.older + report.unrecorded == 0 => Ok(()),
            Ended::Salvaged(report) => Err(Stop::Finding(format!(
                "{name}: not everything could be read; {} lists it",
                report.list.display()
            ))),
        }
    }
}

fn piece(range: &Range<u64>) -> Piece {
    Piece { offset: range.start, bytes: range.end - range.start }
}

fn scrubbed(image: &Path, report: &ScrubReport, repair: bool) -> String {
    let mut out = recovered(image, &report.opened);
    let array = &report.array;
    let damaged = |kind: PageKind| array.lost.iter().filter(|(_, oob)| oob.kind == kind).count() as u64;
    let mapping = array.lost.len() as u64 - damaged(PageKind::Data);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "  read      {} pages, outdated ones included: {} of user data are damaged, {} of mapping and metadata in both copies",
        whole(array.pages),
        whole(damaged(PageKind::Data)),
        whole(mapping)
    );
    let copies = match (report.mendable(), repair) {
        (0, _) => "all are whole".to_owned(),
        (count, true) => format!("{} were damaged, and are mended from the other copy", whole(count)),
        (count, false) => format!("{} are damaged; --repair mends them from the other copy", whole(count)),
    };
    let _ = writeln!(out, "  copies    {copies}");
    let _ = writeln!(
        out,
        "  content   {} can be read, {} cannot",
        bytes(report.readable),
        bytes(report.lost_bytes())
    );
    for range in report.lost.iter().take(MOST_NAMED) {
        let _ = writeln!(out, "            lost: bytes {} to {}", range.start, range.end - 1);
    }
    if report.lost.len() > MOST_NAMED {
        let more = report.lost.len() - MOST_NAMED;
        let _ = writeln!(out, "            and {} more ranges; --json lists all", whole(more as u64));
    }
    let _ = match (&report.breach, repair) {
        (Some(breach), _) => writeln!(out, "  scheme    {breach}"),
        (None, true) => {
            writeln!(out, "  scheme    its structures agree with the array; closed in good order")
        }
        (None, false) => {
            writeln!(out, "  scheme    its structures agree with the array; nothing was written")
        }
    };
    out
}

fn salvaged(image: &Path, report: &SalvageReport) -> String {
    let mut out = String::new();
    if let Some(refused) = &report.refused {
        let _ = writeln!(out, "{refused}");
        let _ = writeln!(
            out,
            "  the OOB of single pages says what they hold: pages that were trimmed may be back, and a page whose record is \
             lost ({} are) may have held something newer",
            whole(report.unrecorded)
        );
    }
    let _ =
        writeln!(out, "{}: {} copied to {}", image.display(), bytes(report.copied), report.content.display());
    let _ = writeln!(
        out,
        "  {} of it in an older version, {} cannot be read: {}",
        bytes(report.older),
        bytes(report.lost),
        report.list.display()
    );
    out
}
