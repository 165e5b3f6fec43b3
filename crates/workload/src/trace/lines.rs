//! Lines of a plain or compressed file, without a copy of each.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;

use super::binary::{Records, Text};
use super::format::Format;

/// How a file is compressed, told by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not compressed.
    Plain,
    /// gzip (RFC 1952).
    Gzip,
    /// xz.
    Xz,
    /// Zstandard (RFC 8878).
    Zstd,
    /// bzip2.
    Bzip2,
    /// The columns of a Parquet file, read as rows of text.
    Parquet,
}

impl Compression {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Compression::Plain => "plain",
            Compression::Gzip => "gzip",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
            Compression::Bzip2 => "bzip2",
            Compression::Parquet => "parquet",
        }
    }

    /// Told by the magic number at the start of a file.
    pub fn of(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0x00, ..] => Compression::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            [b'P', b'A', b'R', b'1', ..] => Compression::Parquet,
            _ => Compression::Plain,
        }
    }
}

/// What is looked at to recognise a format, and the longest line that is read.
const BUFFER_BYTES: usize = 1 << 20;

/// Some programs begin a text in UTF-8 with it. It says nothing.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Binary records as rows of text, and all else as it is.
fn as_text(
    mut source: Box<dyn Read + Send>,
    path: &Path,
    asked: Option<Format>,
) -> io::Result<(Box<dyn Read + Send>, Option<Format>)> {
    let mut start = Vec::new();
    (&mut source).take(Records::PEEK as u64).read_to_end(&mut start)?;
    if start.starts_with(BYTE_ORDER_MARK) {
        start.drain(..BYTE_ORDER_MARK.len());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let records = match asked {
        None | Some(Format::Columns) if name.contains("oraclegeneral") => Some(Records::OracleGeneral),
        Some(Format::OracleGeneral) => Some(Records::OracleGeneral),
        _ => Records::of(&start),
    };
    let whole = io::Cursor::new(start).chain(source);
    Ok(match records {
        None => (Box::new(whole), None),
        Some(records) => {
            let format =
                if records == Records::OracleGeneral { Format::OracleGeneral } else { Format::Vscsi };
            (Box::new(Text::new(whole, records)), Some(format))
        }
    })
}

pub(super) struct Lines {
    source: Box<dyn Read + Send>,
    compression: Compression,
    /// The format of binary records, which are read as text.
    binary: Option<Format>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    line: u64,
}

impl Lines {
    /// `asked` is the format that the user named, if any; with `table`, a Parquet file may have any columns.
    pub(super) fn open(path: &Path, asked: Option<Format>, table: bool) -> io::Result<Lines> {
        let mut file = File::open(path)?;
        let mut start = [0u8; 6];
        let mut have = 0;
        while have < start.len() {
            match file.read(&mut start[have..])? {
                0 => break,
                n => have += n,
            }
        }
        let compression = Compression::of(&start[..have]);
        let reopened = file.try_clone()?;
        let whole = io::Cursor::new(start[..have].to_vec()).chain(file);
        let buffered = io::BufReader::with_capacity(1 << 17, whole);
        let source: Box<dyn Read + Send> = match compression {
            Compression::Plain => Box::new(buffered),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered)),
            Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(buffered)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(buffered)?),
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(buffered)),
            Compression::Parquet if table => Box::new(super::parquet::Table::open(reopened)?),
            Compression::Parquet => Box::new(super::parquet::Rows::open(reopened)?),
        };
        let (source, binary) = as_text(source, path, asked)?;
        let buffer = vec![0; BUFFER_BYTES];
        let mut lines =
            Lines { source, compression, binary, buffer, start: 0, end: 0, ended: false, line: 0 };
        lines.fill()?;
        Ok(lines)
    }

    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// The format, where the content is binary records.
    pub(super) fn binary(&self) -> Option<Format> {
        self.binary
    }

    /// The number of the line that [`Lines::next`] returned last, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// What is buffered and not yet read as lines.
    pub(super) fn peek(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while !self.ended && self.end < self.buffer.len() {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The next line without its end of line.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut found = memchr::memchr(b'\n', &self.buffer[self.start..self.end]);
        if found.is_none() && !self.ended {
            self.fill()?;
            found = memchr::memchr(b'\n', &self.buffer[self.start..self.end]);
            if found.is_none() && !self.ended {
                let text = format!("line {} is longer than {BUFFER_BYTES} bytes", self.line + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        let begin = self.start;
        let mut end = match found {
            Some(length) => begin + length,
            None if begin == self.end => return Ok(None),
            None => self.end,
        };
        self.start = (end + 1).min(self.end);
        self.line += 1;
        if end > begin && self.buffer[end - 1] == b'\r' {
            end -= 1;
        }
        Ok(Some(&self.buffer[begin..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_told_by_magic() {
        assert_eq!(Compression::of(&[0x1f, 0x8b, 8]), Compression::Gzip);
        assert_eq!(Compression::of(b"\xfd7zXZ\0"), Compression::Xz);
        assert_eq!(Compression::of(&[0x28, 0xb5, 0x2f, 0xfd]), Compression::Zstd);
        assert_eq!(Compression::of(b"BZh9"), Compression::Bzip2);
        assert_eq!(Compression::of(b"PAR1\x15\x04"), Compression::Parquet);
        assert_eq!(Compression::of(b"0,1,2"), Compression::Plain);
        assert_eq!(Compression::of(b""), Compression::Plain);
    }
}
