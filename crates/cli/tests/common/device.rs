//! `ftl serve` and `ftl mount` in tests, and the programs that use what they serve.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::{command, ftl};
use crate::nbd::Folder;

/// `ftl serve` or `ftl mount` of one image, killed when the test ends.
pub struct Serving {
    child: Child,
    /// What it said until it could be used.
    pub said: String,
    pub socket: String,
    /// Where it is mounted.
    dir: Option<String>,
}

impl Serving {
    pub fn start(image: &str) -> Serving {
        Serving::with(image, &[])
    }

    pub fn with(image: &str, options: &[&str]) -> Serving {
        Serving::spawn(image, &[&["serve", image][..], options].concat(), "listening")
    }

    /// `ftl mount` on a folder, which is made.
    pub fn mount(image: &str, dir: &str, options: &[&str]) -> Serving {
        std::fs::create_dir_all(dir).unwrap();
        let mut mounted =
            Serving::spawn(image, &[&["mount", image, dir][..], options].concat(), "  mounted ");
        mounted.dir = Some(dir.to_owned());
        mounted
    }

    /// `ftl vhost` on a socket.
    pub fn vhost(image: &str, socket: &str, options: &[&str]) -> Serving {
        let mut served =
            Serving::spawn(image, &[&["vhost", image, socket][..], options].concat(), "listening");
        served.socket = socket.to_owned();
        served
    }

    fn spawn(image: &str, arguments: &[&str], ready: &str) -> Serving {
        let child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut serving = Serving {
            child: child.unwrap(),
            said: String::new(),
            socket: format!("{image}.sock"),
            dir: None,
        };
        let mut lines = BufReader::new(serving.child.stdout.take().unwrap());
        while !serving.said.contains(ready) {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "the server ended: {}", serving.said);
            serving.said += &line;
        }
        // Kept open, so that the server can say goodbye.
        serving.child.stdout = Some(lines.into_inner());
        serving
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket)
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// What `ftl` said after a word, such as the file or the loop device.
    pub fn found(&self, word: &str) -> String {
        let line = self.said.lines().find_map(|line| line.trim().strip_prefix(word));
        line.unwrap_or_else(|| panic!("no {word} in {}", self.said)).trim().to_owned()
    }

    /// Stops it in good order, and gives what it said.
    pub fn stop(self) -> String {
        self.signal("-TERM");
        self.ends()
    }

    /// Waits until it ends in good order by itself, and gives what it said.
    pub fn ends(mut self) -> String {
        let mut rest = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        assert!(!Path::new(&self.socket).exists(), "the socket is left");
        rest
    }

    /// Stops it, and gives the exit code.
    pub fn exit_code(mut self) -> i32 {
        self.signal("-TERM");
        self.child.wait().unwrap().code().unwrap()
    }

    pub fn kill(mut self) {
        self.signal("-KILL");
        self.child.wait().unwrap();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let Some(dir) = &self.dir else { return };
        let attached = self.said.lines().find_map(|line| line.trim().strip_prefix("loop "));
        if let Some(device) = attached.map(str::trim) {
            // A test that failed leaves it attached; else it may be somebody else's by now.
            let backing = format!("/sys/block/{}/loop/backing_file", device.trim_start_matches("/dev/"));
            if std::fs::read_to_string(backing).is_ok_and(|file| file.starts_with(dir.as_str())) {
                let _ = Command::new("losetup").args(["-d", device]).output();
            }
        }
        let _ = Command::new("umount").args(["-q", "-l", dir]).output();
    }
}

/// An image of 104 MiB for a scheme, by `ftl create`, with as little memory for mapping as it agrees to.
pub fn image(folder: &Folder, scheme: &str) -> String {
    let path = folder.0.join(format!("{scheme}.ftl")).display().to_string();
    let device = ["--device", "examples/small-ssd.toml"];
    for cache in ["64KiB", "256KiB", "1MiB", "16MiB"] {
        let said = ftl(&[&["create", &path, "--scheme", scheme, "--cache", cache][..], &device].concat());
        if said.code == 0 {
            return path;
        }
        println!("{}", said.err);
    }
    panic!("no image can be made for {scheme}");
}

/// Every scheme, or those that `FTL_SCHEMES` names.
pub fn schemes() -> impl Iterator<Item = &'static str> {
    let only = std::env::var("FTL_SCHEMES").ok();
    let named =
        move |name: &&str| only.as_ref().is_none_or(|only| only.split(',').any(|one| one.trim() == *name));
    ftl::schemes::ALL.iter().map(|info| info.name).filter(named)
}

/// Runs a program, which must succeed, and gives its output; `None`, and a word about it, when it is not
/// installed.
pub fn run(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} {}:\n{said}{errors}", arguments.join(" "));
            Some(said)
        }
        Err(_) => {
            println!(
                "skipped: {program} is not installed (apt install libnbd-bin qemu-utils fio python3-libnbd e2fsprogs rocksdb-tools)"
            );
            None
        }
    }
}
