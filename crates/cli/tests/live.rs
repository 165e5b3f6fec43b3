//! The live device with real programs, and killed under load. A program that is not installed is named and
//! left out.
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

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{command, ftl};
use device::{image, run, schemes, Serving};
use nbd::{Client, Folder};
use rustix::process::{kill_process_group, Pid, Signal};

#[test]
fn nbdinfo_and_nbdcopy() {
    let folder = Folder::new("nbdcopy");
    let bytes: Vec<u8> = (0..20 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (from, to) = (folder.0.join("from"), folder.0.join("to"));
    std::fs::write(&from, &bytes).unwrap();
    for scheme in schemes() {
        let serving = Serving::start(&image(&folder, scheme));
        let uri = serving.uri();
        let Some(info) = run("nbdinfo", &[&uri]) else { return };
        for line in [
            "base:allocation",
            "can_fua: true",
            "can_multi_conn: true",
            "can_fast_zero: true",
            "can_df: true",
        ] {
            assert!(info.contains(line), "{info}");
        }
        let list = run("nbdinfo", &["--list", &uri]).unwrap();
        assert!(list.contains(&format!("export=\"{scheme}\"")), "{list}");
        run("nbdcopy", &[from.to_str().unwrap(), &uri]).unwrap();
        run("nbdcopy", &[&uri, to.to_str().unwrap()]).unwrap();
        let copied = std::fs::read(&to).unwrap();
        assert!(
            copied[..bytes.len()] == bytes && copied[bytes.len()..].iter().all(|&byte| byte == 0),
            "{scheme}"
        );
        let map = run("nbdinfo", &["--map", &uri]).unwrap();
        assert_eq!(map.lines().count(), 2, "data and a hole: {map}");
        assert!(serving.stop().contains("switched off in good order"));
    }
}

#[test]
fn qemu_io_patterns() {
    let folder = Folder::new("qemu");
    for scheme in schemes() {
        let serving = Serving::start(&image(&folder, scheme));
        let mut arguments = vec!["-f", "raw"];
        for step in [
            "write -P 0x5a 512 3k",
            "read -P 0x5a 512 3k",
            "read -P 0 0 512",
            "write -P 7 1M 1M",
            "write -z 1M 64k",
            "read -P 0 1M 64k",
            "read -P 7 1088k 900k",
            "discard 1M 512k",
            "read -P 0 1M 512k",
            "read -P 7 1536k 512k",
            "write -f -P 9 4k 4k",
            "flush",
            "read -P 9 4k 4k",
            "write -z -u 1536k 64k",
            "read -P 0 1536k 64k",
            "writev -P 3 10M 4k 512 8k 1k",
            "readv -P 3 10M 8k 5632",
            "aio_write -P 4 20M 1M",
            "aio_flush",
            "read -P 4 20M 1M",
        ] {
            arguments.extend(["-c", step]);
        }
        let uri = serving.uri();
        arguments.push(&uri);
        let Some(said) = run("qemu-io", &arguments) else { return };
        assert!(!said.contains("failed"), "{scheme}: {said}");
        serving.stop();
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !run("fio", &["--enghelp"]).is_some_and(|engines| engines.contains("nbd")) {
        println!("skipped: this fio has no engine nbd");
        return;
    }
    let folder = Folder::new("fio");
    for scheme in schemes() {
        let serving = Serving::start(&image(&folder, scheme));
        let uri = format!("--uri={}", serving.uri());
        // More than the flash holds, so that collection runs; blocks that are no multiple of a page, and
        // trims. For most schemes a quarter of it, because there are many; the engine's own tests
        // collect under each.
        let part = if ["learnedftl", "lftl", "tpftl", "faster"].contains(&scheme) { 1 } else { 4 };
        for (name, bsrange, rw, mib) in [
            ("aligned", "4k-64k", "randwrite", 120 / part),
            ("odd", "512-9k", "randwrite", 20 / part),
            ("trims", "4k-64k", "randtrimwrite", 40 / part),
        ] {
            let job = [
                &format!("--name={name}"),
                "--ioengine=nbd",
                &uri,
                &format!("--rw={rw}"),
                &format!("--bsrange={bsrange}"),
                "--blockalign=512",
                "--iodepth=16",
                &format!("--size={}m", 60 / part),
                &format!("--io_size={mib}m"),
                "--verify=crc32c",
                "--verify_fatal=1",
                "--verify_state_save=0",
                "--fsync=200",
                "--output-format=terse",
                "--loops=1",
            ];
            run("fio", &job.map(|argument: &str| argument)).unwrap();
        }
        let said = serving.stop();
        assert!(said.contains("switched off"), "{said}");
    }
}

#[test]
fn nbdsh_abuse() {
    let folder = Folder::new("nbdsh");
    let serving = Serving::start(&image(&folder, "page"));
    let script = "
import nbd, sys
h = nbd.NBD()
h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
h.connect_uri(sys.argv[1])
h.set_strict_mode(0)
def fails(f):
    try:
        f()
    except nbd.Error:
        return
    raise SystemExit('no error')
size = h.get_size()
assert h.can_df() and h.can_cache() == False
assert h.pread(0, 0) == b''
fails(lambda: h.pread(512, size))
fails(lambda: h.pread(512, size - 1))
fails(lambda: h.pwrite(b'x' * 100, 0))
fails(lambda: h.pread(512, 2**63))
fails(lambda: h.cache(512, 0))
fails(lambda: h.zero(512, 0, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE))
fails(lambda: h.pread(1 << 26, 0))
fails(lambda: h.pread(512, 0, 1 << 9))
h.zero(0, 0)
h.trim(0, 0)
h.pwrite(b'x' * 512, 512, nbd.CMD_FLAG_FUA)
h.flush()
assert h.pread(1024, 0) == bytes(512) + b'x' * 512
extents = []
h.block_status(size, 0, lambda c, o, e, err: extents.extend(e))
assert extents[0] == 4096 and extents[1] == 0 and sum(extents[::2]) == size, extents
h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO)
assert h.pread(1024, 0) == bytes(1024)
";
    let has_nbd = |python: &str| {
        Command::new(python).args(["-c", "import nbd"]).output().is_ok_and(|found| found.status.success())
    };
    match ["/usr/bin/python3", "python3"].into_iter().find(|python| has_nbd(python)) {
        Some(python) => {
            run(python, &["-c", script, &serving.uri()]).unwrap();
            serving.stop();
        }
        None => println!("skipped: no Python with libnbd (apt install python3-libnbd)"),
    }
}

#[test]
fn several_images_are_exports_by_name() {
    let folder = Folder::new("exports");
    let images = [image(&folder, "page"), image(&folder, "dftl")];
    let serving = Serving::with(&images[0], &[&images[1]]);
    let mut clients = ["page", "dftl"].map(|name| {
        let mut client = Client::connect(Path::new(&serving.socket));
        assert_eq!(client.option(7, &nbd::go(name)).last().unwrap().0, 1);
        client
    });
    clients[0].write(0, &[1; 512]);
    clients[1].write(0, &[2; 512]);
    assert_eq!((clients[0].read(0, 512), clients[1].read(0, 512)), (vec![1; 512], vec![2; 512]));
    serving.stop();
}

/// How often a server is killed.
fn kills() -> u64 {
    std::env::var("FTL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// Whether a scheme may lose what it acknowledged without a flush or FUA.
fn buffers_writes(scheme: &str) -> bool {
    struct Ask;
    impl ftl::schemes::Visitor for Ask {
        type Out = bool;
        fn visit<S: ftl::Scheme + Clone + Send + 'static>(self) -> bool {
            S::BUFFERS_WRITES
        }
    }
    ftl::schemes::with(scheme, Ask).unwrap()
}

/// What pages hold: `write` numbers by page, as the client knows them.
#[derive(Default)]
struct Known {
    acknowledged: HashMap<u64, u64>,
    /// Sent and not acknowledged: they may be there.
    sent: HashMap<u64, Vec<u64>>,
}

fn content(page: u64, write: u64) -> Vec<u8> {
    [page.to_le_bytes(), write.to_le_bytes()].concat().repeat(256)
}

/// Writes random pages, 8 in flight, one in 16 with FUA, until the server is gone.
fn load(mut stream: &UnixStream, known: &mut Known, pages: u64, next: &mut u64, fua_alone: bool) {
    loop {
        let mut batch = Vec::new();
        let mut writes = Vec::new();
        for _ in 0..8 {
            *next += 1;
            let page = next.wrapping_mul(0x9E37_79B9_7F4A_7C15) % pages;
            let mut head = 0x2560_9513u32.to_be_bytes().to_vec();
            head.extend([0, (*next).is_multiple_of(16) as u8, 0, 1]);
            head.extend(next.to_be_bytes());
            head.extend((page * 4096).to_be_bytes());
            head.extend(4096u32.to_be_bytes());
            batch.extend(head);
            batch.extend(content(page, *next));
            writes.push((page, *next));
            known.sent.entry(page).or_default().push(*next);
        }
        let written = stream.write_all(&batch);
        for _ in 0..8 {
            let mut reply = [0; 16];
            if written.is_err() || stream.read_exact(&mut reply).is_err() {
                return;
            }
            assert_eq!(reply[4..8], [0; 4]);
            let number = u64::from_be_bytes(reply[8..].try_into().unwrap());
            if fua_alone && number % 16 != 0 {
                continue;
            }
            let page = writes.iter().find(|write| write.1 == number).unwrap().0;
            let before = known.acknowledged.entry(page).or_default();
            *before = number.max(*before);
        }
    }
}

#[test]
fn killed_under_load_nothing_acknowledged_is_lost() {
    let folder = Folder::new("kill");
    let kills = kills();
    for scheme in schemes() {
        let path = image(&folder, scheme);
        let (mut known, mut next, mut starts) = (Known::default(), 0, Vec::new());
        for kill in 0..kills {
            let begun = Instant::now();
            let serving = Serving::start(&path);
            starts.push(begun.elapsed());
            assert_eq!(serving.said.contains("recovering"), kill > 0, "{}", serving.said);
            let mut client = Client::connect(Path::new(&serving.socket));
            client.option(7, &nbd::go(scheme));
            for (&page, &acknowledged) in &known.acknowledged {
                let found = client.read(page * 4096, 4096);
                let write = u64::from_le_bytes(found[8..16].try_into().unwrap());
                let sent = known.sent.get(&page).is_some_and(|sent| sent.contains(&write));
                assert!(found == content(page, write), "{scheme}: page {page} holds no write");
                assert!(
                    write >= acknowledged && sent,
                    "{scheme}, kill {kill}: page {page} holds write {write}, but {acknowledged} was acknowledged"
                );
            }
            let after = Duration::from_millis(20 + kill * 37 % 300);
            let stream = client.stream.try_clone().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| load(&stream, &mut known, 8000, &mut next, buffers_writes(scheme)));
                std::thread::sleep(after);
                serving.kill();
            });
        }
        let pages = known.acknowledged.len();
        starts.sort_unstable();
        let (median, slowest) = (starts[starts.len() / 2], starts[starts.len() - 1]);
        println!(
            "{scheme}: {kills} kills, {next} writes to {pages} pages; started in {median:?}, at most {slowest:?}"
        );
        assert!(pages > 0);
    }
}

/// The offsets that fio has had acknowledged, from its latency log: time, latency, direction, block size,
/// offset.
fn acknowledged(log: &str) -> Vec<u64> {
    let offset = |line: &str| line.split(',').nth(4).map(|field| field.trim().parse().unwrap());
    std::fs::read_to_string(log).unwrap_or_default().lines().filter_map(offset).collect()
}

/// Waits for a program that leads its process group. After so long the group is killed: now and then fio
/// spins for ever when its server has died. What it had been told is then not known, and no page is missed.
fn ended(mut program: Child, most: Duration) {
    let begun = Instant::now();
    while program.try_wait().unwrap().is_none() {
        if begun.elapsed() > most {
            println!("killed after {most:?}: it hangs");
            kill_process_group(Pid::from_child(&program), Signal::KILL).unwrap();
            program.wait().unwrap();
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn killed_under_fio_nothing_acknowledged_is_lost() {
    if !run("fio", &["--enghelp"]).is_some_and(|engines| engines.contains("nbd")) {
        println!("skipped: this fio has no engine nbd");
        return;
    }
    let folder = Folder::new("fio-kill");
    let schemes = schemes().filter(|name| ["learnedftl", "lftl", "tpftl", "faster"].contains(name));
    for scheme in schemes {
        let path = image(&folder, scheme);
        let (mut newest, mut writes, mut starts) = (HashMap::<u64, u32>::new(), 0, Vec::new());
        // One more start than kills, which checks the last one.
        for round in 1..=kills() as u32 + 1 {
            let begun = Instant::now();
            let serving = Serving::start(&path);
            starts.push(begun.elapsed());
            let mut client = Client::connect(Path::new(&serving.socket));
            client.option(7, &nbd::go(scheme));
            for first in (0..104 << 20).step_by(1 << 20) {
                for (at, page) in (first..).step_by(4096).zip(client.read(first, 1 << 20).chunks(4096)) {
                    let wanted = newest.get(&at).copied().unwrap_or(0);
                    let found = u32::from_be_bytes(page[..4].try_into().unwrap());
                    assert!(page.chunks(4).all(|word| word == found.to_be_bytes()), "{scheme}: {at} is torn");
                    assert!(
                        (wanted..round).contains(&found),
                        "{scheme}, kill {round}: {at} is of round {found}, but {wanted} was acknowledged"
                    );
                    newest.insert(at, found);
                }
            }
            drop(client);
            if round as u64 > kills() {
                serving.stop();
                break;
            }
            let log = folder.0.join("fio").display().to_string();
            let job = [
                "--name=load",
                "--ioengine=nbd",
                &format!("--uri={}", serving.uri()),
                "--rw=randwrite",
                "--bs=4k",
                "--iodepth=16",
                &format!("--randseed={round}"),
                &format!("--buffer_pattern=0x{round:08x}"),
                &format!("--write_lat_log={log}"),
                "--log_offset=1",
                "--fsync=100",
                "--output-format=terse",
            ];
            let mut fio = Command::new("fio");
            fio.args(job).current_dir(&folder.0).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            let changed = || std::fs::metadata(&path).unwrap().modified().unwrap();
            let before = changed();
            let load = fio.spawn().unwrap();
            // fio takes some time to begin, on a busy machine more than a second.
            let spawned = Instant::now();
            while changed() == before && spawned.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(200 + u64::from(round) * 37 % 400));
            serving.kill();
            ended(load, Duration::from_secs(20));
            let log = format!("{log}_lat.1.log");
            for at in acknowledged(&log) {
                newest.insert(at, round);
                writes += 1;
            }
            // Else the next round would read this one's. There is none when fio was too late.
            let _ = std::fs::remove_file(&log);
        }
        starts.sort_unstable();
        let (median, slowest) = (starts[starts.len() / 2], starts[starts.len() - 1]);
        println!("{scheme}: {} kills, {writes} writes; started in {median:?}, at most {slowest:?}", kills());
        assert!(writes > 0);
    }
}

#[test]
fn an_image_says_that_it_levels_wear_and_so_does_its_copy() {
    let folder = Folder::new("wear-gap");
    let [path, copy] = ["disk", "copy"].map(|name| folder.0.join(name).display().to_string());
    let device = ["--device", "examples/small-ssd.toml", "--scheme", "fast", "--cache", "8%"];
    let made = ftl(&[&["create", &path, "--wear-gap", "16"][..], &device].concat());
    assert!(made.out.contains("wear levelled with a gap of 16 erases"), "{}{}", made.out, made.err);
    assert!(ftl(&["convert", &path, &copy]).out.contains("with a gap of 16 erases"));
    assert!(ftl(&["info", &copy]).out.contains("with a gap of 16 erases"));
    let serving = Serving::start(&copy);
    assert!(serving.stop().contains("switched off in good order"));
}

#[test]
fn mistakes_get_one_sentence() {
    let folder = Folder::new("mistakes");
    let path = image(&folder, "page");
    let refused = |arguments: &[&str], sentence: &str| {
        let said = ftl(arguments);
        assert_eq!((said.err, said.code), (format!("ftl: {sentence}\n"), 2), "{arguments:?}");
    };
    refused(
        &["create", &path],
        &format!("{path}: there is such a file already; remove it, or choose another name"),
    );
    let missing = folder.0.join("missing").display().to_string();
    refused(&["serve", &missing], &format!("{missing}: there is no such image; make one with `ftl create`"));
    refused(&["info", &missing], &format!("{missing}: there is no such image; make one with `ftl create`"));
    let other = folder.0.join("other").display().to_string();
    std::fs::write(&other, vec![0; 100_000]).unwrap();
    refused(
        &["serve", &other],
        &format!("{other}: this is not an image of ftl (it does not begin with FTLIMAGE); make one with `ftl create`"),
    );
    let serving = Serving::start(&path);
    refused(
        &["serve", &path, "--listen", &format!("{path}.2.sock")],
        &format!("{path}: the image is in use by another process; stop that one first (an image has one user at a time, or several that only read it)"),
    );
    refused(
        &["serve", &path],
        &format!("{path}.sock: another server listens on this socket; stop it, or choose another path"),
    );
    assert_eq!(ftl(&["info", &path]).code, 0, "an image in use can be looked at");
    serving.stop();
    let nowhere = folder.0.join("no/such/folder.sock").display().to_string();
    refused(
        &["serve", &path, "--listen", &nowhere],
        &format!("cannot listen on {nowhere} (No such file or directory (os error 2))"),
    );
    let full = folder.0.join("x").display().to_string();
    let said =
        ftl(&["create", &full, "--device", "examples/small-ssd.toml", "--scheme", "dftl", "--cache", "8"]);
    assert!(said.code == 2 && said.err.contains("too small") && !Path::new(&full).exists(), "{}", said.err);
}

#[test]
fn a_converted_image_holds_the_same() {
    let folder = Folder::new("convert");
    let path = image(&folder, "page");
    let serving = Serving::start(&path);
    let mut client = Client::connect(Path::new(&serving.socket));
    client.option(7, &nbd::go("page"));
    for page in [0u64, 7, 8, 20_000] {
        client.write(page * 4096 + 512, &content(page, 5)[..2048]);
    }
    serving.kill();
    for scheme in schemes() {
        let new = folder.0.join(format!("new-{scheme}.ftl")).display().to_string();
        let said = ftl(&["convert", &path, &new, "--scheme", scheme]);
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        assert!(said.out.contains("copied    16 KiB"), "{}", said.out);
        assert_eq!(ftl(&["convert", &path, &new]).code, 2, "it is there already");
        let serving = Serving::start(&new);
        assert!(serving.said.contains("was closed in good order"));
        let mut client = Client::connect(Path::new(&serving.socket));
        client.option(7, &nbd::go(&format!("new-{scheme}")));
        for page in [0u64, 7, 8, 20_000] {
            assert_eq!(client.read(page * 4096 + 512, 2048), content(page, 5)[..2048], "{scheme}");
        }
        assert_eq!(client.read(40_960, 4096), [0; 4096]);
        serving.stop();
    }
    let small = folder.0.join("small.ftl").display().to_string();
    let said = ftl(&["convert", &path, &small, "--device", "examples/small-ssd.toml", "--export", "50MiB"]);
    assert!(said.code == 2 && said.err.contains("not smaller"), "{}", said.err);
    let left = std::fs::read_dir(&folder.0).unwrap().flatten();
    let left: Vec<_> =
        left.filter(|file| file.file_name().to_string_lossy().contains("unfinished")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn top_and_metrics_watch_a_device() {
    let folder = Folder::new("top");
    let path = image(&folder, "page");
    let serving = Serving::with(&path, &["--metrics", "127.0.0.1:0"]);
    let at = serving.said.lines().find_map(|line| line.trim().strip_prefix("metrics   http://")).unwrap();
    let at = &at.trim_end_matches("/metrics").to_owned();
    let mut client = Client::connect(Path::new(&serving.socket));
    client.option(7, &nbd::go("page"));
    client.write(0, &[1; 4096]);
    let said = ftl(&["top", at, "--once", "--interval", "0.1"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    for word in ["page", "requests", "mapping hits", "superblocks", "dies"] {
        assert!(said.out.contains(word), "{word} is missing in\n{}", said.out);
    }
    serving.stop();
    let said = ftl(&["top", at, "--once"]);
    assert!(said.code == 2 && said.err.contains("no metrics there"), "{}", said.err);
}

#[test]
fn top_watches_a_simulation() {
    let call = ["compare", "--synth", "financial1", "--requests", "10000000", "--schemes", "page,dftl"];
    let more = ["--device", "tpftl-512m", "--metrics", "127.0.0.1:0"];
    let mut child =
        command(&[&call[..], &more].concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let at = lines.find_map(|line| Some(line.unwrap().split_once("ftl top ")?.1.trim().to_owned())).unwrap();
    // Its progress is of no concern, but has to go somewhere.
    let progress = std::thread::spawn(move || lines.map_while(Result::ok).count());
    let begun = Instant::now();
    // Both schemes write, and have a latency in virtual time.
    let writes = |said: &str| {
        let lines = said.lines().filter(|line| line.contains("write "));
        lines.filter(|line| line.contains("µs") || line.contains("ms")).count()
    };
    let said = loop {
        let said = ftl(&["top", &at, "--once", "--interval", "0.5"]);
        if said.code == 0 && writes(&said.out) == 2 {
            break said.out;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{}\n{}", said.out, said.err);
    };
    child.kill().unwrap();
    child.wait().unwrap();
    progress.join().unwrap();
    for word in ["page", "dftl", "translation", "mapping hits", "superblocks", "dies"] {
        assert!(said.contains(word), "{word} is missing in\n{said}");
    }
}
