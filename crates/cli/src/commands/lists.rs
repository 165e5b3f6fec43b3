//! `ftl schemes`, `ftl devices`, `ftl workloads`.

use clap::Args;
use nand::timing::Policy;
use nand::DeviceSpec;
use serde_json::json;
use sim::format::{bytes, digits, exact_time, percent, time};
use sim::setup::SchemeSpec;
use workload::synth::{calibration, catalogue, Calibration, Synth};

use super::stop::{say, Stop};
use crate::table::grid::Grid;

/// Arguments of `ftl schemes`.
#[derive(Args, Debug)]
#[command(after_help = "Use:\n  ftl compare --schemes page,dftl:protected=30,tpftl:techniques=rs")]
pub(crate) struct SchemesArgs {
    /// Only this scheme
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `ftl devices`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl devices
  ftl devices femu-32g > mine.toml     a device file to change
  ftl compare --device mine.toml")]
pub(crate) struct DevicesArgs {
    /// Print this preset or device file in full, as a device file
    #[arg(value_name = "NAME|FILE.toml")]
    name: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `ftl workloads`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl workloads                        all of them
  ftl workloads financial1             one, with what was published beside what ours measures
  ftl compare --synth financial1 --requests 500000
  ftl trace make financial1 --requests 8000 -o oltp.spc")]
pub(crate) struct WorkloadsArgs {
    /// Only this workload
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// `ftl schemes`.
pub(crate) fn schemes(args: SchemesArgs) -> Result<(), Stop> {
    let shown = match &args.name {
        Some(name) => vec![SchemeSpec::info(name)?],
        None => ftl::schemes::ALL.to_vec(),
    };
    if args.json {
        let parameter = |p: &ftl::Parameter| json!({ "name": p.name, "default": p.default, "what": p.what });
        let statistic = |s: &ftl::Stat| json!({ "name": s.name, "unit": s.unit, "of": s.of, "what": s.what });
        let scheme = |info: &&ftl::Info| {
            json!({
                "name": info.name,
                "what": info.what,
                "paper": info.paper,
                "parameters": info.parameters.iter().map(parameter).collect::<Vec<_>>(),
                "statistics": info.stats.iter().map(statistic).collect::<Vec<_>>(),
            })
        };
        let all: Vec<_> = shown.iter().map(scheme).collect();
        return say(&sim::results::pretty(&all.into()));
    }
    let mut out = String::new();
    for info in shown {
        out += &format!("{:<8} {}\n{:<8} {}\n", info.name, info.what, "", info.paper);
        for parameter in info.parameters {
            out += &format!("{:<8}   {}={}\n", "", parameter.name, parameter.default);
            for line in wrapped(parameter.what, 96) {
                out += &format!("{:<8}       {line}\n", "");
            }
        }
        for stat in info.stats {
            out += &format!("{:<8}   counts {}: {}\n", "", stat.name, stat.what);
        }
        out.push('\n');
    }
    say(&out)
}

/// Text in lines of up to `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines
}

/// `ftl devices`.
pub(crate) fn devices(args: DevicesArgs) -> Result<(), Stop> {
    let shown = match &args.name {
        Some(name) => vec![DeviceSpec::load(name)?],
        None => DeviceSpec::presets().into_iter().map(DeviceSpec::named).collect::<Result<_, _>>()?,
    };
    if args.json {
        let all: Vec<_> = shown.iter().map(device_json).collect();
        return say(&sim::results::pretty(&all.into()));
    }
    match (&args.name, &shown[..]) {
        (Some(_), [device]) => say(&device_file(device)),
        _ => say(&device_table(&shown)),
    }
}

fn device_table(devices: &[DeviceSpec]) -> String {
    let header = [
        "device",
        "raw",
        "exported",
        "spare",
        "of exported",
        "dies",
        "block",
        "page",
        "read",
        "program",
        "erase",
    ];
    let mut grid = Grid::new("", header);
    for device in devices {
        let g = &device.geometry;
        let page = u64::from(g.page_bytes);
        grid.row([
            device.name.clone(),
            bytes(device.raw_bytes()),
            bytes(device.exported_bytes()),
            bytes(device.over_provisioning_bytes()),
            percent(device.over_provisioning_bytes() as f64 / device.exported_bytes() as f64),
            g.dies().to_string(),
            bytes(u64::from(g.pages_per_block) * page),
            bytes(page),
            exact_time(device.read_ns),
            exact_time(device.program_ns),
            exact_time(device.erase_ns),
        ]);
    }
    let mut out = grid.text();
    out.push('\n');
    for device in devices {
        out += &format!("{:<13} {}\n", device.name, device.what);
    }
    out + "\nSpare is raw less exported: over-provisioning, bad blocks and the collection reserve. `ftl devices NAME` prints \
           a device\nfile; --export SIZE changes what is exported.\n"
}

fn device_json(device: &DeviceSpec) -> serde_json::Value {
    let g = &device.geometry;
    json!({
        "name": device.name,
        "what": device.what,
        "raw_bytes": device.raw_bytes(),
        "exported_bytes": device.exported_bytes(),
        "over_provisioning_bytes": device.over_provisioning_bytes(),
        "utilisation": device.utilisation(),
        "channels": g.channels,
        "luns_per_channel": g.luns_per_channel,
        "planes_per_lun": g.planes_per_lun,
        "blocks_per_plane": g.blocks_per_plane,
        "pages_per_block": g.pages_per_block,
        "page_bytes": g.page_bytes,
        "oob_bytes": g.oob_bytes,
        "read_ns": device.read_ns,
        "program_ns": device.program_ns,
        "erase_ns": device.erase_ns,
        "suspend_ns": device.suspend_ns,
        "channel_mb_s": device.channel_mb_s,
        "factory_bad_ppm": device.factory_bad_ppm,
        "policy": policy(device),
        "host_overhead_ns": device.host_overhead_ns,
        "host_cpus": device.host_cpus,
        "controller_cores": device.controller_cores,
        "sram_bytes": device.sram_bytes,
        "energy": device.energy,
    })
}

fn policy(device: &DeviceSpec) -> &'static str {
    match device.policy {
        Policy::Fcfs => "fcfs",
        Policy::HostReadsFirst => "host-reads-first",
        Policy::Suspend => "suspend",
    }
}

/// A device as the file that describes it.
fn device_file(device: &DeviceSpec) -> String {
    let g = &device.geometry;
    let us = |ns: u64| ns as f64 / 1e3;
    let size = |value: u64| {
        let text = bytes(value);
        match nand::parse_size(&text) {
            Ok(exact) if exact == value => format!("\"{text}\""),
            _ => value.to_string(),
        }
    };
    let spare = device.over_provisioning_bytes();
    let mut out = format!(
        "name = {}\nwhat = {}\n",
        serde_json::Value::from(device.name.as_str()),
        serde_json::Value::from(device.what.as_str())
    );
    out += &format!(
        "exported = {} # {} = {} of raw; {} spare = {} of exported\n",
        size(device.exported_bytes()),
        bytes(device.exported_bytes()),
        percent(device.utilisation()),
        bytes(spare),
        percent(spare as f64 / device.exported_bytes() as f64)
    );
    if let Some(sram) = device.sram_bytes {
        out += &format!("sram = {} # the default of --cache\n", size(sram));
    }
    if let Some(erases) = device.endurance {
        out += &format!("endurance = {erases} # erases that a block stands in the mean, with --until-worn\n");
    }
    out += &format!(
        "factory_bad_ppm = {} # blocks, parts per million\npolicy = \"{}\" # fcfs, host-reads-first or suspend\n",
        device.factory_bad_ppm,
        policy(device)
    );
    out += &format!(
        "\n[geometry] # {} raw, {} dies\nchannels = {}\nluns_per_channel = {}\nplanes_per_lun = {}\nblocks_per_plane = {}\n\
         pages_per_block = {}\npage_bytes = {}\noob_bytes = {}\n",
        bytes(device.raw_bytes()),
        g.dies(),
        g.channels,
        g.luns_per_channel,
        g.planes_per_lun,
        g.blocks_per_plane,
        g.pages_per_block,
        g.page_bytes,
        g.oob_bytes
    );
    out += &format!(
        "\n[times]\nread_us = {}\nprogram_us = {}\nerase_us = {}\nsuspend_us = {} # added to what a suspension interrupts\n\
         channel_mb_s = {} # 0: transfers take no time\n",
        us(device.read_ns),
        us(device.program_ns),
        us(device.erase_ns),
        us(device.suspend_ns),
        device.channel_mb_s
    );
    out += &format!(
        "\n[host]\noverhead_us = {} # a request, of software\ncpus = {}\n\n[controller]\ncores = {}\n",
        us(device.host_overhead_ns),
        device.host_cpus,
        device.controller_cores
    );
    let e = &device.energy;
    out + &format!(
        "\n[energy]\nsupply_v = {}\nread_ma = {}\nprogram_ma = {}\nerase_ma = {}\ntransfer_ma = {}\nidle_ma = {}\n",
        e.supply_v, e.read_ma, e.program_ma, e.erase_ma, e.transfer_ma, e.idle_ma
    )
}

/// `ftl workloads`: of one, what is published beside what ours measures, which takes a moment.
pub(crate) fn workloads(args: WorkloadsArgs) -> Result<(), Stop> {
    let shown: Vec<&'static Synth> = match &args.name {
        Some(name) => vec![Synth::find(name)?],
        None => catalogue().iter().collect(),
    };
    if args.json {
        let mut all = Vec::new();
        for synth in shown {
            let mut about = json!({
                "name": synth.name,
                "what": synth.what,
                "source": synth.source,
                "span_bytes": synth.span_bytes(),
                "mean_gap_ns": synth.mean_gap_ns(),
            });
            if args.name.is_some() {
                about["calibration"] = json!(calibration(synth.name)?);
                about["acceptance"] = json!(synth.acceptance());
            }
            all.push(about);
        }
        return say(&sim::results::pretty(&all.into()));
    }
    if args.name.is_some() {
        for synth in shown {
            say(&workload_text(synth)?)?;
        }
        return say("Ours is measured on 200 000 requests. Arrivals are exponential; their rate is our choice, not published. Generators with\nrequests in flight have no arrival times: their threads wait for their requests.\n");
    }
    let widest = shown.iter().map(|synth| synth.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for synth in shown {
        for (at, line) in
            wrapped(&format!("{}; {}", synth.what, arrivals(synth)), 118 - widest).iter().enumerate()
        {
            out += &format!("{:<widest$}  {line}\n", if at == 0 { synth.name } else { "" });
        }
    }
    say(&format!("{out}\nAll of them are synthetic. `ftl workloads NAME` shows what was published beside what ours measures.\n"))
}

/// How large it is, and when its requests come.
fn arrivals(synth: &Synth) -> String {
    let when = match synth.threads() {
        None => format!("a request every {}", time(synth.mean_gap_ns() as f64)),
        Some(1) => "one request in flight".to_owned(),
        Some(threads) => format!("{threads} requests in flight"),
    };
    let size = if synth.elastic() {
        format!("less on smaller devices, from {} on", bytes(synth.least_bytes()))
    } else {
        "as they are".to_owned()
    };
    format!("addresses up to {}, {size}; {when}", bytes(synth.span_bytes()))
}

fn workload_text(synth: &'static Synth) -> Result<String, Stop> {
    let mut grid = Grid::new("", ["statistic", "published", "ours"]);
    for row in calibration(synth.name)? {
        let (statistic, share) = (row.statistic, row.published <= 1.0 && !row.statistic.contains(','));
        let show = |value: f64| if share { percent(value) } else { digits(value) };
        grid.row([statistic.to_owned(), show(row.published), show(row.ours)]);
    }
    Ok(format!(
        "{}: {}\n{}; calibrated to {}\n{}{}\n",
        synth.name,
        synth.what,
        arrivals(synth),
        synth.source,
        if grid.is_empty() { String::new() } else { grid.text() },
        beside_rows(synth)
    ))
}

/// Where its writes go, and its reads where they are fitted, too, beside the real rows; or that it is fitted
/// to none.
fn beside_rows(synth: &'static Synth) -> String {
    let Some(acceptance) = synth.acceptance() else {
        let unproven = "\nFitted to no real rows: `ftl paper` counts no number that rests on it.\n";
        return if synth.is_unproven() { unproven.to_owned() } else { String::new() };
    };
    let read = |statistic: &str| {
        statistic.replace("written to", "read").replace("written", "read").replace("writes", "reads")
    };
    let moved = match acceptance.align {
        1 => String::new(),
        align => format!(", addresses moved down to a multiple of {align} bytes"),
    };
    let format = acceptance.format.map_or_else(String::new, |name| format!(", read as {}", name.name()));
    let mut text = format!(
        "\nBeside the {} writes of {}{format}{moved}.\nOurs is the mean of eight seeds. Near: shares within 6 points, \
         others\nwithin a fifth. A turn of the log: {} pages of {} bytes. A block: {} pages.\n{}",
        acceptance.writes,
        acceptance.file,
        acceptance.grain.turn_pages,
        acceptance.grain.page_bytes,
        acceptance.grain.block_pages,
        nearness("where writes go", &acceptance.table, |statistic| statistic.to_owned()).text()
    );
    if !acceptance.of_reads.is_empty() {
        text += &nearness("where reads go", &acceptance.of_reads, read).text();
    }
    if let Some(failed) = acceptance.failed {
        text += &format!(
            "\nIt failed beside the rows in {failed}: `ftl paper` counts no number that rests on it\n(docs/workloads.md).\n"
        );
    }
    text
}

/// Each number of the rows beside the generator's.
fn nearness(title: &str, rows: &[Calibration], name: impl Fn(&str) -> String) -> Grid {
    let mut grid = Grid::new("", [title, "real rows", "ours", "near"]);
    for row in rows {
        let show = |value: f64| if row.published <= 1.0 { percent(value) } else { digits(value) };
        let near = if row.is_near() { "yes" } else { "NO" };
        grid.row([name(row.statistic), show(row.published), show(row.ours), near.to_owned()]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_device_file_describes_the_same_device() {
        for name in DeviceSpec::presets() {
            let device = DeviceSpec::named(name).expect("a preset");
            let again = DeviceSpec::parse("printed.toml", &device_file(&device)).expect("a device file");
            assert_eq!(again, device, "{name}");
        }
    }
}
