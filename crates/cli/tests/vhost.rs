//! `ftl vhost` under a virtual machine: F2FS and ext4 of a real kernel. What this machine has not is named and left out.
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

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{ftl, root};
use device::{image, run, Serving};
use nbd::Folder;

/// A kernel, and the folder with its modules: the machine's own, or an unpacked kernel package that `FTL_GUEST` names.
fn kernel() -> Option<(PathBuf, String)> {
    let folder = std::env::var("FTL_GUEST").unwrap_or_else(|_| "/".to_owned());
    let boot = std::fs::read_dir(Path::new(&folder).join("boot")).ok()?;
    let mut kernels: Vec<PathBuf> = boot.flatten().map(|file| file.path()).collect();
    kernels.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let modules = name
            .strip_prefix("vmlinuz-")
            .map(|version| Path::new(&folder).join("lib/modules").join(version).join("kernel/fs/f2fs"));
        modules.is_some_and(|modules| modules.exists())
    });
    kernels.sort();
    kernels.pop().map(|kernel| (kernel, folder))
}

fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

#[test]
fn f2fs_in_a_virtual_machine() {
    let programs = ["qemu-system-x86_64", "busybox", "cpio", "mkfs.f2fs"];
    let missing: Vec<&str> = programs.into_iter().filter(|program| !installed(program)).collect();
    let (Some((kernel, modules)), []) = (kernel(), &missing[..]) else {
        println!(
            "skipped: needs qemu-system-x86_64, busybox-static, cpio, f2fs-tools, and a kernel with F2FS: \
             linux-image-amd64, or FTL_GUEST=folder of the unpacked package; not installed: {missing:?}"
        );
        return;
    };
    let folder = Folder::new("machine");
    let initrd = folder.0.join("initrd").display().to_string();
    let pack = root().join("crates/cli/tests/guest/pack.sh").display().to_string();
    run("sh", &[&pack, &modules, &initrd]).unwrap();
    let schemes = device::schemes().filter(|name| ["learnedftl", "lftl", "tpftl", "faster"].contains(name));
    let served: Vec<(String, Serving)> = schemes
        .map(|scheme| {
            let (path, trace) = (image(&folder, scheme), folder.0.join(format!("{scheme}.parquet")));
            let socket = folder.0.join(scheme).display().to_string();
            let trace = trace.display().to_string();
            (trace.clone(), Serving::vhost(&path, &socket, &["--record", &trace]))
        })
        .collect();
    let mut machine = Command::new("qemu-system-x86_64");
    machine.args(["-accel", "tcg", "-machine", "q35,memory-backend=memory", "-m", "384M", "-object"]);
    machine.args([
        "memory-backend-memfd,id=memory,size=384M,share=on",
        "-nodefaults",
        "-nographic",
        "-no-reboot",
    ]);
    machine.args(["-serial", "stdio", "-append", "console=ttyS0 quiet panic=-1", "-initrd", &initrd]);
    machine.arg("-kernel").arg(&kernel);
    for (index, (_, served)) in served.iter().enumerate() {
        machine.args(["-chardev", &format!("socket,id=disk{index},path={}", served.found("listening "))]);
        machine.args(["-device", &format!("vhost-user-blk-pci,chardev=disk{index},num-queues=2")]);
    }
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
