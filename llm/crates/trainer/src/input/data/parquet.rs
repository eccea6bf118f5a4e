//! The rows of a Parquet file as JSON lines in an anonymous temporary file, one row in memory at a time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Map, Number, Value};

use super::DataError;
use crate::bounded::limits::{LARGEST_UNPACKED, UNPACKED_FREE, UNPACKED_RATIO};
use crate::bounded::{self, limits};

/// Unpacks `file` within bounds on pages and the temporary file; a panic of the Parquet reader, as for wrong lengths, is an error.
pub(super) fn unpack(path: &Path, file: File) -> Result<File, DataError> {
    let bytes = file.metadata().map_or(0, |m| m.len());
    let most = bytes.saturating_mul(UNPACKED_RATIO).saturating_add(UNPACKED_FREE).min(LARGEST_UNPACKED);
    let owned = path.to_owned();
    bounded::run(limits::parquet(most), move || read(&owned, file, most)).unwrap_or_else(|e| {
        Err(DataError::Damaged { path: path.to_owned(), problem: format!("damaged: {e}") })
    })
}

/// Unpacks `file`, which `path` names in errors, to at most `most` bytes. The system removes the temporary file when it is closed.
fn read(path: &Path, file: File, most: u64) -> Result<File, DataError> {
    let bytes = file.metadata().map_or(0, |m| m.len());
    let damaged = |problem: String| DataError::Damaged { path: path.to_owned(), problem };
    let reader = SerializedFileReader::new(file)
        .map_err(|e| damaged(format!("damaged or not a Parquet file ({bytes} bytes): {}", words(&e))))?;
    let names: Vec<&str> =
        reader.metadata().file_metadata().schema().get_fields().iter().map(|f| f.name()).collect();
    if let Some(twice) = (1..names.len()).find(|i| names[..*i].contains(&names[*i])) {
        return Err(damaged(format!("column `{}` is given twice; leave one of them out", names[twice])));
    }
    let rows = reader.get_row_iter(None).map_err(|e| damaged(format!("cannot be read: {}", words(&e))))?;
    let wrote = |source| DataError::Read { path: std::env::temp_dir(), source };
    let mut out = BufWriter::with_capacity(1 << 16, tempfile::tempfile().map_err(wrote)?);
    let mut unpacked = 0;
    for (i, row) in rows.enumerate() {
        let row = row.map_err(|e| damaged(format!("row {}: damaged: {}", i + 1, words(&e))))?;
        let mut line = Value::Object(object(&row)).to_string();
        line.push('\n');
        unpacked += line.len() as u64;
        if unpacked > most {
            return Err(damaged(format!(
                "row {}: unpacks to more than {most} bytes, {UNPACKED_RATIO} times the {bytes} of the file and {} MiB, and at most {} GiB",
                i + 1,
                UNPACKED_FREE >> 20,
                LARGEST_UNPACKED >> 30
            )));
        }
        out.write_all(line.as_bytes()).map_err(wrote)?;
    }
    out.into_inner().map_err(|e| wrote(e.into_error()))
}

/// An error's message on one line, without the name of its type.
fn words(error: &parquet::errors::ParquetError) -> String {
    let text = error.to_string();
    if let Some((_, codec)) = text.split_once("Disabled feature at compile time: ") {
        return format!(
            "its pages are compressed by {}, which is not read; write them with zstd, snappy or gzip",
            one_line(codec)
        );
    }
    let text =
        text.split_once(": ").filter(|(kind, _)| !kind.contains(' ')).map_or(text.as_str(), |(_, rest)| rest);
    one_line(text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn object(row: &Row) -> Map<String, Value> {
    row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
}

/// A field as JSON. Dates and times are texts; bytes that are no text and numbers that JSON lacks become null, since no problem or
/// answer is one.
fn value(field: &Field) -> Value {
    let real = |x: f64| Number::from_f64(x).map_or(Value::Null, Value::Number);
    match field {
        Field::Null => Value::Null,
        Field::Bool(b) => Value::Bool(*b),
        Field::Byte(n) => (*n).into(),
        Field::Short(n) => (*n).into(),
        Field::Int(n) => (*n).into(),
        Field::Long(n) => (*n).into(),
        Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_) => Value::String(field.to_string()),
        Field::UByte(n) => (*n).into(),
        Field::UShort(n) => (*n).into(),
        Field::UInt(n) => (*n).into(),
        Field::ULong(n) => (*n).into(),
        Field::Float16(x) => real(f64::from(*x)),
        // The shortest decimal that is this f32: 0.1, not 0.10000000149011612.
        Field::Float(x) => x.to_string().parse().map_or(Value::Null, real),
        Field::Double(x) => real(*x),
        Field::Decimal(_) => Value::String(field.to_string()),
        Field::Str(text) => Value::String(text.clone()),
        Field::Bytes(bytes) => bytes.as_utf8().map_or(Value::Null, |text| Value::String(text.to_owned())),
        Field::Group(row) => Value::Object(object(row)),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::MapInternal(map) => {
            let pairs = map.entries().iter();
            Value::Object(
                pairs.map(|(k, v)| (k.to_string().trim_matches('"').to_owned(), value(v))).collect(),
            )
        }
    }
}
