//! Compares machine types and prices by requests per dollar.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::table::{CostTable, number};
use crate::report::tables;
use page::words::grouped;
use page::{escape, section, whole};

/// Seconds in an hour.
const HOUR_S: f64 = 3600.0;
/// Hours in a month, as price lists count them.
pub const MONTH_HOURS: f64 = 720.0;

/// A machine type with its rate and its prices.
#[derive(Clone, Debug, PartialEq)]
pub struct PricedMachine {
    /// The type's name.
    pub name: String,
    /// Requests per second within the objectives.
    pub rate_per_s: f64,
    /// Dollars per hour under each of [`Costs::prices`]; `None` if the list has no such price.
    pub usd_hour: Vec<Option<f64>>,
}

impl PricedMachine {
    /// Returns the requests per dollar under price number `at`.
    pub fn requests_a_dollar(&self, at: usize) -> Option<f64> {
        Some(self.rate_per_s * HOUR_S / self.usd_hour[at]?)
    }
}

/// Machine types and their prices.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Names of the prices, in the order of `usd_hour`.
    pub prices: Vec<String>,
    /// The types, sorted by requests per dollar of the first price, best first.
    pub machines: Vec<PricedMachine>,
}

/// Reads a price list. `rates` has measured rates by machine type; other types take theirs from the list's column `tps`
/// or `rate_per_s`. Prices are the columns whose names begin with `usd_hour` or `usd_month`; an empty cell means no
/// price.
///
/// # Errors
/// The fault with its line and the remedy.
pub fn costs(name: &str, text: &str, rates: &BTreeMap<String, f64>) -> Result<Costs, String> {
    let table = CostTable::parse(name, text)?;
    let is_price = |column: &&String| column.starts_with("usd_hour") || column.starts_with("usd_month");
    let prices: Vec<String> = table.columns.iter().filter(is_price).cloned().collect();
    if prices.is_empty() {
        return Err(format!("{name}: there is no price column; name a column usd_hour or usd_month"));
    }
    let rate_column = table.column("tps").or_else(|| table.column("rate_per_s"));
    let mut machines = Vec::new();
    for (line, row) in &table.rows {
        let machine = &row[0];
        let rate_per_s = match (rates.get(machine), rate_column) {
            (Some(rate), _) => *rate,
            (None, Some(column)) => number(name, *line, &table.columns[column], &row[column])?,
            // A list may contain more types than were measured.
            (None, None) => continue,
        };
        let mut usd_hour = Vec::with_capacity(prices.len());
        for price in &prices {
            let column = table.column(price).expect("it is one of the columns");
            let hours = if price.starts_with("usd_month") { MONTH_HOURS } else { 1.0 };
            usd_hour.push(match row[column].as_str() {
                "" => None,
                cell => Some(number(name, *line, price, cell)? / hours),
            });
        }
        machines.push(PricedMachine { name: machine.clone(), rate_per_s, usd_hour });
    }
    if let Some(unknown) = rates.keys().find(|known| !table.rows.iter().any(|(_, row)| row[0] == **known)) {
        return Err(format!("{name}: there is no row {unknown:?}; name the results as in the list's first column"));
    }
    if machines.is_empty() {
        return Err(format!("{name}: no row has a rate; pass results as TYPE=RESULT.json, or add a column tps"));
    }
    machines.sort_by(|a, b| b.requests_a_dollar(0).unwrap_or(0.0).total_cmp(&a.requests_a_dollar(0).unwrap_or(0.0)));
    Ok(Costs { prices, machines })
}

fn millions(requests: Option<f64>) -> String {
    requests.map_or("-".to_owned(), |requests| format!("{} M", grouped((requests / 1e6).round())))
}

impl Costs {
    fn heads(&self) -> Vec<String> {
        let prices = self.prices.iter().map(|price| format!("requests per dollar by {price}"));
        ["machine", "requests/s"]
            .map(str::to_owned)
            .into_iter()
            .chain(prices)
            .chain(["$ a 10^9 requests".into()])
            .collect()
    }

    fn cells(&self, machine: &PricedMachine) -> Vec<String> {
        let mut cells = vec![machine.name.clone(), grouped(machine.rate_per_s)];
        cells.extend((0..self.prices.len()).map(|at| millions(machine.requests_a_dollar(at))));
        let billion = machine.requests_a_dollar(0).map_or("-".to_owned(), |requests| format!("{:.2}", 1e9 / requests));
        cells.push(billion);
        cells
    }

    /// Returns the table as text.
    pub fn text(&self) -> String {
        let rows: Vec<Vec<String>> =
            std::iter::once(self.heads()).chain(self.machines.iter().map(|machine| self.cells(machine))).collect();
        columns(&rows)
    }

    /// Returns the table and a plot as an HTML page.
    pub fn html(&self) -> String {
        let best = &self.machines[0];
        let best = format!("{}: {} requests per dollar", best.name, millions(best.requests_a_dollar(0)));
        let mut body =
            format!("<div class=\"card verdict\"><div class=\"what\">cost</div><h1>{}</h1></div>", escape(&best));
        let bars: Vec<(String, f64)> = self
            .machines
            .iter()
            .filter_map(|machine| Some((machine.name.clone(), machine.requests_a_dollar(0)? / 1e6)))
            .collect();
        let title = format!("Million requests per dollar by {}", self.prices[0]);
        let _ = write!(body, "<div class=\"card\">{}</div>", plot(&title, &bars));
        let heads = self.heads();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let rows: Vec<_> = self.machines.iter().map(|machine| ("", self.cells(machine))).collect();
        section(&mut body, "By machine type", &tables::table(&heads, &rows));
        whole("Cost of a request", &body)
    }
}

/// Formats rows as aligned columns, the first column to the left.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let wide = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(wide).collect();
    let mut out = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            let _ = if at == 0 {
                write!(out, "{cell:<width$}", width = widths[0])
            } else {
                write!(out, "  {cell:>width$}", width = widths[at])
            };
        }
        out.push('\n');
    }
    out
}

/// Draws horizontal bars with their names and values.
pub(super) fn plot(title: &str, bars: &[(String, f64)]) -> String {
    const ROW: usize = 24;
    const WIDTH: f64 = 420.0;
    const CHAR: f64 = 7.6;
    let most = bars.iter().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
    let height = bars.len() * ROW + 8;
    let longest = bars.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * CHAR + 8.0).min(WIDTH / 2.0);
    let title = escape(title);
    let mut out = format!(
        "<figure class=\"bars\"><figcaption>{title}</figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">"
    );
    for (at, (name, value)) in bars.iter().enumerate() {
        let (y, width) = (at * ROW + 4, value / most * (WIDTH - left - 90.0));
        let (name, shown) = (escape(name), grouped(*value));
        let _ = write!(out, "<text class=\"end\" x=\"{left:.1}\" y=\"{}\">{name}</text>", y + 14);
        let x = left + 8.0;
        let _ =
            write!(out, "<rect class=\"dot s0\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"18\" rx=\"2\"/>");
        let _ = write!(out, "<text x=\"{:.1}\" y=\"{}\">{shown}</text>", x + 6.0 + width, y + 14);
    }
    out.push_str("</svg></figure>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const EC2: &str = include_str!("../../../../data/prices/ec2-2014.csv");

    #[test]
    fn the_published_table_gives_its_requests_for_a_dollar() {
        let costs = costs("ec2-2014.csv", EC2, &BTreeMap::new()).unwrap();
        assert_eq!(costs.machines.len(), 10);
        let find = |name: &str| costs.machines.iter().find(|machine| machine.name == name).unwrap();
        // A million requests per second at $1.68 per hour gives 2,142 million requests per dollar; at $484.48 per month
        // of 720 h, 5,350 million.
        let big = find("c3.8xlarge");
        assert!((big.requests_a_dollar(0).unwrap() / 1e6 - 1e6 * 3600.0 / 1.68 / 1e6).abs() < 1e-6);
        assert_eq!(millions(big.requests_a_dollar(3)), "5,350 M");
        assert_eq!(costs.machines[0].name, "c3.2xlarge");
        let monthly = costs.prices.iter().position(|price| price == "usd_month").unwrap();
        assert!((big.requests_a_dollar(monthly).unwrap() / big.requests_a_dollar(0).unwrap() - 1.0).abs() < 1e-9);
        assert!(costs.text().lines().count() == 11 && costs.html().contains("<svg"));
    }

    #[test]
    fn measured_rates_override_list_and_unmeasured_machines_are_omitted() {
        let list = "type,usd_hour\nsmall,0.1\nbig,0.4\nother,9\n";
        let rates = BTreeMap::from([("small".to_owned(), 1000.0), ("big".to_owned(), 5000.0)]);
        let costs = costs("list.csv", list, &rates).unwrap();
        let names: Vec<&str> = costs.machines.iter().map(|machine| machine.name.as_str()).collect();
        assert_eq!(names, ["big", "small"], "machine types without a rate are omitted");
        assert_eq!(costs.machines[0].requests_a_dollar(0), Some(45_000_000.0));
    }

    #[test]
    fn price_list_error_names_the_line() {
        let wrong = |list: &str, rates: &[(&str, f64)]| {
            let rates = rates.iter().map(|(name, rate)| ((*name).to_owned(), *rate)).collect();
            costs("p.csv", list, &rates).unwrap_err()
        };
        assert!(wrong("# x\n", &[]).contains("the header line is missing"));
        assert!(wrong("type,price\na,1\n", &[]).contains("usd_hour"));
        assert!(wrong("type,usd_hour\na,1\n", &[]).contains("TYPE=RESULT.json"));
        assert!(wrong("type,usd_hour,tps\na,free,5\n", &[]).contains("p.csv:2: usd_hour: \"free\""));
        assert!(wrong("type,usd_hour\n\na,1,2\n", &[]).contains("p.csv:3: the row has 3 cells"));
        assert!(wrong("type,usd_hour\na,1\n", &[("b", 1.0)]).contains("there is no row \"b\""));
    }
}
