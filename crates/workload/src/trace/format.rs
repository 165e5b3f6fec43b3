//! The formats, and what a row of each says.

use serde::Serialize;

use super::columns::Layout;
use super::fields::{decimal, integer, Bad, Fields, Separator};
use crate::Kind;

/// A trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// UMass, SPC: `asu,lba(512 B),bytes,r|w,seconds[,...]`.
    Spc,
    /// MSR Cambridge: `filetime(100 ns; seconds in some
    /// cuts),host,disk,Read|Write,offset(bytes),bytes,response`.
    Msr,
    /// Systor '17: `Timestamp(s),Response,IOType(R|W),LUN,Offset(bytes),Size(bytes)`, with a header.
    Systor,
    /// CloudPhysics: `version,time(s),op(SCSI opcode, hex),size(bytes),lbn(512 B)`, with a header.
    CloudPhysics,
    /// FlashSim: `ms device lba(512 B) size(4 KiB, rounded down, at least 1) 0=write|1=read`.
    FlashSim,
    /// The same text as FlashSim's own source reads it: sizes are sectors of 512 B. Known by its name alone.
    FlashSimSectors,
    /// MQSim: `ns device lba(512 B) sectors 0=write|1=read`.
    Mqsim,
    /// blkparse's text: `major,minor cpu sequence seconds pid event rwbs sector + sectors [process]`.
    Blkparse,
    /// fio's iolog, version 2: `file action [offset length]`, time from `wait`.
    IologV2,
    /// fio's iolog, version 3: `us file action [offset length]`.
    IologV3,
    /// Pixel 6a: `proces,device,rw_flag,sector(512 B),size(sectors),timestamp(s)`, with a header.
    Pixel,
    /// Nexus 5: `lba(512 B) sectors bytes flags(bit 0 = write) created(s) queued issued done`.
    Nexus,
    /// Alibaba Cloud 2020: `device_id,opcode(R|W),offset(bytes),length(bytes),timestamp(us)`, in the
    /// published files with a header.
    Alibaba,
    /// Tencent CBS: `Timestamp(s),Offset(512 B),Size(512 B),IOType(0=read|1=write),VolumeID`.
    Tencent,
    /// vSCSI traces of VMware (CloudPhysics), versions 1 and 2: binary records with time (us), SCSI opcode,
    /// size (bytes) and lbn (512 B).
    Vscsi,
    /// oracleGeneral of libCacheSim: binary records of time (s), obj_id (taken as LBA of 512 B) and obj_size
    /// (bytes); all are reads. Known by the word `oracleGeneral` in the file's name.
    OracleGeneral,
    /// A table whose columns are named: [`Columns`](super::Columns).
    Columns,
    /// Our own: `time_ns,kind(read|write|trim|flush),offset,bytes`, with a header; or a Parquet file of
    /// these columns.
    Ftl,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 18] = [
        Format::Spc,
        Format::Msr,
        Format::Systor,
        Format::CloudPhysics,
        Format::FlashSim,
        Format::FlashSimSectors,
        Format::Mqsim,
        Format::Blkparse,
        Format::IologV2,
        Format::IologV3,
        Format::Pixel,
        Format::Nexus,
        Format::Alibaba,
        Format::Tencent,
        Format::Vscsi,
        Format::OracleGeneral,
        Format::Columns,
        Format::Ftl,
    ];

    /// The word for it, as `--trace-format` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Spc => "spc",
            Format::Msr => "msr",
            Format::Systor => "systor",
            Format::CloudPhysics => "cloudphysics",
            Format::FlashSim => "flashsim",
            Format::FlashSimSectors => "flashsim-sectors",
            Format::Mqsim => "mqsim",
            Format::Blkparse => "blkparse",
            Format::IologV2 => "iolog-v2",
            Format::IologV3 => "iolog-v3",
            Format::Pixel => "pixel",
            Format::Nexus => "nexus",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::Vscsi => "vscsi",
            Format::OracleGeneral => "oracle-general",
            Format::Columns => "columns",
            Format::Ftl => "ftl",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|f| f.name() == name)
    }

    /// One line on the columns and their units.
    pub fn columns(self) -> &'static str {
        match self {
            Format::Spc => "asu,lba(512 B),bytes,r|w,seconds",
            Format::Msr => "filetime(100 ns),host,disk,Read|Write,offset(bytes),bytes,response",
            Format::Systor => "Timestamp(s),Response,IOType(R|W),LUN,Offset(bytes),Size(bytes)",
            Format::CloudPhysics => "version,time(s),op(SCSI opcode, hex),size(bytes),lbn(512 B)",
            Format::FlashSim => "ms device lba(512 B) size(4 KiB) 0|1",
            Format::FlashSimSectors => "ms device lba(512 B) size(512 B) 0|1",
            Format::Mqsim => "ns device lba(512 B) sectors 0|1",
            Format::Blkparse => "major,minor cpu sequence seconds pid event rwbs sector + sectors [process]",
            Format::IologV2 => "file action [offset length]",
            Format::IologV3 => "us file action [offset length]",
            Format::Pixel => "proces,device,rw_flag,sector(512 B),size(sectors),timestamp(s)",
            Format::Nexus => "lba(512 B) sectors bytes flags created(s) queued issued done",
            Format::Alibaba => "device_id,opcode(R|W),offset(bytes),length(bytes),timestamp(us)",
            Format::Tencent => "timestamp(s),offset(512 B),size(512 B),0|1,volume",
            Format::Vscsi => "a binary record: time(us), SCSI opcode, size(bytes), lbn(512 B)",
            Format::OracleGeneral => "a binary record: time(s), obj_id(512 B), obj_size(bytes)",
            Format::Columns => super::columns::ROW,
            Format::Ftl => "time_ns,kind,offset,bytes",
        }
    }

    /// Can one file hold requests to several devices?
    pub(super) fn has_devices(self) -> bool {
        use Format::{CloudPhysics, Columns, Ftl, Nexus, OracleGeneral, Vscsi};
        !matches!(self, CloudPhysics | Nexus | Vscsi | OracleGeneral | Columns | Ftl)
    }

    fn header(self) -> &'static [u8] {
        match self {
            Format::Systor => b"Timestamp,",
            Format::CloudPhysics | Format::Vscsi => b"version,",
            Format::Alibaba => b"device_id,",
            Format::Tencent => b"Timestamp,Offset,",
            Format::OracleGeneral => b"time,obj_id,",
            Format::Pixel => b"proces,",
            Format::Ftl => b"time_ns,",
            _ => b"\0",
        }
    }

    /// Recognises the format of a text by its first lines; the start of the text is enough.
    pub(super) fn of(text: &[u8]) -> Option<Format> {
        let mut lines =
            text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|l| !l.is_empty() && l[0] != b'#');
        let first = lines.next()?;
        if first == b"fio version 2 iolog" {
            return Some(Format::IologV2);
        }
        if first == b"fio version 3 iolog" {
            return Some(Format::IologV3);
        }
        // Tencent's header begins as Systor's does.
        use Format::{Alibaba, CloudPhysics, Ftl, Pixel, Systor, Tencent};
        for format in [Tencent, Systor, CloudPhysics, Pixel, Alibaba, Ftl] {
            if first.starts_with(format.header()) {
                return Some(format);
            }
        }
        // One odd line at the top (a comment, a torn row) must not hide the format.
        std::iter::once(first).chain(lines).take(10).find_map(Format::of_row)
    }

    fn of_row(line: &[u8]) -> Option<Format> {
        let commas: Vec<&[u8]> = line.split(|b| *b == b',').map(<[u8]>::trim_ascii).collect();
        let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).collect();
        let whole = |field: &[u8]| integer(field).is_some();
        let real = |field: &[u8]| decimal(field, 9).is_some() && field.contains(&b'.');
        let whole_words = |range: std::ops::Range<usize>| words[range].iter().all(|w| whole(w));
        match commas.as_slice() {
            [asu, lba, bytes, op, time, ..]
                if [asu, lba, bytes].iter().all(|f| whole(f))
                    && is_letter(op, b"rRwW")
                    && decimal(time, 9).is_some() =>
            {
                return Some(Format::Spc)
            }
            [device, op, offset, bytes, time]
                if is_letter(op, b"RW") && [device, offset, bytes, time].iter().all(|f| whole(f)) =>
            {
                return Some(Format::Alibaba)
            }
            [time, offset, sectors, op, volume]
                if is_letter(op, b"01") && [time, offset, sectors, volume].iter().all(|f| whole(f)) =>
            {
                return Some(Format::Tencent)
            }
            [time, _, disk, op, offset, bytes, ..]
                if [time, disk, offset, bytes].iter().all(|f| whole(f))
                    && (op.eq_ignore_ascii_case(b"read") || op.eq_ignore_ascii_case(b"write")) =>
            {
                return Some(Format::Msr)
            }
            [time, _, op, lun, offset, bytes]
                if real(time) && is_letter(op, b"RW") && [lun, offset, bytes].iter().all(|f| whole(f)) =>
            {
                return Some(Format::Systor)
            }
            _ => {}
        }
        let flag = |w: &[u8]| w == b"0" || w == b"1";
        match words.as_slice() {
            [time, _, _, _, op] if whole_words(1..4) && flag(op) && real(time) => Some(Format::FlashSim),
            [_, _, _, _, op] if whole_words(0..4) && flag(op) => Some(Format::Mqsim),
            [_, _, _, _, times @ ..]
                if times.len() == 4 && whole_words(0..4) && times.iter().all(|t| real(t)) =>
            {
                Some(Format::Nexus)
            }
            [device, cpu, sequence, time, pid, _, _, ..]
                if is_device(device) && whole(cpu) && whole(sequence) && real(time) && whole(pid) =>
            {
                Some(Format::Blkparse)
            }
            _ => None,
        }
    }
}

fn is_letter(field: &[u8], letters: &[u8]) -> bool {
    matches!(field, [letter] if letters.contains(letter))
}

fn is_device(word: &[u8]) -> bool {
    let mut parts = word.split(|b| *b == b',');
    matches!((parts.next(), parts.next(), parts.next()), (Some(a), Some(b), None) if integer(a).is_some() && integer(b).is_some())
}

/// One request as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) time_ns: u64,
    pub(super) device: &'a [u8],
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The write carries a flush that comes before it.
    pub(super) flush_first: bool,
    /// A sector was taken off (Nexus 5).
    pub(super) adjusted: bool,
}

/// Reads rows of one format; keeps what a row alone does not say.
#[derive(Debug, Clone)]
pub(super) struct RowReader {
    format: Format,
    /// The blkparse event that counts: `D` (dispatched) or `Q` (queued).
    event: u8,
    /// Time passed by `wait` in an iolog of version 2.
    waited_ns: u64,
    /// blkparse's summary has begun.
    summary: bool,
    /// What one unit of an MSR time is worth.
    msr_tick_ns: u64,
    /// Where the columns of a table are.
    layout: Option<Layout>,
}

pub(super) type Parsed<'a> = Result<Option<Row<'a>>, Bad>;

impl RowReader {
    /// `start` is the start of the text, in which blkparse's events are looked for.
    pub(super) fn new(format: Format, start: &[u8]) -> Self {
        let dispatched = format == Format::Blkparse
            && start.split(|b| *b == b'\n').any(|line| {
                let mut fields = Fields::new(line, Separator::Space);
                fields.skip(5);
                fields.next() == Some(b"D")
            });
        let event = if dispatched { b'D' } else { b'Q' };
        let msr_tick_ns = if format == Format::Msr { msr_tick_ns(start) } else { 100 };
        RowReader { format, event, waited_ns: 0, summary: false, msr_tick_ns, layout: None }
    }

    /// For a table whose columns are named.
    pub(super) fn of_table(layout: Layout) -> Self {
        RowReader { layout: Some(layout), ..RowReader::new(Format::Columns, b"") }
    }

    /// Can the file hold requests to several devices?
    pub(super) fn has_devices(&self) -> bool {
        self.layout.as_ref().map_or(self.format.has_devices(), Layout::has_devices)
    }

    /// What a line says: a request, nothing of interest (a header, another event), or nothing understandable.
    #[inline]
    pub(super) fn read<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        if line.is_empty()
            || line[0] == b'#'
            || line.starts_with(self.format.header())
            || line.trim_ascii().is_empty()
        {
            return Ok(None);
        }
        let row = match self.format {
            Format::Spc => spc(line),
            Format::Msr => msr(line, self.msr_tick_ns),
            Format::Systor => systor(line),
            Format::CloudPhysics | Format::Vscsi => cloud_physics(line),
            Format::FlashSim => flashsim(line, 4096),
            Format::FlashSimSectors => flashsim(line, 512),
            Format::Mqsim => mqsim(line),
            Format::Blkparse => self.blkparse(line),
            Format::IologV2 | Format::IologV3 => self.iolog(line),
            Format::Pixel => pixel(line),
            Format::Nexus => nexus(line),
            Format::Alibaba => alibaba(line),
            Format::Tencent => tencent(line),
            Format::OracleGeneral => oracle_general(line),
            Format::Columns => self.layout.as_mut().map_or(Ok(None), |layout| layout.read(line)),
            Format::Ftl => ftl(line),
        }?;
        match row {
            Some(row) if row.kind != Kind::Flush && row.bytes == 0 => {
                Err(Bad { column: 1, what: "the size is 0".into() })
            }
            Some(row) if row.offset.checked_add(row.bytes).is_none_or(|end| end > 1 << 60) => {
                Err(Bad { column: 1, what: "the request ends beyond 1 EiB".into() })
            }
            Some(row) if row.bytes > 1 << 40 => {
                Err(Bad { column: 1, what: "the request is longer than 1 TiB".into() })
            }
            row => Ok(row),
        }
    }

    fn blkparse<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        let mut f = Fields::new(line, Separator::Space);
        let device = f.next().unwrap_or(b"");
        if !is_device(device) {
            self.summary |= [&b"CPU"[..], b"Total", b"Throughput"].iter().any(|s| line.starts_with(s));
            return if self.summary { Ok(None) } else { Err(f.bad("the device is not major,minor")) };
        }
        f.skip(2);
        let time_ns = f.decimal("time", 9)?;
        f.skip(1);
        if f.text("event")? != [self.event] {
            return Ok(None);
        }
        let flags = f.text("rwbs")?;
        let preflush = flags.first() == Some(&b'F');
        let kind = match &flags[usize::from(preflush)..] {
            [b'W', ..] => Some(Kind::Write),
            [b'R', ..] => Some(Kind::Read),
            [b'D', ..] => Some(Kind::Trim),
            _ => None,
        };
        let sector = f.next().and_then(integer);
        let plus = f.next();
        let sectors = f.next().and_then(integer);
        let (kind, offset, bytes, flush_first) = match (kind, sector, plus, sectors) {
            (Some(kind), Some(sector), Some(b"+"), Some(sectors)) if sectors > 0 => {
                let range = sector.checked_mul(512).zip(sectors.checked_mul(512));
                let (offset, bytes) = range.ok_or_else(|| f.bad("the sector is too large"))?;
                (kind, offset, bytes, preflush)
            }
            _ if preflush => (Kind::Flush, 0, 0, false),
            (None, ..) => return Ok(None),
            _ => return Err(f.bad("there is no sector + sectors")),
        };
        Ok(Some(Row { time_ns, device, kind, offset, bytes, flush_first, adjusted: false }))
    }

    fn iolog<'a>(&mut self, line: &'a [u8]) -> Parsed<'a> {
        if line.starts_with(b"fio version") {
            return Ok(None);
        }
        let mut f = Fields::new(line, Separator::Space);
        let time_ns = match self.format {
            Format::IologV3 => f.scaled("time", 1000)?,
            _ => self.waited_ns,
        };
        let device = f.text("file")?;
        let action = f.text("action")?;
        let kind = match action {
            b"add" | b"open" | b"close" => return Ok(None),
            b"wait" => {
                let ns = f.scaled("wait", 1000)?;
                self.waited_ns = self.waited_ns.saturating_add(ns);
                return Ok(None);
            }
            b"sync" | b"datasync" => return Ok(Some(Row::plain(time_ns, device, Kind::Flush, 0, 0))),
            b"read" => Kind::Read,
            b"write" => Kind::Write,
            b"trim" => Kind::Trim,
            _ => {
                return Err(
                    f.bad("the action is not read, write, trim, sync, datasync, wait, add, open or close")
                )
            }
        };
        let offset = f.whole("offset")?;
        Ok(Some(Row::plain(time_ns, device, kind, offset, f.whole("length")?)))
    }
}

impl Row<'_> {
    pub(super) fn plain(time_ns: u64, device: &[u8], kind: Kind, offset: u64, bytes: u64) -> Row<'_> {
        Row { time_ns, device, kind, offset, bytes, flush_first: false, adjusted: false }
    }
}

#[inline]
fn read_or_write(field: &[u8]) -> Option<Kind> {
    match field.first()? {
        b'r' | b'R' => Some(Kind::Read),
        b'w' | b'W' => Some(Kind::Write),
        _ => None,
    }
}

fn flag(field: &[u8]) -> Option<Kind> {
    match field {
        b"0" => Some(Kind::Write),
        b"1" => Some(Kind::Read),
        _ => None,
    }
}

fn spc(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Comma);
    let device = f.text("ASU")?;
    let offset = f.scaled("LBA", 512)?;
    let bytes = f.whole("size")?;
    let kind = f.one_of("opcode", "r or w", |o| if o.len() == 1 { read_or_write(o) } else { None })?;
    let time_ns = f.decimal("time", 9)?;
    Ok(Some(Row::plain(time_ns, device, kind, offset, bytes)))
}

/// Windows filetime counts 100 ns. Cuts of these traces in circulation count seconds from 0 instead: taken as
/// seconds when the times are no filetimes of this century and would mean more than 100,000 requests a
/// second.
fn msr_tick_ns(start: &[u8]) -> u64 {
    const NO_FILETIME: u64 = 1_000_000_000_000_000;
    let times = start
        .split(|b| *b == b'\n')
        .filter_map(|l| Fields::new(l, Separator::Comma).next().and_then(integer));
    let (mut rows, mut first, mut last) = (0u64, None, 0);
    for time in times {
        rows += 1;
        first = first.or(Some(time));
        last = time.max(last);
    }
    let first = first.unwrap_or(u64::MAX);
    if rows > 1 && last < NO_FILETIME && last - first < rows.saturating_mul(100) {
        1_000_000_000
    } else {
        100
    }
}

fn msr(line: &[u8], tick_ns: u64) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Comma);
    let time_ns = f.scaled("time", tick_ns)?;
    f.text("host")?;
    let first = f.begin();
    let last = f.text("disk")?.len() + f.begin();
    let kind = f.one_of("type", "Read or Write", read_or_write)?;
    let offset = f.whole("offset")?;
    let bytes = f.whole("size")?;
    // Host and disk together, as they stand in the line: `prxy,0`.
    Ok(Some(Row::plain(time_ns, &line[first..last], kind, offset, bytes)))
}

fn systor(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Comma);
    let time_ns = f.decimal("timestamp", 9)?;
    f.skip(1);
    let kind = f.one_of("type", "R or W", read_or_write)?;
    let device = f.text("LUN")?;
    let offset = f.whole("offset")?;
    Ok(Some(Row::plain(time_ns, device, kind, offset, f.whole("size")?)))
}

fn cloud_physics(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Comma);
    f.skip(1);
    let time_ns = f.decimal("time", 9)?;
    let kind = match f.hexadecimal("opcode")? {
        0x08 | 0x28 | 0xa8 | 0x88 => Kind::Read,
        // WRITE (6, 10, 12, 16), WRITE AND VERIFY, WRITE SAME.
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e | 0x41 | 0x93 => Kind::Write,
        0x42 => Kind::Trim,
        0x35 | 0x91 => return Ok(Some(Row::plain(time_ns, b"", Kind::Flush, 0, 0))),
        _ => return Ok(None),
    };
    let bytes = f.whole("size")?;
    let offset = f.scaled("lbn", 512)?;
    Ok(Some(Row::plain(time_ns, b"", kind, offset, bytes)))
}

fn alibaba(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Comma);
    let device = f.text("device")?;
    let kind = f.one_of("opcode", "R or W", read_or_write)?;
    let (offset, bytes) = (f.whole("offset")?, f.whole("length")?);
    let time_ns = f.scaled("timestamp", 1000)?;
    Ok(Some(Row::plain(time_ns, device, kind, offset, bytes)))
}

fn tencent(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Comma);
    let time_ns = f.decimal("timestamp", 9)?;
    let (offset, bytes) = (f.scaled("offset", 512)?, f.scaled("size", 512)?);
    let kind = f.one_of("type", "0 (read) or 1 (write)", |word| match word {
        b"0" => Some(Kind::Read),
        b"1" => Some(Kind::Write),
        _ => None,
    })?;
    Ok(Some(Row::plain(time_ns, f.text("volume")?, kind, offset, bytes)))
}

fn oracle_general(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Comma);
    let time_ns = f.scaled("time", 1_000_000_000)?;
    let offset = f.scaled("obj_id", 512)?;
    Ok(Some(Row::plain(time_ns, b"", Kind::Read, offset, f.whole("obj_size")?)))
}

fn flashsim(line: &[u8], unit_bytes: u64) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Space);
    let time_ns = f.decimal("time", 6)?;
    let device = f.text("device")?;
    let offset = f.scaled("LBA", 512)?;
    let bytes = f.scaled("size", unit_bytes)?;
    let kind = f.one_of("flag", "0 (write) or 1 (read)", flag)?;
    Ok(Some(Row::plain(time_ns, device, kind, offset, bytes)))
}

fn mqsim(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Space);
    let time_ns = f.whole("time")?;
    let device = f.text("device")?;
    let offset = f.scaled("LBA", 512)?;
    let bytes = f.scaled("size", 512)?;
    let kind = f.one_of("flag", "0 (write) or 1 (read)", flag)?;
    Ok(Some(Row::plain(time_ns, device, kind, offset, bytes)))
}

fn pixel(line: &[u8]) -> Parsed<'_> {
    // A process name may hold commas: the other five fields are counted from the end.
    let mut begin = line.len();
    for _ in 0..5 {
        begin = memchr::memrchr(b',', &line[..begin])
            .ok_or_else(|| Bad { column: 1, what: "there are fewer than 6 columns".into() })?;
    }
    let mut f = Fields::at(line, begin + 1, Separator::Comma);
    let device = f.text("device")?;
    let kind = f.one_of("rw_flag", "R, W or D", |word| match word.first()? {
        b'D' => Some(Kind::Trim),
        b'F' => Some(Kind::Flush),
        _ => read_or_write(word),
    })?;
    let offset = f.scaled("sector", 512)?;
    let bytes = f.scaled("size", 512)?;
    let time_ns = f.decimal("timestamp", 9)?;
    Ok(Some(if kind == Kind::Flush {
        Row::plain(time_ns, device, kind, 0, 0)
    } else {
        Row::plain(time_ns, device, kind, offset, bytes)
    }))
}

fn nexus(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Space);
    let offset = f.scaled("LBA", 512)?;
    let sectors = f.scaled("size", 512)?;
    let bytes = f.whole("bytes")?;
    if bytes != sectors {
        return Err(f.bad("the bytes are not 512 times the sectors"));
    }
    let kind = if f.whole("flags")? & 1 == 1 { Kind::Write } else { Kind::Read };
    let time_ns = f.decimal("time", 9)?;
    // Some rows of whole pages count one sector too many (see the README of the traces); it is taken off.
    let adjusted = bytes > 4096 && bytes % 4096 == 512;
    let bytes = if adjusted { bytes - 512 } else { bytes };
    Ok(Some(Row { adjusted, ..Row::plain(time_ns, b"", kind, offset, bytes) }))
}

fn ftl(line: &[u8]) -> Parsed<'_> {
    let mut f = Fields::new(line, Separator::Comma);
    let time_ns = f.whole("time")?;
    let kind = f.one_of("kind", "read, write, trim or flush", |word| {
        Kind::ALL.into_iter().find(|kind| kind.name().as_bytes() == word)
    })?;
    let (offset, bytes) = (f.whole("offset")?, f.whole("bytes")?);
    Ok(Some(if kind == Kind::Flush {
        Row::plain(time_ns, b"", kind, 0, 0)
    } else {
        Row::plain(time_ns, b"", kind, offset, bytes)
    }))
}
