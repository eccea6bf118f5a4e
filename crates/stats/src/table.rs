//! Tidy tables: the only format results travel in.
//!
//! One row per measurement. A table is written as CSV with the command that made it in the first
//! comment line, and read back from it, so that figures, notebooks and the report all see the same numbers.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::visible_line;

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name or a sentence.
    Text(String),
    /// A number; integers print without a decimal point.
    Number(f64),
    /// No value.
    Empty,
}

impl From<&str> for Cell {
    fn from(s: &str) -> Self {
        Cell::Text(s.to_owned())
    }
}
impl From<String> for Cell {
    fn from(s: String) -> Self {
        Cell::Text(s)
    }
}
impl From<f64> for Cell {
    fn from(x: f64) -> Self {
        Cell::Number(x)
    }
}
impl From<usize> for Cell {
    fn from(n: usize) -> Self {
        Cell::Number(n as f64)
    }
}
impl From<Option<f64>> for Cell {
    fn from(x: Option<f64>) -> Self {
        x.map_or(Cell::Empty, Cell::Number)
    }
}

impl Cell {
    /// The cell with numbers rounded to `digits` significant digits.
    pub fn format(&self, digits: usize) -> String {
        match self {
            Cell::Text(s) => s.clone(),
            Cell::Number(x) => significant(*x, digits),
            Cell::Empty => String::new(),
        }
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Number(x) => Some(*x),
            _ => None,
        }
    }
}

/// A table with named columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Column names.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A fault in a CSV text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TableError(String);

/// Significant digits kept in CSV files: enough to recompute anything, few enough that two
/// machines whose `exp` differs in the last bit write the same text almost always.
const CSV_DIGITS: usize = 12;

impl Table {
    /// An empty table.
    pub fn new(columns: &[&str]) -> Self {
        Table { columns: columns.iter().map(|c| (*c).to_owned()).collect(), rows: Vec::new() }
    }

    /// A table of typed rows: the fields of `R` are its columns.
    ///
    /// # Panics
    /// If `R` is no flat struct with named fields, or there is no row, whose fields name the columns.
    pub fn from_rows<R: Serialize>(rows: impl IntoIterator<Item = R>) -> Self {
        let mut writer = writer();
        for row in rows {
            writer.serialize(row).expect("a flat struct with named fields");
        }
        let body = writer.into_inner().expect("writing to memory cannot fail");
        let table =
            Self::from_csv(std::str::from_utf8(&body).expect("fields are UTF-8")).expect("own output");
        assert!(!table.columns.is_empty(), "a table of typed rows needs one row");
        table
    }

    /// The rows as `R`, whose fields are read from the columns of the same name.
    ///
    /// # Errors
    /// If a column is missing or a cell is no value of its field's type; the error names row and column.
    pub fn to_rows<R: DeserializeOwned>(&self) -> Result<Vec<R>, TableError> {
        let text = self.to_csv("");
        reader(&text).deserialize().map(|row| row.map_err(|e| TableError(e.to_string()))).collect()
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If its length is not the number of columns.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "row of {} cells, table of {:?}", row.len(), self.columns);
        self.rows.push(row);
    }

    /// The index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c == name)
    }

    /// CSV text; `command` goes into a first line `# command`.
    pub fn to_csv(&self, command: &str) -> String {
        let mut writer = writer();
        let record = |w: &mut csv::Writer<Vec<u8>>, fields: Vec<String>| {
            w.write_record(fields).expect("writing to memory cannot fail");
        };
        record(&mut writer, self.columns.clone());
        for row in &self.rows {
            record(&mut writer, row.iter().map(|c| c.format(CSV_DIGITS)).collect());
        }
        let body = writer.into_inner().expect("writing to memory cannot fail");
        format!("# {}\n{}", visible_line(command), String::from_utf8(body).expect("fields are UTF-8"))
    }

    /// Reads what [`Table::to_csv`] wrote. Fields that parse as a number become numbers.
    ///
    /// # Errors
    /// If the text is not CSV with rows of equal length.
    pub fn from_csv(text: &str) -> Result<Self, TableError> {
        let mut reader = reader(text);
        let columns =
            reader.headers().map_err(|e| TableError(e.to_string()))?.iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|e| TableError(e.to_string()))?;
            rows.push(record.iter().map(parse_cell).collect());
        }
        Ok(Table { columns, rows })
    }

    /// A GitHub Markdown table, numbers to four significant digits.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
        let escape = |s: String| s.replace('|', "\\|");
        let mut out = line(self.columns.clone());
        out += &line(self.columns.iter().map(|_| "---".to_owned()).collect());
        for row in &self.rows {
            out += &line(row.iter().map(|c| escape(c.format(4))).collect());
        }
        out
    }
}

/// The first byte of a line that is a comment; a field that has it is quoted.
const COMMENT: Option<u8> = Some(b'#');

fn writer() -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new().comment(COMMENT).from_writer(Vec::new())
}

fn reader(text: &str) -> csv::Reader<&[u8]> {
    csv::ReaderBuilder::new().comment(COMMENT).from_reader(text.as_bytes())
}

fn parse_cell(field: &str) -> Cell {
    if field.is_empty() {
        return Cell::Empty;
    }
    match field.parse::<f64>() {
        Ok(x) if x.is_finite() => Cell::Number(x),
        _ => Cell::Text(field.to_owned()),
    }
}

/// `x` rounded to `digits` significant digits, in the shortest spelling: `0.5`, `1200`, `1.3e-7`.
///
/// ```
/// use grpo_lambda_stats::table::significant;
/// assert_eq!(significant(1.0 / 3.0, 4), "0.3333");
/// assert_eq!(significant(-0.0, 4), "0");
/// assert_eq!(significant(1.25e-9, 4), "1.25e-9");
/// ```
pub fn significant(x: f64, digits: usize) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    let rounded: f64 = match format!("{:.*e}", digits.saturating_sub(1), x).parse() {
        Ok(r) => r,
        Err(_) => x,
    };
    let magnitude = rounded.abs();
    if x.is_finite() && !(1e-4..1e15).contains(&magnitude) {
        format!("{rounded:e}")
    } else {
        format!("{rounded}")
    }
}
