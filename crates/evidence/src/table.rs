//! Tables in a text: Markdown, the output of `psql` and its like, comma- and tab-separated values.

use serde_json::{Map, Value};

pub(crate) struct Table {
    pub(crate) rows: Vec<Map<String, Value>>,
}

const COLUMNS_MAX: usize = 64;
const HEAD_CHARS_MAX: usize = 40;

/// A block of lines as a table, if the whole block is one.
pub(crate) fn table(block: &str) -> Option<Table> {
    let lines: Vec<&str> = unfenced(block).lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    ruled(&lines).or_else(|| separated(&lines, '\t')).or_else(|| separated(&lines, ',')).or_else(|| separated(&lines, ';'))
}

/// The content of a fence, if the block is one.
fn unfenced(block: &str) -> &str {
    let block = block.trim();
    let Some(rest) = block.strip_prefix("```").filter(|_| block.len() > 6) else { return block };
    let Some((_, inner)) = rest.split_once('\n') else { return block };
    inner.trim_end().strip_suffix("```").unwrap_or(block)
}

/// `| a | b |`, a rule of dashes, and rows.
fn ruled(lines: &[&str]) -> Option<Table> {
    let [head, rule, body @ ..] = lines else { return None };
    let is_rule = rule.contains("--") && rule.contains(['|', '+']) && rule.chars().all(|c| matches!(c, '-' | '+' | '|' | ':' | ' '));
    if !is_rule || body.is_empty() {
        return None;
    }
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim();
        let line = line.strip_prefix('|').unwrap_or(line);
        let line = line.strip_suffix('|').unwrap_or(line);
        line.replace("\\|", "\u{0}").split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
    };
    let head = cells(head);
    let end = body.iter().position(|line| !line.contains('|')).unwrap_or(body.len());
    // `(3 rows)` below a psql table is not part of it, and nothing else may follow.
    let is_alone = body[end..].iter().all(|line| line.trim_start().starts_with('('));
    let rows: Vec<Vec<String>> = body[..end].iter().map(|line| cells(line)).filter(|row| row.len() == head.len()).collect();
    (is_alone && rows.len() == end).then(|| made(&head, rows)).flatten()
}

/// A header line, and lines with as many values.
fn separated(lines: &[&str], mark: char) -> Option<Table> {
    let [head, body @ ..] = lines else { return None };
    let head = fields(head, mark)?;
    if head.len() < 2 || body.is_empty() {
        return None;
    }
    let rows: Vec<Vec<String>> = body.iter().map(|line| fields(line, mark)).collect::<Option<_>>()?;
    // Prose has commas too, but not as many in each line, and no numbers in nearly every one.
    let has_values = rows.iter().filter(|row| row.iter().any(|cell| number(cell).is_some())).count() * 2 >= rows.len();
    let is_prose = rows.iter().flatten().any(|cell| cell.split_whitespace().count() > 12) || head.iter().any(|cell| cell.ends_with(['.', ':', '!']));
    let is_certain = mark == '\t' || (has_values && !is_prose) || rows.len() >= 3 && !is_prose;
    // `T-101 [open, high] Printer` is a list line: separators inside brackets do not count.
    let is_cut_open = head.iter().chain(rows.iter().flatten()).any(|cell| has_open_bracket(cell));
    (is_certain && !is_cut_open && rows.iter().all(|row| row.len() == head.len())).then(|| made(&head, rows)).flatten()
}

/// Whether brackets are unbalanced.
fn has_open_bracket(cell: &str) -> bool {
    [('(', ')'), ('[', ']'), ('{', '}')].into_iter().any(|(open, close)| cell.matches(open).count() != cell.matches(close).count())
}

/// The values of one line; `"a, b"` is one of them. `None` if a quotation mark is unclosed.
fn fields(line: &str, mark: char) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut is_quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' if is_quoted || field.trim().is_empty() => is_quoted = !is_quoted,
            c if c == mark && !is_quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            c => field.push(c),
        }
    }
    fields.push(field.trim().to_owned());
    (!is_quoted && fields.len() <= COLUMNS_MAX).then_some(fields)
}

fn made(head: &[String], rows: Vec<Vec<String>>) -> Option<Table> {
    let is_name = |cell: &String| {
        !cell.is_empty() && cell.chars().count() <= HEAD_CHARS_MAX && number(cell).is_none_or(|year| (1900.0..=2100.0).contains(&year))
    };
    let is_distinct = head.iter().enumerate().all(|(at, cell)| !head[..at].contains(cell));
    if !head.iter().all(is_name) || !is_distinct || head.len() > COLUMNS_MAX {
        return None;
    }
    let row = |cells: Vec<String>| head.iter().cloned().zip(cells.into_iter().map(Value::String)).collect::<Map<_, _>>();
    Some(Table { rows: rows.into_iter().map(row).collect() })
}

/// The number in a cell, with currency sign, per cent sign and thousands separators.
pub(crate) fn number(cell: &str) -> Option<f64> {
    let bare = cell.trim().trim_start_matches(['$', '€', '£', '¥']).trim_end_matches(['%', '€']).trim();
    let digits = bare.strip_prefix(['-', '+', '−']).unwrap_or(bare);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || digits.chars().any(|c| !matches!(c, '0'..='9' | '.' | ',' | 'e' | 'E' | '-' | '+')) {
        return None;
    }
    let whole = digits.split('.').next().unwrap_or(digits);
    let is_grouped = whole.contains(',') && whole.split(',').skip(1).all(|group| group.len() == 3 && group.bytes().all(|b| b.is_ascii_digit()));
    if digits.contains(',') && !is_grouped {
        return None;
    }
    bare.replace(',', "").replace('−', "-").parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Option<Vec<String>> {
        let line =
            |row: &Map<String, Value>| row.iter().map(|(name, value)| format!("{name}={}", value.as_str().unwrap())).collect::<Vec<_>>().join(" ");
        table(text).map(|table| table.rows.iter().map(line).collect())
    }

    #[test]
    fn s12_tables_are_found_in_every_usual_form_and_prose_is_none() {
        let expected = Some(vec!["area=North orders=120".to_owned(), "area=South orders=95".to_owned()]);
        for text in [
            "area,orders\nNorth,120\nSouth,95\n",
            "area;orders\nNorth;120\nSouth;95",
            "area\torders\nNorth\t120\nSouth\t95",
            "| area | orders |\n|:-------|-------:|\n| North | 120 |\n| South | 95 |",
            " area | orders \n--------+--------\n North  |    120\n South  |     95\n(2 rows)",
            "```csv\narea,orders\nNorth,120\nSouth,95\n```",
        ] {
            assert_eq!(rows(text), expected, "{text}");
        }
        assert_eq!(rows("name,price\n\"Tea, black\",\"1,200\"\n"), Some(vec!["name=Tea, black price=1,200".to_owned()]));
        for prose in [
            "First, we looked at it.\nThen, we left.",
            "Hello, world",
            "a,b",
            "On Monday, the 3 of us, met.\nOn Tuesday, the 4 of us, left.",
            "Dear all,\nthank you,\nbye,",
            "T-101 [open, high] Printer\nT-102 [open, low] Monitor\nT-103 [closed, low] Mouse\nT-104 [open, high] VPN",
            "1,2\n3,4",
            "x | y",
            "a,b\n\"open,1",
        ] {
            assert_eq!(rows(prose), None, "{prose}");
        }
    }

    #[test]
    fn numbers_of_cells() {
        for (cell, expected) in [("120", Some(120.0)), ("1,200.5", Some(1200.5)), ("$3", Some(3.0)), ("12%", Some(12.0)), ("-4", Some(-4.0))] {
            assert_eq!(number(cell), expected, "{cell}");
        }
        for cell in ["", "x", "1,2", "12 kg", "ST-101", "2024-05-06", "e5"] {
            assert_eq!(number(cell), None, "{cell}");
        }
    }
}
