//! `ftl vhost`: a live device as a virtio block device of a virtual machine.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use live::{vhost, Stop as ServerStop};

use super::live::{switch_off, switch_on, watch_signals};
use super::record::Recording;
use super::stop::{say, Stop};
use crate::table::format::bytes;

/// Arguments of `ftl vhost`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  ftl vhost disk.ftl disk.sock
  linux.uml mem=256M rootfstype=hostfs rw init=/bin/sh virtio_uml.device=$PWD/disk.sock:2
  qemu-system-x86_64 -m 1G -object memory-backend-memfd,id=m,size=1G,share=on -machine q35,memory-backend=m \\
    -chardev socket,id=c,path=disk.sock -device vhost-user-blk-pci,chardev=c …
  cloud-hypervisor --memory size=1G,shared=on --disk vhost_user=true,socket=disk.sock …

One machine at a time. SIGINT and SIGTERM stop it in good order; a second one ends it at once, as a power cut would.")]
pub(crate) struct VhostArgs {
    /// An image made by `ftl create`
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Unix socket that the virtual machine connects to
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// Hold each answer until the device model gives it, so that the machine sees the latency of the flash
    #[arg(long)]
    pace: bool,
    /// Answer GET /metrics here for Prometheus, such as 127.0.0.1:9100
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<SocketAddr>,
    /// Write what the device sees as a trace: FILE.iolog (fio's) or FILE.parquet
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Say nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// `ftl vhost`.
pub(crate) fn vhost(args: VhostArgs) -> Result<(), Stop> {
    let socket = vhost::Socket::bind(&args.socket)?;
    let stop = ServerStop::new()?;
    watch_signals(&stop)?;
    let served = switch_on(&args.image, args.pace, args.quiet)?;
    let recording = args.record.as_deref().map(|file| Recording::start(file, served.export.as_ref()));
    let recording = recording.transpose()?;
    let metrics = args.metrics.map(|address| live::publish(address, vec![served.clone()])).transpose()?;
    if !args.quiet {
        let mut out =
            format!("  device    {}, {}\n", bytes(served.export.exported_bytes()), served.description);
        if let Some(at) = metrics {
            out += &format!("  metrics   http://{at}/metrics\n");
        }
        say(&format!("{out}  listening {}\n", args.socket.display()))?;
    }
    let ended = vhost::serve(&socket, served.export.clone(), &served.name, &stop)?;
    switch_off(&[served], ended.panic, recording, args.quiet)
}
