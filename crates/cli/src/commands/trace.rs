//! `ftl trace info`, `ftl trace streams` and `ftl trace make`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use sim::format::{bytes, count, digits, percent, time, whole};
use sim::setup::{number, positive};
use workload::profile::KindProfile;
use workload::synth::Synth;
use workload::trace::{info, write_fio_iolog, write_parquet, write_spc, Trace, TraceInfo};
use workload::Kind;

use super::files::{self, is_stdout, unwritable};
use super::interrupt;
use super::options::Reading;
use super::repeat::Again;
use super::stdin;
use super::stop::{note, say, Stop};
use crate::report::{self, Origin, Streams};
use crate::table::grid::Grid;

const INFO_EXAMPLES: &str = "\
Examples:
  ftl trace info websearch1.spc.xz
  ftl trace info *.csv.gz --json > traces.json
  ftl trace info prxy_0.csv --rows 0..20000 --strict
  ftl trace info mine.csv --columns time=1:us,op=3,lba=4:sectors,size=5:bytes
  blkparse -i sda -o - | ftl trace info -

Understood, by content: SPC, MSR Cambridge, Systor '17, CloudPhysics, Alibaba and Tencent block traces, vSCSI, FlashSim,
MQSim, blkparse text, fio iolog v2 and v3, Pixel 6a and Nexus 5 phone traces, plain or as gz, xz, zst, bz2; Parquet with
time_ns, kind, offset, bytes; by name oracleGeneral of libCacheSim; any other table with --columns.";

const STREAMS_EXAMPLES: &str = "\
Examples:
  ftl trace streams pixel6a-telegram-exec.csv.gz -o streams.html
  ftl trace streams f2fs.blkparse.xz --subspace 64MiB --points 50000 -o streams.html";

const MAKE_EXAMPLES: &str = "\
Examples:
  ftl trace make financial1 --requests 8000 --seed 2026 -o oltp.spc
  ftl trace make websearch1 --requests 100000 -o web.iolog        for fio's read_iolog=

Everything made is synthetic: it has the published statistics of its namesake, not its requests (see `ftl workloads`).";

/// `ftl trace …`.
#[derive(Subcommand, Debug)]
pub(crate) enum TraceCommand {
    /// Counts, mix, sizes, footprint, sequentiality, and a sketch of where requests go over time
    #[command(after_help = INFO_EXAMPLES)]
    Info(InfoArgs),
    /// A picture of the write streams in a trace: addresses over time, as a page for the browser
    #[command(after_help = STREAMS_EXAMPLES)]
    Streams(StreamsArgs),
    /// Write a synthetic workload as a trace
    #[command(after_help = MAKE_EXAMPLES)]
    Make(MakeArgs),
}

/// Arguments of `ftl trace info`.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// Traces; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Everything as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `ftl trace streams`.
#[derive(Args, Debug)]
pub(crate) struct StreamsArgs {
    /// Trace; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Part of the address space that is looked at alone
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = nand::parse_size)]
    subspace: u64,
    /// Writes drawn at most
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = positive)]
    points: u64,
    /// Page to write
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// Arguments of `ftl trace make`.
#[derive(Args, Debug)]
pub(crate) struct MakeArgs {
    /// Synthetic workload (see `ftl workloads`)
    #[arg(value_name = "NAME")]
    name: String,
    /// Requests
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = positive)]
    requests: u64,
    /// Seed; the same seed gives the same trace
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = number)]
    seed: u64,
    /// File to write; `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Format [default: fio for a name that ends in .iolog or .log, parquet for .parquet, else spc]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<MadeFormat>,
}

/// A format that traces are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MadeFormat {
    Spc,
    Fio,
    Parquet,
}

/// `ftl trace`.
pub(crate) fn trace(command: TraceCommand, again: &Again) -> Result<(), Stop> {
    match command {
        TraceCommand::Info(args) => show_info(&args),
        TraceCommand::Streams(args) => streams(&args, again.origin()),
        TraceCommand::Make(args) => make(&args),
    }
}

fn show_info(args: &InfoArgs) -> Result<(), Stop> {
    let options = args.reading.clone().setup().trace_options()?;
    let mut found = Vec::new();
    for (index, file) in args.files.iter().enumerate() {
        let named = file.display().to_string();
        let info = TraceInfo { file: named, ..info(&stdin::as_file(file.clone())?, &options)? };
        if info.profile.requests + info.profile.flushes == 0 {
            return Err(Stop::user(format!(
                "{}: none of its {} rows is a request that --from, --until, --rows and --trace-device leave; give a wider window",
                file.display(),
                whole(info.rows + info.bad_rows)
            )));
        }
        if args.json {
            found.push(info);
            continue;
        }
        let gap = if index == 0 { "" } else { "\n" };
        say(&format!("{gap}{}", in_full(&info)))?;
    }
    if args.json {
        let text = serde_json::to_value(&found).map_err(Stop::user)?;
        say(&sim::results::pretty(&text))?;
    }
    Ok(())
}

/// A trace in words, numbers and a sketch.
fn in_full(info: &TraceInfo) -> String {
    let profile = &info.profile;
    let mut out = String::new();
    let mut put = |name: &str, text: String| out += &format!("{name:<11} {text}\n");
    let bad = if info.bad_rows == 0 {
        "all understood".to_owned()
    } else {
        format!("{} more not understood and left out", whole(info.bad_rows))
    };
    let other = match info.other_lines {
        0 => String::new(),
        1 => "; 1 other line holds no request".to_owned(),
        lines => format!("; {} other lines hold no request", whole(lines)),
    };
    put("Trace", format!("{}: {}, {}", info.file, info.format.name(), info.compression.name()));
    put("Rows", format!("{}, {bad}{other}", whole(info.rows)));
    for sample in &info.bad_samples {
        put("", sample.clone());
    }
    if info.adjusted_rows > 0 {
        put("", format!("one sector too many taken off {} rows", whole(info.adjusted_rows)));
    }
    let rate = if profile.duration_ns == 0 {
        String::new()
    } else {
        format!(", {} a second", count(profile.mean_iops))
    };
    put(
        "Requests",
        format!(
            "{} in {}{rate}, longest pause {}; {} trims, {} flushes",
            whole(profile.requests),
            time(profile.duration_ns as f64),
            time(profile.longest_gap_ns as f64),
            whole(profile.trims.count),
            whole(profile.flushes)
        ),
    );
    put(
        "Footprint",
        format!(
            "{} touched between {} and {}",
            bytes(profile.pages_touched * workload::profile::PAGE_BYTES),
            bytes(profile.first_byte),
            bytes(profile.span_bytes)
        ),
    );
    put("Rewrites", format!("{} of page writes go to a page written before", percent(profile.rewrite_share)));
    put("Sizes", sizes(info));
    if info.devices.len() > 1 {
        let devices = info
            .devices
            .iter()
            .map(|(name, first, size)| format!("{name} of {} at {}", bytes(*size), bytes(*first)));
        put("Devices", devices.collect::<Vec<_>>().join(", "));
    }
    out += &format!("\n{}\n{}", kinds(info).text(), info.sketch.render());
    out
}

/// The most frequent request sizes.
fn sizes(info: &TraceInfo) -> String {
    let all = info.profile.reads.count + info.profile.writes.count;
    let size = |s: &workload::profile::SizeCount| {
        format!("{} {}", bytes(s.bytes), percent(s.count as f64 / all.max(1) as f64))
    };
    let shown: Vec<String> = info.profile.sizes.iter().take(6).map(size).collect();
    format!("{}{}", shown.join(", "), if info.profile.sizes.len() > 6 { ", …" } else { "" })
}

/// Reads, writes and trims, a row for each kind that occurs.
fn kinds(info: &TraceInfo) -> Grid {
    let header = [
        "",
        "requests",
        "share",
        "bytes",
        "mean",
        "smallest",
        "largest",
        "sequential",
        "of 16 streams",
        "pages",
    ];
    let mut grid = Grid::new("", header);
    let of: [(&str, &KindProfile); 3] =
        [("reads", &info.profile.reads), ("writes", &info.profile.writes), ("trims", &info.profile.trims)];
    for (name, kind) in of.into_iter().filter(|(_, kind)| kind.count > 0) {
        grid.row([
            name.to_owned(),
            whole(kind.count),
            percent(kind.count as f64 / info.profile.requests.max(1) as f64),
            bytes(kind.bytes),
            format!("{} KiB", digits(kind.mean_bytes / 1024.0)),
            bytes(kind.smallest),
            bytes(kind.largest),
            percent(kind.sequential),
            percent(kind.near_sequential),
            whole(kind.pages),
        ]);
    }
    grid
}

fn streams(args: &StreamsArgs, origin: &Origin) -> Result<(), Stop> {
    let options = args.reading.clone().setup().trace_options()?;
    files::check(&[("--output", Some(&args.output))], std::slice::from_ref(&args.file))?;
    if args.subspace == 0 {
        return Err(Stop::user("--subspace 0: a size of at least one byte is needed, such as 256MiB"));
    }
    let mut writes = Vec::new();
    for request in Trace::open(stdin::as_file(args.file.clone())?, &options)? {
        let request = request?;
        if request.kind == Kind::Write {
            writes.push((request.offset, request.bytes));
        }
    }
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let found = Streams::of(name, &writes, args.subspace, args.points);
    files::write(&args.output, &report::streams(&found, origin).map_err(Stop::user)?)?;
    say(&format!("{}\nWritten   {}\n", found.sentence(), args.output.display()))
}

/// A file that is not written any more once the command was asked to stop.
struct UntilAsked<W>(W);

impl<W: Write> Write for UntilAsked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if interrupt::asked() {
            return Err(io::Error::other("the command was asked to stop"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn make(args: &MakeArgs) -> Result<(), Stop> {
    let requests = Synth::open(&args.name, args.requests, args.seed)?;
    let path = &args.output;
    let ending = path.extension().and_then(|ending| ending.to_str());
    let format = args.format.unwrap_or(match ending {
        Some("iolog" | "log") => MadeFormat::Fio,
        Some("parquet") => MadeFormat::Parquet,
        _ => MadeFormat::Spc,
    });
    let fill = |mut out: &mut (dyn Write + Send)| match format {
        MadeFormat::Spc => write_spc(&mut out, requests),
        MadeFormat::Fio => write_fio_iolog(&mut out, "/dev/ftl", requests),
        MadeFormat::Parquet => write_parquet(out, requests),
    };
    if is_stdout(path) {
        let mut out = BufWriter::new(io::stdout());
        let written = fill(&mut out).and_then(|_| out.flush());
        return written.map_err(|error| unwritable(path, &error));
    }
    interrupt::catch()?;
    let rows = files::write_with(path, |out| fill(&mut UntilAsked(out))).map_err(|stop| match stop {
        stop if !interrupt::asked() => stop,
        _ => Stop::Interrupted(format!("stopped, and {} was not written", path.display())),
    })?;
    note(&format!("{} requests of {} (synthetic) in {}", whole(rows), args.name, path.display()));
    Ok(())
}
