//! The syntax of each command on graphs, which errors of syntax state.

use super::run::QUERY_SYNTAX;
use crate::resp::subcommands::find_subcommand;

pub(super) const TYPE: &str =
    "G.TYPE graph name [UNDIRECTED | INVERSE other] [SORT ID | TIME] [CAP n] [SCHEMA name ..]";
pub(super) const ADD: &str = "G.ADD graph src type dst [TS ms] [NEGATIVE] [ATTR name value ..] [src type dst ..]";
pub(super) const DEL: &str = "G.DEL graph src type dst [TS ms] [src type dst ..]";
pub(super) const ARCHIVE: &str = "G.ARCHIVE graph src type dst [TS ms] [src type dst ..]";
pub(super) const RESTORE: &str = "G.RESTORE graph src type dst [TS ms] [src type dst ..]";
pub(super) const LOAD: &str = "G.LOAD graph type CSV|EDGES [TS ms] [LINE n] text";
pub(super) const QUERY: &str = "G.QUERY graph query [query ..]";
pub(super) const STATS: &str = "G.STATS [graph]";
pub(super) const SEGMENTS: &str = "G.SEGMENTS";
pub(super) const COMPACT: &str = "G.COMPACT";
pub(super) const SNAPSHOT: &str = "G.SNAPSHOT";
pub(super) const DROP: &str = "G.DROP graph";

/// Returns the syntax of the query `command`, such as `g.dist`, or of `G.QUERY` if there is none of that name.
pub(super) fn of_query(command: &str) -> &'static str {
    let is = |syntax: &&&str| syntax.split(' ').next().is_some_and(|first| first.eq_ignore_ascii_case(command));
    QUERY_SYNTAX.iter().find(is).copied().unwrap_or(QUERY)
}

/// Returns the syntax of a subcommand of `G.NODE`.
pub(super) fn of_node(part: &[u8]) -> String {
    let found = find_subcommand("g.node", part);
    format!("G.NODE {}", found.and_then(|(_, part)| part.help.first()).copied().unwrap_or("HELP"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::catalog::COMMANDS;

    #[test]
    fn every_command_on_graphs_has_a_syntax_of_its_arity() {
        let all = [TYPE, ADD, DEL, ARCHIVE, RESTORE, LOAD, QUERY, STATS, SEGMENTS, COMPACT, SNAPSHOT, DROP];
        let all: Vec<&str> = all.iter().chain(QUERY_SYNTAX).copied().collect();
        let named: Vec<_> = COMMANDS.iter().filter(|entry| entry.group == "graph" && !entry.is_container()).collect();
        assert_eq!(named.len(), all.len());
        for entry in named {
            let is = |syntax: &&&str| syntax.split(' ').next().is_some_and(|name| name.to_lowercase() == entry.name);
            let syntax = all.iter().find(is).unwrap_or_else(|| panic!("{} has no syntax", entry.name));
            // A word in brackets may be left out.
            let least = syntax.split(" [").next().expect("a part").split(' ').count();
            let (most, arity) = (!syntax.contains('['), usize::from(entry.arity.unsigned_abs()));
            // `G.LOAD` has its text at the end.
            let least = least + usize::from(entry.name == "g.load");
            assert_eq!((least, most), (arity, entry.arity > 0), "{syntax}");
        }
    }
}
