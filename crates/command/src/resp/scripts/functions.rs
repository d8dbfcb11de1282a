//! Functions: the commands `FCALL`, `FCALL_RO` and `FUNCTION`.

use super::cached::take_machine;
use crate::glob::matches;
use crate::keyspace::libraries::{Libraries, Library, LibrarySet, read_dump};
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::error::{self, ErrorReply};
use crate::resp::help::other_subcommand;
use crate::resp::pattern::check;
use crate::shared::Shared;
use protocol::resp::{Args, Version, reply};
use script::{Input, Machine, MachineEvent, read_library};
use std::sync::Arc;

/// The number of ticks after which the loading of a library is given up: about 10 ms.
const LOAD_TICKS_MAX: usize = 200;
/// The number of ticks after which the loading of the libraries of a dump is given up: about 50 ms. Other clients of
/// the worker wait meanwhile.
const RESTORE_TICKS_MAX: usize = 1_000;

/// Executes `FUNCTION LOAD [REPLACE] text | DELETE name | LIST ... | DUMP | RESTORE dump [policy] | FLUSH [mode] | KILL
/// | STATS | HELP`.
pub(in crate::resp) fn function<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match &lower(topic)[..] {
        b"load" => load(call, args),
        b"delete" => delete(call, args.next().unwrap_or_default()),
        b"list" => list(call, args),
        b"dump" => {
            let mut all = Vec::new();
            reply::bulk(&mut all, &call.ctx.shared.scripts.libraries.now().dump());
            aside::send_long_reply(call, all)
        }
        b"restore" if args.len() <= 2 => restore(call, args),
        b"flush" | b"restore" if args.len() > 1 => {
            error::subcommand(call.out, "function", topic);
            Ok(())
        }
        b"flush" => flush(call, args.next()),
        b"kill" => super::command::kill(call, true),
        b"stats" => stats(call),
        _ => other_subcommand(call, "function", topic),
    }
}

/// Loads a library into a Lua state, in at most `ticks_left` ticks, which it reduces. Returns the error reply if it is
/// invalid.
fn read(shared: &Shared, machine: &mut Machine, text: &[u8], ticks_left: &mut usize) -> Result<Arc<Library>, Vec<u8>> {
    let (name, header) = read_library(text).map_err(|error| error.message())?;
    let script = shared.scripts.create(text, header);
    machine.begin(Arc::clone(&script), std::iter::empty(), 0, false);
    let ticks_max = LOAD_TICKS_MAX.min(*ticks_left);
    let (mut event, mut ticks) = (machine.step(Input::Load), 0);
    while event != MachineEvent::Done {
        ticks += 1;
        event = machine.step(if ticks > ticks_max { Input::Kill } else { Input::Continue });
    }
    *ticks_left = ticks_left.saturating_sub(ticks);
    if ticks > ticks_max {
        return Err(b"ERR Error registering functions: ERR FUNCTION LOAD timeout".to_vec());
    }
    let error = machine.with_result(|result| result.strip_prefix(b"-").map(|line| line.trim_ascii_end().to_vec()));
    if let Some(error) = error {
        return Err(error);
    }
    let functions = machine.take_registered();
    if functions.is_empty() {
        return Err(b"ERR No functions registered".to_vec());
    }
    Ok(Arc::new(Library { name: name.into(), script, functions }))
}

/// Loads a library into one of the worker's Lua states.
fn read_in_worker(call: &mut Call<'_, '_>, text: &[u8], ticks_left: &mut usize) -> Result<Arc<Library>, Vec<u8>> {
    let shared = Arc::clone(&call.ctx.shared);
    let mut machine = take_machine(call).map_err(|_| b"OOM cannot allocate the stack of a script".to_vec())?;
    let before = machine.heap_bytes() as u64;
    let library = read(&shared, &mut machine, text, ticks_left);
    call.ctx.scripts.return_machine(machine, &shared.scripts, before);
    library
}

/// Loads the libraries that were persisted by earlier processes. Those that are invalid are reported and left out.
pub fn load_persisted(shared: &Shared, libraries: &[(Vec<u8>, Vec<u8>)]) {
    if libraries.is_empty() {
        return;
    }
    let mut machine = match Machine::new() {
        Ok(machine) => machine,
        Err(error) => return tracing::error!("cannot load the libraries of functions: {error}"),
    };
    for (_, text) in libraries {
        let added = read(shared, &mut machine, text, &mut { LOAD_TICKS_MAX }).and_then(|library| {
            shared.scripts.libraries.change(|set| set.add(library, true)).map_err(|error| error.message())
        });
        if let Err(error) = added {
            tracing::error!("cannot load a library of functions: {}", String::from_utf8_lossy(&error));
        }
    }
}

fn write_error(call: &mut Call<'_, '_>, error: &[u8]) -> Run {
    let most = call.out.room().saturating_sub(8);
    reply::error(call.out, &error[..error.len().min(most)]);
    Ok(())
}

fn load<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let mut replaces = false;
    while args.len() > 1 {
        let option = args.next().unwrap_or_default();
        if !option.eq_ignore_ascii_case(b"replace") {
            return write_error(call, &[b"ERR Unknown option given: ", option].concat());
        }
        replaces = true;
    }
    let text = args.next().unwrap_or_default();
    let loaded = read_in_worker(call, text, &mut { LOAD_TICKS_MAX }).and_then(|library| {
        let name = library.name.clone();
        let changed = call.ctx.shared.scripts.libraries.change(|set| set.add(library, replaces));
        changed.map(|()| name).map_err(|error| error.message())
    });
    match loaded {
        Ok(name) => {
            reply::bulk(call.out, &name);
            Ok(())
        }
        Err(error) => write_error(call, &error),
    }
}

fn delete(call: &mut Call<'_, '_>, name: &[u8]) -> Run {
    let libraries = &call.ctx.shared.scripts.libraries;
    libraries.change(|set| if set.remove(name) { Ok(()) } else { Err(ErrorReply::NoLibrary) })?;
    call.out.push(reply::OK);
    Ok(())
}

fn list<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (mut pattern, mut with_code) = (None, false);
    while let Some(word) = args.next() {
        match &lower(word)[..] {
            b"withcode" if !with_code => with_code = true,
            b"libraryname" if pattern.is_none() => pattern = Some(args.next().ok_or(ErrorReply::NoLibraryName)?),
            _ => return write_error(call, &[b"ERR Unknown argument ", word].concat()),
        }
    }
    if let Some(pattern) = pattern {
        check(pattern)?;
    }
    let (set, version) = (call.ctx.shared.scripts.libraries.now(), call.session.version);
    let shown = |library: &&Arc<Library>| pattern.is_none_or(|pattern| matches(pattern, &library.name));
    let mut all = Vec::new();
    reply::array(&mut all, set.libraries.values().filter(shown).count() as u64);
    set.libraries.values().filter(shown).for_each(|library| put_library(&mut all, version, library, with_code));
    aside::send_long_reply(call, all)
}

fn put_library(out: &mut Vec<u8>, version: Version, library: &Library, with_code: bool) {
    reply::map(out, version, 3 + u64::from(with_code));
    for word in [&b"library_name"[..], &library.name, b"engine", b"LUA", b"functions"] {
        reply::bulk(out, word);
    }
    reply::array(out, library.functions.len() as u64);
    for function in &library.functions {
        reply::map(out, version, 3);
        reply::bulk(out, b"name");
        reply::bulk(out, &function.name);
        reply::bulk(out, b"description");
        match &function.description {
            Some(text) => reply::bulk(out, text),
            None => reply::null(out, version),
        }
        reply::bulk(out, b"flags");
        reply::set(out, version, function.flag_names.len() as u64);
        function.flag_names.iter().for_each(|name| reply::simple(out, name.as_bytes()));
    }
    if with_code {
        reply::bulk(out, b"library_code");
        reply::bulk(out, &library.script.text);
    }
}

fn restore<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let dump = args.next().unwrap_or_default();
    let policy = args.next().map_or_else(|| lower(b"append"), lower);
    if !matches!(&policy[..], b"append" | b"replace" | b"flush") {
        return Err(ErrorReply::RestorePolicy.into());
    }
    let Some(texts) = read_dump(dump) else { return Err(ErrorReply::DumpDamaged.into()) };
    let (mut libraries, mut ticks_left) = (Vec::new(), RESTORE_TICKS_MAX);
    for text in texts {
        match read_in_worker(call, &text, &mut ticks_left) {
            Ok(library) => libraries.push(library),
            Err(error) => return write_error(call, &error),
        }
    }
    let changed = call.ctx.shared.scripts.libraries.change(|set| {
        if &policy[..] == b"flush" {
            *set = LibrarySet::default();
        }
        set.restore(libraries, &policy[..] == b"replace")
    });
    match changed {
        Ok(()) => {
            call.out.push(reply::OK);
            Ok(())
        }
        Err(error) => write_error(call, &error.message()),
    }
}

fn flush(call: &mut Call<'_, '_>, mode: Option<&[u8]>) -> Run {
    if mode.is_some_and(|mode| !matches!(&lower(mode)[..], b"async" | b"sync")) {
        return Err(ErrorReply::FunctionFlushMode.into());
    }
    flush_all(&call.ctx.shared.scripts.libraries);
    call.out.push(reply::OK);
    Ok(())
}

fn flush_all(libraries: &Libraries) {
    let emptied: Result<(), ()> = libraries.change(|set| {
        *set = LibrarySet::default();
        Ok(())
    });
    debug_assert!(emptied.is_ok());
}

fn stats(call: &mut Call<'_, '_>) -> Run {
    let (set, version) = (call.ctx.shared.scripts.libraries.now(), call.session.version);
    let running = call.ctx.shared.scripts.running_function();
    let mut all = Vec::new();
    reply::map(&mut all, version, 2);
    reply::bulk(&mut all, b"running_script");
    match running {
        None => reply::null(&mut all, version),
        Some((name, command, began)) => {
            reply::map(&mut all, version, 3);
            reply::bulk(&mut all, b"name");
            reply::bulk(&mut all, &name);
            reply::bulk(&mut all, b"command");
            reply::array(&mut all, command.len() as u64);
            command.iter().for_each(|word| reply::bulk(&mut all, word));
            reply::bulk(&mut all, b"duration_ms");
            reply::int(&mut all, call.ctx.now.ms_since(began) as i64);
        }
    }
    reply::bulk(&mut all, b"engines");
    reply::map(&mut all, version, 1);
    reply::bulk(&mut all, b"LUA");
    reply::map(&mut all, version, 2);
    reply::bulk(&mut all, b"libraries_count");
    reply::int(&mut all, set.libraries.len() as i64);
    reply::bulk(&mut all, b"functions_count");
    reply::int(&mut all, set.function_count() as i64);
    aside::send_long_reply(call, all)
}
