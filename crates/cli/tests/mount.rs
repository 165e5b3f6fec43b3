//! `ftl mount` with real programs: the file itself, and file systems on a loop device. What this machine has
//! not, a program, root or a device file, is named and left out.
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

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::ftl;
use device::{image, run, Serving};
use nbd::{Client, Folder};
use rustix::fs::{fallocate, FallocateFlags};

/// The schemes that are tried with file systems: two learned ones, one with a cached table, one that logs and
/// merges.
fn chosen() -> impl Iterator<Item = &'static str> {
    device::schemes().filter(|name| ["learnedftl", "lftl", "tpftl", "faster"].contains(name))
}

/// Whether this machine can mount, and with `attach` have a loop device.
fn possible(attach: bool) -> bool {
    let fuse = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    let root = rustix::process::geteuid().is_root();
    let possible = fuse && root && (!attach || Path::new("/dev/loop-control").exists());
    if !possible {
        println!("skipped: needs root, /dev/fuse and /dev/loop-control");
    }
    possible
}

fn under(folder: &Folder, name: &str) -> String {
    folder.0.join(name).display().to_string()
}

/// A mounted file system, unmounted when the test ends.
struct Ext4 {
    device: String,
    dir: String,
}

impl Ext4 {
    fn make(device: &str, dir: String) -> Option<Ext4> {
        run("mkfs.ext4", &["-q", "-E", "nodiscard", device])?;
        std::fs::create_dir_all(&dir).unwrap();
        let made = Ext4 { device: device.to_owned(), dir };
        made.mount();
        Some(made)
    }

    fn mount(&self) {
        run("mount", &["-t", "ext4", &self.device, &self.dir]).unwrap();
    }

    /// Unmounts it and checks it.
    fn check(&self) {
        unmount(&self.dir);
        run("e2fsck", &["-f", "-n", &self.device]).unwrap();
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-q", "-l", &self.dir]).output();
    }
}

/// Numbers without a pattern.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % bound
    }
}

/// What fsx does: random reads, writes, holes, zeros and syncs of one file, against what it must hold. With
/// `truncate` its size changes, too.
fn exercise(path: &str, seed: u64, span: usize, operations: u64, truncate: bool) {
    let open =
        || OpenOptions::new().read(true).write(true).create(truncate).truncate(false).open(path).unwrap();
    let (mut file, mut dice) = (open(), Dice(seed));
    let mut model = vec![0; span];
    if truncate {
        file.set_len(span as u64).unwrap();
    } else {
        fallocate(&file, FallocateFlags::ZERO_RANGE, 0, span as u64).unwrap();
    }
    for operation in 0..operations {
        let at = dice.below(span as u64) as usize;
        // Sizes of a few bytes to many pages; some of whole pages.
        let longest = 1 << (4 + dice.below(12));
        let length = 1 + dice.below(longest) as usize;
        let (at, length) =
            if dice.below(3) == 0 { (at & !4095, (length + 4095) & !4095) } else { (at, length) };
        let end = model.len().min(at + length);
        if at >= end {
            continue;
        }
        let range = at..end;
        match dice.below(20) {
            0..=8 => {
                let mut bytes = vec![0; range.len()];
                file.read_exact_at(&mut bytes, at as u64).unwrap();
                assert!(
                    bytes == model[range],
                    "{path}, seed {seed}, operation {operation}: read {at}..{end}"
                );
            }
            9..=15 => {
                let fill = dice.below(256) as u8;
                let bytes: Vec<u8> = (0..range.len()).map(|byte| fill.wrapping_add(byte as u8)).collect();
                file.write_all_at(&bytes, at as u64).unwrap();
                model[range].copy_from_slice(&bytes);
            }
            16 => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(&file, hole, at as u64, range.len() as u64).unwrap();
                model[range].fill(0);
            }
            17 => {
                fallocate(&file, FallocateFlags::ZERO_RANGE, at as u64, range.len() as u64).unwrap();
                model[range].fill(0);
            }
            18 if operation % 8 == 0 => {
                file.sync_data().unwrap();
                file = open();
            }
            19 if truncate && operation % 4 == 0 => {
                let size = (span / 2 + dice.below(span as u64 / 2) as usize).min(span);
                file.set_len(size as u64).unwrap();
                model.resize(size, 0);
            }
            _ => {}
        }
    }
    let mut bytes = vec![0; model.len()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == model, "{path}, seed {seed}: at the end");
}

/// Unmounts a folder. A program that another test starts holds the files that this process has open until it
/// runs, so a folder may be busy for a moment.
fn unmount(dir: &str) {
    for wait_ms in [10, 100, 1_000, 5_000] {
        if Command::new("umount").arg(dir).output().is_ok_and(|output| output.status.success()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(wait_ms));
    }
    run("umount", &[dir]).unwrap();
}

#[test]
fn the_file_is_the_device() {
    if !possible(false) {
        return;
    }
    let folder = Folder::new("file");
    let dir = under(&folder, "dir");
    for (seed, scheme) in chosen().enumerate() {
        let path = image(&folder, scheme);
        let mounted = Serving::mount(&path, &dir, &[]);
        let file = mounted.found("mounted ");
        assert_eq!(file, format!("{dir}/{scheme}"));
        let size = Path::new(&file).metadata().unwrap().len();
        assert_eq!(size, 104 << 20);
        let begun = Instant::now();
        exercise(&file, seed as u64, 8 << 20, 100_000, false);
        println!("{scheme}: 100,000 operations on the file in {:?}", begun.elapsed());
        // The end, and behind it.
        let device = OpenOptions::new().read(true).write(true).open(&file).unwrap();
        assert_eq!(device.write_at(&[7; 100], size - 10).unwrap(), 10);
        assert_eq!(device.read_at(&mut [0; 100], size - 10).unwrap(), 10);
        assert_eq!(device.read_at(&mut [0; 100], size).unwrap(), 0);
        assert!(device.write_at(&[7; 100], size).is_err() && device.set_len(5).is_err());
        // A hole is told of as such.
        fallocate(&device, FallocateFlags::ZERO_RANGE, 0, size).unwrap();
        device.write_all_at(&[1; 4096], 1 << 20).unwrap();
        let data = rustix::fs::seek(&device, rustix::fs::SeekFrom::Data(0)).unwrap();
        let hole = rustix::fs::seek(&device, rustix::fs::SeekFrom::Hole(data)).unwrap();
        assert_eq!((data, hole), (1 << 20, (1 << 20) + 4096), "{scheme}");
        drop(device);
        // Opening for truncation changes nothing, as with a block device.
        drop(File::create(&file).unwrap());
        assert_eq!(Path::new(&file).metadata().unwrap().len(), size);
        // Unmounted from outside, it ends by itself.
        unmount(&dir);
        assert!(mounted.ends().contains("switched off in good order"));
        let mounted = Serving::mount(&path, &dir, &[]);
        assert!(mounted.said.contains("was closed in good order"), "{}", mounted.said);
        let mut page = [0; 4096];
        File::open(&file).unwrap().read_exact_at(&mut page, 1 << 20).unwrap();
        assert_eq!(page, [1; 4096]);
        assert!(mounted.stop().contains("switched off in good order"));
    }
}

#[test]
fn a_mount_that_only_reads_leaves_the_image_as_it_is() {
    if !possible(false) {
        return;
    }
    let folder = Folder::new("looked-at");
    let (dir, path) = (under(&folder, "dir"), image(&folder, "tpftl"));
    let mounted = Serving::mount(&path, &dir, &[]);
    let file = mounted.found("mounted ").to_owned();
    OpenOptions::new().write(true).open(&file).unwrap().write_all_at(&[9; 8192], 4096).unwrap();
    mounted.stop();
    let before = std::fs::read(&path).unwrap();
    let mounted = Serving::mount(&path, &dir, &["--read-only"]);
    let copy = under(&folder, "copy");
    run("cp", &[&file, &copy]).unwrap();
    let mut pages = [0; 8192];
    File::open(&copy).unwrap().read_exact_at(&mut pages, 4096).unwrap();
    assert_eq!(pages, [9; 8192]);
    let refused = OpenOptions::new().write(true).open(&file).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    let dd = [format!("of={file}"), "if=/dev/zero".to_owned(), "bs=4k".to_owned(), "count=1".to_owned()];
    assert!(!Command::new("dd").args(dd).output().unwrap().status.success());
    assert!(mounted.stop().contains("nothing was written to its image"));
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn file_systems_on_a_loop_device() {
    if !possible(true) {
        return;
    }
    let folder = Folder::new("loop");
    let dir = under(&folder, "dir");
    for (seed, scheme) in chosen().enumerate() {
        let path = image(&folder, scheme);
        let mounted = Serving::mount(&path, &dir, &["--loop"]);
        let device = mounted.found("loop ");
        let begun = Instant::now();
        run(
            "fio",
            &[
                "--name=loop",
                &format!("--filename={device}"),
                "--rw=randwrite",
                "--bsrange=4k-64k",
                "--iodepth=16",
                "--ioengine=libaio",
                "--direct=1",
                "--size=60m",
                "--io_size=120m",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--verify_state_save=0",
                "--fsync=200",
                "--output-format=terse",
            ],
        );
        run("blkdiscard", &[&device]);
        let Some(ext4) = Ext4::make(&device, under(&folder, "ext4")) else { return };
        let files = common::root().join("crates").display().to_string();
        run("cp", &["-r", &files, &format!("{}/copy", ext4.dir)]).unwrap();
        exercise(&format!("{}/exercised", ext4.dir), seed as u64, 4 << 20, 20_000, true);
        rocksdb(&ext4.dir);
        std::fs::remove_dir_all(format!("{}/rocksdb", ext4.dir)).unwrap();
        let trimmed = run("fstrim", &["-v", &ext4.dir]).unwrap();
        assert!(trimmed.contains("bytes") && !trimmed.contains(" 0 B "), "{trimmed}");
        ext4.check();
        ext4.mount();
        run("diff", &["-r", &files, &format!("{}/copy", ext4.dir)]).unwrap();
        // Asked to stop while it is in use, it goes on until it no longer is.
        mounted.signal("-TERM");
        std::thread::sleep(Duration::from_millis(300));
        std::fs::write(format!("{}/late", ext4.dir), "late").unwrap();
        unmount(&ext4.dir);
        assert!(mounted.ends().contains("switched off in good order"));
        let attached = std::fs::read_to_string(format!("/sys/block/{}/loop/backing_file", &device[5..]));
        assert!(!attached.is_ok_and(|file| file.contains(&dir)), "{device} is still attached");
        println!("{scheme}: fio, ext4, RocksDB and fstrim in {:?}", begun.elapsed());
    }
}

/// RocksDB's own benchmark, small.
fn rocksdb(dir: &str) {
    let db = format!("--db={dir}/rocksdb");
    run(
        "db_bench",
        &[
            "--benchmarks=fillseq,overwrite,readrandom,readseq,verifychecksum",
            &db,
            "--num=20000",
            "--value_size=400",
            "--write_buffer_size=1048576",
            "--target_file_size_base=1048576",
            "--compression_type=none",
            "--sync=0",
            "--use_direct_io_for_flush_and_compaction=true",
            "--statistics=0",
        ],
    );
}

#[test]
fn what_the_device_saw_is_a_trace() {
    let folder = Folder::new("record");
    let counts = |file: &str| {
        let said = ftl(&["trace", "info", file, "--json"]);
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        let found: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let of = |kind: &str| found[0][kind]["count"].as_u64().unwrap();
        (of("reads"), of("writes"), of("trims"), found[0]["flushes"].as_u64().unwrap())
    };
    for ending in ["iolog", "parquet"] {
        let file = under(&folder, &format!("seen.{ending}"));
        let path = image(&folder, "page");
        let serving = Serving::with(&path, &["--record", &file]);
        let mut client = Client::connect(Path::new(&serving.socket));
        client.option(7, &nbd::go("page"));
        for page in 0..300u64 {
            client.write(page * 8192, &[page as u8; 4096]);
        }
        assert_eq!(client.read(8192, 4096), [1; 4096]);
        assert_eq!(client.read(512, 512), [0; 512]);
        // FUA: a write and a flush. Then a trim, zeros, a flush, and what is refused.
        assert_eq!(client.ask(1, 1, 0, 512, &[9; 512]).error, 0);
        assert_eq!(client.ask(4, 0, 0, 8192, &[]).error, 0);
        assert_eq!(client.ask(6, 0, 8192, 4096, &[]).error, 0);
        assert_eq!(client.ask(3, 0, 0, 0, &[]).error, 0);
        assert_ne!(client.ask(0, 0, 1 << 40, 4096, &[]).error, 0);
        let said = serving.stop();
        assert!(said.contains("307 requests recorded"), "{said}");
        assert_eq!(counts(&file), (2, 301, 2, 2), "{ending}");
        let compared =
            ["compare", "--trace", &file, "--device", "examples/small-ssd.toml", "--schemes", "page,dftl"];
        let said = ftl(&compared);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("dftl"), "{}", said.out);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn mistakes_of_mounting_get_one_sentence() {
    let folder = Folder::new("mounting");
    let path = image(&folder, "page");
    let refused = |arguments: &[&str], sentence: &str| {
        let said = ftl(arguments);
        assert_eq!(said.code, 2, "{arguments:?}");
        assert!(said.err.starts_with("ftl: ") && said.err.contains(sentence), "{}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    };
    if Path::new("/dev/fuse").exists() {
        let nowhere = under(&folder, "nowhere");
        refused(&["mount", &path, &nowhere], "make the folder first");
        refused(&["mount", &path, &path], "is no folder");
    } else {
        refused(&["mount", &path, &under(&folder, "")], "/dev/fuse is missing");
    }
    refused(&["serve", &path, "--record", "x.csv"], "name it .iolog or .parquet");
    refused(&["serve", &path, &path, "--record", "x.iolog"], "serve one image with it");
    let there = under(&folder, "there.iolog");
    std::fs::write(&there, "mine").unwrap();
    refused(&["serve", &path, "--record", &there], "there is such a file already");
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "mine");
}

#[test]
fn an_image_that_cannot_be_opened_keeps_no_other_one_from_being_served() {
    let folder = Folder::new("unserved");
    let (good, bad) = (image(&folder, "page"), image(&folder, "dftl"));
    // Its states, in all copies.
    let file = std::fs::OpenOptions::new().write(true).open(&bad).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[9; 0x10000], 0x10000).unwrap();
    let before = std::fs::read(&bad).unwrap();
    let serving = Serving::with(&bad, &[&good]);
    let mut client = Client::connect(Path::new(&serving.socket));
    client.option(7, &nbd::go("page"));
    client.write(8192, &[5; 4096]);
    assert_eq!(client.read(8192, 4096), [5; 4096]);
    assert_eq!(serving.exit_code(), 2);
    assert!(std::fs::read(&bad).unwrap() == before);
    // Alone it is refused in one sentence.
    let said = ftl(&["serve", &bad]);
    assert!(said.code == 2 && said.err.contains("both copies of its state"), "{}", said.err);
    assert!(Serving::with(&good, &[]).said.contains("was closed in good order"));
}
