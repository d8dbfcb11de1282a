//! Compares the keys of both servers after an import.

use super::job::{ImportJob, ImportPart};
use crate::choice::{Choice, Sample};
use crate::counts::KeyCounts;
use crate::place::{CopyEndpoint, ServerAddress};
use crate::reconnect::{Context, Reconnecting, persist};
use crate::redis::{Redis, have};
use crate::source::{BatchRequest, ItemSource};
use crate::target::CopyTarget;
use crate::verify::{Measure, Verified};
use crate::{BATCH_BYTES_MAX, BATCH_KEYS_MAX, CopyJob, MigrateError, Verify};

/// Compares the keys that `job` chooses in `databases`: pairs of their numbers at the source and at the target. Calls
/// `show` after each batch.
pub(super) fn compare(
    job: &ImportJob,
    databases: &[(u32, u32)],
    context: &Context<'_>,
    show: &dyn Fn(),
) -> Result<Verified, MigrateError> {
    let mut verified = Verified::default();
    let mut walks = Vec::new();
    for (from, to) in databases {
        let copy = copy_job(job, *from, *to);
        let source = ItemSource::open(&copy, None, context, context)?;
        let mut target = CopyTarget::new(&copy.to, &copy.connect);
        target.reach(None, context)?;
        walks.push((source, target));
    }
    let keys = walks.iter().filter_map(|(source, _)| source.keys()).sum::<u64>().max(1);
    let per_million = match job.verify {
        ImportPart::None => 0,
        ImportPart::Keys(count) => (u128::from(count) * 1_000_000).div_ceil(u128::from(keys)).min(1_000_000) as u32,
        ImportPart::All => 1_000_000,
    };
    let measure = Measure { flags: false, expiry: true, field_expiry: true, seconds: false };
    let choice = Choice::default();
    for (source, target) in &mut walks {
        let mut seen = KeyCounts::default();
        let measure = Measure { field_expiry: source.has_field_times() && target.has_field_times(), ..measure };
        loop {
            let ask = BatchRequest {
                choice: &choice,
                sample: Sample { per_million },
                keys_max: BATCH_KEYS_MAX,
                bytes_max: BATCH_BYTES_MAX,
                target,
                to_compare: true,
            };
            let Some(items) = source.next(&ask, &mut seen, context)? else { break };
            go_on(source.take_restart())?;
            let found = target.read(&items, context)?;
            items.iter().zip(&found).for_each(|(item, found)| verified.add(item, found, measure));
            show();
        }
    }
    for (from, to) in databases {
        find_extra(job, (*from, *to), Sample { per_million }, context, &mut verified)?;
        show();
    }
    Ok(verified)
}

/// Ends the comparison after a restart of the server whose keys are listed, because some of them would be left out.
fn go_on(restart: Option<String>) -> Result<(), MigrateError> {
    let end = |why| Err(MigrateError::Lost(format!("{why} during the comparison, which cannot continue")));
    restart.map_or(Ok(()), end)
}

/// Counts the keys of a sample that only the target has.
fn find_extra(
    job: &ImportJob,
    (from, to): (u32, u32),
    sample: Sample,
    context: &Context<'_>,
    verified: &mut Verified,
) -> Result<(), MigrateError> {
    let mut source = Redis::new(&ServerAddress { db: from, ..job.from.clone() }, &job.connect);
    let mut target = Redis::new(&ServerAddress { db: to, ..job.to.clone() }, &job.connect);
    let mut cursor = 0;
    loop {
        let (next, mut keys) = persist(&mut target, context, |target| target.scan(cursor, BATCH_KEYS_MAX))?;
        let name = target.name().to_owned();
        go_on(target.run.take_end(&name))?;
        keys.retain(|key| sample.takes(key));
        let at_source = persist(&mut source, context, |source| have(source, &keys))?;
        let mut present = at_source.iter();
        keys.retain(|_| present.next() == Some(&false));
        // Such a key may have expired at both servers since it was listed.
        let at_target = persist(&mut target, context, |target| have(target, &keys))?;
        keys.iter().zip(at_target).filter(|(_, is_there)| *is_there).for_each(|(key, _)| verified.add_extra(key));
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

/// Returns a copy between two databases, whose source and target are read.
fn copy_job(job: &ImportJob, from: u32, to: u32) -> CopyJob {
    CopyJob {
        from: CopyEndpoint::Server(ServerAddress { db: from, ..job.from.clone() }),
        to: ServerAddress { db: to, ..job.to.clone() },
        choice: Choice::default(),
        overwrite: false,
        limit: None,
        keys_per_s: None,
        bytes_per_s: None,
        journal: None,
        verify: Verify::None,
        file_db: 0,
        accept_damaged: false,
        connect: job.connect.clone(),
        retries: job.retries,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;
    use crate::reconnect::{ConnectSettings, RetryPolicy};

    /// Starts a server without keys, each of whose connections is to another run. If `restarts`, a walk over its keys
    /// loses the connection after the first page.
    fn server(restarts: bool) -> ServerAddress {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("redis://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for (run, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                std::thread::spawn(move || serve(stream, run, restarts));
            }
        });
        let Ok(CopyEndpoint::Server(server)) = address.parse() else { panic!("{address}") };
        server
    }

    fn serve(mut stream: TcpStream, run: usize, restarts: bool) -> Option<()> {
        let words = BufReader::new(stream.try_clone().ok()?).lines();
        let mut has_scanned = false;
        for word in words.map_while(Result::ok) {
            let reply = match word.as_str() {
                "server" => format!("${}\r\nrun_id:{run}\r\n", format!("run_id:{run}").len()),
                "COMMAND" => "*0\r\n".to_owned(),
                "DBSIZE" => ":0\r\n".to_owned(),
                "TIME" => "*0\r\n".to_owned(),
                "SCAN" if has_scanned => return None,
                "SCAN" if restarts => "*2\r\n$1\r\n7\r\n*0\r\n".to_owned(),
                "SCAN" => "*2\r\n$1\r\n0\r\n*0\r\n".to_owned(),
                _ => continue,
            };
            has_scanned |= word == "SCAN" && restarts;
            stream.write_all(reply.as_bytes()).ok()?;
        }
        None
    }

    #[test]
    fn comparison_ends_with_an_error_if_a_server_whose_keys_are_listed_restarts() {
        let pause = Duration::from_millis(1);
        let context = Context {
            retries: RetryPolicy { attempts: 3, pause_min: pause, pause_max: pause },
            is_stopped: &|| false,
            tell: &|_| {},
        };
        for (of_source, of_target) in [(false, false), (true, false), (false, true)] {
            let job = ImportJob {
                from: server(of_source),
                to: server(of_target),
                db: None,
                flush: false,
                bytes_per_s: None,
                cut_over: true,
                verify: ImportPart::All,
                connect: ConnectSettings { tls: None, timeout: Duration::from_secs(10) },
                retries: context.retries,
            };
            let compared = compare(&job, &[(0, 0)], &context, &|| {});
            let restarted = match (of_source, of_target) {
                (false, false) => {
                    assert_eq!(compared.map(|verified| verified.looked_for), Ok(0));
                    continue;
                }
                (true, _) => &job.from,
                (false, true) => &job.to,
            };
            let expected = format!("{restarted} was restarted during the comparison, which cannot continue");
            assert_eq!(compared.map(drop), Err(MigrateError::Lost(expected)));
        }
    }
}
