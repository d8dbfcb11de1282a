//! `stats`: the statistics that memcached's tools and exporters read, with their names and meaning in memcached.
//!
//! Names that describe memcached's own implementation are reported only if a tool reads them. If the store has no such
//! figure (for example, moves between LRU lists), the figure is reported as 0.
//!
//! If a table is longer than the output, it continues in the next call. Lines are counted, and lines that were already
//! sent are skipped.

use super::call::{Call, Step};
use super::dump::Format;
use super::{LINE_ROOM, VERSION};
use crate::clients::connection_table::ConnectionState;
use crate::config::Address;
use crate::host::FlashFigures;
use crate::keyspace::namespace_config::NamespaceConfig;
use crate::memcache::dump;
use crate::metrics::Command;
use crate::metrics::command_counters::CommandTotals;
use crate::metrics::info_totals::InfoCounts;
use crate::push::watch::{LINES_BYTES, QUEUE_BYTES};
use crate::shared::Shared;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{REPORT_OPS, SessionWait};
use base::clock::UnixMillis;
use protocol::memcache::request::Stats;
use protocol::memcache::{Error, reply};
use protocol::number::{Decimal, put_u64};
use protocol::sink::{Fixed, Sink, put_display};
use std::io::Read;
use std::net::SocketAddr;

/// The maximum length of a line in bytes: a name, and the path of a unix socket.
const STAT_BYTES_MAX: usize = 256;

/// The slab class in which all items are reported. The store has no slab classes, and tools add up all classes.
const CLASS: u64 = 1;

/// memcached's counts of mechanisms that this server does not have: slab classes, LRU lists, a crawler, reply objects.
const ABSENT_COUNTS: [&str; 25] = [
    "direct_reclaims",
    "malloc_fails",
    "slab_reassign_running",
    "slabs_moved",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_evictions_nomem",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "lru_bumps_dropped",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "evicted_active",
    "crawler_items_checked",
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "round_robin_fallback",
    "unexpected_napi_ids",
];

/// memcached's counts of a slab class that this server does not have.
const ABSENT_CLASS_COUNTS: [&str; 15] = [
    "tailrepairs",
    "number_hot",
    "number_warm",
    "age_hot",
    "age_warm",
    "evicted_active",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "hits_to_hot",
    "hits_to_warm",
    "hits_to_temp",
];

/// A writer of a table's lines. It skips the first `skip` lines, and stops when the output has no room.
struct Lines<'o> {
    out: &'o mut OutBuffer,
    skip: usize,
    next: usize,
    full: bool,
}

impl Lines<'_> {
    fn line(&mut self, write: impl FnOnce(&mut Fixed<STAT_BYTES_MAX>)) {
        if self.full {
            return;
        }
        if self.next >= self.skip {
            // The end of the table must fit too.
            if self.out.room() < STAT_BYTES_MAX + reply::END.len() {
                self.full = true;
                return;
            }
            let mut line = Fixed::new();
            write(&mut line);
            self.out.push(line.as_slice());
        }
        self.next += 1;
    }

    /// Returns true if the next `lines` lines need not be written, because they were all sent in an earlier visit or
    /// because the output is full. If they were sent earlier, also advances past them.
    fn skips(&mut self, lines: usize) -> bool {
        let sent = self.next + lines <= self.skip;
        if sent && !self.full {
            self.next += lines;
        }
        sent || self.full
    }

    fn number(&mut self, name: &str, value: u64) {
        self.line(|line| reply::stat_u64(line, name, value));
    }

    fn text(&mut self, name: &str, value: &str) {
        self.line(|line| reply::stat(line, name, &value[..value.len().min(STAT_BYTES_MAX - 64)]));
    }

    fn switch(&mut self, name: &str, on: bool) {
        self.text(name, if on { "yes" } else { "no" });
    }

    /// Writes a line with `us` microseconds as seconds with six decimals.
    fn seconds(&mut self, name: &str, us: u64) {
        self.line(|line| {
            line.put(b"STAT ");
            line.put(name.as_bytes());
            line.put(b" ");
            put_u64(line, us / 1_000_000);
            line.put(b".");
            let padded = Decimal::new(1_000_000 + us % 1_000_000);
            line.put(&padded.as_slice()[1..]);
            line.put(reply::CRLF);
        });
    }

    fn class(&mut self, prefix: &str, name: &str, value: u64) {
        self.line(|line| reply::stat_class(line, prefix, CLASS, name, value));
    }
}

/// Executes `stats`. The request line is consumed with the last line of the reply.
pub(super) fn stats(call: &mut Call<'_, '_>, topic: Stats, consumed: usize) -> Step {
    match topic {
        Stats::Cachedump { .. } if !call.ctx.shared.config.dump_command => {
            reply::error(call.out, Error::CachedumpDisabled);
        }
        Stats::Cachedump { class, limit } if u64::from(class) == CLASS => {
            // 0 means no limit.
            let most = if limit == 0 { u64::MAX } else { limit.into() };
            return dump::dump(call, Format::Cachedump(most), consumed);
        }
        Stats::Reset => {
            call.ctx.shared.reset_stats();
            call.out.push(reply::RESET);
        }
        Stats::Detail(on) => {
            call.ctx.shared.watch.count_prefixes(on);
            call.ctx.push.watch.watched = call.ctx.shared.watch.watched();
            call.out.push(reply::OK);
        }
        _ => table(call, topic)?,
    }
    call.at += consumed;
    call.done(Command::Stats);
    Ok(())
}

fn table(call: &mut Call<'_, '_>, topic: Stats) -> Step {
    call.ops += REPORT_OPS;
    let skip = call.session.lines_done;
    let mut lines = Lines { out: call.out, skip, next: 0, full: false };
    match topic {
        Stats::General => general(&mut lines, &call.ctx.shared, call.ctx.now.secs()),
        Stats::Items => items(&mut lines, &call.ctx.shared, call.ctx.now),
        Stats::Slabs => slabs(&mut lines, &call.ctx.shared),
        Stats::Settings => settings(&mut lines, &call.ctx.shared),
        Stats::Sizes => lines.text("sizes_status", "disabled"),
        Stats::Conns => conns(&mut lines, &call.ctx.shared, call.ctx.now.secs()),
        Stats::Extstore => {
            if let Some(tier) = call.ctx.shared.host.flash() {
                extstore_lines(&mut lines, &call.ctx.shared.store_stats(), &tier);
            }
        }
        Stats::DetailDump => prefixes(&mut lines, &call.ctx.shared),
        Stats::Namespaces => namespaces(&mut lines, &call.ctx.shared),
        // Classes other than [`CLASS`] have no items.
        Stats::Cachedump { .. } | Stats::Reset | Stats::Detail(_) => {}
    }
    if lines.full {
        call.session.lines_done = lines.next;
        return Err(SessionWait::OutputFull { want: LINE_ROOM });
    }
    call.session.lines_done = 0;
    call.out.push(reply::END);
    Ok(())
}

/// Writes the counters by key prefix. Their lines are longer than those of other tables.
fn prefixes(lines: &mut Lines<'_>, shared: &Shared) {
    lines.next = lines.skip;
    shared.prefixes.each(lines.skip, |name, entry| {
        lines.full = lines.out.room() < LINE_ROOM;
        if lines.full {
            return false;
        }
        lines.out.push(b"PREFIX ");
        lines.out.push(name);
        for (word, value) in
            [(" get ", entry.gets), (" hit ", entry.hits), (" set ", entry.sets), (" del ", entry.deletes)]
        {
            lines.out.push(word.as_bytes());
            put_u64(lines.out, value);
        }
        lines.out.push(reply::CRLF);
        lines.next += 1;
        true
    });
}

/// Writes the figures of each namespace. They have memcached's names if such names exist, as in `STAT shop:curr_items
/// 17`.
fn namespaces(lines: &mut Lines<'_>, shared: &Shared) {
    let named = shared.namespaces.named();
    for space in crate::keyspace::figures::figures(shared) {
        let (store, room, commands) = (space.store, space.room, space.commands);
        let config = named.iter().find(|config| config.number == space.namespace.0);
        let most = |of: fn(&NamespaceConfig) -> u64| config.map_or(0, of);
        for (name, value) in [
            ("number", space.namespace.0.into()),
            ("curr_items", store.values + store.flash_items),
            ("bytes", store.item_bytes),
            ("heap_bytes", store.heap_bytes),
            ("heap_bytes_max", store.heap_bytes_max),
            ("limit_maxbytes", most(|config| config.memory_bytes.unwrap_or(0))),
            ("evictions", store.evicted),
            ("reclaimed", store.expired),
            ("flushed", store.flushed),
            ("get_hits", commands.get_hits),
            ("get_misses", commands.get_misses),
            ("cmd_set", commands.cmd_set),
            ("total_items", commands.items_stored),
            ("curr_connections", room.connections),
            ("max_connections", most(|config| config.connections_max)),
            ("rejected_connections", room.connections_refused),
            ("ops_max", most(|config| config.ops_max)),
            ("rejected_ops", room.ops_refused),
            ("prefixes", most(|config| config.prefixes.len() as u64)),
        ] {
            lines.line(|line| {
                for part in [&b"STAT "[..], space.name.as_bytes(), b":", name.as_bytes(), b" "] {
                    line.put(part);
                }
                put_u64(line, value);
                line.put(reply::CRLF);
            });
        }
    }
}

fn sum(shared: &Shared, counter: impl Fn(&crate::metrics::counters::WorkerCounters) -> u64) -> u64 {
    shared.workers.iter().map(|worker| counter(&worker.counters)).sum()
}

fn general(lines: &mut Lines<'_>, shared: &Shared, now_secs: u64) {
    let (store, commands, counts) = (shared.store_stats(), shared.stats_since_reset(), shared.counts_since_reset());
    let (user_us, system_us) = cpu_times_us();
    lines.number("pid", std::process::id().into());
    lines.number("uptime", now_secs.saturating_sub(shared.started.secs()));
    lines.number("time", now_secs);
    lines.text("version", VERSION);
    lines.number("pointer_size", u64::from(usize::BITS));
    lines.seconds("rusage_user", user_us);
    lines.seconds("rusage_system", system_us);
    connections(lines, shared, &counts);
    command_lines(lines, &commands);
    lines.number("get_expired", counts.read_expired);
    lines.number("get_flushed", counts.read_flushed);
    lines.number("auth_cmds", commands.auth_cmds);
    lines.number("auth_errors", commands.auth_errors);
    if let Some(tls) = shared.host.tls() {
        lines.number("ssl_handshake_errors", tls.failed);
        lines.number("time_since_server_cert_refresh", tls.read_ago_secs);
    }
    lines.number("idle_kicks", counts.idle_closed);
    lines.number("bytes_read", counts.bytes_read);
    lines.number("bytes_written", counts.bytes_written);
    lines.number("limit_maxbytes", store.memory_bytes);
    lines.number("client_memory", shared.budget.used());
    lines.number("client_memory_max", shared.budget.bytes_max());
    lines.number("client_memory_refused", shared.budget.refused());
    lines.number("threads", shared.workers.len() as u64);
    lines.number("conn_yields", commands.yields);
    lines.number("hash_power_level", store.index_power);
    lines.number("hash_bytes", store.index_bytes);
    lines.number("hash_is_expanding", store.index_growing.into());
    lines.number("bytes", store.item_bytes);
    lines.number("curr_items", store.values + store.flash_items);
    lines.number("total_items", commands.items_stored);
    lines.number("expired_unfetched", counts.expired_unread);
    lines.number("evicted_unfetched", counts.evicted_unread);
    lines.number("evictions", counts.evicted);
    lines.number("reclaimed", counts.expired);
    lines.number("crawler_reclaimed", counts.expired);
    lines.number("slab_global_page_pool", store.segments[0]);
    for absent in ABSENT_COUNTS {
        lines.number(absent, 0);
    }
    log_lines(lines, &shared.watch);
    segment_lines(lines, &store);
    if let Some(tier) = shared.host.flash() {
        flash_lines(lines, &store, &tier);
        extstore_lines(lines, &store, &tier);
    }
    lines.number("huge_page_bytes", shared.survey.latest().huge_page_bytes);
    // A slice's cost is the thread's own CPU time, without the time in which other threads used the CPU.
    for (kind, times) in shared.background.by_kind() {
        let longest_us = times.longest_cpu_ns.load(std::sync::atomic::Ordering::Relaxed) / 1000;
        lines.line(|line| {
            line.put(b"STAT background_slice_us_max_");
            line.put(kind.as_bytes());
            put_display(line, &format_args!(" {longest_us}\r\n"));
        });
    }
}

/// Writes the figures of the second tier.
fn flash_lines(lines: &mut Lines<'_>, store: &segment::StoreStats, tier: &FlashFigures) {
    for (name, count) in [
        ("flash_items", store.flash_items),
        ("flash_regions_unread", tier.regions_unread),
        ("flash_items_taken", store.flash_taken),
        ("flash_items_kept_on", store.flash_again),
        ("flash_items_evicted", store.flash_evicted),
        ("flash_items_refused", tier.items_refused),
        ("flash_hits", store.flash_hits),
        ("flash_returned", store.flash_back),
        ("flash_failed", store.flash_failed),
        ("flash_reads", tier.reads),
        ("flash_item_bytes", tier.item_bytes),
        ("flash_written_bytes", tier.written_bytes),
        ("flash_devices_lost", tier.devices_lost),
    ] {
        lines.number(name, count);
    }
}

/// Writes the figures of the second tier under memcached's names for its external storage. A page stands for a region.
fn extstore_lines(lines: &mut Lines<'_>, store: &segment::StoreStats, tier: &FlashFigures) {
    let used_bytes = tier.item_bytes.saturating_add(tier.again_bytes).min(tier.written_bytes);
    let region_bytes = tier.bytes / (tier.regions_free + tier.regions_used).max(1);
    let mean_bytes = tier.item_bytes / store.flash_taken.max(1);
    let live_bytes = (store.flash_items * mean_bytes).min(tier.regions_used * region_bytes);
    for (name, count) in [
        ("get_extstore", store.flash_hits + store.flash_back),
        ("get_aborted_extstore", 0),
        ("get_oom_extstore", 0),
        ("recache_from_extstore", store.flash_back),
        ("miss_from_extstore", tier.reads.saturating_sub(store.flash_hits + store.flash_back + store.flash_failed)),
        ("badcrc_from_extstore", store.flash_failed),
        ("extstore_compact_lost", 0),
        ("extstore_compact_rescues", store.flash_again),
        ("extstore_compact_skipped", 0),
        ("extstore_page_allocs", tier.regions_used + tier.regions_freed),
        ("extstore_page_evictions", 0),
        ("extstore_page_reclaims", tier.regions_freed),
        ("extstore_pages_free", tier.regions_free),
        ("extstore_pages_used", tier.regions_used),
        ("extstore_objects_evicted", store.flash_evicted),
        ("extstore_objects_read", tier.reads),
        ("extstore_objects_written", store.flash_taken + store.flash_again),
        ("extstore_objects_used", store.flash_items),
        ("extstore_bytes_evicted", store.flash_evicted * mean_bytes),
        ("extstore_bytes_written", used_bytes),
        ("extstore_bytes_read", tier.read_bytes),
        ("extstore_bytes_used", live_bytes),
        ("extstore_bytes_fragmented", tier.regions_used * region_bytes - live_bytes),
        ("extstore_limit_maxbytes", tier.bytes),
        ("extstore_io_queue", tier.reads_waiting),
    ] {
        lines.number(name, count);
    }
}

/// Writes the number of watchers, and the numbers of their lines that were written, sent, dropped and skipped.
fn log_lines(lines: &mut Lines<'_>, hub: &crate::push::watch::Hub) {
    use std::sync::atomic::Ordering::Relaxed;
    lines.number("log_worker_dropped", hub.dropped.load(Relaxed));
    lines.number("log_worker_written", hub.written.load(Relaxed));
    lines.number("log_watcher_skipped", hub.skipped.load(Relaxed));
    lines.number("log_watcher_sent", hub.sent.load(Relaxed));
    lines.number("log_watchers", hub.watchers());
}

fn connections(lines: &mut Lines<'_>, shared: &Shared, counts: &InfoCounts) {
    let open = shared.connections_open();
    let max = shared.live.connections_max.load(std::sync::atomic::Ordering::Relaxed);
    lines.number("max_connections", max);
    lines.number("curr_connections", open);
    lines.number("total_connections", counts.connections);
    lines.number("rejected_connections", counts.rejected);
    lines.number("connection_structures", shared.config.connections_max as u64);
    lines.number("accepting_conns", u64::from(open < max && !shared.host.is_stopping()));
    lines.number("listen_disabled_num", counts.descriptors_exhausted);
    lines.number("time_in_listen_disabled_us", 0);
    lines.number("read_buf_count", shared.workers.iter().map(|worker| worker.aside.inputs()).sum());
    lines.number("read_buf_bytes", shared.workers.iter().map(|worker| worker.aside.bytes()).sum());
    lines.number("read_buf_bytes_free", 0);
    lines.number("read_buf_oom", sum(shared, |worker| worker.slow_senders_dropped.value()));
    lines.number("buffer_waits", sum(shared, |worker| worker.buffer_waits.value()));
    lines.number("buffer_wait_us", sum(shared, |worker| worker.buffer_wait_ns.value()) / 1000);
    lines.number("buffer_waiters", sum(shared, |worker| worker.buffer_waiters.value()));
}

fn command_lines(lines: &mut Lines<'_>, commands: &CommandTotals) {
    commands.each(|name, value| match name {
        // These counters are reported under other names, or memcached's tools do not read them.
        "items_stored" | "auth_cmds" | "auth_errors" | "auth_delayed" | "user_ops_refused" | "protocol_errors"
        | "denied_commands" | "denied_keys" | "denied_channels" | "denied_namespaces" | "yields" => {}
        _ => lines.number(name, value),
    });
}

/// Writes the figures of the store's segments. They have their own names, because memcached has no segments.
fn segment_lines(lines: &mut Lines<'_>, store: &segment::StoreStats) {
    let [free, open, sealed, draining, quarantine, decommitted] = store.segments;
    lines.number("memory_held_bytes", store.held_bytes);
    lines.number("memory_bytes_max", store.memory_bytes_max);
    lines.number("segment_bytes", store.segment_bytes);
    for (name, count) in [
        ("segments_free", free),
        ("segments_open", open),
        ("segments_sealed", sealed),
        ("segments_draining", draining),
        ("segments_quarantine", quarantine),
        ("segments_decommitted", decommitted),
    ] {
        lines.number(name, count);
    }
    lines.number("segment_dead_bytes", store.dead_bytes);
    lines.number("items_relocated", store.relocated);
    lines.number("ops_parked", store.parked);
    lines.number("large_values_broken", store.large_broken);
    lines.switch("huge_pages_asked", store.huge_pages_asked);
}

fn items(lines: &mut Lines<'_>, shared: &Shared, now: UnixMillis) {
    let (store, counts) = (shared.store_stats(), shared.counts_since_reset());
    if store.items == 0 {
        return;
    }
    for (name, value) in [
        ("number", store.values),
        ("number_cold", store.values),
        ("age", store.oldest.map_or(0, |oldest| now.ms_since(oldest) / 1000)),
        ("mem_requested", store.item_bytes),
        ("evicted", counts.evicted),
        ("evicted_nonzero", store.evicted_with_ttl),
        ("evicted_time", store.evicted_idle_ms / 1000),
        ("evicted_unfetched", counts.evicted_unread),
        ("expired_unfetched", counts.expired_unread),
        ("outofmemory", shared.stats_since_reset().store_no_memory),
        ("reclaimed", counts.expired),
        ("crawler_reclaimed", counts.expired),
        ("hits_to_cold", shared.stats_since_reset().get_hits),
    ] {
        lines.class("items", name, value);
    }
    for absent in ABSENT_CLASS_COUNTS {
        lines.class("items", absent, 0);
    }
}

/// Writes all segments as one slab class. A page stands for a segment, and a chunk for an item of average size. As in
/// memcached, each piece of a large value takes a chunk.
fn slabs(lines: &mut Lines<'_>, shared: &Shared) {
    let (store, commands) = (shared.store_stats(), shared.stats_since_reset());
    if store.items > 0 {
        let chunk_bytes = store.item_bytes.div_ceil(store.items).max(1);
        let pages = store.heap_bytes / store.segment_bytes;
        let chunks = (store.heap_bytes / chunk_bytes).max(store.items);
        for (name, value) in [
            ("chunk_size", chunk_bytes),
            ("chunks_per_page", store.segment_bytes / chunk_bytes),
            ("total_pages", pages),
            ("total_chunks", chunks),
            ("used_chunks", store.items),
            ("free_chunks", chunks - store.items),
            ("free_chunks_end", 0),
            ("mem_requested", store.item_bytes),
            ("get_hits", commands.get_hits),
            ("cmd_set", commands.cmd_set),
            ("delete_hits", commands.delete_hits),
            ("incr_hits", commands.incr_hits),
            ("decr_hits", commands.decr_hits),
            ("cas_hits", commands.cas_hits),
            ("cas_badval", commands.cas_badval),
            ("touch_hits", commands.touch_hits),
        ] {
            lines.class("", name, value);
        }
    }
    lines.number("active_slabs", u64::from(store.items > 0));
    lines.number("total_malloced", store.heap_bytes);
}

/// Writes the settings of TLS, under memcached's names. Without TLS, writes memcached's defaults.
fn tls_settings(lines: &mut Lines<'_>, shared: &Shared) {
    let tls = shared.host.tls();
    lines.switch("ssl_enabled", tls.is_some());
    let tls = tls.unwrap_or_default();
    let text = |text: &str| if text.is_empty() { "NULL".to_owned() } else { text.to_owned() };
    // memcached writes these two in another way than the other texts while they are unset.
    for (name, file) in [("ssl_chain_cert", &tls.cert_file), ("ssl_key", &tls.key_file)] {
        lines.text(name, if file.is_empty() { "(null)" } else { file });
    }
    lines.number(
        "ssl_verify_mode",
        ["no", "optional", "yes"].iter().position(|mode| *mode == tls.auth_clients).map_or(0, |at| at as u64),
    );
    lines.number("ssl_keyformat", 1);
    lines.text("ssl_ciphers", &text(&tls.ciphers));
    lines.text("ssl_ca_cert", &text(&tls.ca_file));
    lines.number("ssl_wbuf_size", 16 << 10);
    lines.switch("ssl_session_cache", tls.resumes);
    lines.switch("ssl_kernel_tls", false);
    lines.text("ssl_min_version", if tls.protocols == "TLSv1.3" { "tlsv1.3" } else { "tlsv1.2" });
}

fn settings(lines: &mut Lines<'_>, shared: &Shared) {
    let config = &shared.config;
    let tcp = config.memcached.iter().find_map(|addr| match addr {
        Address::Tcp(addr) => Some(addr),
        Address::Unix { .. } => None,
    });
    lines.number("maxbytes", shared.store.memory_bytes());
    lines.number("maxconns", shared.live.connections_max.load(std::sync::atomic::Ordering::Relaxed));
    lines.number("tcpport", tcp.map_or(0, |addr| addr.port().into()));
    lines.number("udpport", 0);
    match tcp {
        Some(addr) if !addr.ip().is_unspecified() => lines.line(|line| {
            line.put(b"STAT inter ");
            put_display(line, &addr.ip());
            line.put(reply::CRLF);
        }),
        _ => lines.text("inter", "NULL"),
    }
    lines.number("verbosity", 0);
    lines.text("evictions", if shared.store.keeps(segment::Namespace::DEFAULT) { "off" } else { "on" });
    let unix = config.memcached.iter().find_map(|addr| match addr {
        Address::Unix { path, mode } => Some((path.to_str()?, *mode)),
        Address::Tcp(_) => None,
    });
    let (unix, mode) = unix.map_or((None, 0o700), |(path, mode)| (Some(path), mode));
    lines.text("domain_socket", unix.unwrap_or("NULL"));
    lines.line(|line| {
        line.put(b"STAT umask ");
        put_display(line, &format_args!("{mode:o}"));
        line.put(reply::CRLF);
    });
    lines.switch("shutdown_command", config.shutdown_command);
    lines.number("num_threads", config.workers as u64);
    lines.text("stat_key_prefix", char::from(config.prefix_delimiter).encode_utf8(&mut [0; 4]));
    lines.switch("detail_enabled", shared.watch.watched().counts_prefixes());
    lines.number("reqs_per_event", config.requests_a_visit as u64);
    lines.switch("cas_enabled", config.cas);
    lines.number("tcp_backlog", config.backlog as u64);
    lines.text("binding_protocol", "ascii");
    lines.switch("auth_enabled_sasl", false);
    lines.switch("auth_enabled_ascii", shared.auth.is_some());
    lines.number("item_size_max", config.item_bytes_max);
    lines.switch("maxconns_fast", true);
    lines.switch("flush_enabled", config.flush_command);
    lines.switch("dump_enabled", config.dump_command);
    lines.text("hash_algorithm", "xxh3");
    lines.number("idle_timeout", config.idle_timeout.map_or(0, |timeout| timeout.as_secs()));
    tls_settings(lines, shared);
    lines.text("memory_file", config.memory_file.as_ref().map_or("(null)", |path| path.to_str().unwrap_or("?")));
    for absent in ABSENT_SWITCHES {
        lines.switch(absent, false);
    }
    for absent in ABSENT_AMOUNTS {
        lines.number(absent, 0);
    }
    lines.number("watcher_logbuf_size", QUEUE_BYTES as u64);
    lines.number("worker_logbuf_size", LINES_BYTES as u64);
    flash_settings(lines);
}

/// Writes memcached's settings of external storage, with the values that describe flash. As in memcached, they are
/// listed without flash, too.
fn flash_settings(lines: &mut Lines<'_>) {
    // Items of every length and age move to flash, and the second read brings an item back.
    for (name, value) in [
        ("ext_item_size", 0),
        ("ext_item_age", 0),
        ("ext_low_ttl", 0),
        ("ext_recache_rate", 1),
        ("ext_wbuf_size", FLASH_CHUNK_BYTES),
        ("ext_compact_under", 0),
        ("ext_drop_under", 0),
        ("ext_max_sleep", 0),
    ] {
        lines.number(name, value);
    }
    lines.text("ext_max_frag", "0.75");
    lines.switch("ext_drop_unread", true);
}

/// The unit in which flash is written, in bytes.
const FLASH_CHUNK_BYTES: u64 = 1 << 20;
/// memcached's switches of mechanisms that this server does not have.
const ABSENT_SWITCHES: [&str; 7] = [
    "track_sizes",
    "slab_reassign",
    "lru_crawler",
    "lru_maintainer_thread",
    "lru_segmented",
    "temp_lru",
    "inline_ascii_response",
];
/// memcached's amounts that adjust mechanisms that this server does not have.
const ABSENT_AMOUNTS: [&str; 20] = [
    "oldest",
    "growth_factor",
    "chunk_size",
    "num_threads_per_udp",
    "hashpower_init",
    "slab_automove",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_automove_freeratio",
    "slab_chunk_max",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "tail_repair_time",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temporary_ttl",
    "read_buf_mem_limit",
    "num_napi_ids",
];

/// Writes the listening sockets, then the connections of each worker. The state of a connection is at most one second
/// old. As in memcached, a connection's number is that of its file descriptor. Listening sockets are numbered from 0.
fn conns(lines: &mut Lines<'_>, shared: &Shared, now_secs: u64) {
    for (number, addr) in shared.config.memcached.iter().enumerate() {
        lines.line(|line| {
            line.put(b"STAT ");
            put_u64(line, number as u64);
            match addr {
                Address::Tcp(addr) => {
                    line.put(b":addr tcp:");
                    put_display(line, addr);
                }
                Address::Unix { path, .. } => {
                    line.put(b":addr unix:");
                    let path = path.to_str().unwrap_or("?");
                    line.put(&path.as_bytes()[..path.len().min(STAT_BYTES_MAX - 64)]);
                }
            }
            line.put(reply::CRLF);
        });
        lines.line(|line| {
            line.put(b"STAT ");
            put_u64(line, number as u64);
            line.put(b":state conn_listening\r\n");
        });
    }
    for worker in &shared.workers {
        worker.connection_table.each(|connection| {
            if lines.skips(CONNECTION_LINES) {
                return;
            }
            let number = connection.descriptor.into();
            let mut line = |name: &[u8], write: &dyn Fn(&mut Fixed<STAT_BYTES_MAX>)| {
                lines.line(|line| {
                    line.put(b"STAT ");
                    put_u64(line, number);
                    line.put(name);
                    write(line);
                    line.put(reply::CRLF);
                });
            };
            match connection.peer {
                Some(SocketAddr::V4(peer)) => line(b":addr tcp:", &|line| put_display(line, &peer)),
                Some(SocketAddr::V6(peer)) => line(b":addr tcp6:", &|line| put_display(line, &peer)),
                None => line(b":addr unix:", &|_| {}),
            }
            let state: &[u8] = match connection.state {
                ConnectionState::Request => b"conn_read",
                ConnectionState::Value => b"conn_nread",
                ConnectionState::Events => b"conn_watch",
            };
            line(b":state ", &|line| line.put(state));
            let silent_secs = now_secs.saturating_sub(connection.received_secs);
            line(b":secs_since_last_cmd ", &|line| put_u64(line, silent_secs));
        });
    }
}

/// The number of lines of one connection in `stats conns`.
const CONNECTION_LINES: usize = 3;

/// Returns the user and system time of this process in us. Returns 0 if the kernel does not report them.
fn cpu_times_us() -> (u64, u64) {
    /// The kernel reports process times in hundredths of a second, whatever its own tick.
    const TICK_US: u64 = 10_000;
    let mut text = [0; 1024];
    let read = std::fs::File::open("/proc/self/stat").and_then(|mut file| file.read(&mut text));
    let text = &text[..read.unwrap_or(0)];
    // The second field is the program's name in parentheses. It may contain any character, so parsing begins after it.
    let Some(end) = text.iter().rposition(|byte| *byte == b')') else { return (0, 0) };
    let mut fields = text[end + 1..].split(|byte| *byte == b' ').filter(|field| !field.is_empty()).skip(11);
    let mut ticks = || fields.next().and_then(protocol::number::parse_u64).unwrap_or(0);
    let user = ticks();
    (user * TICK_US, ticks() * TICK_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_used_by_this_process_grows_with_work() {
        let before = cpu_times_us();
        let mut sum = 0u64;
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 60 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(1));
        }
        let after = cpu_times_us();
        assert!(after.0 + after.1 > before.0 + before.1, "{before:?} {after:?} {sum}");
    }
}
