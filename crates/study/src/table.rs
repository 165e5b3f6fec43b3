//! All points of a study as one table.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use sim::results::{cells, csv_columns, CellType};

use crate::ended::{Ended, Stored};
use crate::file::Study;

/// Columns that every row begins with.
const FIRST: [&str; 6] = ["point", "id", "status", "reason", "scheme", "seed"];
/// What they hold.
const FIRST_TYPES: [CellType; 6] =
    [CellType::Integer, CellType::Text, CellType::Text, CellType::Text, CellType::Text, CellType::Integer];

/// A row for each phase of each point, and one for a point without a result. The columns are the point's
/// number and id, its status (`done`, `failed`, `to do`) with the reason of a failure, scheme and seed, the
/// settings of the study, and all columns of `ftl compare --csv` that none of these stands for already. An
/// empty cell has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each as long as the columns.
    pub rows: Vec<Vec<String>>,
}

/// The values of a column.
enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Truths(Vec<bool>),
    Words(Vec<ByteArray>),
}

impl Table {
    /// The table of a study of which this is stored, point by point.
    pub fn new(study: &Study, stored: &[Option<Stored>]) -> Table {
        let mut columns: Vec<String> = FIRST.map(str::to_owned).to_vec();
        columns.extend(study.settings().into_iter().map(str::to_owned));
        columns.extend(
            sim::results::csv_header().into_iter().filter(|name| !columns.contains(name)).collect::<Vec<_>>(),
        );
        let mut rows = Vec::new();
        for (point, stored) in study.points.iter().zip(stored) {
            let (status, reason) = match stored.as_ref().map(|stored| &stored.ended) {
                None => ("to do", ""),
                Some(Ended::Run(_)) => ("done", ""),
                Some(Ended::Failed { reason, .. }) => ("failed", reason.as_str()),
            };
            let mut own: BTreeMap<&str, String> = BTreeMap::new();
            let scheme = point.scheme.to_string();
            let first = [
                point.number.to_string(),
                point.id.clone(),
                status.into(),
                reason.into(),
                scheme,
                point.seed.to_string(),
            ];
            own.extend(FIRST.into_iter().zip(first));
            own.extend(point.settings.iter().map(|(name, value)| (name.as_str(), value.clone())));
            let run = stored.as_ref().and_then(|stored| stored.ended.run());
            let phases = run.map_or(&[][..], |run| &run.phases);
            let mut found: Vec<BTreeMap<String, String>> =
                phases.iter().filter_map(|phase| Some(cells(run?, phase).into_iter().collect())).collect();
            if found.is_empty() {
                found.push(BTreeMap::new());
            }
            for measured in found {
                let cell = |name: &String| own.get(name.as_str()).or_else(|| measured.get(name)).cloned();
                rows.push(columns.iter().map(|name| cell(name).unwrap_or_default()).collect());
            }
        }
        Table { columns, rows }
    }

    /// The table as CSV, with a header.
    ///
    /// # Errors
    /// A record cannot be written.
    pub fn csv(&self) -> io::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(&self.columns)?;
        for row in &self.rows {
            writer.write_record(row)?;
        }
        writer.into_inner().map_err(|error| error.into_error())
    }

    /// The table as Parquet. Each measured column has the type of [`csv_columns`], whatever its cells are, so
    /// that tables of several runs fit together. A setting of a study has the narrowest type that holds all
    /// its cells. A cell without a value is null.
    ///
    /// # Errors
    /// A column cannot be written.
    pub fn parquet(&self) -> io::Result<Vec<u8>> {
        self.in_parquet().map_err(io::Error::other)
    }

    fn in_parquet(&self) -> Result<Vec<u8>, ParquetError> {
        let known: BTreeMap<String, CellType> =
            csv_columns().into_iter().chain(FIRST.map(str::to_owned).into_iter().zip(FIRST_TYPES)).collect();
        let values = |(at, name): (usize, &String)| self.values(at, known.get(name).copied());
        let columns: Vec<Values> = self.columns.iter().enumerate().map(values).collect();
        let mut schema = "message study {\n".to_owned();
        for (name, values) in self.columns.iter().zip(&columns) {
            let (kind, note) = match values {
                Values::Integers(_) => ("int64", ""),
                Values::Numbers(_) => ("double", ""),
                Values::Truths(_) => ("boolean", ""),
                Values::Words(_) => ("binary", " (STRING)"),
            };
            schema += &format!("optional {kind} {name}{note};\n");
        }
        schema += "}";
        let schema = Arc::new(parse_message_type(&schema)?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut group = file.next_row_group()?;
        for (at, values) in columns.iter().enumerate() {
            let there: Vec<i16> = self.rows.iter().map(|row| i16::from(!row[at].is_empty())).collect();
            let Some(mut writer) = group.next_column()? else { break };
            match (writer.untyped(), values) {
                (ColumnWriter::Int64ColumnWriter(writer), Values::Integers(values)) => {
                    writer.write_batch(values, Some(&there), None)?
                }
                (ColumnWriter::DoubleColumnWriter(writer), Values::Numbers(values)) => {
                    writer.write_batch(values, Some(&there), None)?
                }
                (ColumnWriter::BoolColumnWriter(writer), Values::Truths(values)) => {
                    writer.write_batch(values, Some(&there), None)?
                }
                (ColumnWriter::ByteArrayColumnWriter(writer), Values::Words(values)) => {
                    writer.write_batch(values, Some(&there), None)?
                }
                _ => {
                    return Err(ParquetError::General("a column has another type than its values".to_owned()))
                }
            };
            writer.close()?;
        }
        group.close()?;
        file.into_inner()
    }

    /// The cells of a column that have a value, as what they are known to be, or as the narrowest type that
    /// holds them. A number that its type does not hold makes the column text, which loses no digit.
    fn values(&self, column: usize, known: Option<CellType>) -> Values {
        let cells: Vec<&str> =
            self.rows.iter().map(|row| row[column].as_str()).filter(|cell| !cell.is_empty()).collect();
        let words = || Values::Words(cells.iter().map(|&cell| cell.into()).collect());
        let of = |of: CellType| match of {
            CellType::Integer => all(&cells).map(Values::Integers),
            CellType::Number => all(&cells).map(Values::Numbers),
            CellType::Truth => all(&cells).map(Values::Truths),
            CellType::Text => Some(words()),
        };
        // Names such as `inf` are no numbers.
        let finite = |found: &Values| match found {
            Values::Numbers(numbers) => numbers.iter().all(|number| number.is_finite()),
            _ => true,
        };
        let found = match known {
            Some(known) => of(known),
            None if cells.is_empty() => None,
            None => [CellType::Integer, CellType::Number, CellType::Truth]
                .into_iter()
                .find_map(|one| of(one).filter(finite)),
        };
        found.unwrap_or_else(words)
    }
}

/// All cells as values of one type, if they are.
fn all<T: std::str::FromStr>(cells: &[&str]) -> Option<Vec<T>> {
    cells.iter().map(|cell| cell.parse().ok()).collect()
}
