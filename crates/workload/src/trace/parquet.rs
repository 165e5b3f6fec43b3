//! Traces in Parquet files: the columns `time_ns`, `kind` (or `op`), `offset` and `bytes` (or `size`), for
//! whatever else reads Parquet.
//!
//! Reading turns them into rows of text, so that there is one way into a trace. A flush has offset and bytes
//! 0.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::reader::ColumnReader;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::reader::RowIter;
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::Request;

/// The columns in the order of a row of text.
const COLUMNS: [&str; 4] = ["time_ns", "kind", "offset", "bytes"];
/// What tables of the Python package call them.
const ALSO: [&str; 4] = ["time_ns", "op", "offset", "size"];
const SCHEMA: &str = "message requests {
    required int64 time_ns (INTEGER(64, false));
    required binary kind (STRING);
    required int64 offset (INTEGER(64, false));
    required int64 bytes (INTEGER(64, false));
}";
/// Rows of a group: what is in memory at a time.
const GROUP: usize = 1 << 16;

fn wrong(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::new(io::ErrorKind::InvalidData, error),
        },
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

/// The rows of a Parquet file as text, with a header.
pub(super) struct Rows {
    reader: SerializedFileReader<File>,
    /// Where the columns are in the file.
    columns: [usize; 4],
    group: usize,
    text: Vec<u8>,
    at: usize,
}

/// All columns of a Parquet file as rows of text, under a header of their names.
pub(super) struct Table {
    rows: RowIter<'static>,
    text: Vec<u8>,
    at: usize,
}

impl Table {
    pub fn open(file: File) -> io::Result<Table> {
        let reader = SerializedFileReader::new(file).map_err(wrong)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        let text = format!("{}\n", names.join(",")).into();
        Ok(Table { rows: RowIter::from_file_into(Box::new(reader)), text, at: 0 })
    }
}

/// A value as the readers of rows take it: times as numbers, not as dates.
fn in_text(text: &mut Vec<u8>, value: &Field) -> io::Result<()> {
    match value {
        Field::Null => Ok(()),
        Field::Str(word) => write!(text, "{word}"),
        Field::Bytes(word) => {
            text.extend_from_slice(word.data());
            Ok(())
        }
        Field::Float(number) => write!(text, "{number:.9}"),
        Field::Double(number) => write!(text, "{number:.9}"),
        Field::TimestampMillis(time) | Field::TimestampMicros(time) => write!(text, "{time}"),
        other => write!(text, "{other}"),
    }
}

impl Read for Table {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.text.len() {
            self.text.clear();
            self.at = 0;
            for row in self.rows.by_ref().take(1024) {
                for (index, (_, value)) in row.map_err(wrong)?.get_column_iter().enumerate() {
                    if index > 0 {
                        self.text.push(b',');
                    }
                    in_text(&mut self.text, value)?;
                }
                self.text.push(b'\n');
            }
        }
        let count = (self.text.len() - self.at).min(to.len());
        to[..count].copy_from_slice(&self.text[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

enum Values {
    Numbers(Vec<i64>),
    Words(Vec<ByteArray>),
}

impl Rows {
    pub fn open(file: File) -> io::Result<Rows> {
        let reader = SerializedFileReader::new(file).map_err(wrong)?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let mut columns = [0; 4];
        let position = |name| schema.columns().iter().position(|column| column.path().string() == name);
        for (place, (name, also)) in columns.iter_mut().zip(COLUMNS.into_iter().zip(ALSO)) {
            *place = position(name).or_else(|| position(also)).ok_or_else(|| {
                let sentence = format!(
                    "there is no column {name}; a trace has {}, or name its columns with option columns",
                    COLUMNS.join(", ")
                );
                io::Error::new(io::ErrorKind::InvalidData, sentence)
            })?;
        }
        Ok(Rows { reader, columns, group: 0, text: format!("{}\n", COLUMNS.join(",")).into(), at: 0 })
    }

    /// Turns the next group into text; false at the end.
    fn more(&mut self) -> io::Result<bool> {
        if self.group == self.reader.num_row_groups() {
            return Ok(false);
        }
        let group = self.reader.get_row_group(self.group).map_err(wrong)?;
        self.group += 1;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut columns = Vec::new();
        for (&place, name) in self.columns.iter().zip(COLUMNS) {
            let column = group.get_column_reader(place).map_err(wrong)?;
            columns.push(read_column(column, name, rows)?);
        }
        self.text.clear();
        self.at = 0;
        for row in 0..rows {
            for (index, column) in columns.iter().enumerate() {
                match column {
                    // Writing to memory does not fail.
                    Values::Numbers(numbers) => {
                        let _ = write!(self.text, "{}", numbers[row] as u64);
                    }
                    Values::Words(words) => self.text.extend_from_slice(words[row].data()),
                }
                self.text.push(if index + 1 == COLUMNS.len() { b'\n' } else { b',' });
            }
        }
        Ok(true)
    }
}

/// The values of a column of one group, none of which may be missing.
fn read_column(column: ColumnReader, name: &str, rows: usize) -> io::Result<Values> {
    let (mut numbers, mut words) = (Vec::new(), Vec::new());
    // Of a column that may have gaps the levels have to be read along.
    let mut levels = Vec::new();
    let is_word = name == "kind";
    match column {
        ColumnReader::Int64ColumnReader(mut column) if !is_word => {
            while numbers.len() < rows {
                let left = rows - numbers.len();
                let (_, read, _) =
                    column.read_records(left, Some(&mut levels), None, &mut numbers).map_err(wrong)?;
                if read == 0 {
                    break;
                }
            }
        }
        ColumnReader::ByteArrayColumnReader(mut column) if is_word => {
            while words.len() < rows {
                let left = rows - words.len();
                let (_, read, _) =
                    column.read_records(left, Some(&mut levels), None, &mut words).map_err(wrong)?;
                if read == 0 {
                    break;
                }
            }
        }
        _ => {
            let right = if is_word { "a string" } else { "a number of 64 bits" };
            let sentence = format!("column {name} is not {right}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, sentence));
        }
    }
    if numbers.len() + words.len() != rows {
        let sentence = format!("column {name} has gaps; every request has all four columns");
        return Err(io::Error::new(io::ErrorKind::InvalidData, sentence));
    }
    Ok(if is_word { Values::Words(words) } else { Values::Numbers(numbers) })
}

impl Read for Rows {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() {
            if !self.more()? {
                return Ok(0);
            }
        }
        let count = (self.text.len() - self.at).min(to.len());
        to[..count].copy_from_slice(&self.text[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Writes requests as a Parquet file; returns the number of requests written. The file can be read once this
/// has returned.
pub fn write_parquet(out: impl Write + Send, requests: impl IntoIterator<Item = Request>) -> io::Result<u64> {
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(wrong)?);
    let mut properties = WriterProperties::builder();
    for name in ["time_ns", "offset", "bytes"] {
        // Times grow slowly and offsets often follow each other: differences are short.
        let column = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties.build())).map_err(wrong)?;
    let mut requests = requests.into_iter();
    let mut rows = 0;
    let mut group = Vec::with_capacity(GROUP);
    loop {
        group.clear();
        group.extend(requests.by_ref().take(GROUP));
        if group.is_empty() {
            break;
        }
        rows += group.len() as u64;
        write_group(&mut file, &group).map_err(wrong)?;
    }
    file.close().map_err(wrong)?;
    Ok(rows)
}

fn write_group<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    group: &[Request],
) -> Result<(), ParquetError> {
    let numbers: [Vec<i64>; 3] = [
        group.iter().map(|r| r.arrival_ns as i64).collect(),
        group.iter().map(|r| r.offset as i64).collect(),
        group.iter().map(|r| r.bytes as i64).collect(),
    ];
    let kinds: Vec<ByteArray> = group.iter().map(|r| ByteArray::from(r.kind.name())).collect();
    let mut numbers = numbers.iter();
    let mut rows = file.next_row_group()?;
    while let Some(mut column) = rows.next_column()? {
        match column.untyped() {
            ColumnWriter::Int64ColumnWriter(column) => {
                if let Some(values) = numbers.next() {
                    column.write_batch(values, None, None)?;
                }
            }
            ColumnWriter::ByteArrayColumnWriter(column) => {
                column.write_batch(&kinds, None, None)?;
            }
            _ => unreachable!("the schema has no other columns"),
        }
        column.close()?;
    }
    rows.close()?;
    Ok(())
}
