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
    /// Reads `text`, which is what the file `name` holds.
    ///
    /// # Errors
    /// What is wrong, with the line and the remedy.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        if text.len() > LIST_BYTES_MAX {
            return Err(format!("{name}: longer than 4 MiB; keep only what is compared"));
        }
        let cells = |line: &str| -> Vec<String> { line.split(',').map(|cell| cell.trim().to_owned()).collect() };
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let Some((_, head)) = lines.next() else {
            return Err(format!(
                "{name}: there is no line with the columns' names; write one, as in instance,usd_hour"
            ));
        };
        let columns = cells(head);
        let mut rows = Vec::new();
        for (at, line) in lines {
            let row = cells(line);
            if row.len() != columns.len() {
                let (has, wants) = (row.len(), columns.len());
                return Err(format!("{name}:{}: {has} cells, and the columns are {wants}; give each its cell", at + 1));
            }
            rows.push((at + 1, row));
        }
        if rows.is_empty() || rows.len() > ROWS_MAX {
            return Err(format!("{name}: {} rows; from 1 to {ROWS_MAX} can be compared", rows.len()));
        }
        Ok(Self { columns, rows })
    }

    /// Returns where the column `name` is.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

/// A number above 0 in a cell.
pub fn number(name: &str, line: usize, column: &str, cell: &str) -> Result<f64, String> {
    let value = cell.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| format!("{name}:{line}: {column}: {cell:?} is no number above 0; write one, as in 0.28"))
}
