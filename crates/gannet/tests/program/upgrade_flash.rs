//! Tests `gannet serve --upgrade` of servers with items on flash: clients that write more than fits in memory continue,
//! a process with other devices is refused, and new processes end during a takeover.
//!
//! The possible values of a key are as in `restart_flash`: the last acknowledged value, or none, because memory and
//! flash evict.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::prng::Prng;

use crate::common::{PATIENCE, Serving, gannet};
use crate::peers::until;
use crate::restart::{MemoryFile, kills};
use crate::restart_flash::{FlashFile, KEYS, Ledger, stat, wait_until_found};
use crate::upgrade::{Old, answers, dying, said_of};

/// Starts a server with less memory than the items of a ledger take.
fn start(memory: &[&str], flash: &FlashFile) -> Old {
    Old::sized("16MiB", &[memory, &["--flash", &flash.flag()]].concat())
}

/// Starts a server and fills its memory, so that items are on flash.
fn filled(memory: &[&str], flash: &FlashFile, ledger: &mut Ledger) -> Old {
    let old = start(memory, flash);
    assert!(ledger.write(old.memcached, &mut Prng::new(5), 3 * KEYS));
    let on_flash = stat(old.memcached, "flash_items");
    assert!(on_flash > KEYS / 16, "{on_flash} items are on flash");
    old
}

/// Checks that nearly all items that were on flash before are still there.
fn check_flash(old: &Old, before: u64, when: &str) {
    let after = stat(old.memcached, "flash_items");
    // Both processes continue to evict items to flash and from it.
    assert!(after >= before * 9 / 10, "{when}: {after} items are on flash, {before} were");
}

fn through_upgrades(name: &str, in_file: bool, index: &str, times: usize) {
    let (file, flash) = (MemoryFile::new(name), FlashFile::new(name));
    let place = if in_file { &["--file", file.path()][..] } else { &["--upgradable"] };
    let memory = [place, &["--file-index", index]].concat();
    let mut ledgers = [Ledger::new(0), Ledger::new(1)];
    let mut old = filled(&memory, &flash, &mut ledgers[0]);
    let addr = old.memcached;
    let (over, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (over, batches) = (&over, &batches);
        let writers: Vec<_> = (ledgers.iter_mut().enumerate())
            .map(|(writer, ledger)| {
                let mut prng = Prng::new(writer as u64 + 11);
                scope.spawn(move || {
                    // A client that has not received the rest of its replies in time is disconnected, as when a server
                    // stops.
                    let mut cut = 0;
                    while !over.load(Relaxed) {
                        batches.fetch_add(1, Relaxed);
                        if !ledger.write(addr, &mut prng, 640) {
                            cut += 1;
                            assert!(cut <= times, "writer {writer} was cut off {cut} times in {times} upgrades");
                        }
                    }
                })
            })
            .collect();
        for _ in 0..times {
            std::thread::sleep(Duration::from_millis(150));
            old.upgrade();
            wait_until_found(addr);
            assert!(stat(addr, "flash_items") > 0, "what was on flash is");
        }
        until("the writers have written enough", || {
            batches.load(Relaxed) > 4 * times + 2 || writers.iter().any(|writer| writer.is_finished())
        });
        over.store(true, Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("the writer"));
    });
    let there: u64 = ledgers.iter_mut().map(|ledger| ledger.check(addr, 0)).sum();
    let before = stat(addr, "flash_items");
    old.upgrade();
    wait_until_found(addr);
    check_flash(&old, before, "after an upgrade in peace");
    let again: u64 = ledgers.iter_mut().map(|ledger| ledger.check(addr, 0)).sum();
    // Items that are read again return to memory, and displace other items to flash.
    assert!(there > KEYS && again >= there * 3 / 4, "{there} keys were there, and {again} are");
    let failed = stat(addr, "flash_failed");
    assert!(failed < 10, "{failed} items on flash are not what was written");
}

#[test]
fn writers_beyond_memory_go_on_through_upgrades_of_a_server_with_a_file_and_flash() {
    through_upgrades("upgrade-flash-file", true, "file", 3);
}

#[test]
fn writers_beyond_memory_go_on_through_upgrades_of_a_server_with_flash_and_its_index_in_dram() {
    through_upgrades("upgrade-flash-dram", true, "dram", 2);
}

#[test]
fn writers_beyond_memory_go_on_through_upgrades_of_a_server_with_flash_alone() {
    through_upgrades("upgrade-flash", false, "file", 3);
}

#[test]
fn upgrade_with_other_flash_is_refused_with_the_difference() {
    let (flash, other) = (FlashFile::new("upgrade-right"), FlashFile::new("upgrade-wrong"));
    let mut ledger = Ledger::new(0);
    let mut old = filled(&["--upgradable"], &flash, &mut ledger);
    let before = stat(old.memcached, "flash_items");
    let port = old.memcached.to_string();
    let here = ["--memcached", &port, "--admin", "none", "--memory", "16MiB", "--upgradable", "--upgrade"];
    let right = flash.flag();
    let refused = |more: &[&str]| old.refusal(&[&here[..], more].concat());
    let longer = right.replace(":48MiB", ":64MiB");
    let err = refused(&["--flash", &longer]);
    assert!(err.contains("the running server uses 48MiB of") && err.contains("not 64MiB"), "{err}");
    let err = refused(&["--flash", &other.flag()]);
    assert!(err.contains("the running server does not use") && err.contains(&right), "{err}");
    let err = refused(&["--flash", &right, "--flash", &other.flag()]);
    assert!(err.contains("the running server does not use"), "{err}");
    let err = refused(&[]);
    assert!(err.contains("on flash that is not configured here") && err.contains(&right), "{err}");
    let plain = Old::start(&["--upgradable"]);
    let port = plain.memcached.to_string();
    let here = ["--memcached", &port, "--admin", "none", "--memory", "32MiB", "--upgradable", "--upgrade"];
    let err = plain.refusal(&[&here[..], &["--flash", &other.flag()]].concat());
    assert!(err.contains("has no items on flash"), "{err}");
    check_flash(&old, before, "after refusals");
    ledger.check(old.memcached, 0);
    old.upgrade();
    check_flash(&old, before, "after the upgrade");
}

#[test]
fn devices_in_another_order_and_by_another_name_are_the_same() {
    let (a, b, link) = (FlashFile::new("order-a"), FlashFile::new("order-b"), FlashFile::new("order-link"));
    let flags = [a.flag(), b.flag()];
    let mut old = Old::sized("16MiB", &["--upgradable", "--flash", &flags[0], "--flash", &flags[1]]);
    let mut ledger = Ledger::new(0);
    assert!(ledger.write(old.memcached, &mut Prng::new(5), 3 * KEYS));
    let before = stat(old.memcached, "flash_items");
    std::os::unix::fs::symlink(&b.0, &link.0).expect("a link");
    let named = link.flag();
    let mut args = old.args(&["--upgrade"]);
    for arg in &mut args {
        match *arg {
            flag if flag == flags[0] => *arg = &named,
            flag if flag == flags[1] => *arg = &flags[0],
            _ => {}
        }
    }
    let next = Serving::start(&args);
    drop(args);
    assert!(old.serving.ended().success());
    assert!(!next.lines.iter().any(|line| line.contains("is not what it was")), "{:#?}", next.lines);
    let after = stat(old.memcached, "flash_items");
    assert!(before > KEYS / 16 && after >= before * 9 / 10, "{after} items are on flash, {before} were");
    assert!(ledger.check(old.memcached, 0) > KEYS / 2);
    assert!(stat(old.memcached, "flash_failed") < 10, "what is on flash is read where it was written");
}

#[test]
fn server_still_serves_flash_if_the_new_process_dies_during_an_upgrade() {
    let flash = FlashFile::new("upgrade-dies");
    let mut ledger = Ledger::new(0);
    let mut old = filled(&["--upgradable"], &flash, &mut ledger);
    let (addr, flag) = (old.memcached, flash.flag());
    for (step, seed) in ["asked", "received", "refused", "prepared"].into_iter().zip(20..) {
        let before = stat(addr, "flash_items");
        let mut child = dying(step, addr, Some(&flag));
        child.wait().expect("its end");
        old.serving.wait_for(said_of(step));
        check_flash(&old, before, step);
        let there = ledger.check(addr, seed);
        assert!(there > KEYS / 2, "{step}: {there} keys are there");
        assert!(ledger.write(addr, &mut Prng::new(seed), KEYS / 2), "{step}: it goes on writing");
    }
    let before = stat(addr, "flash_items");
    old.upgrade();
    check_flash(&old, before, "after the upgrade");
    ledger.check(addr, 0);
}

#[test]
fn flash_items_are_neither_torn_nor_stale_if_the_new_process_is_killed() {
    let (file, flash) = (MemoryFile::new("upgrade-flash-killed"), FlashFile::new("upgrade-killed"));
    let memory = ["--file", file.path()];
    let mut ledger = Ledger::new(0);
    let mut prng = Prng::new(13);
    let mut old = filled(&memory, &flash, &mut ledger);
    let (mut went_on, mut taken) = (0, 0);
    for round in 0..kills(8) as u64 {
        let args = old.args(&["--upgrade"]);
        let mut command = gannet(&[&["serve"], &args[..]].concat());
        let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
        let addr = old.memcached;
        let mut is_stuck = false;
        std::thread::scope(|scope| {
            let (ledger, seed) = (&mut ledger, prng.next_u64());
            scope.spawn(move || ledger.write(addr, &mut Prng::new(seed), u64::MAX));
            std::thread::sleep(Duration::from_millis(10 + round % 8 * 8 + prng.below(8)));
            child.kill().expect("killed");
            child.wait().expect("its end");
            // Either the old process continues to serve, or it had handed over and ends.
            let end = Instant::now() + PATIENCE;
            while !old.serving.has_ended() && !answers(addr) && !is_stuck {
                // The writer ends with the server, so a failure has to wait for the end of both.
                is_stuck = Instant::now() >= end;
            }
            if old.serving.has_ended() {
                taken += 1;
                assert!(old.serving.ended().success());
            } else {
                went_on += 1;
                old.serving.signal(if round % 2 == 0 { "KILL" } else { "TERM" });
                old.serving.ended();
            }
        });
        assert!(!is_stuck, "round {round}: nobody serves: {:#?}", old.serving.lines);
        old = start(&memory, &flash);
        let there = ledger.check(old.memcached, 13);
        assert!(there > KEYS / 2, "round {round}: {there} keys are there");
    }
    assert!(went_on > 0, "{went_on} went on, {taken} were taken over");
}
