//! Tests checkpoints with a second tier. After a power failure, memory has the contents of the checkpoint and flash has
//! nothing; after a kill or an orderly end, both have all contents.

use std::net::SocketAddr;

use base::prng::Prng;

use crate::common::{Serving, run_in};
use crate::restart::MemoryFile;
use crate::restart_flash::{FlashFile, KEYS, Ledger, stat, wait_until_found};
use crate::restart_power::{BOOT, boot, mix};

/// Starts a server with checkpoints, with the boot id `run`. Returns when the first checkpoint is complete.
fn serve(file: &MemoryFile, flash: &FlashFile, index: &str, run: u64) -> (Serving, SocketAddr) {
    let flash = flash.flag();
    let words = ["--memcached", "127.0.0.1:0", "--admin", "none", "--workers", "2", "--memory", "16MiB"];
    let place = ["--file", file.path(), "--file-index", index, "--flash", &flash, "--checkpoint", "1h"];
    let mut serving = Serving::start_in(&[&words[..], &place].concat(), &[(BOOT, &boot(run))]);
    let addr = serving.addr_behind("memcached clients connect to ");
    let made = "the first checkpoint is on the disk";
    if !serving.lines.iter().any(|line| line.contains(made)) {
        serving.wait_for(made);
    }
    wait_until_found(addr);
    (serving, addr)
}

fn end(mut serving: Serving, signal: &str) {
    serving.signal(signal);
    assert_eq!(serving.ended().success(), signal == "TERM");
}

fn says(serving: &Serving, text: &str) -> bool {
    serving.lines.iter().any(|line| line.contains(text))
}

const LOST: &str = "power was lost while";
const GONE: &str = "all items on flash are lost";

#[test]
fn a_loss_of_power_leaves_nothing_on_flash_and_a_kill_or_an_end_in_order_all_of_it() {
    std::thread::scope(|scope| {
        for (seed, index) in [(1, "file"), (2, "dram")] {
            scope.spawn(move || power_goes(index, seed));
        }
    });
}

fn power_goes(index: &str, seed: u64) {
    let named = |what: &str| format!("power-flash-{index}-{what}");
    let (file, flash) = (MemoryFile::on_disk(&named("file")), FlashFile::new(&named("flash")));
    let (mut before, mut since, mut prng) = (Ledger::new(0), Ledger::of(1, 1000), Prng::new(seed));
    let (serving, addr) = serve(&file, &flash, index, 1);
    assert!(before.write(addr, &mut prng, 2 * KEYS));
    assert!(stat(addr, "flash_items") > 1000, "much is on flash");
    end(serving, "TERM");

    // The boot is another one, but the server had ended in order.
    let (serving, addr) = serve(&file, &flash, index, 2);
    assert!(!says(&serving, LOST) && !says(&serving, GONE), "{:#?}", serving.lines);
    let found = stat(addr, "flash_items");
    assert!(found > 1000, "{found} are on flash");
    let early = std::fs::read(file.path()).expect("read");
    assert!(since.write(addr, &mut prng, 4000));
    end(serving, "KILL");
    let late = std::fs::read(file.path()).expect("read");

    // Within the same boot, all items are found.
    let (serving, addr) = serve(&file, &flash, index, 2);
    assert!(!says(&serving, LOST) && !says(&serving, GONE), "{:#?}", serving.lines);
    assert!(stat(addr, "flash_items") > 1000, "much is on flash");
    let there = before.clone().check(addr, seed) + since.clone().check(addr, seed);
    assert!(there > KEYS / 2, "{there} keys are there");
    end(serving, "KILL");

    for (number, late_of_ten) in [0, 10, 5].into_iter().enumerate() {
        let told = format!("index in {index}, seed {seed}, image {number}");
        let (bytes, as_early, as_late) = mix(&early, &late, late_of_ten, &mut prng);
        assert!(as_early + as_late > 50, "{told}: {as_early} pages as they were, {as_late} as they became");
        let image = MemoryFile::on_disk(&named(&number.to_string()));
        image.write(&bytes);
        look_at(&image, &flash, &told);
        let (serving, addr) = serve(&image, &flash, index, 3);
        assert!(says(&serving, LOST) && says(&serving, GONE), "{told}: {:#?}", serving.lines);
        let on_flash = stat(addr, "flash_items");
        // A full memory evicts some items to flash at once.
        assert!(on_flash < found / 4, "{told}: {on_flash} of {found} are on flash");
        let (mut before, mut since) = (before.clone(), since.clone());
        let (there, stored_since) = (before.check(addr, seed), since.check(addr, seed));
        assert!(
            there > 100 && stored_since == 0,
            "{told}: {there} are there, and {stored_since} of what was stored since"
        );
        assert_eq!(stat(addr, "flash_failed"), 0, "{told}: nothing names what was there");
        // The server accepts new writes on this state.
        assert!(since.write(addr, &mut prng, KEYS));
        assert!(since.check(addr, seed) > 500, "{told}");
        end(serving, "TERM");
    }
}

/// Checks the output of `gannet file` for a file after a power failure: the contents of the checkpoint, and nothing on
/// flash.
fn look_at(image: &MemoryFile, flash: &FlashFile, told: &str) {
    let env = [(BOOT, &*boot(3))];
    let (code, stats, err) = run_in(&["file", "stats", image.path()], &env);
    assert!(code == 0 && !stats.contains("flash_items"), "{told}: {stats}{err}");
    let (code, out, err) = run_in(&["file", "check", image.path()], &env);
    assert!(code == 0 && out.contains("no fault"), "{told}: {out}{err}");
    let (code, out, err) = run_in(&["file", "dump", image.path(), "--flash", &flash.flag()], &env);
    let items = out.lines().filter(|line| line.contains("\"key\"")).count();
    assert!(code == 0 && items > 100, "{told}: {items} items; {err}");
}
