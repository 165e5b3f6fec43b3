//! fio on F2FS. Few machines have a kernel with F2FS, so that it runs in a virtual machine of its own
//! (`guest/`), whose disk is the device, over vhost-user-blk.
//!
//! The guest is a shell at the other end of a console: it carries out one line after the other, and says how
//! each ended.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use live::{vhost, Stop};
use sim::results::Phase;

use super::fio::of_fio;
use super::{beside, ended, last_lines, Bench, Calls, PATIENCE};

/// `guest/guest.sh`, and what it packs.
const GUEST: &str = include_str!("../../guest/guest.sh");
const BEGIN: &str = include_str!("../../guest/boot.sh");
const SHELL: &str = include_str!("../../guest/shell.sh");
/// What the guest runs.
const TOOLS: [&str; 3] = ["fio", "mkfs.f2fs", "fsck.f2fs"];
/// How each call of fio begins: files lie on F2FS, and latencies come with their counts.
const FIO: &str = "fio --output-format=json+ --group_reporting=1 --lat_percentiles=1 --clat_percentiles=0 \
     --slat_percentiles=0 --directory=/mnt";

pub(super) fn possible() -> Result<(), String> {
    let asked = Command::new("sh").args(["-c", GUEST, "guest.sh", "lacks"]).args(TOOLS).output();
    let asked =
        asked.map_err(|error| format!("sh cannot be run ({error}), and F2FS on a live device needs it"))?;
    if asked.status.success() {
        return Ok(());
    }
    let sentence = String::from_utf8_lossy(&asked.stdout);
    Err(sentence.trim().to_owned())
}

pub(super) fn measure(bench: &Bench, calls: &Calls) -> Result<Vec<Phase>, String> {
    let path = |name: &str| bench.folder.join(name).display().to_string();
    let (script, init, packed, socket) =
        (path("guest.sh"), path("shell.sh"), path("packed"), path("disk.sock"));
    for (path, text) in [(&script, GUEST), (&init, SHELL), (&path("boot.sh"), BEGIN)] {
        std::fs::write(path, text).map_err(|error| format!("{path} cannot be written ({error})"))?;
    }
    bench.run("sh", &[&[&*script, "pack", &packed, &init], &TOOLS[..]].concat())?;
    let listening = vhost::Socket::bind(socket.as_ref()).map_err(|error| error.to_string())?;
    let stop = Stop::new().map_err(|error| error.to_string())?;
    beside(
        &stop,
        || Ok(vhost::serve(&listening, bench.export.clone(), "disk", &stop)?.panic),
        || in_guest(bench, calls, Guest::start(&[&script, "start", &packed, &socket], &bench.stop)?),
    )
}

/// Makes the file system and the files, measures, and looks whether F2FS finds everything in order.
fn in_guest(bench: &Bench, calls: &Calls, mut guest: Guest) -> Result<Vec<Phase>, String> {
    // Without discard: the file system lies on a device that has been written over, as after the warm-up.
    guest.run("mkfs.f2fs -q -f -t 0 /dev/vda && mount -t f2fs /dev/vda /mnt")?;
    // F2FS writes small volumes in place and reuses segments early (f2fs_tuning_parameters in fs/f2fs/super.c
    // of Linux); these are its settings for those of more than 16 GiB, as the papers have.
    guest.run("mount -o remount,alloc_mode=default /mnt && echo 16 >/sys/fs/f2fs/vda/ipu_policy")?;
    for call in &calls.load {
        guest.fio(call, &calls.options)?;
    }
    let phase = |call: &String| {
        guest.run("sync; echo 3 >/proc/sys/vm/drop_caches")?;
        let name = call.split_whitespace().next().unwrap_or_default();
        let (said, counted, _) = bench.paced(name, || guest.fio(call, &calls.options))?;
        of_fio(&said, Phase { jobs: 1, ..counted })
    };
    let phases = calls.run.iter().map(phase).collect::<Result<_, _>>()?;
    guest.run("fstrim /mnt && umount /mnt")?;
    let checked = guest.run("fsck.f2fs -f --dry-run /dev/vda")?;
    if let Some(line) = checked.lines().find(|line| line.contains("[Fail]") || line.contains("[ASSERT]")) {
        return Err(format!("fsck.f2fs finds the file system broken: {}", line.trim()));
    }
    guest.power_off()?;
    Ok(phases)
}

/// A virtual machine at work; it is ended when this is dropped.
struct Guest {
    machine: Child,
    keys: ChildStdin,
    /// Lines of its console.
    lines: Receiver<String>,
    stop: Stop,
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It has ended in good order, or nothing can be done about it.
        let _ = (self.machine.kill(), self.machine.wait());
    }
}

impl Guest {
    /// Starts `guest.sh` with these arguments, and waits for its shell.
    fn start(arguments: &[&str], stop: &Stop) -> Result<Guest, String> {
        let failed = |error: std::io::Error| format!("the virtual machine cannot be started ({error})");
        let mut machine = Command::new("sh")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (Some(keys), Some(console)) = (machine.stdin.take(), machine.stdout.take()) else {
            return Err("the virtual machine has no console".to_owned());
        };
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(console).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).replace('\r', "");
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        let mut guest = Guest { machine, keys, lines, stop: stop.clone() };
        guest.until("ready")?;
        Ok(guest)
    }

    /// What it says until a line begins with `mark`, and the rest of that line.
    fn until(&mut self, mark: &str) -> Result<(String, String), String> {
        let mut said = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => match line.strip_prefix(mark) {
                    Some(rest) => return Ok((said, rest.trim().to_owned())),
                    None => said = said + &line + "\n",
                },
                Err(RecvTimeoutError::Timeout) => {
                    if self.stop.wait(Some(Duration::ZERO)) {
                        return Err("stopped".to_owned());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("the virtual machine ended: {}", last_lines(&said)));
                }
            }
        }
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        writeln!(self.keys, "{line}")
            .map_err(|error| format!("the virtual machine does not listen ({error})"))
    }

    /// Has a line carried out, and gives what it said.
    fn run(&mut self, line: &str) -> Result<String, String> {
        self.tell(line)?;
        let (said, code) = self.until("ended")?;
        match code.as_str() {
            "0" => Ok(said),
            _ => Err(format!("`{line}` failed in the virtual machine: {}", last_lines(&said))),
        }
    }

    /// A job: its name, and options of its own behind those of all.
    fn fio(&mut self, call: &str, options: &str) -> Result<String, String> {
        let words = format!("{options} --name={call}");
        let quoted: String = words.split_whitespace().map(|word| format!(" '{word}'")).collect();
        self.run(&format!("{FIO}{quoted}"))
    }

    fn power_off(mut self) -> Result<(), String> {
        self.tell("poweroff -f")?;
        let lost = |error| format!("how the virtual machine ended cannot be told ({error})");
        ended(&mut self.machine, &self.stop)?.map(drop).map_err(lost)
    }
}
