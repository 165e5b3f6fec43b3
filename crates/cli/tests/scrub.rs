//! Images that are read and verified, mended, salvaged, and served to be read alone.
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

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{ftl, Said};
use device::{image, run, Serving};
use nand::image_parts;
use nbd::{Client, Folder};
use serde_json::Value;

const PAGE: usize = 4096;
/// Pages that are written, each of its own byte.
const PAGES: u64 = 200;

/// What a page holds.
fn content(page: u64) -> Vec<u8> {
    vec![page as u8 + 1; PAGE]
}

/// An image with data, closed in good order.
fn filled(folder: &Folder, scheme: &str) -> String {
    let path = image(folder, scheme);
    let serving = Serving::start(&path);
    let mut client = Client::connect(Path::new(&serving.socket));
    client.option(7, &nbd::go(scheme));
    (0..PAGES).for_each(|page| client.write(page * PAGE as u64, &content(page)));
    serving.stop();
    path
}

/// Changes one bit of an image.
fn flip(path: &str, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

/// Where the data of a page of the device lie in the image.
fn place_of(path: &str, page: u64) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let geometry = live::describe(Path::new(path)).unwrap().0.geometry;
    let parts = image_parts(&geometry);
    let data = parts.iter().find(|(part, _)| *part == "data").unwrap().1.clone();
    let content = content(page);
    let found = data.step_by(PAGE).find(|&at| bytes[at as usize..][..PAGE] == content[..]);
    found.unwrap()
}

/// Where the record of the page with these data lies, in both copies.
fn records_of(path: &str, data: u64) -> Vec<u64> {
    let geometry = live::describe(Path::new(path)).unwrap().0.geometry;
    let parts = image_parts(&geometry);
    let begin = parts.iter().find(|(part, _)| *part == "data").unwrap().1.start;
    let records = parts.iter().filter(|(part, _)| *part == "page records");
    records.map(|(_, range)| range.start + (data - begin) / PAGE as u64 * 32).collect()
}

fn scrub(path: &str, options: &[&str]) -> Said {
    ftl(&[&["scrub", path, "--quiet"][..], options].concat())
}

fn json(path: &str) -> (Value, i32) {
    let said = scrub(path, &["--json", "-"]);
    (serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}{}", said.out, said.err)), said.code)
}

#[test]
fn a_scrub_says_what_is_damaged_and_mends_what_it_can() {
    let folder = Folder::new("scrub");
    for scheme in ["page", "tpftl", "lftl", "faster"] {
        let path = filled(&folder, scheme);
        let said = scrub(&path, &[]);
        assert_eq!((said.code, said.err.as_str()), (0, ""));
        assert!(said.out.contains("800 KiB can be read, 0 B cannot"), "{}", said.out);
        let before = std::fs::read(&path).unwrap();
        let (found, _) = json(&path);
        assert!(std::fs::read(&path).unwrap() == before, "{scheme}: it was written to");
        assert_eq!((&found["copies_damaged"], &found["bytes_lost"]), (&0.into(), &0.into()));
        assert_eq!(found["clean"], Value::Bool(true));
        // A record in one copy, and two pages of user data side by side.
        let places = [50, 51].map(|page| place_of(&path, page));
        places.into_iter().for_each(|at| flip(&path, at + 77));
        flip(&path, records_of(&path, place_of(&path, 7))[0] + 3);
        let (found, code) = json(&path);
        assert_eq!((&found["copies_damaged"], &found["pages_damaged"], code), (&1.into(), &2.into(), 1));
        assert_eq!(found["lost"], serde_json::json!([{"offset": 50 * PAGE, "bytes": 2 * PAGE}]));
        let said = scrub(&path, &["--repair"]);
        assert!(said.out.contains("1 were damaged, and are mended"), "{}", said.out);
        assert!(said.out.contains("lost: bytes 204800 to 212991"), "{}", said.out);
        assert!(said.code == 1 && said.err.contains("8 KiB cannot be read"), "{}", said.err);
        let (found, code) = json(&path);
        assert_eq!((&found["copies_damaged"], &found["pages_damaged"], code), (&0.into(), &2.into(), 1));
        // Who writes them anew has them again.
        let serving = Serving::start(&path);
        let mut client = Client::connect(Path::new(&serving.socket));
        client.option(7, &nbd::go(scheme));
        client.write(50 * PAGE as u64, &[content(50), content(51)].concat());
        serving.stop();
        let (found, code) = json(&path);
        assert_eq!((&found["bytes_lost"], code), (&0.into(), 0), "{scheme}: {found}");
    }
}

#[test]
fn what_can_be_read_is_salvaged_whether_or_not_the_image_opens() {
    let folder = Folder::new("salvage");
    let path = filled(&folder, "tpftl");
    flip(&path, place_of(&path, 20));
    let to = folder.0.join("out");
    let salvage = |to: &Path| scrub(&path, &["--salvage", to.to_str().unwrap()]);
    let check = |to: &Path, lost: &[u64], list: &str| {
        let raw = std::fs::read(to.join("tpftl.raw")).unwrap();
        for page in 0..PAGES {
            let expected = if lost.contains(&page) { vec![0; PAGE] } else { content(page) };
            assert!(raw[page as usize * PAGE..][..PAGE] == expected[..], "page {page}");
        }
        assert_eq!(std::fs::read_to_string(to.join("tpftl.csv")).unwrap(), list);
    };
    let said = salvage(&to);
    assert!(said.code == 1 && said.out.contains("796 KiB copied"), "{}{}", said.out, said.err);
    check(&to, &[20], "offset,bytes,what\n81920,4096,lost\n");
    let again = salvage(&to);
    assert!(again.code == 2 && again.err.contains("there is such a file already"), "{}", again.err);
    // The record of a page, in both copies.
    records_of(&path, place_of(&path, 90)).into_iter().for_each(|at| flip(&path, at));
    let before = std::fs::read(&path).unwrap();
    let refused = scrub(&path, &[]);
    assert!(refused.code == 1 && refused.err.contains("--salvage DIR"), "{}", refused.err);
    let other = folder.0.join("other");
    let said = salvage(&other);
    assert!(said.code == 1 && said.out.contains("both copies of the record of page"), "{}", said.out);
    assert!(said.out.contains("(1 are)"), "{}", said.out);
    check(&other, &[20, 90], "offset,bytes,what\n81920,4096,lost\n");
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn an_image_served_read_only_stays_as_it_is_and_has_several_servers() {
    let folder = Folder::new("readonly");
    let path = filled(&folder, "dftl");
    // Not closed in good order: recovery happens in memory.
    let serving = Serving::start(&path);
    let mut client = Client::connect(Path::new(&serving.socket));
    client.option(7, &nbd::go("dftl"));
    client.write(0, &content(99));
    serving.kill();
    let before = std::fs::read(&path).unwrap();
    let one = Serving::with(&path, &["--read-only"]);
    let socket = format!("{path}.2.sock");
    let mut two = Serving::with(&path, &["--read-only", "--listen", &socket]);
    two.socket = socket;
    assert!(one.said.contains("recovering") && one.said.contains("read-only"), "{}", one.said);
    for serving in [&one, &two] {
        let mut client = Client::connect(Path::new(&serving.socket));
        client.option(7, &nbd::go("dftl"));
        assert_eq!(client.read(0, PAGE as u32), content(99));
        assert_eq!(client.read(PAGE as u64, PAGE as u32), content(1));
    }
    assert_eq!(ftl(&["serve", &path, "--listen", &format!("{path}.3.sock")]).code, 2, "others only read it");
    let said = scrub(&path, &[]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    if let Some(info) = run("nbdinfo", &[&one.uri()]) {
        assert!(info.contains("is_read_only: true"), "{info}");
        let write = std::process::Command::new("qemu-io")
            .args(["-f", "raw", "-c", "write 0 4k", &one.uri()])
            .output();
        assert!(!write.is_ok_and(|output| output.status.success()));
    }
    assert!(one.stop().contains("nothing was written to its image"));
    two.stop();
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_served_image_is_scrubbed_beside_its_clients() {
    let folder = Folder::new("beside");
    let path = filled(&folder, "learnedftl");
    let serving = Serving::with(&path, &["--scrub", "300ms", "--metrics", "127.0.0.1:0"]);
    flip(&path, records_of(&path, place_of(&path, 3))[1] + 9);
    let at = serving.found("metrics");
    let address = at.trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
    let count = |found: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let key = format!("found=\"{found}\"");
        let line =
            text.lines().find(|line| line.starts_with("ftl_scrubbed_pages_total{") && line.contains(&key));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let mut waited = 0;
    while count("mended") < 1.0 || count("all") < 2.0 * PAGES as f64 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        waited += 1;
        assert!(waited < 600, "{} mended, {} pages", count("mended"), count("all"));
    }
    assert_eq!((count("mended"), count("lost")), (1.0, 0.0));
    let said = serving.stop();
    assert!(said.contains("1 copies mended, 0 pages lost"), "{said}");
    assert_eq!(scrub(&path, &[]).code, 0);
}
