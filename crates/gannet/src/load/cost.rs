//! `gannet load cost --prices FILE`: computes requests per dollar by machine type, or the price of a node's memory.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use load::cost::{machines, nodes};

use super::compare::{read, write};
use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    let value = |name: &'static str, placeholder: &'static str| Arg::new(name).long(name).value_name(placeholder);
    Command::new("cost")
        .about("Compute the cost of requests from results and a price list")
        .arg(value("prices", "FILE.csv").required(true).help(
            "Price list: machine types with usd_hour or usd_month, and tps if not measured; or \
                 kind,module_gb,usd_per_gb",
        ))
        .arg(
            Arg::new("RESULT")
                .value_name("TYPE=RESULT.json")
                .help("The result measured on a machine type")
                .action(ArgAction::Append),
        )
        .arg(
            value("node", "NODE")
                .help("A node to price with a list of modules, as 2xdram:16+2xpmem:128; may be repeated")
                .action(ArgAction::Append)
                .conflicts_with("RESULT"),
        )
        .arg(value("report", "FILE.html").help("Write an HTML page with a table and a plot"))
        .after_help(
            "Examples:\n  gannet load cost --prices data/prices/ec2-2014.csv\n  \
             gannet load cost --prices list.csv small=a.json big=b.json --report cost.html\n  \
             gannet load cost --prices data/prices/memory-prices-2019.csv --node 8xdram:32 --node 2xdram:16+2xpmem:128",
        )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let path = matches.get_one::<String>("prices").expect("it is required");
    let failed = |line: String| Failure::Failed(vec![line]);
    let list = std::fs::read_to_string(path).map_err(|error| failed(format!("{path}: {error}")))?;
    let wanted: Vec<String> = matches.get_many::<String>("node").into_iter().flatten().cloned().collect();
    let (text, page) = if wanted.is_empty() {
        let costs = machines::costs(path, &list, &rates(matches)?).map_err(failed)?;
        (costs.text(), costs.html())
    } else {
        let nodes = nodes::nodes(path, &list, &wanted).map_err(failed)?;
        (nodes::text(&nodes), nodes::html(&nodes))
    };
    if let Some(path) = matches.get_one::<String>("report") {
        write(Path::new(path), &page)?;
    }
    print(&text)
}

/// Returns for each machine type the request rate that met the objectives in its result.
fn rates(matches: &ArgMatches) -> Result<BTreeMap<String, f64>, Failure> {
    let mut rates = BTreeMap::new();
    let mut faults = Vec::new();
    for text in matches.get_many::<String>("RESULT").into_iter().flatten() {
        let Some((machine, path)) = text.split_once('=') else {
            faults.push(format!("{text:?}: write the machine type before the result, as in small=a.json"));
            continue;
        };
        match read(Path::new(path)) {
            Err(error) => faults.push(error),
            Ok(result) if result.invalid.is_some() => {
                faults.push(format!("{path}: this result is INVALID; repeat the run"))
            }
            Ok(result) => {
                let answer = result.search.as_ref().and_then(|search| search.answer_per_s);
                rates.insert(machine.to_owned(), answer.unwrap_or(result.figures.achieved_per_s));
            }
        }
    }
    if faults.is_empty() { Ok(rates) } else { Err(Failure::Failed(faults)) }
}
