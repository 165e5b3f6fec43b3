//! Traces of our own making.

use std::io::{self, Write};

use crate::{Kind, Request};

/// Writes requests as an SPC trace: ASU 0, 512-byte blocks, seconds with 6 digits. Trims and flushes have no
/// form in SPC and are left out; the number of rows written is returned.
pub fn write_spc(out: &mut impl Write, requests: impl IntoIterator<Item = Request>) -> io::Result<u64> {
    let mut rows = 0;
    for r in requests {
        let op = match r.kind {
            Kind::Read => 'r',
            Kind::Write => 'w',
            Kind::Trim | Kind::Flush => continue,
        };
        let us = r.arrival_ns / 1000;
        writeln!(out, "0,{},{},{op},{}.{:06}", r.offset / 512, r.bytes, us / 1_000_000, us % 1_000_000)?;
        rows += 1;
    }
    Ok(rows)
}

/// Writes requests as fio's iolog of version 3 (times in microseconds) on a file called `device`, for
/// `read_iolog=`; returns the number of requests written.
pub fn write_fio_iolog(
    out: &mut impl Write,
    device: &str,
    requests: impl IntoIterator<Item = Request>,
) -> io::Result<u64> {
    writeln!(out, "fio version 3 iolog\n0 {device} add\n0 {device} open")?;
    let (mut rows, mut us) = (0, 0);
    for r in requests {
        us = r.arrival_ns / 1000;
        let action = match r.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Trim => "trim",
            Kind::Flush => "sync",
        };
        writeln!(out, "{us} {device} {action} {} {}", r.offset, r.bytes)?;
        rows += 1;
    }
    writeln!(out, "{us} {device} close")?;
    Ok(rows)
}
