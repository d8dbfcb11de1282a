//! The command `INFO`. [`sections`] has the sections on the server, and [`statistics`] those on commands and errors.

mod request;
mod sections;
mod statistics;

pub(super) use sections::policy;
pub(super) use statistics::{Named, named_sums};

use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::shared::Shared;
use crate::visit::progress::REPORT_OPS;
use protocol::resp::{Args, reply};
use request::InfoRequest;
use std::fmt::Write as _;

/// A function that writes a section.
type Write = fn(&mut String, &Shared, InfoRequest) -> std::fmt::Result;

/// The requests that select a section without its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Selected {
    /// `INFO` without arguments, `default`, `all` and `everything`.
    Usually,
    /// `all` and `everything`.
    ByAll,
}

/// A section of `INFO`.
struct Section {
    title: &'static str,
    /// The names of the section in requests.
    names: &'static [&'static str],
    selected: Selected,
    write: Write,
}

const fn section(title: &'static str, names: &'static [&'static str], selected: Selected, write: Write) -> Section {
    Section { title, names, selected, write }
}

/// All sections, in the order of the reply.
const SECTIONS: [Section; 16] = [
    section("Server", &["server"], Selected::Usually, sections::server),
    section("Clients", &["clients"], Selected::Usually, sections::clients),
    section("Memory", &["memory"], Selected::Usually, sections::memory),
    section("Persistence", &["persistence"], Selected::Usually, sections::persistence),
    section("Stats", &["stats"], Selected::Usually, sections::stats),
    section("Replication", &["replication"], Selected::Usually, sections::replication),
    section("CPU", &["cpu"], Selected::Usually, sections::cpu),
    section("Modules", &["modules", "module_list"], Selected::Usually, |_, _, _| Ok(())),
    section("Commandstats", &["commandstats"], Selected::ByAll, statistics::commands),
    section("Errorstats", &["errorstats"], Selected::Usually, statistics::errors),
    section("Latencystats", &["latencystats"], Selected::ByAll, statistics::latencies),
    section("Cluster", &["cluster"], Selected::Usually, |text, _, _| text.write_str("cluster_enabled:0\r\n")),
    section("Keyspace", &["keyspace"], Selected::Usually, sections::keyspace),
    section("TLS", &["tls"], Selected::Usually, sections::tls),
    section("Graph", &["graph"], Selected::Usually, sections::graph),
    section("Namespaces", &["namespaces"], Selected::ByAll, sections::namespaces),
];

/// The sections that an `INFO` with these arguments selects.
struct Wanted {
    usual: bool,
    all: bool,
}

impl Wanted {
    fn of(args: Args<'_>) -> Self {
        let is = |name: &str| args.into_iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        Self { usual: args.len() == 0 || is("default"), all: is("all") || is("everything") }
    }

    fn has(&self, section: &Section, args: Args<'_>) -> bool {
        let by_set = match section.selected {
            Selected::Usually => self.usual || self.all,
            Selected::ByAll => self.all,
        };
        by_set
            || args.into_iter().any(|word| section.names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes())))
    }
}

/// Executes `INFO [section ...]`.
pub(super) fn info<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.ops += REPORT_OPS;
    let request = InfoRequest { now_secs: call.ctx.now.secs(), namespace: call.session.namespace };
    let (wanted, mut text) = (Wanted::of(args), String::new());
    let has_tls = call.ctx.shared.host.tls().is_some();
    let has_graphs = call.ctx.shared.graphs.store().is_some();
    let exists = |section: &Section| match section.title {
        "TLS" => has_tls,
        "Graph" => has_graphs,
        _ => true,
    };
    let is_here = |section: &&Section| wanted.has(section, args) && exists(section);
    for section in SECTIONS.iter().filter(is_here) {
        let blank = if text.is_empty() { "" } else { "\r\n" };
        let written = write!(text, "{blank}# {}\r\n", section.title)
            .and_then(|()| (section.write)(&mut text, &call.ctx.shared, request));
        written.expect("a string takes what is written");
    }
    let mut all = Vec::new();
    reply::verbatim(&mut all, call.session.version, b"txt", text.as_bytes());
    aside::send_long_reply(call, all)
}
