//! `ftl vhost` under a virtual machine: F2FS and ext4 of a real kernel. What this machine has not is named
//! and left out.
// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

// Each test file uses a part of these.
#[allow(dead_code)]
mod common;
#[allow(dead_code)]
#[path = "common/device.rs"]
mod device;
#[path = "../../live/tests/common/mod.rs"]
mod nbd;

use std::process::{Command, Stdio};

use common::{ftl, root};
use device::{image, run, Serving};
use nbd::Folder;

#[test]
fn f2fs_in_a_virtual_machine() {
    let of = |path: &str| root().join("crates").join(path).display().to_string();
    let (guest, init) = (of("papers/guest/guest.sh"), of("cli/tests/guest/init.sh"));
    let tools = ["mkfs.f2fs", "fsck.f2fs", "mkfs.ext4", "e2fsck"];
    let lacks = Command::new("sh").args([&guest, "lacks"]).args(tools).output().unwrap();
    if !lacks.status.success() {
        println!("skipped: {}", String::from_utf8_lossy(&lacks.stdout));
        return;
    }
    let folder = Folder::new("machine");
    let packed = folder.0.join("packed").display().to_string();
    run("sh", &[&[&*guest, "pack", &packed, &init], &tools[..]].concat()).unwrap();
    let schemes = device::schemes().filter(|name| ["learnedftl", "lftl", "tpftl", "faster"].contains(name));
    let served: Vec<(String, Serving)> = schemes
        .map(|scheme| {
            let (path, trace) = (image(&folder, scheme), folder.0.join(format!("{scheme}.parquet")));
            let socket = folder.0.join(scheme).display().to_string();
            let trace = trace.display().to_string();
            (trace.clone(), Serving::vhost(&path, &socket, &["--record", &trace]))
        })
        .collect();
    let mut machine = Command::new("sh");
    machine.args([&guest, "start", &packed]);
    machine.args(served.iter().map(|(_, served)| served.found("listening ")));
    let output = machine.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("all passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said.matches("passed /dev/vd").count(), served.len(), "{said}");
    for (trace, served) in served {
        let said = served.stop();
        assert!(said.contains("switched off in good order"), "{said}");
        // What F2FS did can be replayed.
        let said = ftl(&[
            "compare",
            "--trace",
            &trace,
            "--device",
            "examples/small-ssd.toml",
            "--schemes",
            "page,dftl",
        ]);
        assert_eq!(said.code, 0, "{}", said.err);
    }
}
