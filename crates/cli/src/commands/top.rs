//! `ftl top`: a running device, as it works.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Gauge, Paragraph, Row, Table};
use ratatui::Frame;
use sim::format::{count, digits, percent, time, NOTHING};

use super::stop::{say, Stop};
use crate::table::grid::Grid;

/// Longest wait for the server's answer.
const PATIENCE: Duration = Duration::from_secs(3);
const KINDS: [&str; 4] = ["read", "write", "trim", "flush"];
const CAUSES: [&str; 9] = [
    "host",
    "translation",
    "collection",
    "merge",
    "misprediction",
    "training",
    "rewrite",
    "checkpoint",
    "recovery",
];
/// How busy a die is, in eight steps.
const STEPS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Arguments of `ftl top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl serve disk.ftl --metrics 127.0.0.1:9100 &
  ftl top 127.0.0.1:9100
  ftl top 127.0.0.1:9100 --once     once, as text
  ftl compare jobs.fio --metrics 127.0.0.1:9100 &     a simulation, a scheme an export, in virtual time

Tab changes the export, q ends it.")]
pub(crate) struct TopArgs {
    /// Where `--metrics` of serve, mount, vhost, run or compare answers
    #[arg(value_name = "HOST:PORT", default_value = "127.0.0.1:9100", value_parser = address)]
    address: SocketAddr,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,
    /// Look twice, print what happened in between, and end
    #[arg(long)]
    once: bool,
}

/// HOST:PORT, the host by number or by name.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| {
        format!("`{text}` is no address of metrics; give HOST:PORT as in --metrics, such as 127.0.0.1:9100")
    })
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.05..=3600.0).contains(seconds));
    seconds.ok_or_else(|| format!("`{text}` is no interval; write seconds from 0.05 to 3600"))
}

/// The metrics of one export, by name and labels other than the export.
type Values = BTreeMap<String, f64>;

/// The metrics of all exports at one moment.
#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    exports: BTreeMap<String, Values>,
}

impl Look {
    fn take(address: SocketAddr) -> Result<Look, Stop> {
        let text = fetch(address).map_err(|error| {
            Stop::user(format!(
                "{address}: no metrics there ({error}); start `ftl serve IMAGE --metrics {address}`"
            ))
        })?;
        let exports = parse(&text);
        if exports.is_empty() {
            return Err(Stop::user(format!(
                "{address}: the answer has no metrics of ftl; is another program there?"
            )));
        }
        Ok(Look { at: Instant::now(), exports })
    }
}

fn fetch(address: SocketAddr) -> Result<String, ureq::Error> {
    // The server is named by its address: a proxy would not know it.
    let direct = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).proxy(None).build();
    direct.new_agent().get(format!("http://{address}/metrics")).call()?.body_mut().read_to_string()
}

fn parse(text: &str) -> BTreeMap<String, Values> {
    let mut exports: BTreeMap<String, Values> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("ftl_")) {
        let Some((key, value)) = line.rsplit_once(' ') else { continue };
        let Some((name, labels)) = key.split_once("{export=\"") else { continue };
        let Some((export, rest)) = labels.split_once('"') else { continue };
        let Ok(value) = value.parse() else { continue };
        let rest = rest.trim_start_matches(',').trim_end_matches('}');
        exports.entry(export.to_owned()).or_default().insert(format!("{name} {rest}"), value);
    }
    exports
}

/// What happened to one export between two looks.
struct View<'a> {
    now: &'a Values,
    before: Option<&'a Values>,
    seconds: f64,
}

impl View<'_> {
    fn get(&self, key: &str) -> f64 {
        self.now.get(key).copied().unwrap_or(0.0)
    }

    fn gain(&self, key: &str) -> f64 {
        let before = self.before.and_then(|before| before.get(key)).copied().unwrap_or(0.0);
        (self.get(key) - before).max(0.0)
    }

    fn rate(&self, key: &str) -> f64 {
        self.gain(key) / self.seconds.max(1e-9)
    }

    fn share(&self, part: f64, whole: f64) -> String {
        if whole > 0.0 {
            percent(part / whole)
        } else {
            NOTHING.to_owned()
        }
    }

    /// Requests: kind, rate, mean and quantiles of the device's latency, of the wall's.
    fn requests(&self) -> Vec<[String; 6]> {
        let row = |kind: &str| {
            let latency = |which: &str, quantile: &str| {
                let seconds =
                    self.get(&format!("ftl_{which}_latency_seconds kind=\"{kind}\",quantile=\"{quantile}\""));
                if seconds > 0.0 {
                    time(seconds * 1e9)
                } else {
                    NOTHING.to_owned()
                }
            };
            [
                kind.to_owned(),
                count(self.rate(&format!("ftl_requests_total kind=\"{kind}\"")).round()),
                latency("device", "0.5"),
                latency("device", "0.99"),
                latency("wall", "0.5"),
                latency("wall", "0.99"),
            ]
        };
        KINDS.map(row).to_vec()
    }

    /// Flash operations a second by cause, and programs for each page written by clients.
    fn causes(&self) -> Vec<[String; 5]> {
        let written = self.gain("ftl_host_pages_total kind=\"write\"");
        let mut rows = Vec::new();
        for cause in CAUSES {
            let key = |operation: &str| {
                format!("ftl_flash_operations_total operation=\"{operation}\",cause=\"{cause}\"")
            };
            let rates = ["read", "program", "erase"].map(|operation| self.rate(&key(operation)));
            if self.get(&key("read")) + self.get(&key("program")) + self.get(&key("erase")) == 0.0 {
                continue;
            }
            let amplification =
                if written > 0.0 { digits(self.gain(&key("program")) / written) } else { NOTHING.to_owned() };
            let [reads, programs, erases] = rates.map(|rate| count(rate.round()));
            rows.push([cause.to_owned(), reads, programs, erases, amplification]);
        }
        rows
    }

    fn facts(&self) -> Vec<String> {
        let lookups = self.gain("ftl_mapping_lookups_total ");
        let hit = |level: &str| self.gain(&format!("ftl_mapping_hits_total level=\"{level}\""));
        let reads =
            |number: &str| self.gain(&format!("ftl_host_reads_by_flash_reads_total reads=\"{number}\""));
        let several: f64 = ["2", "3", "4+"].map(reads).iter().sum();
        let all: f64 = several + reads("0") + reads("1");
        let erases = |of: &str| digits(self.get(&format!("ftl_block_erases of=\"{of}\"")));
        let total = self.get("ftl_write_amplification ");
        vec![
            format!(
                "mapping hits   {} cached, {} by model, of {} lookups/s",
                self.share(hit("cmt"), lookups),
                self.share(hit("model"), lookups),
                count((lookups / self.seconds.max(1e-9)).round())
            ),
            format!("double reads   {} of the pages read", self.share(several, all)),
            format!(
                "collections    {} data and {} translation superblocks, all told",
                count(self.get("ftl_collections_total kind=\"data\"")),
                count(self.get("ftl_collections_total kind=\"translation\""))
            ),
            format!(
                "amplification  {} since the start; block erases {} to {}, mean {}",
                if total > 0.0 { digits(total) } else { NOTHING.to_owned() },
                erases("min"),
                erases("max"),
                erases("mean")
            ),
        ]
    }

    /// Superblocks free, of all.
    fn free(&self) -> (f64, f64) {
        (self.get("ftl_superblocks state=\"free\""), self.get("ftl_superblocks state=\"all\""))
    }

    /// The share of time that each die was busy.
    fn dies(&self) -> Vec<f64> {
        let elapsed = self.gain("ftl_device_seconds_total ");
        let busy = |die: usize| {
            let parts = ["read", "program", "erase", "channel"];
            let key = |part| format!("ftl_die_busy_seconds_total die=\"{die}\",operation=\"{part}\"");
            self.now
                .contains_key(&key("read"))
                .then(|| parts.map(|part| self.gain(&key(part))).iter().sum::<f64>())
        };
        let share = |busy: f64| if elapsed > 0.0 { (busy / elapsed).min(1.0) } else { 0.0 };
        (0..).map_while(busy).map(share).collect()
    }
}

fn view<'a>(export: &str, now: &'a Look, before: Option<&'a Look>) -> Option<View<'a>> {
    Some(View {
        now: now.exports.get(export)?,
        before: before.and_then(|before| before.exports.get(export)),
        seconds: before.map_or(1.0, |before| (now.at - before.at).as_secs_f64()),
    })
}

/// `ftl top`.
pub(crate) fn top(args: TopArgs) -> Result<(), Stop> {
    let first = Look::take(args.address)?;
    if args.once {
        std::thread::sleep(Duration::from_secs_f64(args.interval));
        let second = Look::take(args.address)?;
        return say(&text(&second, &first));
    }
    if !io::stdout().is_terminal() {
        return Err(Stop::user("standard output is no terminal; give --once for text"));
    }
    let mut terminal =
        ratatui::try_init().map_err(|error| Stop::user(format!("the terminal cannot be used ({error})")))?;
    let ended = watch(&args, &mut terminal, first);
    ratatui::restore();
    ended
}

fn watch(args: &TopArgs, terminal: &mut ratatui::DefaultTerminal, first: Look) -> Result<(), Stop> {
    let broken = |error: io::Error| Stop::user(format!("the terminal cannot be used ({error})"));
    let (mut now, mut before, mut chosen) = (first, None, 0);
    loop {
        terminal.draw(|frame| draw(frame, &now, before.as_ref(), chosen)).map_err(broken)?;
        let next = now.at + Duration::from_secs_f64(args.interval);
        while event::poll(next.saturating_duration_since(Instant::now())).map_err(broken)? {
            if let Event::Key(key) = event::read().map_err(broken)? {
                let interrupted =
                    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
                match key.code {
                    _ if interrupted => return Ok(()),
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Tab => chosen += 1,
                    _ => {}
                }
            }
            terminal.draw(|frame| draw(frame, &now, before.as_ref(), chosen)).map_err(broken)?;
        }
        before = Some(std::mem::replace(&mut now, Look::take(args.address)?));
    }
}

const REQUESTS: [&str; 6] = ["requests", "a second", "device 50 %", "99 %", "here 50 %", "99 %"];
const FLASH: [&str; 5] = ["flash, by cause", "reads/s", "programs/s", "erases/s", "programs a page written"];

fn text(now: &Look, before: &Look) -> String {
    let mut out = String::new();
    for export in now.exports.keys() {
        let Some(view) = view(export, now, Some(before)) else { continue };
        out += &format!("{export}\n");
        let mut requests = Grid::new("", REQUESTS);
        view.requests().into_iter().for_each(|row| requests.row(row));
        let mut causes = Grid::new("", FLASH);
        view.causes().into_iter().for_each(|row| causes.row(row));
        out += &format!("{}\n{}\n", requests.text(), causes.text());
        let (free, all) = view.free();
        out += &format!("{}\nfree           {free} of {all} superblocks\n", view.facts().join("\n"));
        out += &format!("dies           {}\n", bars(&view.dies()));
    }
    out
}

fn bars(dies: &[f64]) -> String {
    dies.iter().map(|share| STEPS[(share * 8.0).ceil().clamp(0.0, 8.0) as usize]).collect()
}

fn table<'a, const N: usize>(header: [&'a str; N], rows: Vec<[String; N]>) -> Table<'a> {
    let widths = [Constraint::Ratio(1, N as u32); N];
    let right = |(index, text): (usize, String)| {
        let line = Line::from(text);
        Cell::from(if index == 0 { line } else { line.right_aligned() })
    };
    let head = header.map(str::to_owned).into_iter().enumerate().map(right);
    let rows =
        rows.into_iter().map(|row| Row::new(row.into_iter().enumerate().map(right).collect::<Vec<_>>()));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(rows.collect::<Vec<_>>(), widths).header(Row::new(head.collect::<Vec<_>>()).style(bold))
}

fn draw(frame: &mut Frame<'_>, now: &Look, before: Option<&Look>, chosen: usize) {
    let exports: Vec<&String> = now.exports.keys().collect();
    let export = exports[chosen % exports.len()];
    let Some(view) = view(export, now, before) else { return };
    let causes = view.causes();
    let [head, requests, flash, facts, free, dies] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(7),
        Constraint::Length(causes.len() as u16 + 3),
        Constraint::Length(6),
        Constraint::Length(3),
        Constraint::Min(3),
    ])
    .areas(frame.area());
    let of = if exports.len() > 1 {
        format!(" ({} exports, Tab for the next)", exports.len())
    } else {
        String::new()
    };
    frame.render_widget(Paragraph::new(format!("{export}{of}, q ends")), head);
    frame.render_widget(table(REQUESTS, view.requests()).block(Block::bordered()), requests);
    frame.render_widget(table(FLASH, causes).block(Block::bordered()), flash);
    frame.render_widget(Paragraph::new(view.facts().join("\n")).block(Block::bordered()), facts);
    let (left, all) = view.free();
    let gauge = Gauge::default().block(Block::bordered().title("free superblocks"));
    let ratio = if all > 0.0 { (left / all).clamp(0.0, 1.0) } else { 0.0 };
    frame.render_widget(gauge.ratio(ratio).label(format!("{left} of {all}")), free);
    draw_dies(frame, dies, &view.dies());
}

fn draw_dies(frame: &mut Frame<'_>, area: Rect, dies: &[f64]) {
    let width = usize::from(area.width.saturating_sub(2)).max(1);
    let lines: Vec<Line<'_>> = dies.chunks(width).map(|dies| Line::from(bars(dies))).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title("dies, how busy")), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;
    use ratatui::Terminal;

    const BEFORE: &str = "\
# HELP x y
ftl_requests_total{export=\"disk\",kind=\"write\"} 100
ftl_host_pages_total{export=\"disk\",kind=\"write\"} 100
ftl_device_seconds_total{export=\"disk\"} 1
ftl_die_busy_seconds_total{export=\"disk\",die=\"0\",operation=\"read\"} 0
ftl_flash_operations_total{export=\"disk\",operation=\"program\",cause=\"collection\"} 50
";
    const NOW: &str = "\
ftl_requests_total{export=\"disk\",kind=\"write\"} 300
ftl_host_pages_total{export=\"disk\",kind=\"write\"} 300
ftl_device_latency_seconds{export=\"disk\",kind=\"write\",quantile=\"0.5\"} 0.0002
ftl_device_seconds_total{export=\"disk\"} 3
ftl_die_busy_seconds_total{export=\"disk\",die=\"0\",operation=\"read\"} 2
ftl_die_busy_seconds_total{export=\"disk\",die=\"1\",operation=\"read\"} 1
ftl_flash_operations_total{export=\"disk\",operation=\"program\",cause=\"collection\"} 150
ftl_superblocks{export=\"disk\",state=\"free\"} 12
ftl_superblocks{export=\"disk\",state=\"all\"} 48
";

    fn looks() -> (Look, Look) {
        let at = Instant::now();
        let before = Look { at, exports: parse(BEFORE) };
        (before, Look { at: at + Duration::from_secs(2), exports: parse(NOW) })
    }

    #[test]
    fn rates_are_what_happened_between_two_looks() {
        let (before, now) = looks();
        let view = view("disk", &now, Some(&before)).expect("the export");
        assert_eq!(view.requests()[1][..3], ["write", "100", "200 µs"]);
        assert_eq!(view.causes(), [["collection", "0", "50", "0", "0.500"].map(str::to_owned)]);
        assert_eq!(view.dies(), [1.0, 0.5]);
        let text = text(&now, &before);
        assert!(text.contains("free           12 of 48 superblocks") && text.contains("█▄"), "{text}");
    }

    #[test]
    fn the_screen_shows_them() {
        let (before, now) = looks();
        let mut terminal = Terminal::new(TestBackend::new(90, 30)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &now, Some(&before), 3)).expect("a frame");
        let screen = terminal.backend().to_string();
        for word in ["disk, q ends", "200 µs", "collection", "12 of 48", "█▄"] {
            assert!(screen.contains(word), "{word} is missing in\n{screen}");
        }
        // However small.
        let mut terminal = Terminal::new(TestBackend::new(5, 3)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &now, None, 0)).expect("a frame");
    }
}
