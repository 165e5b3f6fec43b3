//! What devices count, as text for Prometheus, over HTTP. Each client has a thread of its own, so that a slow
//! one holds up nobody.

use std::fmt::{self, Write as _};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftl::Cause;
use nand::PageKind;

use crate::clock::{Latencies, Latency};
use crate::error::LiveError;
use crate::export::Served;
use crate::snapshot::Snapshot;

/// Longest wait for the whole request of a client, and for it to take its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request, and most headers in it.
const MOST_REQUEST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;
/// Most clients at a time; one more is hung up on.
const MOST_CLIENTS: usize = 256;
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// What devices count, by name.
type Shots = [(String, Snapshot)];

/// Answers `GET /metrics` at `address` from now on, until the process ends. Gives the address, whose port may
/// have been 0.
pub fn publish(address: SocketAddr, served: Vec<Served>) -> Result<SocketAddr, LiveError> {
    let shot = |served: &Served| Some((served.name.clone(), served.export.snapshot()?));
    publish_from(address, move || served.iter().filter_map(shot).collect())
}

/// The same of devices that are not served: `shots` gives them by name.
pub fn publish_from(
    address: SocketAddr,
    shots: impl Fn() -> Vec<(String, Snapshot)> + Send + Sync + 'static,
) -> Result<SocketAddr, LiveError> {
    let wrong = LiveError::host::<io::Error>(format!("metrics cannot be served on {address}"));
    let listener = TcpListener::bind(address).map_err(&wrong)?;
    let bound = listener.local_addr().map_err(&wrong)?;
    let shots = Arc::new(shots);
    let accept = move || {
        for stream in listener.incoming() {
            // Too many files are open: those that end meanwhile make room.
            let Ok(stream) = stream else {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            // Each client that is being answered has one, too.
            if Arc::strong_count(&shots) > MOST_CLIENTS {
                continue;
            }
            let shots = shots.clone();
            // A client that breaks off, or for which there is no thread, is of no concern.
            let _ = thread("metrics client").spawn(move || respond(&stream, &*shots));
        }
    };
    thread("metrics").spawn(accept).map_err(&wrong)?;
    Ok(bound)
}

fn thread(name: &str) -> std::thread::Builder {
    std::thread::Builder::new().name(name.to_owned())
}

fn respond(mut stream: &TcpStream, shots: &dyn Fn() -> Vec<(String, Snapshot)>) -> io::Result<()> {
    let Some(found) = asks_for_metrics(stream, Instant::now() + PATIENCE)? else { return Ok(()) };
    let (status, text) = match found {
        true => ("200 OK", render(&shots())),
        false => ("404 Not Found", "there is only GET /metrics here\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())
}

/// Whether a request is for the metrics; `None` when there is none by `end`, or it is too long or malformed.
fn asks_for_metrics(mut stream: &TcpStream, end: Instant) -> io::Result<Option<bool>> {
    let (mut request, mut bytes) = (Vec::new(), [0; 1024]);
    while request.len() < MOST_REQUEST_BYTES {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut bytes)?;
        request.extend_from_slice(&bytes[..count]);
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        match head.parse(&request) {
            Ok(httparse::Status::Complete(_)) => {
                return Ok(Some(head.method == Some("GET") && matches!(head.path, Some("/" | "/metrics"))));
            }
            Ok(httparse::Status::Partial) if count > 0 => {}
            _ => break,
        }
    }
    Ok(None)
}

/// The metrics of devices by name.
pub fn render(shots: &[(String, Snapshot)]) -> String {
    let mut out = Text(String::new());
    requests(&mut out, shots);
    flash(&mut out, shots);
    mapping(&mut out, shots);
    own(&mut out, shots);
    space(&mut out, shots);
    out.0
}

fn requests(out: &mut Text, shots: &Shots) {
    out.head("ftl_requests_total", "counter", "Requests answered, by kind");
    for (name, shot) in shots {
        for (kind, latency) in Latencies::KINDS.iter().zip(&shot.virtual_latency.0) {
            out.line("ftl_requests_total", name, &[("kind", kind)], latency.count() as f64);
        }
    }
    let device = |shot: &Snapshot| shot.virtual_latency.clone();
    let wall = |shot: &Snapshot| shot.wall_latency.clone();
    out.summary("ftl_device_latency_seconds", "Latency as the device model gives it", shots, device);
    out.summary(
        "ftl_wall_latency_seconds",
        "Latency as clients waited, until the reply was sent",
        shots,
        wall,
    );
    out.head("ftl_device_seconds_total", "counter", "Virtual time since the device was switched on");
    for (name, shot) in shots {
        out.line("ftl_device_seconds_total", name, &[], seconds(shot.virtual_ns));
    }
}

fn flash(out: &mut Text, shots: &Shots) {
    out.head("ftl_flash_operations_total", "counter", "Flash operations, by operation and cause");
    for (name, shot) in shots {
        let c = &shot.counters;
        for cause in Cause::ALL {
            let counts = [
                ("read", c.reads_by(cause)),
                ("program", c.programs_by(cause)),
                ("erase", c.erases[cause as usize]),
            ];
            for (operation, count) in counts {
                let labels = [("operation", operation), ("cause", cause.name())];
                out.line("ftl_flash_operations_total", name, &labels, count as f64);
            }
        }
    }
    out.head("ftl_host_pages_total", "counter", "Pages that clients read, wrote and trimmed");
    for (name, shot) in shots {
        let c = &shot.counters;
        for (kind, count) in [("read", c.host_reads), ("write", c.host_writes), ("trim", c.host_trims)] {
            out.line("ftl_host_pages_total", name, &[("kind", kind)], count as f64);
        }
    }
    out.head("ftl_write_amplification", "gauge", "Flash programs for each page written by clients");
    for (name, shot) in shots {
        if let Some(amplification) = shot.counters.write_amplification() {
            out.line("ftl_write_amplification", name, &[], amplification);
        }
    }
    out.head("ftl_flash_faults_total", "counter", "Operations of the flash that failed");
    for (name, shot) in shots {
        let c = &shot.counters;
        let counts = [("read", c.uncorrectable), ("program", c.programs_failed), ("erase", c.erases_failed)];
        for (operation, count) in counts {
            out.line("ftl_flash_faults_total", name, &[("operation", operation)], count as f64);
        }
    }
    out.head("ftl_die_busy_seconds_total", "counter", "Virtual time that a die was busy, by operation");
    for (name, shot) in shots {
        for (die, busy) in shot.dies.iter().enumerate() {
            let die = die.to_string();
            let parts = [
                ("read", busy.read_ns),
                ("program", busy.program_ns),
                ("erase", busy.erase_ns),
                ("channel", busy.channel_ns),
            ];
            for (operation, ns) in parts {
                let labels = [("die", die.as_str()), ("operation", operation)];
                out.line("ftl_die_busy_seconds_total", name, &labels, seconds(ns));
            }
        }
    }
}

fn mapping(out: &mut Text, shots: &Shots) {
    out.head("ftl_mapping_lookups_total", "counter", "Mapping lookups and updates by client pages");
    for (name, shot) in shots {
        out.line("ftl_mapping_lookups_total", name, &[], shot.counters.lookups as f64);
    }
    out.head(
        "ftl_mapping_hits_total",
        "counter",
        "Of these, answered without a flash read, by what answered",
    );
    for (name, shot) in shots {
        for (level, hits) in [("cmt", shot.counters.cmt_hits), ("model", shot.counters.model_hits)] {
            out.line("ftl_mapping_hits_total", name, &[("level", level)], hits as f64);
        }
    }
    out.head(
        "ftl_host_reads_by_flash_reads_total",
        "counter",
        "Client pages read, by flash reads one after the other",
    );
    for (name, shot) in shots {
        for (reads, count) in shot.counters.host_reads_by_flash_reads.iter().enumerate() {
            let reads = if reads == 4 { "4+".to_owned() } else { reads.to_string() };
            out.line("ftl_host_reads_by_flash_reads_total", name, &[("reads", &reads)], *count as f64);
        }
    }
    out.head("ftl_mapping_memory_bytes", "gauge", "Mapping memory in use, by structure");
    for (name, shot) in shots {
        for (structure, bytes) in &shot.memory.parts {
            out.line("ftl_mapping_memory_bytes", name, &[("structure", structure)], *bytes as f64);
        }
    }
}

fn own(out: &mut Text, shots: &Shots) {
    out.head("ftl_scheme_total", "counter", "What a scheme counts itself; `ftl schemes` says what each is");
    for (name, shot) in shots {
        for stat in shot.stats {
            let labels = [("statistic", stat.name), ("unit", stat.unit)];
            out.line("ftl_scheme_total", name, &labels, shot.counters.value(stat) as f64);
        }
    }
}

fn space(out: &mut Text, shots: &Shots) {
    out.head("ftl_superblocks", "gauge", "Superblocks, free and in all");
    for (name, shot) in shots {
        let (free, all) = shot.free_superblocks;
        out.line("ftl_superblocks", name, &[("state", "free")], f64::from(free));
        out.line("ftl_superblocks", name, &[("state", "all")], f64::from(all));
    }
    out.head("ftl_bad_blocks", "gauge", "Blocks that are bad");
    for (name, shot) in shots {
        out.line("ftl_bad_blocks", name, &[], f64::from(shot.bad_blocks.0));
    }
    out.head("ftl_worn_out", "gauge", "1 when too many blocks are bad: the device is read-only");
    for (name, shot) in shots {
        out.line("ftl_worn_out", name, &[], f64::from(u8::from(shot.bad_blocks.1)));
    }
    out.head(
        "ftl_scrubbed_pages_total",
        "counter",
        "Pages read by the scrub beside clients, and what it found",
    );
    for (name, shot) in shots {
        let Some(counts) = &shot.scrubbed else { continue };
        for (found, count) in [("all", counts.pages), ("mended", counts.mended), ("lost", counts.lost)] {
            out.line("ftl_scrubbed_pages_total", name, &[("found", found)], count as f64);
        }
    }
    out.head("ftl_valid_pages", "gauge", "Pages that hold data of clients");
    for (name, shot) in shots {
        out.line("ftl_valid_pages", name, &[], shot.valid_pages as f64);
    }
    out.head("ftl_collections_total", "counter", "Superblocks collected");
    for (name, shot) in shots {
        let c = &shot.counters;
        let counts =
            [(PageKind::Data, c.collections_data), (PageKind::Translation, c.collections_translation)];
        for (kind, count) in counts {
            let kind = if kind == PageKind::Data { "data" } else { "translation" };
            out.line("ftl_collections_total", name, &[("kind", kind)], count as f64);
        }
    }
    out.head("ftl_block_erases", "gauge", "Erases of a block: least, mean and most");
    for (name, shot) in shots {
        let wear = &shot.wear;
        for (which, erases) in
            [("min", f64::from(wear.min)), ("mean", wear.mean), ("max", f64::from(wear.max))]
        {
            out.line("ftl_block_erases", name, &[("of", which)], erases);
        }
    }
    out.head("ftl_stuck_pages", "gauge", "Pages that wait for room on the host's file system");
    for (name, shot) in shots {
        out.line("ftl_stuck_pages", name, &[], shot.stuck_pages as f64);
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

struct Text(String);

impl Text {
    /// Writing to a string does not fail.
    fn put(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(text);
    }

    fn head(&mut self, name: &str, kind: &str, what: &str) {
        self.put(format_args!("# HELP {name} {what}\n# TYPE {name} {kind}\n"));
    }

    fn line(&mut self, name: &str, export: &str, labels: &[(&str, &str)], value: f64) {
        let export = export.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        self.put(format_args!("{name}{{export=\"{export}\""));
        for (label, text) in labels {
            self.put(format_args!(",{label}=\"{text}\""));
        }
        self.put(format_args!("}} {value}\n"));
    }

    fn summary(&mut self, name: &str, what: &str, shots: &Shots, of: impl Fn(&Snapshot) -> Latencies) {
        self.head(name, "summary", what);
        let (sum, count) = (format!("{name}_sum"), format!("{name}_count"));
        for (export, shot) in shots {
            let Latencies(latencies) = of(shot);
            for (kind, latency) in Latencies::KINDS.iter().zip(&latencies) {
                self.quantiles(name, export, kind, latency);
                self.line(&sum, export, &[("kind", kind)], seconds(latency.total_ns()));
                self.line(&count, export, &[("kind", kind)], latency.count() as f64);
            }
        }
    }

    fn quantiles(&mut self, name: &str, export: &str, kind: &str, latency: &Latency) {
        for share in QUANTILES {
            let labels = [("kind", kind), ("quantile", &share.to_string())];
            self.line(name, export, &labels, seconds(latency.quantile_ns(share)));
        }
    }
}
