//! Traces of binary records, read as rows of text: there is one way into a trace.

use std::io::{self, Read, Write};

/// Records of a fixed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Records {
    /// vSCSI trace of VMware, version 1: 32 bytes.
    Vscsi1,
    /// Version 2: 40 bytes.
    Vscsi2,
    /// oracleGeneral of libCacheSim: 24 bytes.
    OracleGeneral,
}

/// Where the version of a vSCSI trace stands in a record, and what it is.
const VSCSI: [(Records, usize, u8); 2] = [(Records::Vscsi2, 3, 2), (Records::Vscsi1, 15, 1)];

impl Records {
    /// The most that [`Records::of`] looks at.
    pub(super) const PEEK: usize = 80;

    /// Told by the start of the content: a vSCSI trace repeats its version in every record, as no text does.
    pub(super) fn of(start: &[u8]) -> Option<Records> {
        let whole = |records: Records, at: usize, version: u8| {
            let second = start.get(records.bytes() + at);
            start.get(at) == Some(&version) && second.is_none_or(|byte| *byte == version)
        };
        VSCSI
            .into_iter()
            .find(|&(records, at, version)| whole(records, at, version))
            .map(|(records, ..)| records)
    }

    fn bytes(self) -> usize {
        match self {
            Records::Vscsi1 => 32,
            Records::Vscsi2 => 40,
            Records::OracleGeneral => 24,
        }
    }

    /// The names of the columns of text.
    fn header(self) -> &'static str {
        match self {
            Records::Vscsi1 | Records::Vscsi2 => "version,time,op,size,lbn\n",
            Records::OracleGeneral => "time,obj_id,obj_size\n",
        }
    }

    fn write(self, record: &[u8], text: &mut Vec<u8>) -> io::Result<()> {
        let number = |at: usize, bytes: usize| {
            record[at..at + bytes].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let (version, opcode, size, lbn, time_us) = match self {
            Records::Vscsi1 => (1, number(12, 2), number(4, 4), number(16, 8), number(24, 8)),
            Records::Vscsi2 => (2, number(0, 2), number(8, 4), number(16, 8), number(24, 8)),
            Records::OracleGeneral => {
                return writeln!(text, "{},{},{}", number(0, 4), number(4, 8), number(12, 4));
            }
        };
        let (seconds, rest) = (time_us / 1_000_000, time_us % 1_000_000);
        writeln!(text, "{version},{seconds}.{rest:06},{opcode:x},{size},{lbn}")
    }
}

/// The text of a file of records.
pub(super) struct Text<R> {
    source: R,
    records: Records,
    buffer: Vec<u8>,
    text: Vec<u8>,
    at: usize,
}

impl<R: Read> Text<R> {
    pub(super) fn new(source: R, records: Records) -> Text<R> {
        Text { source, records, buffer: Vec::new(), text: records.header().into(), at: 0 }
    }

    /// Turns the next records into text; false at the end.
    fn more(&mut self) -> io::Result<bool> {
        let length = self.records.bytes();
        self.buffer.clear();
        (&mut self.source).take(length as u64 * 1024).read_to_end(&mut self.buffer)?;
        self.text.clear();
        self.at = 0;
        let records = self.buffer.chunks_exact(length);
        if !records.remainder().is_empty() {
            let text = format!("the last record has fewer than {length} bytes");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        for record in records {
            self.records.write(record, &mut self.text)?;
        }
        Ok(!self.text.is_empty())
    }
}

impl<R: Read> Read for Text<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() && !self.more()? {
            return Ok(0);
        }
        let count = (self.text.len() - self.at).min(to.len());
        to[..count].copy_from_slice(&self.text[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
