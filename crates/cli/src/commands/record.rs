//! `--record`: what a live device sees, as a trace.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{sync_channel, Receiver};
use std::thread::JoinHandle;

use ftl::HostOp;
use live::{Export, Recorded};
use sim::format::whole;
use workload::trace::{write_fio_iolog, write_parquet};
use workload::{Kind, Request};

use super::stop::Stop;

/// Batches on their way to the file. When there are more, the device waits: nothing is left out.
const MOST_WAITING: usize = 4096;

/// A recording under way. It ends when the device is switched off.
pub(super) struct Recording {
    file: PathBuf,
    thread: JoinHandle<io::Result<u64>>,
}

/// Refuses the name of a file that a recording must not have.
pub(super) fn check_name(file: &Path) -> Result<(), Stop> {
    let ending = file.extension().and_then(|ending| ending.to_str());
    if !matches!(ending, Some("iolog" | "log" | "parquet")) {
        return Err(Stop::user(format!(
            "{}: a recording is a fio iolog or Parquet; name it .iolog or .parquet",
            file.display()
        )));
    }
    if file.symlink_metadata().is_ok() {
        return Err(Stop::user(format!(
            "{}: there is such a file already; remove it, or name another one for --record",
            file.display()
        )));
    }
    Ok(())
}

impl Recording {
    /// Records what `export` sees from now on.
    pub fn start(file: &Path, export: &dyn Export) -> Result<Recording, Stop> {
        check_name(file)?;
        let columns = file.extension().is_some_and(|ending| ending == "parquet");
        let unwritable =
            |error| Stop::user(format!("{} cannot be written ({error}); name another file", file.display()));
        let out = BufWriter::new(File::create_new(file).map_err(unwritable)?);
        let (sender, batches) = sync_channel::<Vec<Recorded>>(MOST_WAITING);
        let write = move || write(out, columns, &batches);
        let thread = std::thread::Builder::new().name("record".into()).spawn(write).map_err(unwritable)?;
        // A file that cannot be written ends the recording, not the device; `finish` tells.
        export.record(Box::new(move |seen| drop(sender.send(seen.to_vec()))));
        Ok(Recording { file: file.to_owned(), thread })
    }

    /// Waits until all is written, after the device has been switched off.
    pub fn finish(self) -> Result<String, Stop> {
        let file = self.file.display();
        match self.thread.join() {
            Ok(Ok(requests)) => Ok(format!("{file}: {} requests recorded\n", whole(requests))),
            Ok(Err(error)) => Err(Stop::user(format!("{file}: the recording is not whole ({error})"))),
            Err(panic) => Err(Stop::panic(panic.as_ref(), "ftl serve --record")),
        }
    }
}

fn write(mut out: BufWriter<File>, columns: bool, batches: &Receiver<Vec<Recorded>>) -> io::Result<u64> {
    let requests = batches.iter().flatten().map(request);
    let count = if columns {
        write_parquet(&mut out, requests)?
    } else {
        write_fio_iolog(&mut out, "/dev/ftl", requests)?
    };
    out.flush()?;
    Ok(count)
}

fn request(seen: Recorded) -> Request {
    let kind = match seen.op {
        HostOp::Read => Kind::Read,
        HostOp::Write => Kind::Write,
        HostOp::Trim => Kind::Trim,
        HostOp::Flush => Kind::Flush,
    };
    Request { arrival_ns: seen.ns, kind, offset: seen.offset, bytes: seen.bytes }
}
