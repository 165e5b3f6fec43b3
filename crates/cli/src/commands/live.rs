//! `ftl create`, `ftl info`, `ftl convert`, `ftl serve`: the live device.

use std::path::{Path, PathBuf};

use clap::Args;
use ftl::VictimPolicy;
use live::nbd::serve as serve_nbd;
use live::{Address, Listeners, LiveError, Settings, Stop as ServerStop};
use nand::DeviceSpec;
use sim::format::{bytes, time, whole};
use sim::setup::{positive_32, SchemeSpec};
use sim::CacheSize;

use super::interrupt;
use super::options::one_of;
use super::serving::{check_memory, watch_signals, Serving};
use super::stop::{note, say, Stop};

/// The TCP port of NBD.
const NBD_PORT: &str = "127.0.0.1:10809";

/// Arguments of `ftl create`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl create disk.ftl --device femu-32g --scheme tpftl
  ftl create disk.ftl --device mine.toml --scheme dftl:protected=30 --export 3GiB --cache 1MiB
  ftl serve disk.ftl

The file is sparse: it takes space as the device is written, and gives it back when it is switched off.")]
pub(crate) struct CreateArgs {
    /// File to make
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Preset or device file (see `ftl devices`)
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "femu-32g")]
    device: String,
    /// Scheme, with parameters where they differ from the defaults
    #[arg(long, value_name = "NAME[:key=value…]", default_value = "page")]
    scheme: SchemeSpec,
    /// Capacity that clients see, such as 30GiB; the rest of the flash is over-provisioning [default: the
    /// device's]
    #[arg(long, value_name = "SIZE", value_parser = nand::parse_size)]
    export: Option<u64>,
    /// Memory for mapping: a share of the full table (8 bytes a page) such as 3%, or a size such as 2MiB
    /// [default: the device's SRAM if it names one, else 3%]
    #[arg(long, value_name = "SHARE|SIZE")]
    cache: Option<CacheSize>,
    /// Free superblocks (a block of every die) at which a write waits for collection
    #[arg(long, value_name = "N", value_parser = positive_32)]
    gc_foreground: Option<u32>,
    /// Free superblocks at which collection starts
    #[arg(long, value_name = "N", value_parser = positive_32)]
    gc_background: Option<u32>,
    /// How victims of collection are chosen
    #[arg(long, value_parser = one_of::<VictimPolicy>(), value_name = "POLICY", default_value = "greedy")]
    victims: VictimPolicy,
    /// Level wear: a block that was not erased while the others had N erases each in the mean gives its cold
    /// data away [default: never]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    wear_gap: Option<u32>,
}

/// Arguments of `ftl info`.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// An image; it may be in use
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
}

/// Arguments of `ftl convert`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl convert disk.ftl disk-tpftl.ftl --scheme tpftl
  ftl convert small.ftl large.ftl --device femu-32g --cache 2MiB

Nothing is written to the old image. The new one is there as a whole or not at all.")]
pub(crate) struct ConvertArgs {
    /// Image to take the content from; nobody may be writing to it
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Image to make
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Its scheme, with parameters where they differ from the defaults [default: that of IMAGE]
    #[arg(long, value_name = "NAME[:key=value…]")]
    scheme: Option<SchemeSpec>,
    /// Its device: preset or device file [default: that of IMAGE]
    #[arg(long, value_name = "NAME|FILE.toml")]
    device: Option<String>,
    /// Its capacity for clients, at least that of IMAGE [default: the device's]
    #[arg(long, value_name = "SIZE", value_parser = nand::parse_size)]
    export: Option<u64>,
    /// Its memory for mapping: a share of the full table or a size [default: that of IMAGE]
    #[arg(long, value_name = "SHARE|SIZE")]
    cache: Option<CacheSize>,
    /// It levels wear: a block that was not erased while the others had N erases each gives its cold data
    /// away [default: as IMAGE]
    #[arg(long, value_name = "N", value_parser = positive_32)]
    wear_gap: Option<u32>,
}

/// Arguments of `ftl serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl serve disk.ftl                       on the unix socket disk.ftl.sock
  ftl serve disk.ftl --listen 127.0.0.1:10809
  ftl serve a.ftl b.ftl --listen /run/ftl.sock

  nbdinfo 'nbd+unix:///?socket=disk.ftl.sock'
  fio --name=x --ioengine=nbd --uri='nbd+unix:///?socket=disk.ftl.sock' --rw=randwrite --bs=4k --iodepth=16 --size=64m
  nbd-client -unix disk.ftl.sock /dev/nbd0

Each image is an export by the name of its file without the ending; the first one answers to the empty name, too. SIGINT
and SIGTERM stop the server in good order; a second one ends it at once, as a power cut would. Sockets of LISTEN_FDS are used
when there are any. There is no encryption and no password here: keep TCP on the loopback, or put nbdkit or ssh in front.")]
pub(crate) struct ServeArgs {
    /// Images made by `ftl create`
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    /// Where clients connect: HOST:PORT, or the path of a unix socket; may be given several times [default:
    /// IMAGE.sock]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<Address>,
    #[command(flatten)]
    serving: Serving,
}

impl From<LiveError> for Stop {
    fn from(error: LiveError) -> Stop {
        Stop::user(error)
    }
}

/// `ftl create`.
pub(crate) fn create(args: CreateArgs) -> Result<(), Stop> {
    let mut device = DeviceSpec::load(&args.device)?;
    if let Some(bytes) = args.export {
        device = device.with_exported_bytes(bytes)?;
    }
    check_memory(&device)?;
    let cache = args.cache.unwrap_or(device.sram_bytes.map_or(CacheSize::Share(0.03), CacheSize::Bytes));
    let mut settings = Settings::new(&args.scheme.name, cache.bytes(device.exported_pages)?);
    settings.parameters = args.scheme.parameters;
    settings.foreground_superblocks = args.gc_foreground.unwrap_or(settings.foreground_superblocks);
    settings.background_superblocks = args.gc_background.unwrap_or(settings.background_superblocks);
    settings.cost_benefit = args.victims == VictimPolicy::CostBenefit;
    settings.wear_gap = args.wear_gap.unwrap_or(0);
    live::create(&args.image, &device, &settings)?;
    let name = args.image.display();
    say(&format!("{}serve it with: ftl serve {name}\n", described(&args.image, &device, &settings)))
}

/// `ftl info`.
pub(crate) fn info(args: InfoArgs) -> Result<(), Stop> {
    let (device, settings) = live::describe(&args.image)?;
    say(&described(&args.image, &device, &settings))
}

/// `ftl convert`.
pub(crate) fn convert(args: ConvertArgs) -> Result<(), Stop> {
    let (mut device, mut settings) = live::describe(&args.image)?;
    if let Some(name) = &args.device {
        device = DeviceSpec::load(name)?;
    }
    if let Some(bytes) = args.export {
        device = device.with_exported_bytes(bytes)?;
    }
    if let Some(scheme) = args.scheme {
        (settings.scheme, settings.parameters) = (scheme.name, scheme.parameters);
    }
    if let Some(cache) = args.cache {
        settings.cache_bytes = cache.bytes(device.exported_pages)?;
    }
    settings.wear_gap = args.wear_gap.unwrap_or(settings.wear_gap);
    check_memory(&device)?;
    interrupt::catch()?;
    let converted =
        live::convert(&args.image, &args.new, &device, &settings, &mut |_, _| !interrupt::asked());
    let converted = match converted {
        Err(LiveError::Stopped) => return Err(Stop::Interrupted("stopped; no image was made".to_owned())),
        converted => converted?,
    };
    say(&format!(
        "{}  copied    {}; {} hold nothing\n",
        described(&args.new, &device, &settings),
        bytes(converted.copied),
        bytes(converted.holes)
    ))
}

fn described(image: &Path, device: &DeviceSpec, settings: &Settings) -> String {
    let g = &device.geometry;
    let mut scheme = settings.scheme.clone();
    for (key, value) in &settings.parameters {
        scheme += &format!(":{key}={value}");
    }
    let on_disk = image.metadata().map(|found| std::os::unix::fs::MetadataExt::blocks(&found) * 512);
    let on_disk =
        on_disk.map_or_else(|_| String::new(), |taken| format!(", {} on the host's disk", bytes(taken)));
    let wear = match settings.wear_gap {
        0 => String::new(),
        gap => format!(", wear levelled with a gap of {gap} erases"),
    };
    format!(
        "{}: {}\n  capacity  {} exported of {} raw in pages of {}{on_disk}\n  device    {} dies, {} blocks of {} pages; read \
         {}, program {}, erase {}\n  scheme    {scheme}, {} for mapping, collection at {} and {} free superblocks, victims {}{}\n",
        image.display(),
        device.what,
        bytes(device.exported_bytes()),
        bytes(device.raw_bytes()),
        bytes(u64::from(g.page_bytes)),
        g.dies(),
        whole(u64::from(g.blocks())),
        g.pages_per_block,
        time(device.read_ns as f64),
        time(device.program_ns as f64),
        time(device.erase_ns as f64),
        bytes(settings.cache_bytes),
        settings.background_superblocks,
        settings.foreground_superblocks,
        if settings.cost_benefit { "by cost and benefit" } else { "greedily" },
        wear,
    )
}

/// `ftl serve`.
pub(crate) fn serve(args: ServeArgs) -> Result<(), Stop> {
    let listeners = match Listeners::activated()? {
        Some(given) => given,
        None => Listeners::bind(&addresses(&args))?,
    };
    let stop = ServerStop::new()?;
    watch_signals(&stop)?;
    let devices = args.serving.switch_on(&args.images)?;
    devices.greet("export", &listening(&listeners));
    let ended = serve_nbd(&listeners, devices.served().to_vec(), &stop)?;
    devices.switch_off(ended.panic)
}

fn addresses(args: &ServeArgs) -> Vec<Address> {
    if args.listen.is_empty() {
        let mut path = args.images[0].clone().into_os_string();
        path.push(".sock");
        return vec![Address::Unix(path.into())];
    }
    for address in &args.listen {
        if matches!(address, Address::Tcp(at) if !at.ip().is_loopback()) {
            note(&format!(
                "{address} can be reached from outside, and there is no password; {NBD_PORT} would stay here"
            ));
        }
    }
    args.listen.clone()
}

fn listening(listeners: &Listeners) -> String {
    let said = listeners.addresses().iter().map(|address| match address {
        Address::Unix(path) => format!("  listening nbd+unix:///?socket={}\n", path.display()),
        Address::Tcp(at) => format!("  listening nbd://{at}\n"),
    });
    let said: String = said.collect();
    if said.is_empty() {
        "  listening on the sockets of LISTEN_FDS\n".to_owned()
    } else {
        said
    }
}
