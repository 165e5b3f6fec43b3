//! What `ftl compare` and `ftl run` can be given.

use std::ops::Range;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ftl::VictimPolicy;
use nand::timing::Policy;
use nand::SimOptions;
use sim::setup::{
    columns, factor, faults, format, micros, number, positive, positive_32, rows, time_ns, CacheAtStart,
    Choice, Mode, Setup, WarmUp,
};
use sim::{CacheSize, TimingModel};
use workload::trace::{AddressMap, Columns, Format as TraceFormat, Ratio};

use super::files::is_stdout;
use super::stdin;
use super::stop::Stop;

/// Everything that describes runs, schemes excepted.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) input: InputOptions,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) device: DeviceOptions,
    #[command(flatten)]
    pub(crate) time: TimeOptions,
    #[command(flatten)]
    pub(crate) running: RunningOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

/// One of a few words, which help lists.
pub(crate) fn one_of<T: Choice>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::WORDS.iter().map(|(word, _)| *word)).try_map(|word| T::of_word(&word))
}

impl Options {
    /// The set-up that they describe, without schemes.
    ///
    /// # Errors
    /// Standard input is to be the trace and cannot be read.
    pub(crate) fn setup(&self) -> Result<Setup, Stop> {
        let Options { input, trace, device, time, running, .. } = self.clone();
        let is_piped = [&input.workload, &input.trace].into_iter().flatten().any(|path| is_stdout(path));
        Ok(Setup {
            job_file: input.workload.map(stdin::as_file).transpose()?,
            trace_source: is_piped.then(|| "standard input".to_owned()),
            trace: input.trace.map(stdin::as_file).transpose()?,
            synth: input.synth,
            requests: input.requests,
            warm_up: input.warm_up,
            cache_state: input.cache_state,
            warm_up_requests: input.warm_up_requests,
            rest: input.rest,
            seed: Some(input.seed),
            device: device.device,
            export: device.export,
            shrink: device.shrink,
            shorten: device.shorten,
            cache: device.cache,
            gc_foreground: device.gc_foreground,
            gc_background: device.gc_background,
            foreground_only: device.foreground_only,
            victims: Some(device.victims),
            rewrite: device.rewrite,
            wear_gap: device.wear_gap,
            faults: device.faults,
            timing: Some(time.timing),
            policy: time.policy,
            host_overhead_ns: time.host_overhead_us,
            host_cpus: time.host_cpus,
            verify: running.verify,
            power_cut: running.power_cut,
            endurance: device.endurance,
            until_worn: running.until_worn,
            ..trace.setup()
        })
    }
}

impl TraceArgs {
    /// The part of a set-up that they describe.
    fn setup(self) -> Setup {
        Setup {
            mode: self.mode,
            depth: self.depth,
            time_scale: self.time_scale,
            max_gap: self.max_gap,
            address: self.address,
            ..self.reading.setup()
        }
    }
}

impl Reading {
    /// The part of a set-up that it describes.
    pub(crate) fn setup(self) -> Setup {
        Setup {
            trace_format: self.trace_format,
            columns: self.columns,
            trace_device: self.trace_device,
            from: self.from,
            until: self.until,
            rows: self.rows,
            strict: self.strict,
            ..Setup::default()
        }
    }
}

/// What the host does.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Workload")]
pub(crate) struct InputOptions {
    /// fio job file, run in virtual time, or a trace, as with --trace; without it, --trace and --synth:
    /// examples/double-read.fio, which is built in, or without a device, too: examples/first-look.fio on a
    /// small device
    #[arg(value_name = "WORKLOAD", help_heading = "Arguments", conflicts_with_all = ["trace", "synth"])]
    pub(crate) workload: Option<PathBuf>,
    /// Replay a recorded block trace, `-` for standard input; format and compression are recognised
    #[arg(long, value_name = "FILE", conflicts_with = "synth")]
    pub(crate) trace: Option<PathBuf>,
    /// Run a synthetic workload (see `ftl workloads`)
    #[arg(long, visible_alias = "workload", value_name = "NAME")]
    pub(crate) synth: Option<String>,
    /// Requests of --synth [default: 1000000]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) requests: Option<u64>,
    /// Run first, with the clock off: steady (learnedftl, then four random reads for each mapping entry
    /// that the cache may hold, which put out nearly all that is dirty of it; `Debt` shows what is left),
    /// swept (learnedftl, then the device read once in sequence), learnedftl (six volumes of 512 KiB
    /// writes, random then sequential), fill (the device once), aged (fill, then random writes of 4 to 64
    /// KiB; aged=50% names their amount), fragmented (fill, then 4 KiB writes in random order, each place
    /// once), workload (fill, then the requests of --trace or --synth, each as a write, as FlashSim does),
    /// none, a fio job file, or a trace [default: the job file's warmup sections, else steady]
    #[arg(long, value_name = "WHAT")]
    pub(crate) warm_up: Option<WarmUp>,
    /// The mapping cache when measuring begins: dirty (what the warm-up left), clean (the same, written
    /// back), warm (clean, after random reads over the device), empty (the device was switched off and on)
    /// [default: dirty; ftl size: clean]
    #[arg(long, value_parser = one_of::<CacheAtStart>(), value_name = "STATE")]
    pub(crate) cache_state: Option<CacheAtStart>,
    /// Requests of --trace or --synth that run before the measured ones, after --warm-up and with the clock
    /// off, too
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) warm_up_requests: Option<u64>,
    /// After the warm-up the FTL has idle time until it has nothing more to do: what the warm-up left to
    /// collect or merge is not paid for by the measured requests
    #[arg(long)]
    pub(crate) rest: bool,
    /// Seed of every random choice; the same seed gives the same results
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number)]
    pub(crate) seed: u64,
}

/// How requests of a trace or generator are replayed.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Replay of --trace and --synth")]
pub(crate) struct TraceArgs {
    /// open: requests arrive at their recorded times; closed: --depth requests are kept in flight [default:
    /// open]
    #[arg(long, value_parser = one_of::<Mode>(), value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// closed: requests in flight [default: 32]; open: most requests given to the device at once [default:
    /// no limit]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) depth: Option<u32>,
    /// Multiply recorded times: 2 is half as fast, 0.5 or 1/2 twice as fast
    #[arg(long, value_name = "F", value_parser = factor)]
    pub(crate) time_scale: Option<Ratio>,
    /// Cut pauses of the trace to this length, such as 1s
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    pub(crate) max_gap: Option<u64>,
    /// What to do with addresses: as-is, wrap (modulo the capacity), scale (multiply by capacity / span)
    /// [default: as-is; wrap when no device is given and the trace is larger than every preset]
    #[arg(long, value_parser = one_of::<AddressMap>(), value_name = "HOW")]
    pub(crate) address: Option<AddressMap>,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// How a trace is read, and what of it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Reading {
    /// The format of the trace, where its content does not tell (see docs/workloads.md)
    #[arg(long, value_name = "NAME", value_parser = format)]
    pub(crate) trace_format: Option<TraceFormat>,
    /// Read any table, such as CSV or Parquet: which column holds what, by its number from 1 or its name, and
    /// its unit. Parts are time (s, ms, us, ns, filetime), op (words such as R and Write; write=1 if 1 stands
    /// for a write), lba and size (bytes, sectors, 4KiB), device; for example
    /// time=1:us,op=3,lba=4:sectors,size=5:bytes
    #[arg(long, value_name = "PART=COLUMN[:UNIT],…", value_parser = columns)]
    pub(crate) columns: Option<Columns>,
    /// Keep one device of a trace of several, by its name in the trace
    #[arg(long, value_name = "NAME")]
    pub(crate) trace_device: Option<String>,
    /// Keep requests from this recorded time on, such as 90s or 1.5h
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    pub(crate) from: Option<u64>,
    /// Keep requests before this recorded time
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    pub(crate) until: Option<u64>,
    /// Keep rows A to B of the trace, from 0, B left out
    #[arg(long, value_name = "A..B", value_parser = rows)]
    pub(crate) rows: Option<Range<u64>>,
    /// A row that is not understood is an error, and not counted and left out
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The device and the memory of the schemes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceOptions {
    /// Preset or device file (see `ftl devices`) [default: femu-32g, its blocks
    /// shorter without a workload; for --trace and --synth the smallest of
    /// tpftl-512m, tpftl-16g and femu-32g that holds their addresses]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) device: Option<String>,
    /// Capacity that the host sees, such as 30GiB; the rest of the flash is over-provisioning [default: the
    /// device's]
    #[arg(long, value_name = "SIZE", value_parser = nand::parse_size)]
    pub(crate) export: Option<u64>,
    /// A device with an N-th of the blocks on each plane and of the exported capacity, for a quick look: the
    /// same dies, the same share of spare flash
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) shrink: Option<u32>,
    /// A device with blocks of an N-th of the pages, and an N-th of the exported capacity: the same dies and
    /// blocks, the same share of spare flash, for a quick look at a device that is nearly full
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) shorten: Option<u32>,
    /// Memory for mapping, the same for every scheme: a share of the full table (8 bytes a page) such as 3%,
    /// or a size such as 2MiB [default: the device's SRAM if it names one, else 3%]
    #[arg(long, value_name = "SHARE|SIZE")]
    pub(crate) cache: Option<CacheSize>,
    /// Free superblocks (a block of every die) at which a write waits for collection
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) gc_foreground: Option<u32>,
    /// Free superblocks at which collection starts
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) gc_background: Option<u32>,
    /// Collection begins only when a write waits for it: neither beside writes nor in idle time, as in
    /// FlashSim
    #[arg(long)]
    pub(crate) foreground_only: bool,
    /// How victims of collection are chosen
    #[arg(long, value_parser = one_of::<VictimPolicy>(), value_name = "POLICY", default_value = "greedy")]
    pub(crate) victims: VictimPolicy,
    /// Level the wear: a block that was not erased while the others had N erases each in the mean gives its
    /// cold data away, and is used again. A small N is even wear, and costs writes [default: never]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) wear_gap: Option<u32>,
    /// Rewrite everything once in this time on the device, such as 30s, as flash needs that keeps data for
    /// long [default: never]
    #[arg(long, value_name = "PERIOD", value_parser = time_ns)]
    pub(crate) rewrite: Option<u64>,
    /// Erases that a block stands in the mean, each block between 90 and 110 % of it [default: the device's]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) endurance: Option<u32>,
    /// Failing flash, in parts per million: factory-bad, program, erase, uncorrectable, lost-translation,
    /// metadata-retry; for example program=20,erase=5
    #[arg(long, value_name = "KEY=PPM,…", value_parser = faults)]
    pub(crate) faults: Option<SimOptions>,
}

/// The clock.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Time")]
pub(crate) struct TimeOptions {
    /// queued: a queue for each die and channel; reserved: dies booked at submission, as FEMU does; none:
    /// count only
    #[arg(long, value_parser = one_of::<TimingModel>(), value_name = "MODEL", default_value = "queued")]
    pub(crate) timing: TimingModel,
    /// Who may overtake whom in a die's queue, with --timing queued [default: the device's]
    #[arg(long, value_parser = one_of::<Policy>(), value_name = "POLICY")]
    pub(crate) policy: Option<Policy>,
    /// Host software's time for each request, in microseconds [default: the device's]
    #[arg(long, value_name = "US", value_parser = micros)]
    pub(crate) host_overhead_us: Option<u64>,
    /// Host processors that share it [default: the device's]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) host_cpus: Option<u32>,
}

/// How the simulation itself runs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Simulation")]
pub(crate) struct RunningOptions {
    /// Compare every read with what was written, and every page at the end of a phase (default: one page in
    /// 61)
    #[arg(long)]
    pub(crate) verify: bool,
    /// Run the workload again and again until the device is worn out and read-only: shows what the host had
    /// written by then, and how even the wear is. The first time is measured
    #[arg(long)]
    pub(crate) until_worn: bool,
    /// At the end, flush, cut the power and recover: shows the time that takes on the device, and checks
    /// that nothing is lost
    #[arg(long)]
    pub(crate) power_cut: bool,
    /// Schemes simulated at a time [default: the processors of this machine]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    pub(crate) threads: Option<u32>,
    /// Show the runs under way to `ftl top` and Prometheus here, such as 127.0.0.1:9100
    #[cfg(feature = "complete")]
    #[arg(long, value_name = "HOST:PORT", value_parser = super::top::address)]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// No progress on standard error, and no notes but of where results are
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputOptions {
    /// What standard output shows
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    pub(crate) output_format: Format,
    /// Write everything that was found as JSON (`-`: to standard output, in place of the table)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a row for each scheme and phase as CSV (`-`: to standard output, in place of the table)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Show beside the results what the TPFTL paper's analytical models say, with the relative error; compare
    /// page and another scheme too, so that what collection does is predicted from their runs
    #[arg(long)]
    pub(crate) model: bool,
    /// Write a page with plots that opens offline in any browser
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Csv,
    FioJson,
}

/// Threads to use: as many as asked for, else the processors of this machine.
pub(crate) fn threads(asked: Option<u32>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, |threads| threads as usize)
}
