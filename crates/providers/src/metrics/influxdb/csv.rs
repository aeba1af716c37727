//! Annotated CSV, as far as one value needs it.
//!
//! ```text
//! #datatype,string,long,double        what the columns hold
//! #group,false,false,false
//! #default,_result,,                  what an empty field means
//! ,result,table,_value                their names
//! ,,0,1.4                             a row
//!                                     a blank line: the next table
//! ```

use std::collections::BTreeSet;

use super::super::{QueryError, Reading, Sample};

/// The columns of a table with an error.
const ERROR: [&str; 2] = ["error", "reference"];

/// A table while it is read.
#[derive(Default)]
struct Table {
    types: Vec<String>,
    defaults: Vec<String>,
    names: Option<Vec<String>>,
}

/// The value in the first row of the first table that has rows.
pub(super) fn first_value(body: &[u8], status: u16) -> Result<Reading, QueryError> {
    let text = std::str::from_utf8(body).map_err(|_| QueryError::Malformed)?;
    let mut table = Table::default();
    let mut first = None;
    let mut tables = BTreeSet::new();
    for record in records(text)? {
        match record.first().map(String::as_str) {
            None => table = Table::default(),
            Some("#datatype") => table = Table { types: record, ..Table::default() },
            Some("#default") => table.defaults = record,
            Some(mark) if mark.starts_with('#') => {}
            Some(_) if table.names.is_none() => {
                // A table of the user's may have a column `error` too, among others.
                if record.iter().filter(|name| !name.is_empty()).eq(ERROR) {
                    return Err(QueryError::Refused { status, reason: None });
                }
                table.names = Some(record);
            }
            Some(_) => {
                tables.insert(table.field(&record, "table").unwrap_or_default());
                if first.is_none() {
                    first = Some(table.value(&record)?);
                }
            }
        }
    }
    let sample = first.flatten().ok_or(QueryError::NoValue)?;
    Ok(Reading { sample, series: tables.len() })
}

// === impl Table ===

impl Table {
    fn field(&self, record: &[String], name: &str) -> Option<String> {
        let place = self.names.as_ref()?.iter().position(|column| column == name)?;
        let field = record.get(place).filter(|field| !field.is_empty());
        field.or_else(|| self.defaults.get(place)).cloned()
    }

    /// The number in a row, if it has one. A text is not taken for a number.
    fn value(&self, record: &[String]) -> Result<Option<Sample>, QueryError> {
        let names = self.names.as_deref().unwrap_or_default();
        if record.len() != names.len() {
            // A row that was cut, or one that belongs elsewhere.
            return Err(QueryError::Malformed);
        }
        let place = names.iter().position(|name| name == "_value").ok_or(QueryError::Malformed)?;
        let is_number = match self.types.get(place).map(String::as_str) {
            Some("double" | "long" | "unsignedLong") => true,
            Some(_) | None => false,
        };
        let text = self.field(record, "_value").unwrap_or_default();
        if !is_number {
            return Err(QueryError::Malformed);
        }
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Sample::new).map_err(|_| QueryError::Malformed)
    }
}

/// The records of a CSV text; a blank line is a record without fields.
fn records(text: &str) -> Result<Vec<Vec<String>>, QueryError> {
    if !text.is_empty() && !text.ends_with('\n') {
        // A row that was cut may still look like one, with another number in it.
        return Err(QueryError::Malformed);
    }
    let mut records = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut record = Vec::new();
        loop {
            let (field, after) = field(rest)?;
            record.push(field);
            if let Some(next) = after.strip_prefix(',') {
                rest = next;
                continue;
            }
            let line = after.strip_prefix('\r').unwrap_or(after);
            rest = line.strip_prefix('\n').unwrap_or(line);
            break;
        }
        let is_blank = matches!(record.as_slice(), [only] if only.is_empty());
        records.push(if is_blank { Vec::new() } else { record });
    }
    Ok(records)
}

/// One field, and the separator behind it: a comma, the end of the line, or nothing.
fn field(text: &str) -> Result<(String, &str), QueryError> {
    let Some(mut rest) = text.strip_prefix('"') else {
        let end = text.find([',', '\r', '\n']).unwrap_or(text.len());
        let (field, after) = text.split_at_checked(end).ok_or(QueryError::Malformed)?;
        return Ok((field.to_owned(), after));
    };
    let mut field = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or(QueryError::Malformed)?;
        field.push_str(part);
        match after.strip_prefix('"') {
            // Two quotes are one.
            Some(next) => {
                field.push('"');
                rest = next;
            }
            None if after.is_empty() || after.starts_with([',', '\r', '\n']) => {
                return Ok((field, after));
            }
            None => return Err(QueryError::Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_commas_lines_and_quotes() {
        let text = "a,\"b,\"\"c\"\"\nd\",\r\n\r\n,e\n";
        let want = vec![vec!["a", "b,\"c\"\nd", ""], vec![], vec!["", "e"]];
        assert_eq!(records(text).unwrap(), want);
        for broken in ["\"a\n", "\"a\"b,\n", "a,\"b\"\"\n", "a,1"] {
            assert_eq!(records(broken), Err(QueryError::Malformed), "{broken}");
        }
    }
}
