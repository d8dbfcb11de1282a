//! `gannet memcached`, and the program under the name `memcached`: the server with memcached's flags.
//!
//! ```text
//!   arguments ── getopt ──> flags in order ── translate ──> Settings  ── plan ──> the server, as for `gannet serve`
//!                                                       └─> Process: user, pid file, background, limits
//! ```
//! Every flag either corresponds to a setting, or changes the process before its second thread starts. Exit codes are
//! the same as memcached's.

mod atoi;
pub mod flags;
mod getopt;
mod leftover;
mod listen;
mod process;
mod refusal;
mod suboptions;
mod translate;

use std::ffi::OsString;

use server::config::host::{Host, lift_files_limit};
use server::config::plan::{connections_room, plan};
use server::config::{ConfigFault, remedy, value::Auto};
use server::start::workers_that_fit;

use crate::Failure;
use crate::serve::{Hosted, host};
use refusal::{Refusal, code};
use translate::{CommandLine, Translation, translate};

fn refused((code, line): Refusal) -> Failure {
    Failure::Code(code, vec![line])
}

/// Runs the server, or prints the requested text.
pub fn run(args: impl Iterator<Item = OsString>) -> Result<(), Failure> {
    let mut words = Vec::new();
    for arg in args {
        let word = arg.into_string().map_err(|arg| {
            refused((code::USAGE, format!("{} is not UTF-8 text; use only UTF-8", arg.to_string_lossy())))
        })?;
        words.push(word);
    }
    let translation = match translate(words, &Host::probe()) {
        Ok(CommandLine::Print(text)) => return crate::print(&text),
        Ok(CommandLine::Serve(translation)) => *translation,
        Err(faults) => {
            let code = faults[0].0;
            return Err(Failure::Code(code, faults.into_iter().map(|(_, line)| line).collect()));
        }
    };
    serve(translation)
}

fn serve(mut translation: Translation) -> Result<(), Failure> {
    let process = translation.process.clone();
    process.check_user().map_err(refused)?;
    if process.daemon && !process::is_detached() {
        return process.detach().map_err(|(code, line)| Failure::Code(code, line.into_iter().collect()));
    }
    process.begin().map_err(refused)?;
    let host = room_for_connections(&mut translation)?;
    process.become_user().map_err(refused)?;
    let Translation { mut settings, origins, mut warnings, .. } = translation;
    let usage = |faults: Vec<ConfigFault>| {
        let lines = faults.iter().map(|fault| in_memcached_flags(&fault.to_string()));
        Failure::Code(code::USAGE, lines.collect())
    };
    let mut plan = plan(&settings, &origins, &host).map_err(usage)?;
    let workers = workers_that_fit(&plan.server);
    if workers < plan.server.workers {
        let memory_mib = plan.server.memory_bytes >> 20;
        warnings.push(format!("-t: -m {memory_mib} has room for the segments of {workers} threads; {workers} start"));
        settings.workers = Auto::Is(workers as u64);
        plan = server::config::plan::plan(&settings, &origins, &host).map_err(usage)?;
    }
    plan.notes.splice(0..0, warnings);
    plan.notes.extend(leftover::discard(&plan.server).map_err(refused)?);
    let again = (settings, origins.clone());
    let after = process.clone();
    let hosted = Hosted {
        plan,
        origins,
        read: Box::new(move || Ok(again.clone())),
        up: Box::new(move |running| after.up(running.addrs())),
        bind_code: code::SYSTEM,
        describe: |error| in_memcached_flags(&remedy::start_error(error)),
        discards: leftover::discards,
        upgrade: None,
        writes: process.written(),
        has_core_files: process.core_files,
    };
    let ended = self::host(hosted);
    process.end();
    ended
}

/// Names of settings in the messages of a server, and the flags of memcached that stand for them. A name is replaced
/// before another that it begins with.
const NAMES: [(&str, &str); 19] = [
    ("or discard the file's contents with --file-reset", "or remove the file"),
    ("discard the file's contents with --file-reset", "remove the file"),
    ("--flash-reset destroys what it holds", "or remove it, if nothing in it is needed"),
    ("set store.evict to true", "remove -M"),
    ("--memcached", "-l, -p or -s"),
    ("--admin", "-l, -p or -s"),
    ("--auth-file", "-Y"),
    ("--flash", "-o ext_path"),
    ("--file", "-e"),
    ("--memory", "-m"),
    ("--item-max", "-I"),
    ("store.memory", "-m"),
    ("tls.client_auth", "-o ssl_verify_mode"),
    ("tls.client_ca", "-o ssl_ca_cert"),
    ("tls.versions", "-o ssl_min_version"),
    ("tls.ciphers", "-o ssl_ciphers"),
    ("tls.cert", "-o ssl_chain_cert"),
    ("tls.key", "-o ssl_key"),
    ("limits.client_memory", "-m"),
];

/// Replaces the flags of `gannet serve` in a message by those of memcached.
fn in_memcached_flags(text: &str) -> String {
    NAMES.iter().fold(text.to_owned(), |text, (name, flag)| text.replace(name, flag))
}

/// Raises the limit of open files as far as the connections need and the system allows. If the connections and this
/// server's other descriptors together exceed the limit, lowers the number of connections. (memcached's limit of
/// connections includes its other descriptors, so memcached needs a descriptor for each connection only.)
fn room_for_connections(translation: &mut Translation) -> Result<Host, Failure> {
    let settings = &mut translation.settings;
    let wanted = settings.maxconns.explicit().unwrap_or(0);
    let workers = settings.workers.explicit().unwrap_or(1);
    let listeners = settings.memcached.len() as u64;
    let mut host = Host::probe();
    let short = wanted.saturating_sub(connections_room(&host, workers, listeners));
    if short > 0 {
        lift_files_limit(host.files_max + short);
        host = Host::probe();
    }
    if host.files_max < wanted {
        let what = format!("{wanted} connections need {wanted} open files, but the limit is {}", host.files_max);
        return Err(refused((code::SYSTEM, format!("-c: {what}; start as root, or lower -c"))));
    }
    let room = connections_room(&host, workers, listeners).max(1);
    if room < wanted {
        settings.maxconns = Auto::Is(room);
        translation.warnings.push(format!("the limit of {} open files allows {room} connections", host.files_max));
    }
    Ok(host)
}
