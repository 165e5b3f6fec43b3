//! The NBD server, word for word, with friendly and hostile clients.

use crate::common::{go, meta, Client, Folder, Server, EXPORTED};
use ftl::schemes;
use std::io::Write;
use std::os::unix::net::UnixStream;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const ZERO: u16 = 6;
const STATUS: u16 = 7;
const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST: u16 = 16;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;
const EOVERFLOW: u32 = 75;
const ENOTSUP: u32 = 95;

fn page_server(name: &str) -> (Folder, Server) {
    let folder = Folder::new(name);
    let image = folder.image("disk", "page");
    let server = Server::start(&folder, &[image]);
    (folder, server)
}

/// The extents of a block status reply: length and flags.
fn extents(client: &mut Client, flags: u16, offset: u64, length: u32) -> Vec<(u32, u32)> {
    let reply = client.ask(STATUS, flags, offset, length, &[]);
    let [(5, payload)] = &reply.chunks[..] else { panic!("{reply:?}") };
    assert_eq!(payload[..4], [0, 0, 0, 1]);
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    payload[4..].chunks_exact(8).map(|extent| (number(&extent[..4]), number(&extent[4..]))).collect()
}

#[test]
fn the_handshake_offers_what_there_is() {
    let folder = Folder::new("offers");
    let images = [folder.image("first", "page"), folder.image("second", "dftl")];
    let server = Server::start(&folder, &images);
    let mut client = server.client();
    let names: Vec<_> = client.option(3, &[]).into_iter().filter(|(kind, _)| *kind == 2).collect();
    assert_eq!(names.len(), 2);
    assert_eq!(&names[1].1[4..10], b"second");
    let info = client.option(6, &go("second"));
    let answer = |kind: u16| {
        let found = info.iter().find(|(reply, data)| *reply == 3 && data[..2] == kind.to_be_bytes());
        found.map(|(_, data)| data[2..].to_vec()).unwrap()
    };
    assert_eq!(answer(0)[..8], EXPORTED.to_be_bytes());
    assert_eq!(answer(1), b"second");
    assert_eq!(answer(2), b"for a test");
    assert_eq!(answer(3), [0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
    assert_eq!(answer(0)[8..], [0b1001, 0b0110_1101], "flags without structured replies");
    assert_eq!(
        client.option(10, &meta("", &["base:allocation"]))[0].0,
        1 << 31 | 3,
        "structured comes first"
    );
    assert_eq!(client.option(8, &[]), [(1, Vec::new())]);
    assert_eq!(client.option(9, &meta("", &[])).len(), 2);
    assert_eq!(client.option(9, &meta("", &["base:"])).len(), 2);
    assert_eq!(client.option(9, &meta("", &["qemu:"])).len(), 1);
    assert_eq!(client.option(10, &meta("", &["base:", "x"])), [(1, Vec::new())]);
    assert_eq!(client.option(7, &go("third"))[0].0, 1 << 31 | 6);
    assert_eq!(client.option(2, &[]), [(1, Vec::new())]);
    assert!(client.is_left());
    // The old way, with and without the zeros.
    for (flags, length) in [(3u32, 10), (1, 134)] {
        let mut old = UnixStream::connect(&server.socket).unwrap();
        old.write_all(&flags.to_be_bytes()).unwrap();
        let mut client = Client { stream: old };
        client.take(18);
        client.put_option(1, b"second");
        assert_eq!(client.take(length)[..8], EXPORTED.to_be_bytes());
        client.write(0, &[7; 512]);
        assert_eq!(client.read(0, 1024)[..513], [&[7; 512][..], &[0]].concat());
    }
    assert_eq!(server.stop().panic, None);
}

#[test]
fn a_hostile_handshake_is_bounded() {
    let (_folder, server) = page_server("hostile");
    let mut client = server.client();
    client.put_option(77, &[]);
    assert_eq!(client.option_replies(77)[0].0, 1 << 31 | 1);
    assert_eq!(client.option(77, &vec![0; 100_000])[0].0, 1 << 31 | 9, "skipped, and told");
    assert_eq!(client.option(5, &[])[0].0, 1 << 31 | 2, "no TLS");
    for data in
        [&[][..], &[0xFF; 4], &[0xFF; 6], &[0, 0, 0, 0, 0, 9], &[0, 0, 0, 9, 1, 2], &[0, 0, 0, 0, 0, 0, 0]]
    {
        assert_eq!(client.option(7, data)[0].0, 1 << 31 | 3, "{data:?}");
    }
    client.option(8, &[]);
    for data in
        [&[][..], &[0xFF; 8], &[0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9]]
    {
        assert_eq!(client.option(10, data)[0].0, 1 << 31 | 3, "{data:?}");
    }
    assert_eq!(client.option(3, &[1])[0].0, 1 << 31 | 3);
    // These are left without a word.
    let mut endless = server.client();
    endless.put(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff");
    assert!(endless.is_left());
    let mut nonsense = server.client();
    nonsense.put(b"GET / HTTP/1.1\r\n\r\n");
    assert!(nonsense.is_left());
    let mut flags = UnixStream::connect(&server.socket).unwrap();
    flags.write_all(&[0xFF; 4]).unwrap();
    let mut flags = Client { stream: flags };
    flags.take(18);
    assert!(flags.is_left());
    let mut chatty = server.client();
    for _ in 0..255 {
        chatty.option(77, &[]);
    }
    chatty.put_option(77, &[]);
    chatty.option_replies(77);
    assert!(chatty.is_left());
    let mut unknown = server.client();
    unknown.put_option(1, b"nowhere");
    assert!(unknown.is_left());
    // And nobody is the worse for it.
    let mut friend = Client::ready(&server, "disk", true);
    friend.write(4096, &[1; 4096]);
    assert_eq!(friend.read(4096, 4096), [1; 4096]);
    assert_eq!(server.stop().panic, None);
}

#[test]
fn bytes_of_any_alignment() {
    for structured in [false, true] {
        let (_folder, server) = page_server("alignment");
        let mut client = Client::ready(&server, "", structured);
        let mut disk = vec![0u8; 64 << 10];
        for (step, (offset, length)) in
            [(512, 512), (0, 4096), (3584, 1024), (4608, 20480), (512, 65024), (8192, 8192)]
                .into_iter()
                .enumerate()
        {
            let data: Vec<u8> = (0..length).map(|at| (at % 251) as u8 ^ step as u8).collect();
            client.write(offset as u64, &data);
            disk[offset..offset + length].copy_from_slice(&data);
            assert_eq!(client.read(0, 64 << 10), disk);
            assert_eq!(client.read(3584, 9728), disk[3584..3584 + 9728]);
        }
        // Zeros over parts of pages, and a discard, which takes whole pages only.
        assert_eq!(client.ask(ZERO, 0, 1024, 8192, &[]).error, 0);
        disk[1024..9216].fill(0);
        assert_eq!(client.ask(TRIM, 0, 17 * 512, 8192, &[]).error, 0);
        disk[12288..16384].fill(0);
        assert_eq!(client.read(0, 64 << 10), disk);
        assert_eq!(server.stop().panic, None);
    }
}

#[test]
fn structured_replies_say_holes_and_one_chunk_when_asked() {
    let (_folder, server) = page_server("structured");
    let mut client = Client::ready(&server, "disk", true);
    let hole = client.ask(READ, 0, 8192, 4096, &[]);
    assert_eq!(hole.chunks, [(2, [&8192u64.to_be_bytes()[..], &4096u32.to_be_bytes()].concat())]);
    let data = client.ask(READ, DF, 8192, 4096, &[]);
    assert_eq!((data.chunks.len(), data.chunks[0].0, data.chunks[0].1.len()), (1, 1, 8 + 4096));
    assert_eq!(client.ask(READ, 0, 0, 0, &[]).chunks, [(0, Vec::new())], "nothing, in one chunk");
    assert_eq!(client.ask(WRITE, 0, 0, 0, &[]).error, 0);
    assert_eq!(client.ask(TRIM, 0, 0, 0, &[]).error, 0);
    // Without the agreement neither flag nor command exists.
    let mut plain = Client::ready(&server, "disk", false);
    assert_eq!(plain.ask(READ, DF, 0, 512, &[]).error, EINVAL);
    assert_eq!(plain.ask(STATUS, 0, 0, 512, &[]).error, EINVAL);
    assert_eq!(server.stop().panic, None);
}

#[test]
fn every_mistake_has_its_error_and_the_connection_goes_on() {
    for structured in [false, true] {
        let (_folder, server) = page_server("errors");
        let mut client = Client::ready(&server, "disk", structured);
        let sector = [9; 512];
        for (command, flags, offset, length, error) in [
            (READ, 0, EXPORTED, 512, EINVAL),
            (READ, 0, EXPORTED - 512, 1024, EINVAL),
            (READ, 0, u64::MAX - 511, 512, EINVAL),
            (READ, 0, 1, 512, EINVAL),
            (READ, 0, 0, 100, EINVAL),
            (READ, 1 << 9, 0, 512, EINVAL),
            (WRITE, 0, EXPORTED, 512, ENOSPC),
            (WRITE, NO_HOLE, 0, 512, EINVAL),
            (WRITE, 0, 100, 512, EINVAL),
            (TRIM, 0, EXPORTED, 512, EINVAL),
            (ZERO, 0, EXPORTED, 512, ENOSPC),
            (ZERO, FAST | NO_HOLE, 0, 512, ENOTSUP),
            (2000, 0, 0, 0, EINVAL),
            (5, 0, 0, 512, EINVAL),
        ] {
            let data = if command == WRITE { &sector[..] } else { &[] };
            let reply = client.ask(command, flags, offset, length, data);
            assert_eq!(reply.error, error, "command {command}, flags {flags}, {length} bytes at {offset}");
        }
        assert_eq!(client.read(0, 512), [0; 512]);
        // Longer than any device here: refused by its place, or by its length where the place is right.
        assert_eq!(client.ask(READ, 0, 0, 64 << 20, &[]).error, EINVAL);
        client.write(0, &sector);
        assert_eq!(client.read(0, 512), sector);
        let ended = server.stop();
        assert_eq!((ended.clients, ended.panic), (1, None));
    }
    let folder = Folder::new("long");
    let path = folder.0.join("disk");
    live::create(
        &path,
        &nand::DeviceSpec::named("tpftl-512m").unwrap(),
        &live::Settings::new("page", 1 << 20),
    )
    .unwrap();
    let server = Server::start(&folder, &[path]);
    let mut client = Client::ready(&server, "disk", true);
    assert_eq!(client.ask(READ, 0, 0, (32 << 20) + 512, &[]).error, EOVERFLOW);
    assert_eq!(client.ask(WRITE, 0, 0, (32 << 20) + 512, &vec![1; (32 << 20) + 512]).error, EOVERFLOW);
    let most = vec![5; 32 << 20];
    client.write(512, &most);
    assert!(client.read(512, 32 << 20) == most);
    assert_eq!(server.stop().panic, None);
}

#[test]
fn block_status_is_what_the_mapping_holds() {
    for info in schemes::ALL {
        let folder = Folder::new("status");
        let server = Server::start(&folder, &[folder.image("disk", info.name)]);
        let mut client = Client::ready(&server, "disk", true);
        let size = EXPORTED as u32;
        assert_eq!(extents(&mut client, 0, 0, size), [(size, 3)], "{}", info.name);
        client.write(8192 + 512, &[1; 512]);
        client.write(5 * 4096, &[2; 3 * 4096]);
        assert_eq!(
            extents(&mut client, 0, 0, size),
            [(8192, 3), (4096, 0), (2 * 4096, 3), (3 * 4096, 0), (size - 8 * 4096, 3)]
        );
        assert_eq!(extents(&mut client, 0, 9216, 1024), [(1024, 0)]);
        assert_eq!(extents(&mut client, 0, 8192 - 512, 1024), [(512, 3), (512, 0)]);
        assert_eq!(extents(&mut client, REQ_ONE, 8192 - 512, 1024), [(512, 3)]);
        assert_eq!(client.ask(TRIM, 0, 5 * 4096 + 512, 2 * 4096, &[]).error, 0);
        assert_eq!(client.ask(ZERO, 0, 8192, 4096, &[]).error, 0);
        assert_eq!(extents(&mut client, 0, 0, size)[..3], [(5 * 4096, 3), (4096, 0), (4096, 3)]);
        assert_eq!(client.ask(ZERO, NO_HOLE, 0, 4096, &[]).error, 0);
        assert_eq!(extents(&mut client, 0, 0, 8192), [(4096, 0), (4096, 3)]);
        assert_eq!(client.ask(STATUS, 0, 0, 0, &[]).error, EINVAL);
        assert_eq!(server.stop().panic, None);
    }
}

#[test]
fn many_requests_in_flight_and_replies_in_any_order() {
    let (_folder, server) = page_server("flight");
    let mut client = Client::ready(&server, "disk", true);
    // Sent in one piece, a flush and FUA among them; the last request is a read of it all.
    for number in 0..200u64 {
        client.send(
            WRITE,
            if number % 50 == 7 { FUA } else { 0 },
            number,
            number * 4096,
            4096,
            &[number as u8; 4096],
        );
        if number % 60 == 3 {
            client.send(FLUSH, 0, 1000 + number, 0, 0, &[]);
        }
    }
    client.send(READ, 0, 5000, 0, 200 * 4096, &[]);
    let mut cookies = Vec::new();
    for _ in 0..205 {
        let reply = client.reply(0);
        assert_eq!(reply.error, 0);
        if reply.cookie == 5000 {
            let data = &reply.chunks[0].1[8..];
            assert!(data.chunks(4096).zip(0..).all(|(page, number)| page == [number as u8; 4096]));
        }
        cookies.push(reply.cookie);
    }
    cookies.sort_unstable();
    cookies.dedup();
    assert_eq!(cookies.len(), 205, "each request has one reply");
    assert_eq!(server.stop().panic, None);
}

#[test]
fn a_client_that_leaves_in_the_middle_harms_nobody() {
    let (folder, server) = page_server("leaving");
    let mut friend = Client::ready(&server, "disk", true);
    for round in 0..20 {
        let mut rude = Client::ready(&server, "disk", false);
        match round % 4 {
            // Half a request; half a payload; nonsense; a reader that never takes its replies.
            0 => rude.put(&[0x25, 0x60, 0x95]),
            1 => rude.send(WRITE, 0, 1, 0, 1 << 20, &[1; 1000]),
            2 => rude.put(&[0xAB; 64]),
            _ => (0..300).for_each(|cookie| rude.send(READ, 0, cookie, 0, 4096, &[])),
        }
        drop(rude);
        friend.write(8192, &[round; 4096]);
        assert_eq!(friend.read(8192, 4096), [round; 4096]);
    }
    let mut polite = Client::ready(&server, "disk", false);
    polite.send(2, 0, 0, 0, 0, &[]);
    assert!(polite.is_left());
    assert_eq!(server.stop().panic, None);
    // What was acknowledged is there at the next start, which finds a clean image.
    let (export, opened) = live::open(&folder.0.join("disk"), live::Opening::default()).unwrap();
    assert!(opened.mounted.clean);
    drop(export);
    let server = Server::start(&folder, &[folder.0.join("disk")]);
    assert_eq!(Client::ready(&server, "disk", true).read(8192, 4096), [19; 4096]);
}

#[test]
fn a_server_that_stops_answers_what_is_under_way() {
    let (folder, server) = page_server("stopping");
    let mut client = Client::ready(&server, "disk", false);
    for cookie in 0..100 {
        client.send(WRITE, 0, cookie, cookie * 4096, 4096, &[cookie as u8; 4096]);
    }
    assert_eq!(client.reply(0).error, 0);
    assert_eq!(server.stop().panic, None);
    let mut answered = 1;
    let mut head = [0; 16];
    while std::io::Read::read_exact(&mut client.stream, &mut head).is_ok() {
        assert_eq!(head[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        answered += 1;
    }
    let server = Server::start(&folder, &[folder.0.join("disk")]);
    let mut client = Client::ready(&server, "disk", false);
    for page in 0..answered {
        assert_eq!(client.read(page * 4096, 4096), [page as u8; 4096]);
    }
}
