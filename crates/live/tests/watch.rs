//! Pacing and metrics. Times are bounded from below alone: how late a busy machine is, is nobody's promise.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::common::{Client, Folder, Server};
use ftl::schemes;
use live::Latency;

const READ: Duration = Duration::from_millis(3);
const PROGRAM: Duration = Duration::from_millis(8);

#[test]
fn a_paced_reply_never_comes_before_the_model_gives_it() {
    let folder = Folder::new("pace");
    let image = folder.image_with("disk", "page", |device| {
        device.read_ns = READ.as_nanos() as u64;
        device.program_ns = PROGRAM.as_nanos() as u64;
    });
    let server = Server::start_as(&folder, &[image], true);
    let mut client = Client::ready(&server, "disk", true);
    let took = |client: &mut Client, act: &mut dyn FnMut(&mut Client)| {
        let begun = Instant::now();
        act(client);
        begun.elapsed()
    };
    assert!(took(&mut client, &mut |client| client.write(0, &[1; 4096])) >= PROGRAM);
    assert!(took(&mut client, &mut |client| assert_eq!(client.read(0, 4096), [1; 4096])) >= READ);
    // Part of a page: read, then written.
    assert!(took(&mut client, &mut |client| client.write(512, &[2; 512])) >= READ + PROGRAM);
    // Nothing is mapped there, and nothing is waited for.
    assert_eq!(client.read(1 << 20, 4096), [0; 4096]);
    // Four dies: eight pages in flight take two rounds, and a flush in between takes what it waits for.
    let all = took(&mut client, &mut |client| {
        for page in 0..8 {
            client.send(1, 0, page, (64 + page) * 4096, 4096, &[page as u8; 4096]);
        }
        client.send(3, 0, 8, 0, 0, &[]);
        let mut cookies: Vec<u64> = (0..9).map(|_| client.reply(0).cookie).collect();
        cookies.sort_unstable();
        assert_eq!(cookies, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    });
    assert!(all >= 2 * PROGRAM, "{all:?}");
    // A wait is counted just after the client has its reply.
    let shot = loop {
        let shot = server.served[0].export.snapshot().unwrap();
        if shot.wall_latency.0.iter().map(Latency::count).sum::<u64>() == 13 {
            break shot;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let [reads, writes, _, flushes] = &shot.virtual_latency.0;
    assert_eq!((reads.count(), writes.count(), flushes.count()), (2, 10, 1));
    for (asked, achieved) in shot.virtual_latency.0.iter().zip(&shot.wall_latency.0) {
        assert_eq!(asked.count(), achieved.count());
        assert!(achieved.total_ns() >= asked.total_ns());
    }
    // A client that leaves with requests in flight does not keep the server.
    for page in 0..20 {
        client.send(1, 0, page, page * 4096, 4096, &[9; 4096]);
    }
    drop(client);
    assert_eq!(server.stop().panic, None);
}

#[test]
fn a_client_that_reads_no_answers_holds_up_no_other_one() {
    let folder = Folder::new("hog");
    let image = folder.image_with("disk", "page", |device| device.read_ns = 1000);
    let server = Server::start_as(&folder, &[image], true);
    let mut hog = Client::ready(&server, "disk", false);
    hog.write(0, &[7; 1 << 18]);
    // More than its socket holds.
    for cookie in 0..16 {
        hog.send(0, 0, cookie, 0, 1 << 18, &[]);
    }
    let mut other = Client::ready(&server, "disk", true);
    for _ in 0..20 {
        assert_eq!(other.read(4096, 4096), [7; 4096]);
        std::thread::sleep(Duration::from_millis(5));
    }
    // What is late comes in the end, whole.
    let mut cookies: Vec<u64> = (0..16)
        .map(|_| {
            let reply = hog.reply(1 << 18);
            assert_eq!((reply.error, reply.chunks), (0, vec![(0, vec![7; 1 << 18])]));
            reply.cookie
        })
        .collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..16).collect::<Vec<_>>());
    drop((hog, other));
    assert_eq!(server.stop().panic, None);
}

fn get(at: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    // A server that has heard enough hangs up.
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn metrics_count_what_happened() {
    for info in schemes::ALL {
        let folder = Folder::new("metrics");
        let server = Server::start(&folder, &[folder.image("disk", info.name)]);
        let at = live::publish(([127, 0, 0, 1], 0).into(), server.served.clone()).unwrap();
        let mut client = Client::ready(&server, "disk", true);
        for page in 0..10 {
            client.write(page * 4096, &[1; 4096]);
        }
        client.read(0, 5 * 4096);
        let text = get(at, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let value = |line: &str| {
            let found = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
            found.unwrap_or_else(|| panic!("{line} is missing in\n{text}")).parse::<f64>().unwrap()
        };
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!(value("ftl_host_pages_total{export=\"disk\",kind=\"write\"}"), 10.0);
        assert_eq!(value("ftl_host_pages_total{export=\"disk\",kind=\"read\"}"), 5.0);
        assert_eq!(value("ftl_requests_total{export=\"disk\",kind=\"write\"}"), 10.0);
        let programs =
            value("ftl_flash_operations_total{export=\"disk\",operation=\"program\",cause=\"host\"}");
        assert!(programs >= 10.0 || info.name != "page");
        assert_eq!(value("ftl_superblocks{export=\"disk\",state=\"all\"}"), 48.0);
        // A write buffer answers at once.
        let median = value("ftl_device_latency_seconds{export=\"disk\",kind=\"write\",quantile=\"0.5\"}");
        assert!(median >= 0.0002 * 0.98 || info.name != "page");
        assert!(get(at, "GET /secret HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert_eq!(get(at, &"x".repeat(20_000)), "");
        assert_eq!(server.stop().panic, None);
        let text = get(at, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(!text.contains("export="), "a device that is switched off counts nothing");
    }
}

#[test]
fn half_sent_requests_hold_nobody_up() {
    let folder = Folder::new("slow");
    let server = Server::start(&folder, &[folder.image("disk", "page")]);
    let at = live::publish(([127, 0, 0, 1], 0).into(), server.served.clone()).unwrap();
    let begun = Instant::now();
    let half = |_| {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHo").unwrap();
        stream
    };
    let slow: Vec<TcpStream> = (0..40).map(half).collect();
    let text = get(at, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(text.contains("export=\"disk\""), "{text}");
    // One after the other they would have had their two seconds each.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // They are hung up on, without an answer.
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "");
    }
    assert_eq!(server.stop().panic, None);
}
