//! What every front end of a live device has in common: its options, switching on, what is said, switching
//! off.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use live::{Opened, Opening, Served, Snapshot, Stop as ServerStop};
use nand::{DeviceSpec, PageKind};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sim::format::{bytes, digits, percent, time, whole};
use sim::memory::{available, need_of};
use sim::setup::time_ns;

use super::record::{check_name, Recording};
use super::stop::{note, say, Stop, INTERRUPTED};

/// Options of every front end.
#[derive(Args, Debug)]
pub(super) struct Serving {
    /// Hold each answer until the device model gives it, so that clients see the latency of the flash
    #[arg(long)]
    pace: bool,
    /// Answer GET /metrics here for Prometheus, such as 127.0.0.1:9100
    #[arg(long, value_name = "HOST:PORT", value_parser = super::top::address)]
    metrics: Option<SocketAddr>,
    /// Write what the device sees as a trace: FILE.iolog (fio's) or FILE.parquet; of one image only
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Let clients read and not write; nothing is written to the image, and others may read it, too
    #[arg(long, conflicts_with = "scrub")]
    read_only: bool,
    /// Read and verify all of the image in this time, such as 24h, beside clients and again and again
    #[arg(long, value_name = "TIME", value_parser = period)]
    scrub: Option<u64>,
    /// Say nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Devices that are switched on.
pub(super) struct Devices {
    served: Vec<Served>,
    metrics: Option<SocketAddr>,
    recording: Option<Recording>,
    /// Why the first image that is not served is not.
    unserved: Option<Stop>,
    quiet: bool,
}

impl Serving {
    /// Opens images, says what was found, and begins what the options ask for. The images have different
    /// names. One of several that cannot be opened does not keep the others from being served.
    pub(super) fn switch_on(self, images: &[PathBuf]) -> Result<Devices, Stop> {
        if self.record.is_some() && images.len() > 1 {
            return Err(Stop::user("--record writes what one device sees; serve one image with it"));
        }
        if let Some(file) = &self.record {
            check_name(file)?;
        }
        for (index, image) in images.iter().enumerate() {
            let name = name_of(image);
            if images[..index].iter().any(|other| name_of(other) == name) {
                return Err(Stop::user(format!(
                    "two images would be served as `{name}`; rename one of the files"
                )));
            }
        }
        let how = Opening { paced: self.pace, read_only: self.read_only };
        let (mut served, mut unserved): (Vec<Served>, _) = (Vec::new(), None);
        for image in images {
            match open(image, how, self.quiet) {
                Ok(one) => served.push(one),
                Err(Stop::User(why)) if images.len() > 1 => {
                    note(&format!("not served: {why}"));
                    unserved.get_or_insert_with(|| Stop::user(format!("not served: {why}")));
                }
                Err(stop) => return Err(stop),
            }
        }
        if served.is_empty() {
            return Err(unserved.unwrap_or_else(|| Stop::user("there is no image to be served")));
        }
        if let Some(period) = self.scrub {
            served.iter().for_each(|one| one.export.scrub_every(Duration::from_nanos(period)));
        }
        let mut devices = Devices { served, metrics: None, recording: None, unserved, quiet: self.quiet };
        let served = &devices.served;
        devices.metrics = self.metrics.map(|address| live::publish(address, served.clone())).transpose()?;
        let recording = self.record.as_deref();
        let recording = recording.map(|file| Recording::start(file, served[0].export.as_ref()));
        devices.recording = recording.transpose()?;
        Ok(devices)
    }
}

impl Devices {
    /// All of them.
    pub(super) fn served(&self) -> &[Served] {
        &self.served
    }

    /// The first one, of a front end that has no others.
    pub(super) fn only(&self) -> Served {
        self.served[0].clone()
    }

    /// Says what is served, each one as a `word`; `place` says where.
    pub(super) fn greet(&self, word: &str, place: &str) {
        if self.quiet {
            return;
        }
        let mut out = String::new();
        for Served { name, export, description } in &self.served {
            out += &format!("  {word:<9} {name}: {}, {description}\n", bytes(export.exported_bytes()));
        }
        if let Some(at) = self.metrics {
            out += &format!("  metrics   http://{at}/metrics\n");
        }
        tell(&(out + place));
    }

    /// Switches them off in good order and says what they did. `panic`: what went wrong within, if anything
    /// did; it does not keep the devices that it spared from being switched off.
    pub(super) fn switch_off(mut self, panic: Option<String>) -> Result<(), Stop> {
        let mut first = panic.map(|panic| {
            Stop::Finding(format!(
                "the scheme or the array panicked: {panic}; what was acknowledged is in the image, the next start \
                 recovers it"
            ))
        });
        for Served { name, export, .. } in &self.served {
            let snapshot = export.snapshot();
            match export.power_off() {
                Ok(()) => {
                    if let Some(snapshot) = snapshot.filter(|_| !self.quiet) {
                        let how = match export.is_read_only() {
                            true => "closed; nothing was written to its image",
                            false => "switched off in good order",
                        };
                        tell(&farewell(name, how, &snapshot));
                    }
                }
                Err(error) => {
                    let what =
                        format!("{name}: not switched off in good order ({error}); the next start recovers");
                    first.get_or_insert_with(|| Stop::user(what));
                }
            }
        }
        if let Some(stop) = first.or(self.unserved.take()) {
            return Err(stop);
        }
        if let Some(said) = self.recording.take().map(Recording::finish).transpose()?.filter(|_| !self.quiet)
        {
            tell(&said);
        }
        Ok(())
    }
}

impl Drop for Devices {
    /// An error keeps no device from being switched off.
    fn drop(&mut self) {
        for Served { export, .. } in &self.served {
            let _ = export.power_off();
        }
    }
}

/// Says something to whoever reads standard output. A device is served whether or not anybody does.
fn tell(text: &str) {
    let _ = say(text);
}

/// Refuses a device that needs more memory than there is.
pub(super) fn check_memory(device: &DeviceSpec) -> Result<(), Stop> {
    let (needed, free) = (need_of(device), available().unwrap_or(u64::MAX));
    if needed <= free {
        return Ok(());
    }
    let (needed, free) = (bytes(needed), bytes(free));
    Err(Stop::user(format!("{}: it needs about {needed} of memory, and {free} are free", device.name)))
}

/// Opens an image and says what was found.
fn open(image: &Path, how: Opening, quiet: bool) -> Result<Served, Stop> {
    check_memory(&live::describe(image)?.0)?;
    let (export, opened) = live::open(image, how)?;
    if !quiet {
        tell(&recovered(image, &opened));
        if how.read_only {
            tell("  read-only nothing is written to the image; what recovery does stays in memory\n");
        }
    }
    let (device, settings) = live::describe(image)?;
    let description = format!("{} with {}", device.name, settings.scheme);
    Ok(Served { name: name_of(image), description, export })
}

/// A time that is not 0.
fn period(text: &str) -> Result<u64, String> {
    match time_ns(text) {
        Ok(0) => Err("0 would read without end; give a time such as 24h".to_owned()),
        Ok(ns) => Ok(ns),
        Err(error) => Err(error.to_string()),
    }
}

/// The first signal stops the server in good order, the second one at once.
pub(super) fn watch_signals(stop: &ServerStop) -> Result<(), Stop> {
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| Stop::user(format!("signals cannot be caught ({error})")))?;
    let stop = stop.clone();
    let watcher = move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 {
                std::process::exit(i32::from(INTERRUPTED));
            }
            stop.ask();
        }
    };
    let started = std::thread::Builder::new().name("signals".into()).spawn(watcher);
    started.map(|_| ()).map_err(|error| Stop::user(format!("a thread cannot be started ({error})")))
}

/// The file's name without its ending.
fn name_of(image: &Path) -> String {
    image.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// What opening an image found, step by step.
pub(super) fn recovered(image: &Path, opened: &Opened) -> String {
    let Opened { mounted, steps, counters, worn_out } = opened;
    let ms = |ns: u128| time(ns as f64);
    let mut out = format!(
        "{}: {}\n",
        image.display(),
        match (mounted.clean, mounted.host_restarted) {
            (true, _) => "was closed in good order",
            (false, false) => "was not closed in good order: recovering",
            (false, true) => {
                "was not closed in good order, and the host has been started anew since: recovering what was flushed, \
                 and what of the rest is whole"
            }
        }
    );
    let list = |steps: &[(&'static str, Duration)]| {
        let each = steps.iter().map(|(name, took)| format!("{name} {}", ms(took.as_nanos())));
        each.collect::<Vec<_>>().join(", ")
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "  image     {} pages programmed, {} checked, {} torn, {} erases undone ({})",
        whole(mounted.pages),
        whole(mounted.late_pages),
        whole(mounted.torn_pages),
        whole(u64::from(mounted.undone_erases)),
        list(&mounted.steps)
    );
    if mounted.healed > 0 {
        let _ = writeln!(
            out,
            "  damage    {} copies of records were damaged; the other copies count, and they are restored",
            whole(mounted.healed)
        );
    }
    if let Some((bad, blocks)) = worn_out {
        let _ = writeln!(
            out,
            "  worn out  {} of {} blocks are bad: it can be read, not written",
            whole(u64::from(*bad)),
            whole(u64::from(*blocks))
        );
    }
    let _ = writeln!(
        out,
        "  scheme    {} pages looked at, {} read, {} programmed, {} blocks erased ({})",
        whole(counters.reads_of(PageKind::Data)),
        whole(counters.all_reads() - counters.reads_of(PageKind::Data)),
        whole(counters.all_programs()),
        whole(counters.all_erases()),
        list(steps)
    );
    out
}

/// What the device did while it was served.
fn farewell(name: &str, how: &str, snapshot: &Snapshot) -> String {
    let counters = &snapshot.counters;
    let mut out = format!("{name}: {how}\n");
    for (kind, (device, wall)) in live::Latencies::KINDS
        .iter()
        .zip(snapshot.virtual_latency.0.iter().zip(&snapshot.wall_latency.0))
        .filter(|(_, (device, _))| device.count() > 0)
    {
        out += &format!(
            "  {kind:<9} {} requests; on the device {} in the mean, 99 % within {}; here {} and {}\n",
            whole(device.count()),
            time(device.mean_ns()),
            time(device.quantile_ns(0.99) as f64),
            time(wall.mean_ns()),
            time(wall.quantile_ns(0.99) as f64),
        );
    }
    if let Some(scrubbed) = &snapshot.scrubbed {
        out += &format!(
            "  scrub     {} pages read in {} whole turns: {} copies mended, {} pages lost\n",
            whole(scrubbed.pages),
            scrubbed.turns,
            whole(scrubbed.mended),
            whole(scrubbed.lost)
        );
    }
    let amplification = counters.write_amplification().map_or("-".to_owned(), digits);
    let hits = (counters.lookups > 0)
        .then(|| percent((counters.cmt_hits + counters.model_hits) as f64 / counters.lookups as f64));
    out + &format!(
        "  flash     {} reads, {} programs, {} erases; write amplification {amplification}, mapping hits {}\n",
        whole(counters.all_reads()),
        whole(counters.all_programs()),
        whole(counters.all_erases()),
        hits.unwrap_or_else(|| "-".to_owned()),
    )
}
