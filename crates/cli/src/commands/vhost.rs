//! `ftl vhost`: a live device as a virtio block device of a virtual machine.

use std::path::PathBuf;

use clap::Args;
use live::{vhost, Stop as ServerStop};

use super::serving::{watch_signals, Serving};
use super::stop::Stop;

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
    #[command(flatten)]
    serving: Serving,
}

/// `ftl vhost`.
pub(crate) fn vhost(args: VhostArgs) -> Result<(), Stop> {
    let socket = vhost::Socket::bind(&args.socket)?;
    let stop = ServerStop::new()?;
    watch_signals(&stop)?;
    let device = args.serving.switch_on(&[args.image])?;
    let served = device.only();
    device.greet("device", &format!("  listening {}\n", args.socket.display()));
    let ended = vhost::serve(&socket, served.export.clone(), &served.name, &stop)?;
    device.switch_off(ended.panic)
}
