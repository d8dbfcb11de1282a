//! A list with named columns, as plain CSV without quotes.

use super::{LIST_BYTES_MAX, ROWS_MAX};

/// A list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostTable {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows with their line numbers, from 1.
    pub rows: Vec<(usize, Vec<String>)>,
}

impl CostTable {
    /// Parses `text`, the content of the file `name`.
    ///
    /// # Errors
    /// The fault with its line and the remedy.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        if text.len() > LIST_BYTES_MAX {
            return Err(format!("{name}: the file is longer than 4 MiB; remove rows that are not compared"));
        }
        let cells = |line: &str| -> Vec<String> { line.split(',').map(|cell| cell.trim().to_owned()).collect() };
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let Some((_, head)) = lines.next() else {
            return Err(format!("{name}: the header line is missing; add one, as in instance,usd_hour"));
        };
        let columns = cells(head);
        let mut rows = Vec::new();
        for (at, line) in lines {
            let row = cells(line);
            if row.len() != columns.len() {
                let (has, wants) = (row.len(), columns.len());
                return Err(format!(
                    "{name}:{}: the row has {has} cells, but there are {wants} columns; fill every column",
                    at + 1
                ));
            }
            rows.push((at + 1, row));
        }
        if rows.is_empty() || rows.len() > ROWS_MAX {
            return Err(format!("{name}: the list has {} rows; it must have 1 to {ROWS_MAX}", rows.len()));
        }
        Ok(Self { columns, rows })
    }

    /// Returns the index of the column `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

/// Parses a number above 0 in a cell.
pub fn number(name: &str, line: usize, column: &str, cell: &str) -> Result<f64, String> {
    let value = cell.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    value
        .ok_or_else(|| format!("{name}:{line}: {column}: {cell:?} is not a number above 0; write a number, as in 0.28"))
}
