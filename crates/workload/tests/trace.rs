//! Traces: each format on rows of our own, bad rows, options, and the real cuts when `FTL_TRACES` names their
//! folder.

use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use workload::profile::Profile;
use workload::synth::Synth;
use workload::trace::{
    detect, info, write_fio_iolog, write_parquet, write_spc, AddressMap, Compression, Format, Ratio, Trace,
    TraceOptions,
};
use workload::{Kind, Request};

/// A file in the temporary folder that goes when the test ends.
struct File(PathBuf);

impl File {
    fn new(name: &str, content: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("ftlkit-workload-{}-{name}", std::process::id()));
        std::fs::write(&path, content).expect("the temporary folder is writable");
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn with(change: impl FnOnce(&mut TraceOptions)) -> TraceOptions {
    let mut options = TraceOptions::default();
    change(&mut options);
    options
}

/// Requests as (arrival in us, kind, offset, bytes).
fn read(name: &str, text: &str, options: &TraceOptions) -> Vec<(u64, Kind, u64, u64)> {
    let file = File::new(name, text.as_bytes());
    let trace = Trace::open(&file.0, options).expect("it opens");
    trace.map(|r| r.expect("a good row")).map(|r| (r.arrival_ns / 1000, r.kind, r.offset, r.bytes)).collect()
}

fn plain(name: &str, text: &str) -> Vec<(u64, Kind, u64, u64)> {
    read(name, text, &TraceOptions::default())
}

/// The first error of opening or reading, without the folder.
fn error(name: &str, text: &str, options: &TraceOptions) -> String {
    let file = File::new(name, text.as_bytes());
    let error = match Trace::open(&file.0, options) {
        Err(e) => e,
        Ok(mut trace) => trace.find_map(Result::err).expect("an error"),
    };
    error.to_string().replace(&file.0.display().to_string(), "T")
}

use Kind::{Flush as F, Read as R, Trim as T, Write as W};

#[test]
fn spc() {
    let text = "0,100,512,w,0.5\n1,8,4096,R,0.500001\n0,200,1024,r,1.0,extra\n";
    let base = 1 << 20;
    assert_eq!(
        plain("spc", text),
        [(0, W, 51_200, 512), (1, R, base + 4096, 4096), (500_000, R, 102_400, 1024)]
    );
}

/// Excel and PowerShell begin a text with one.
#[test]
fn a_byte_order_mark_says_nothing() {
    let text = "0,100,512,w,0.5\n1,8,4096,R,0.500001\n";
    assert_eq!(plain("marked", &format!("\u{feff}{text}")), plain("unmarked", text));
    let table = "time,op,lba,size\n0.1,R,8,4096\n";
    let columns =
        with(|options| options.columns = "time=time:s,op=op,lba=lba:sectors,size=size".parse().ok());
    assert_eq!(
        read("marked.csv", &format!("\u{feff}{table}"), &columns),
        read("unmarked.csv", table, &columns)
    );
}

#[test]
fn msr() {
    let text = "128166372003061629,src,1,Read,8192,4096,10\n128166372003061639,src,0,Write,4096,512,20\n";
    assert_eq!(plain("msr", text), [(0, R, (1 << 20) + 8192, 4096), (1, W, 4096, 512)]);
    let seconds = "0,web,0,Read,8192,4096,10\n2,web,0,Write,4096,512,20\n";
    assert_eq!(plain("msr-s", seconds), [(0, R, 8192, 4096), (2_000_000, W, 4096, 512)]);
}

#[test]
fn systor() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n1456095145.2,0.1,R,0,4096,512\n1456095145.1,,W,0,0,1024\n1456095145.4,0.1,W,0,0,1024\n";
    assert_eq!(plain("systor", text), [(0, R, 4096, 512), (0, W, 0, 1024), (200_000, W, 0, 1024)]);
}

#[test]
fn cloud_physics() {
    let text = "version,time,op,size,lbn\n1,10,28,4096,8\n1,10,8a,512,1\n1,11,42,8192,16\n1,11,35,0,0\n1,12,12,36,0\n1,13,2a,512,2\n";
    assert_eq!(
        plain("cloud", text),
        [
            (0, R, 4096, 4096),
            (0, W, 512, 512),
            (1_000_000, T, 8192, 8192),
            (1_000_000, F, 0, 0),
            (3_000_000, W, 1024, 512)
        ]
    );
}

#[test]
fn flashsim_counts_pages_and_mqsim_sectors() {
    assert_eq!(
        plain("flashsim", "1.500000\t0\t80\t2\t1\n2.0\t0\t8\t1\t0\n"),
        [(0, R, 40_960, 8192), (500, W, 4096, 4096)]
    );
    assert_eq!(plain("mqsim", "1000 0 80 16 1\n3000 0 8 1 0\n"), [(0, R, 40_960, 8192), (2, W, 4096, 512)]);
}

const BLKPARSE: &str = "  8,16   0        1     0.000000000  5314  Q   W 800 + 16 [a]
  8,16   0        2     0.000010000  5314  D   W 800 + 16 [a]
  8,16   0        3     0.000020000  5314  D  RA 80 + 8 [two words]
  8,16   0        4     0.000030000  5314  C   W 800 + 16 [0]
  8,16   0        5     0.000040000  5314  D   D 160 + 8 [a]
  8,16   0        6     0.000050000  5314  D FWS 240 + 8 [a]
  8,16   0        7     0.000060000  5314  D  FN [a]
  8,16   0        8     0.000070000  5314  m   N cfq [a] hello
CPU0 (8,16):
 Reads Queued:           0,        0KiB
Total (8,16):
";

#[test]
fn blkparse_prefers_dispatched_requests() {
    let rows = plain("blkparse", BLKPARSE);
    assert_eq!(
        rows,
        [
            (0, W, 409_600, 8192),
            (10, R, 40_960, 4096),
            (30, T, 81_920, 4096),
            (40, F, 0, 0),
            (40, W, 122_880, 4096),
            (50, F, 0, 0)
        ]
    );
    let queued: String = BLKPARSE.lines().filter(|l| !l.contains(" D ")).map(|l| format!("{l}\n")).collect();
    assert_eq!(plain("blkparse-q", &queued), [(0, W, 409_600, 8192)]);
}

#[test]
fn fio_iologs() {
    let v2 = "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x read 0 4096\n/dev/x wait 150 0\n/dev/x write 4096 512\n/dev/x datasync 0 0\n/dev/x trim 0 4096\n/dev/x close\n";
    assert_eq!(plain("v2", v2), [(0, R, 0, 4096), (150, W, 4096, 512), (150, F, 0, 0), (150, T, 0, 4096)]);
    let v3 = "fio version 3 iolog\n0 /dev/x add\n1 /dev/x open\n5 /dev/x write 0 4096\n25 /dev/x sync 0 0\n30 /dev/x close\n";
    assert_eq!(plain("v3", v3), [(0, W, 0, 4096), (20, F, 0, 0)]);
}

#[test]
fn phones() {
    let pixel = "proces,device,rw_flag,sector,size,timestamp\nkworker/u17:0-1,8388608,W,8,16,100.25\na,b-2,8388608,R,80,8,100.25000149999\n";
    assert_eq!(plain("pixel", pixel), [(0, W, 4096, 8192), (1, R, 40_960, 4096)]);
    let nexus = "8\t\t8\t\t4096\t\t5\t\t1.000000000\t\t1.1\t\t1.2\t\t1.3\n16\t\t17\t\t8704\t\t4\t\t1.000002000\t\t1.1\t\t1.2\t\t1.3\n";
    assert_eq!(plain("nexus", nexus), [(0, W, 4096, 4096), (2, R, 8192, 8192)]);
}

#[test]
fn clouds() {
    let alibaba = "419,W,8792731648,16384,1577808144360767\n725,R,4096,512,1577808144360967\n";
    assert_eq!(
        plain("alibaba", alibaba),
        [(0, W, 8_792_731_648, 16_384), (200, R, 8_792_748_032 + 4096, 512)].map(|mut r| {
            // The second volume lies behind the first, rounded up to 1 MiB.
            r.2 = if r.0 == 200 { (8_792_748_032u64).next_multiple_of(1 << 20) + 4096 } else { r.2 };
            r
        })
    );
    let headed = format!("device_id,opcode,offset,length,timestamp\n{alibaba}");
    assert_eq!(plain("alibaba-h", &headed), plain("alibaba-2", alibaba));
    let tencent = "1538323199,8,16,1,1576\n1538323200,1024,8,0,1576\n";
    assert_eq!(plain("tencent", tencent), [(0, W, 4096, 8192), (1_000_000, R, 524_288, 4096)]);
    let headed = format!("Timestamp,Offset,Size,IOType,VolumeID\n{tencent}");
    assert_eq!(plain("tencent-h", &headed), plain("tencent-2", tencent));
}

/// A vSCSI record: (version, opcode, bytes, lbn, us).
fn vscsi(version: u8, opcode: u16, bytes: u32, lbn: u64, us: u64) -> Vec<u8> {
    let (code, long) = (opcode.to_le_bytes(), [&lbn.to_le_bytes()[..], &us.to_le_bytes()].concat());
    let (tag, size, zero) = ([0xff, version], bytes.to_le_bytes(), [0u8; 4]);
    match version {
        1 => [&zero[..], &size, &zero, &code, &tag, &long].concat(),
        _ => [&code[..], &tag, &zero, &size, &zero, &long, &[0; 8]].concat(),
    }
}

#[test]
fn binary_records() {
    let read_file = |name: &str, bytes: &[u8], options: &TraceOptions| {
        let file = File::new(name, bytes);
        let trace = Trace::open(&file.0, options).expect("it opens");
        let format = trace.format();
        let requests: Vec<_> = trace.map(|r| r.expect("a good row")).collect();
        (
            format,
            requests.iter().map(|r| (r.arrival_ns / 1000, r.kind, r.offset, r.bytes)).collect::<Vec<_>>(),
        )
    };
    let default = TraceOptions::default();
    let expected = vec![(0, W, 8 * 512, 4096), (1_500_000, R, 1 << 33, 512)];
    for version in [1, 2] {
        let rows = [vscsi(version, 0x2a, 4096, 8, 7_000_000), vscsi(version, 0x28, 512, 1 << 24, 8_500_000)];
        let found = read_file(&format!("v{version}"), &rows.concat(), &default);
        assert_eq!(found, (Format::Vscsi, expected.clone()), "version {version}");
        // One record is enough, a file that ends within one is not whole.
        assert_eq!(read_file(&format!("o{version}"), &rows[0], &default).1, expected[..1]);
        let cut = File::new(&format!("c{version}"), &rows.concat()[..33]);
        let sentence = Trace::open(&cut.0, &default).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(sentence.contains("cut off"), "{sentence}");
    }
    let record = |time: u32, id: u64, size: u32| {
        [&time.to_le_bytes()[..], &id.to_le_bytes(), &size.to_le_bytes(), &(-1i64).to_le_bytes()].concat()
    };
    let rows = [record(10, 8, 4096), record(12, 16, 512)].concat();
    let named = read_file("web.oracleGeneral", &rows, &default);
    assert_eq!(named, (Format::OracleGeneral, vec![(0, R, 4096, 4096), (2_000_000, R, 8192, 512)]));
    let told = with(|o| o.format = Some(Format::OracleGeneral));
    assert_eq!(read_file("web.bin", &rows, &told), named);
    let pages = with(|o| o.columns = "time=time,lba=obj_id:4KiB,size=obj_size".parse().ok());
    let found = read_file("pages.oracleGeneral.bin", &rows, &pages);
    assert_eq!(found, (Format::Columns, vec![(0, R, 32_768, 4096), (2_000_000, R, 65_536, 512)]));
}

#[test]
fn any_table_by_its_columns() {
    let columns = |text: &str| with(|o| o.columns = Some(text.parse().expect("columns")));
    let expected = [(0, W, 4096, 512), (500, R, 8192, 4096)];
    let by_number = columns("time=1:us,op=3,lba=4:sectors,size=5");
    assert_eq!(read("table-1", "1000,x,Write,8,512\n1500,x,read,16,4096\n", &by_number), expected);
    // Names in the first row, another separator, quotes, other units.
    let text = "\"LBA\";\"kind\";\"len\";\"ts\"\n8;\"W\";1;1.0\n16;\"R\";8;1.0005\n";
    let by_name = columns("time=ts:s,op=kind,lba=lba:sectors,size=len:sectors");
    assert_eq!(read("table-2", text, &by_name), expected);
    // A header that numbers skip, blanks, a word for writes, no times.
    let numbers = columns("op=3:write=1,lba=1:4KiB,size=2");
    let blanks = "page size op\n1   512  1\n2   4096 0\n";
    assert_eq!(read("table-3", blanks, &numbers), [(0, W, 4096, 512), (0, R, 8192, 4096)]);
    // Devices lie one behind the other, as in the known formats.
    let volumes = columns("time=1:ms,lba=2,size=3,device=4");
    assert_eq!(
        read("table-4", "0\t0\t512\ta\n1\t0\t512\tb\n", &volumes),
        [(0, R, 0, 512), (1000, R, 1 << 20, 512)]
    );
    let trims = columns("op=1,lba=2,size=3");
    assert_eq!(
        read("table-5", "d|0|512\nTRIM|0|512\nflush|||\n", &trims),
        [(0, T, 0, 512), (0, T, 0, 512), (0, F, 0, 0)]
    );
    for (text, option, sentence) in [
        ("a,b\n1,2\n", "lba=1,size=c", "T: there is no column c; the first row has a, b"),
        ("1,2\n", "lba=1,size=3", "T: there is no column 3; the first row has 2"),
    ] {
        assert_eq!(error("table-e", text, &columns(option)), sentence);
    }
    let strict = TraceOptions { strict: true, ..columns("op=1,lba=2,size=3") };
    let sentence = error("table-s", "0,8,512\n", &strict);
    assert!(sentence.contains("say which is a write: op=3:write=1"), "{sentence}");
    let both = TraceOptions { format: Some(Format::Spc), ..columns("lba=2,size=3") };
    assert!(error("table-b", "0,8,512\n", &both).contains("give one of them"));
    let bare = with(|o| o.format = Some(Format::Columns));
    assert!(error("table-n", "0,8,512\n", &bare).contains("needs option columns"));
}

#[test]
fn parquet_of_other_columns() {
    let mut bytes = Vec::new();
    let request = Request { arrival_ns: 5_000, kind: W, offset: 8192, bytes: 512 };
    write_parquet(&mut bytes, [request, Request { arrival_ns: 9_000, kind: R, ..request }]).expect("memory");
    let file = File::new("other.parquet", &bytes);
    let options = with(|o| o.columns = "time=time_ns:ms,op=kind,lba=bytes,size=offset".parse().ok());
    let trace = Trace::open(&file.0, &options).expect("it opens");
    let found: Vec<_> = trace.map(|r| r.expect("a good row")).collect();
    let swapped = Request { arrival_ns: 0, kind: W, offset: 512, bytes: 8192 };
    assert_eq!(found, [swapped, Request { arrival_ns: 4_000_000_000, kind: R, ..swapped }]);
}

#[test]
fn formats_are_told_by_content_and_compression_by_magic() {
    let text = b"0,100,512,w,0.5\n".repeat(200);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&text).expect("in memory");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&text).expect("in memory");
    let mut bz = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bz.write_all(&text).expect("in memory");
    let packed = [
        (Compression::Plain, text.clone()),
        (Compression::Gzip, gz.finish().expect("in memory")),
        (Compression::Xz, xz.finish().expect("in memory")),
        (Compression::Bzip2, bz.finish().expect("in memory")),
        (Compression::Zstd, zstd::encode_all(&text[..], 1).expect("in memory")),
    ];
    for (compression, bytes) in packed {
        let file = File::new(&format!("packed-{}.txt", compression.name()), &bytes);
        assert_eq!(detect(&file.0), Ok((Format::Spc, compression)));
        let trace = Trace::open(&file.0, &TraceOptions::default()).expect("it opens");
        assert_eq!(trace.filter(|r| r.is_ok()).count(), 200);
        if compression != Compression::Plain {
            let torn = File::new(&format!("torn-{}", compression.name()), &bytes[..bytes.len() - 8]);
            if let Ok(trace) = Trace::open(&torn.0, &TraceOptions::default()) {
                assert!(trace.count() > 0);
            }
        }
    }
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(format));
    }
}

#[test]
fn parquet_keeps_every_request() {
    // More than one group of rows, each with its own columns.
    let requests: Vec<Request> = (0..70_000u64)
        .map(|n| match n % 5 {
            4 => Request::flush(n * 1001),
            kind => Request {
                arrival_ns: n * 1001,
                kind: Kind::ALL[kind as usize % 3],
                offset: n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (1 << 40) / 512 * 512,
                bytes: 512 * (1 + n % 9),
            },
        })
        .collect();
    let mut bytes = Vec::new();
    assert_eq!(write_parquet(&mut bytes, requests.iter().copied()).expect("in memory"), 70_000);
    let file = File::new("rows.parquet", &bytes);
    assert_eq!(detect(&file.0), Ok((Format::Ftl, Compression::Parquet)));
    let trace = Trace::open(&file.0, &TraceOptions::default()).expect("it opens");
    let read: Vec<Request> = trace.map(|request| request.expect("a good row")).collect();
    assert!(read == requests, "{:?} and so on", &read[..5]);
    let torn = File::new("torn.parquet", &bytes[..bytes.len() - 8]);
    let sentence = Trace::open(&torn.0, &TraceOptions::default()).err().expect("a torn file").to_string();
    assert!(sentence.contains("the trace cannot be read"), "{sentence}");
    let rows =
        plain("own", "time_ns,kind,offset,bytes\n0,write,4096,512\n2000,flush,0,0\n3000,trim,0,4096\n");
    assert_eq!(rows, [(0, W, 4096, 512), (2, F, 0, 0), (3, T, 0, 4096)]);
}

#[test]
fn each_mistake_gets_one_sentence() {
    let default = TraceOptions::default();
    assert_eq!(
        error("unknown", "what is this\n", &default),
        "T: the trace's format is not recognised: neither a header nor one of the first ten rows is one of spc, msr, systor, cloudphysics, flashsim, mqsim, blkparse, iolog-v2, iolog-v3, pixel, nexus, alibaba, tencent, vscsi, oracle-general, ftl; the first row is \"what is this\"; name its columns with option columns, such as time=1:us,op=3,lba=4:sectors,size=5:bytes"
    );
    let missing = Trace::open("/nowhere/at/all", &default).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(
        missing.starts_with("/nowhere/at/all: the trace cannot be read (")
            && missing.ends_with(
                "name a readable file, plain, compressed with gzip, xz, zstd or bzip2, or Parquet"
            ),
        "{missing}"
    );
    let strict = with(|o| o.strict = true);
    let good = "0,100,512,w,0.5\n";
    let shape = "a row of spc is asu,lba(512 B),bytes,r|w,seconds";
    assert_eq!(
        error("s1", &format!("{good}0,abc,512,w,0.5\n"), &strict),
        format!("T:2:3: the LBA is \"abc\" and not a whole number; {shape}")
    );
    assert_eq!(
        error("s2", &format!("{good}{good}0,1,512,x,0.5\n"), &strict),
        format!("T:3:9: the opcode is \"x\" and not r or w; {shape}")
    );
    assert_eq!(
        error("s3", &format!("{good}0,1,512,w\n"), &strict),
        format!("T:2:10: the time is missing; {shape}")
    );
    assert_eq!(
        error("s4", &format!("{good}0,1,0,w,1.0\n"), &strict),
        format!("T:2:1: the size is 0; {shape}")
    );
    assert_eq!(
        error("s5", &format!("{good}0,99999999999999999,512,w,1.0\n"), &strict),
        format!("T:2:3: the LBA is too large; {shape}")
    );
    assert_eq!(
        error("outside", "0,100,512,w,0.5\n", &with(|o| o.device_bytes = Some(4096))),
        "T:1: the write of 512 bytes at 51200 ends beyond the device of 4096 bytes; use a larger device, or wrap or scale the addresses"
    );
    assert_eq!(
        error("nosize", good, &with(|o| o.address = AddressMap::Wrap)),
        "T: wrapping or scaling addresses needs the size of the device; give one"
    );
    assert_eq!(
        error(
            "large",
            "0,0,8192,w,0\n",
            &with(|o| (o.address, o.device_bytes) = (AddressMap::Wrap, Some(4096)))
        ),
        "T:1: the write of 8192 bytes is larger than the device of 4096 bytes; use a larger device"
    );
    assert_eq!(
        error("nodevice", good, &with(|o| o.device = Some("7".into()))),
        "T: there is no device \"7\" in this trace; it has 0"
    );
    assert_eq!(
        error(
            "nodevices",
            "version,time,op,size,lbn\n1,10,28,4096,8\n",
            &with(|o| o.device = Some("7".into()))
        ),
        "T: a trace of format cloudphysics has one device without a name; leave out device \"7\""
    );
}

#[test]
fn bad_rows_are_counted_and_shown() {
    let file = File::new("bad", b"0,1,512,w,0.5\nnonsense\n# a comment\n\n0,2,512,w,-1\n0,3,512,w,0.6");
    let mut trace = Trace::open(&file.0, &TraceOptions::default()).expect("it opens");
    assert_eq!(trace.by_ref().filter(|r| r.is_ok()).count(), 2);
    assert_eq!((trace.rows(), trace.bad_rows(), trace.other_lines()), (2, 2, 2));
    let places: Vec<(u64, u64)> = trace.bad_samples().iter().map(|e| (e.line(), e.column())).collect();
    assert_eq!(places, [(2, 9), (5, 11)]);
}

#[test]
fn windows_scales_and_devices() {
    let text = "0,0,512,w,10\n0,8,512,w,11\n1,16,512,w,12\n0,24,512,w,13\n0,32,512,w,14\n";
    let arrivals =
        |options: &TraceOptions| read("window", text, options).iter().map(|r| r.0 / 1000).collect::<Vec<_>>();
    assert_eq!(arrivals(&with(|o| o.rows = Some(1..4))), [0, 1000, 2000]);
    assert_eq!(arrivals(&with(|o| o.time_window_ns = Some(1_500_000_000..3_500_000_000))), [500, 1500]);
    assert_eq!(
        arrivals(&with(|o| o.time_scale = Ratio::new(1, 4).expect("positive"))),
        [0, 250, 500, 750, 1000]
    );
    assert_eq!(arrivals(&with(|o| o.max_gap_ns = Some(1_000_000))), [0, 1, 2, 3, 4]);
    let cut = with(|o| {
        (o.max_gap_ns, o.time_window_ns) = (Some(1_000_000), Some(1_500_000_000..3_500_000_000));
    });
    assert_eq!(arrivals(&cut), [1, 2], "the window is in recorded time");
    let only = read("only", text, &with(|o| o.device = Some("1".into())));
    assert_eq!(only, [(0, W, 8192, 512)]);
    let offsets =
        |options: &TraceOptions| read("address", text, options).iter().map(|r| r.2).collect::<Vec<_>>();
    assert_eq!(
        offsets(&with(|o| (o.address, o.device_bytes) = (AddressMap::Wrap, Some(8192)))),
        [0, 4096, 0, 4096, 0]
    );
    let scaled = offsets(&with(|o| (o.address, o.device_bytes) = (AddressMap::Scale, Some(1 << 19))));
    assert!(scaled.iter().all(|o| *o <= (1 << 19) - 512 && o % 512 == 0), "{scaled:?}");
    assert!(scaled[2] > 500_000, "the other device lies at the end: {scaled:?}");
}

#[test]
fn time_never_runs_back_and_a_new_recording_goes_on() {
    let text =
        "0,0,512,w,100\n0,8,512,w,100.5\n0,16,512,w,100.2\n0,24,512,w,101\n0,32,512,w,3\n0,40,512,w,4\n";
    let arrivals: Vec<u64> = plain("jumps", text).iter().map(|r| r.0 / 1000).collect();
    assert_eq!(arrivals, [0, 500, 500, 1000, 1000, 2000]);
}

#[test]
fn what_is_written_is_read_back() {
    let requests: Vec<Request> = Synth::open("financial1", 500, 3).expect("known").collect();
    let us = |r: &Request| (r.arrival_ns / 1000, r.kind, r.offset, r.bytes);
    let expected: Vec<_> = requests.iter().map(us).collect();
    let mut spc = Vec::new();
    assert_eq!(write_spc(&mut spc, requests.iter().copied()).expect("in memory"), 500);
    assert_eq!(plain("back-spc", &String::from_utf8(spc).expect("text")), expected);
    let mut iolog = Vec::new();
    let with_flush = requests.iter().copied().chain([Request::flush(9_000_000_000_000)]);
    assert_eq!(write_fio_iolog(&mut iolog, "/dev/x", with_flush).expect("in memory"), 501);
    let back = plain("back-iolog", &String::from_utf8(iolog).expect("text"));
    assert_eq!(back[..500], expected);
    assert_eq!(back[500].1, Kind::Flush);
}

#[test]
fn info_counts_and_draws() {
    let file = File::new("info", b"0,0,4096,w,0\n0,8,4096,w,1\n0,16,4096,r,2\n0,0,4096,w,3\nbad\n");
    let i = info(&file.0, &TraceOptions::default()).expect("it reads");
    assert_eq!((i.rows, i.bad_rows, i.profile.writes.count, i.profile.reads.count), (4, 1, 3, 1));
    assert_eq!(i.sketch.writes.iter().sum::<u32>(), 3);
    let text = i.sketch.render();
    assert!(text.contains("reads: 1") && text.contains("writes: 3") && text.lines().count() == 44, "{text}");
}

#[test]
fn the_shipped_sample_is_what_its_generator_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/oltp-sample.spc");
    let shipped = std::fs::read(&path).expect("the sample is in the tree");
    let (name, requests, seed) = workload::synth::SAMPLE;
    let mut made = Vec::new();
    write_spc(&mut made, Synth::open(name, requests, seed).expect("known")).expect("in memory");
    assert!(
        shipped == made,
        "regenerate it: cargo run -p ftlkit-workload --example sample > examples/oltp-sample.spc"
    );
    assert!(shipped.len() < 400_000);
    assert_eq!(detect(&path), Ok((Format::Spc, Compression::Plain)));
}

/// (file, format, rows, writes per mille, mean bytes): as their README and the files say.
const CUTS: &[(&str, Format, u64, u64, u64)] = &[
    ("websearch1-first50000.flashsim.xz", Format::FlashSim, 50_000, 0, 15_507),
    ("websearch1-first24783.mqsim.xz", Format::Mqsim, 24_783, 0, 15_419),
    ("financial1-first949.spc.xz", Format::Spc, 949, 807, 2_709),
    ("financial1-first50000.flashsim.xz", Format::FlashSim, 50_000, 416, 7_162),
    ("msr-prxy_0-first20000.csv.xz", Format::Msr, 20_000, 983, 2_631),
    ("msr-hm_0-first1000.csv.xz", Format::Msr, 1_000, 492, 9_690),
    ("msr-web-first1000-each.csv.xz", Format::Msr, 4_000, 728, 35_668),
    ("systor17-first999.csv.gz", Format::Systor, 999, 173, 39_162),
    ("cloudphysics-2h.csv.xz", Format::CloudPhysics, 113_872, 587, 36_936),
    ("tpcc-small.mqsim.xz", Format::Mqsim, 6_999, 374, 8_532),
    ("f2fs-pc.blkparse.xz", Format::Blkparse, 5_727, 175, 170_597),
    ("ycsb-rocksdb-first10000.blkparse.xz", Format::Blkparse, 1_694, 0, 116_900),
];

#[test]
fn the_real_cuts_read_without_a_bad_row() {
    let Some(folder) = std::env::var_os("FTL_TRACES").map(PathBuf::from) else {
        println!("skipped: FTL_TRACES does not name the folder of traces");
        return;
    };
    for &(name, format, rows, writes, mean) in CUTS {
        let path = folder.join(name);
        if !path.exists() {
            println!("skipped: {name} is not there");
            continue;
        }
        let mut trace = Trace::open(&path, &with(|o| o.strict = true)).expect("it opens");
        assert_eq!(trace.format(), format, "{name}");
        let mut last = 0;
        let profile = Profile::of(trace.by_ref().map(|r| r.expect("a good row")).inspect(|r| {
            assert!(r.arrival_ns >= last, "{name}");
            last = r.arrival_ns;
        }));
        assert_eq!(
            (trace.rows(), (profile.write_share * 1000.0).round() as u64, profile.mean_bytes.round() as u64),
            (rows, writes, mean),
            "{name}"
        );
    }
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("nexus5") || name.starts_with("pixel6a") {
            let mut trace = Trace::open(entry.path(), &with(|o| o.strict = true)).expect("it opens");
            assert!(trace.all(|r| r.is_ok()) && trace.rows() > 1000, "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_make_the_reader_panic(head in 0usize..6, body in prop::collection::vec(any::<u8>(), 0..400)) {
        let heads: [&[u8]; 6] = [b"", b"0,1,512,w,0.5\n", b"fio version 3 iolog\n", b"8,0 1 1 0.1 5 Q W 1 + 1 [a]\n", b"\x1f\x8b\x08", b"0.1 0 1 1 1\n"];
        let mut bytes = heads[head].to_vec();
        bytes.extend(&body);
        let file = File::new(&format!("fuzz-{head}"), &bytes);
        if let Ok(trace) = Trace::open(&file.0, &with(|o| (o.address, o.device_bytes) = (AddressMap::Scale, Some(1 << 30)))) {
            for request in trace.flatten() {
                prop_assert!(request.end() <= 1 << 30);
            }
        }
    }

    #[test]
    fn no_line_makes_a_row_reader_panic(format in 0..Format::ALL.len(), lines in prop::collection::vec("[0-9a-zRWD,. \\t+:-]{0,60}", 0..8)) {
        let text = lines.join("\n");
        let file = File::new(&format!("lines-{format}"), text.as_bytes());
        let options = with(|o| o.format = Some(Format::ALL[format]));
        if let Ok(trace) = Trace::open(&file.0, &options) {
            prop_assert!(trace.count() <= 2 * lines.len());
        }
    }
}

#[test]
fn flashsims_text_has_two_readings() {
    let file = File::new("two.flashsim", b"26.214000 0 303574 2 0\n30.000000 0 8 1 1\n");
    assert_eq!(detect(&file.0).map(|found| found.0), Ok(Format::FlashSim));
    let read = |format| {
        let options = with(|o| o.format = format);
        let trace = Trace::open(&file.0, &options).expect("it opens");
        trace.map(|r| r.expect("a row")).map(|r| (r.offset / 512, r.bytes, r.kind)).collect::<Vec<_>>()
    };
    assert_eq!(read(None), [(303_574, 8192, Kind::Write), (8, 4096, Kind::Read)]);
    assert_eq!(read(Some(Format::FlashSimSectors)), [(303_574, 1024, Kind::Write), (8, 512, Kind::Read)]);
}
