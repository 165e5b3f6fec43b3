//! `ftl mount`: a live device as a file, for any program.

use std::path::PathBuf;

use clap::Args;
use live::{fuse, Loop, Stop as ServerStop};

use super::serving::{watch_signals, Serving};
use super::stop::{note, Stop};

/// Arguments of `ftl mount`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  mkdir dir; ftl mount disk.ftl dir               the device is the file dir/disk
  fio --name=x --filename=dir/disk --rw=randwrite --bs=4k --iodepth=16 --ioengine=libaio --direct=1 --size=64m
  ftl mount disk.ftl dir --loop                   says which loop device it is, /dev/loop0 say
  mkfs.ext4 /dev/loop0 && mount /dev/loop0 /mnt

It ends when DIR is unmounted, or with Ctrl-C or SIGTERM: as soon as nobody uses the device any more, it is switched off in good
order. A second signal ends it at once, as a power cut would. Reads and writes may have any size and place; fsync makes durable,
fallocate with PUNCH_HOLE forgets. A loop device needs root.")]
pub(crate) struct MountArgs {
    /// An image made by `ftl create`
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Folder to mount on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Attach a loop device, too: sectors of 4 KiB, direct I/O
    #[arg(long = "loop")]
    attach: bool,
    #[command(flatten)]
    serving: Serving,
}

/// `ftl mount`.
pub(crate) fn mount(args: MountArgs) -> Result<(), Stop> {
    fuse::possible(&args.dir)?;
    if args.attach {
        Loop::possible()?;
    }
    let stop = ServerStop::new()?;
    watch_signals(&stop)?;
    let device = args.serving.switch_on(&[args.image])?;
    let served = device.only();
    let mounted = fuse::mount(served.export.clone(), &served.name, &args.dir, &stop)?;
    let attached = if args.attach { Some(Loop::attach(mounted.file())) } else { None };
    // Without its loop device it is unmounted again.
    let (attached, refused) = match attached.transpose() {
        Ok(attached) => (attached, None),
        Err(error) => {
            stop.ask();
            (None, Some(error))
        }
    };
    if refused.is_none() {
        let at = attached.as_ref().map(|attached| format!("  loop      {}\n", attached.device().display()));
        let at = at.unwrap_or_default();
        device.greet("device", &format!("{at}  mounted   {}\n", mounted.file().display()));
    }
    let used = format!("{} is in use; it is switched off when it no longer is", args.dir.display());
    let panic = mounted.run(&stop, attached.as_ref(), &mut || note(&used))?;
    device.switch_off(panic)?;
    refused.map_or(Ok(()), |error| Err(error.into()))
}
