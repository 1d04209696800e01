//! Export and import of the specification's `state.csv`.
//!
//! A spreadsheet would execute a cell that begins like a formula (`=`, `+`, `-`, `@`, a tab or a carriage return), so such a cell is
//! written with a leading apostrophe and read without it. A cell that already begins with apostrophes before such a character gets one
//! more, so that every text round-trips. Programs other than spreadsheets see the apostrophe.

use super::Row;

/// In the order of the specification.
pub const COLUMNS: [&str; 10] = [
    "query",
    "turn",
    "search_results",
    "search_confidence",
    "summary",
    "summary_confidence",
    "reviewed_summary",
    "review_confidence",
    "insights",
    "insights_confidence",
];

/// Larger files are rejected.
const BYTES_MAX: usize = 64 << 20;
const ROWS_MAX: usize = 1_000_000;

/// Why a CSV file could not be read or written.
#[derive(Debug, PartialEq, Eq)]
pub struct CsvError {
    /// The row in the file, from 1; the header is the first. `None` is the file as a whole.
    pub row: Option<u64>,
    /// The reason.
    pub why: String,
}

impl std::fmt::Display for CsvError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.row {
            Some(row) => write!(f, "row {row}: {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}

impl std::error::Error for CsvError {}

/// Writes rows as CSV.
pub fn export(rows: &[Row]) -> Result<String, CsvError> {
    let wrong = |error: ::csv::Error| CsvError { row: None, why: error.to_string() };
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS).map_err(wrong)?;
    for row in rows {
        let number = |value: Option<f64>| value.map(|number| number.to_string()).unwrap_or_default();
        writer
            .write_record([
                guarded(&row.query),
                row.turn.to_string(),
                guarded(&row.search_results),
                number(row.search_confidence),
                guarded(&row.summary),
                number(row.summary_confidence),
                guarded(&row.reviewed_summary),
                number(row.review_confidence),
                guarded(&row.insights),
                number(row.insights_confidence),
            ])
            .map_err(wrong)?;
    }
    let bytes = writer.into_inner().map_err(|error| CsvError { row: None, why: error.to_string() })?;
    String::from_utf8(bytes).map_err(|error| CsvError { row: None, why: error.to_string() })
}

/// Columns may come in any order and some may be missing, except `query`. Unknown columns are an error, because they would be lost
/// silently.
pub fn import(text: &str) -> Result<Vec<Row>, CsvError> {
    if text.len() > BYTES_MAX {
        return Err(CsvError { row: None, why: format!("the file has {} bytes, but bytes_max = {BYTES_MAX}; split it", text.len()) });
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| CsvError { row: Some(1), why: error.to_string() })?.clone();
    let mut places = [None; COLUMNS.len()];
    for (at, name) in header.iter().enumerate() {
        let Some(column) = COLUMNS.iter().position(|column| *column == name.trim()) else {
            return Err(CsvError { row: Some(1), why: format!("there is no column {name:?}; there are {}", COLUMNS.join(", ")) });
        };
        if places[column].replace(at).is_some() {
            return Err(CsvError { row: Some(1), why: format!("the column {name:?} is there twice") });
        }
    }
    if places[0].is_none() {
        return Err(CsvError { row: Some(1), why: "the column \"query\" is missing".to_owned() });
    }
    let mut rows = Vec::new();
    for (index, record) in reader.records().enumerate() {
        let number = index as u64 + 2;
        let wrong = |why: String| CsvError { row: Some(number), why };
        let record = record.map_err(|error| wrong(error.to_string()))?;
        if rows.len() == ROWS_MAX {
            return Err(wrong(format!("there are more rows than rows_max = {ROWS_MAX}")));
        }
        let cell = |column: usize| places[column].and_then(|at| record.get(at)).unwrap_or_default();
        let text = |column: usize| unguarded(cell(column)).to_owned();
        let confidence = |column: usize| match cell(column).trim() {
            "" => Ok(None),
            words => match words.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => Ok(Some(number)),
                _ => Err(wrong(format!("{} must be a number from 0 to 1 or empty, not {words:?}", COLUMNS[column]))),
            },
        };
        let turn = match cell(1).trim() {
            "" => index as u64 + 1,
            words => words.parse().map_err(|_| wrong(format!("turn must be a whole number, not {words:?}")))?,
        };
        rows.push(Row {
            query: text(0),
            turn,
            search_results: text(2),
            search_confidence: confidence(3)?,
            summary: text(4),
            summary_confidence: confidence(5)?,
            reviewed_summary: text(6),
            review_confidence: confidence(7)?,
            insights: text(8),
            insights_confidence: confidence(9)?,
        });
    }
    Ok(rows)
}

/// Whether a spreadsheet would read it as a formula, ignoring leading apostrophes.
fn is_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\t', '\r'])
}

fn guarded(text: &str) -> String {
    if is_formula(text) { format!("'{text}") } else { text.to_owned() }
}

fn unguarded(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|rest| is_formula(rest)).unwrap_or(cell)
}
