//! The sections of `INFO` on the server, its clients, memory and keys. A field of Redis whose feature the server lacks
//! has the value that Redis reports while the feature is unused.

use super::request::InfoRequest;
use crate::config::BACKGROUND_HZ;
use crate::keyspace::namespaces::Namespaces;
use crate::push::outbox::ChannelKind;
use crate::resp::REDIS_VERSION;
use crate::resp::config;
use crate::resp::graph::figures as graph_figures;
use crate::shared::{Pause, Shared, WorkerShared};
use base::prng::Prng;
use segment::Namespace;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

/// A number of bytes as `INFO` writes it for people: `1.50K`.
struct Human(u64);

impl std::fmt::Display for Human {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unit = [("P", 5), ("T", 4), ("G", 3), ("M", 2), ("K", 1)]
            .into_iter()
            .find(|(_, power)| self.0 >> (10 * power) > 0);
        match unit {
            None => write!(f, "{}B", self.0),
            Some((name, power)) => write!(f, "{:.2}{name}", self.0 as f64 / (1u64 << (10 * power)) as f64),
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The fields of Redis on its build, with the values that it reports if it was built from no repository and without
/// GCC; and those on clocks and atomic operations, in the form of Redis.
const BUILD: &str = "redis_git_sha1:00000000\r\nredis_git_dirty:0\r\nmonotonic_clock:POSIX clock_gettime\r\n\
    atomicvar_api:rust-core\r\ngcc_version:0.0.0\r\n";
/// The maximum of the clock with 24 bits that Redis uses for eviction, in seconds.
const LRU_CLOCK_MAX: u64 = (1 << 24) - 1;

/// Returns a number of 40 hexadecimal digits that identifies this start of the server. `what` distinguishes several
/// such numbers.
fn identity(shared: &Shared, what: u64) -> String {
    let mut prng = Prng::new(shared.started.0 ^ u64::from(std::process::id()) << 42 ^ what);
    (0..5).map(|_| format!("{:08x}", prng.next_u64() >> 32)).collect()
}

pub(super) fn server(
    text: &mut String,
    shared: &Shared,
    InfoRequest { now_secs, .. }: InfoRequest,
) -> std::fmt::Result {
    let up_secs = now_secs.saturating_sub(shared.started.secs());
    let version = env!("CARGO_PKG_VERSION");
    let now_us = shared.now().0.saturating_add_signed(shared.wall_ahead_ms()) * 1000;
    let process = &shared.config.process;
    write!(
        text,
        "redis_version:{REDIS_VERSION}\r\ngannet_version:{version}\r\n{BUILD}redis_build_id:{version}\r\n\
         redis_mode:standalone\r\nos:Linux\r\narch_bits:64\r\nmultiplexing_api:{}\r\nprocess_id:{}\r\n\
         process_supervised:{}\r\nrun_id:{}\r\ntcp_port:{}\r\nserver_time_usec:{now_us}\r\n\
         uptime_in_seconds:{up_secs}\r\nuptime_in_days:{}\r\nhz:{BACKGROUND_HZ}\r\n\
         configured_hz:{BACKGROUND_HZ}\r\nlru_clock:{}\r\nexecutable:{}\r\nconfig_file:{}\r\n\
         io_threads_active:{}\r\n",
        process.multiplexing.get().unwrap_or(&"epoll"),
        std::process::id(),
        if process.is_supervised { "systemd" } else { "no" },
        identity(shared, 0),
        config::port(shared),
        up_secs / 86_400,
        (now_us / 1_000_000) & LRU_CLOCK_MAX,
        process.executable.display(),
        process.config_file.display(),
        shared.workers.len()
    )
}

/// Writes the section on TLS. The fields of certificates are those of Valkey.
pub(super) fn tls(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    let Some(state) = shared.host.tls() else { return Ok(()) };
    let now = (shared.now().0.saturating_add_signed(shared.wall_ahead_ms()) / 1000) as i64;
    write!(
        text,
        "tls_server_cert_serial:{}\r\ntls_server_cert_expires_in_seconds:{}\r\ntls_ca_cert_serial:{}\r\n\
         tls_ca_cert_expires_in_seconds:{}\r\ntls_connections:{}\r\ntls_handshakes_full:{}\r\n\
         tls_handshakes_resumed:{}\r\ntls_handshakes_failed:{}\r\ntls_handshakes_under_way:{}\r\n\
         tls_handshakes_waiting:{}\r\ntls_reloads:{}\r\ntls_reloads_failed:{}\r\n",
        state.certificate.serial,
        state.certificate.not_after - now,
        state.ca.serial,
        if state.ca.serial.is_empty() { 0 } else { state.ca.not_after - now },
        state.open,
        state.full,
        state.resumed,
        state.failed,
        state.under_way,
        state.waiting,
        state.reloads.0,
        state.reloads.1,
    )
}

pub(super) fn clients(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    let most = shared.live.connections_max.load(Relaxed);
    let sum = |of: fn(&WorkerShared) -> u64| shared.workers.iter().map(of).sum::<u64>();
    let most_of = |of: fn(&WorkerShared) -> u64| shared.workers.iter().map(of).max().unwrap_or(0);
    write!(
        text,
        "connected_clients:{}\r\ncluster_connections:0\r\nmaxclients:{most}\r\n\
         client_recent_max_input_buffer:{}\r\nclient_recent_max_output_buffer:{}\r\nblocked_clients:{}\r\n\
         tracking_clients:{}\r\nclients_in_timeout_table:0\r\nbuffer_waits:{}\r\n\
         buffer_wait_us:{}\r\nbuffer_waiters:{}\r\nrequests_set_aside:{}\r\nreplies_set_aside:{}\r\n\
         bytes_set_aside:{}\r\n",
        shared.connections_open(),
        most_of(|worker| worker.counters.input_bytes_max.value()),
        most_of(|worker| worker.counters.output_bytes_max.value()),
        paused_clients(shared) + shared.waiters.blocked(),
        shared.tracking.clients(),
        sum(|worker| worker.counters.buffer_waits.value()),
        sum(|worker| worker.counters.buffer_wait_ns.value()) / 1000,
        sum(|worker| worker.counters.buffer_waiters.value()),
        sum(|worker| worker.aside.inputs()),
        sum(|worker| worker.aside.outputs()),
        sum(|worker| worker.aside.bytes()),
    )
}

/// Returns the number of clients whose requests wait because of `CLIENT PAUSE`.
fn paused_clients(shared: &Shared) -> u64 {
    let pause = &shared.live.pause;
    if pause.now(shared.now()) == Pause::None {
        return 0;
    }
    let workers = shared.workers.iter().map(|worker| &worker.counters);
    workers.filter(|counters| counters.paused_in.value() == pause.number()).map(|c| c.paused_clients.value()).sum()
}

/// The fields of Redis on memory of replicas, defragmentation and deferred deletion, which the server lacks.
const NO_MEMORY_OF: &str = "mem_not_counted_for_evict:0\r\nmem_replication_backlog:0\r\n\
    mem_total_replication_buffers:0\r\n\
    mem_clients_slaves:0\r\nmem_cluster_links:0\r\nmem_aof_buffer:0\r\nactive_defrag_running:0\r\n\
    lazyfree_pending_objects:0\r\nlazyfreed_objects:0\r\n";

/// Writes the fields on memory of scripts.
fn scripts(text: &mut String, shared: &Shared) -> std::fmt::Result {
    let (heap, (count, evals)) = (shared.scripts.heap_bytes(), shared.scripts.cached());
    let libraries = shared.scripts.libraries.now();
    let (functions, bytes) = (libraries.bytes() as u64, evals + libraries.bytes() as u64);
    write!(
        text,
        "used_memory_lua:{heap}\r\nused_memory_lua_human:{}\r\nused_memory_vm_eval:{heap}\r\n\
         used_memory_scripts_eval:{evals}\r\nnumber_of_cached_scripts:{count}\r\nnumber_of_functions:{}\r\n\
         number_of_libraries:{}\r\nused_memory_vm_functions:0\r\nused_memory_vm_total:{heap}\r\n\
         used_memory_vm_total_human:{}\r\nused_memory_functions:{functions}\r\nused_memory_scripts:{bytes}\r\n\
         used_memory_scripts_human:{}\r\n",
        Human(heap),
        libraries.function_count(),
        libraries.libraries.len(),
        Human(heap),
        Human(bytes),
    )
}

pub(super) fn memory(text: &mut String, shared: &Shared, request: InfoRequest) -> std::fmt::Result {
    let (stats, found) = (shared.store_stats(), shared.survey.latest());
    let (used, items) = (stats.used_bytes(), stats.item_bytes);
    let (peak, resident) = (shared.survey.used_peak_bytes(used), found.resident_bytes);
    // redis-cli takes the first name that begins with `used_memory` for the memory in use.
    write!(
        text,
        "used_memory:{used}\r\nused_memory_human:{}\r\nused_memory_rss:{resident}\r\nused_memory_rss_human:{}\r\n\
         used_memory_peak:{peak}\r\nused_memory_peak_human:{}\r\nused_memory_peak_perc:{:.2}%\r\n\
         used_memory_overhead:{}\r\nused_memory_startup:0\r\nused_memory_dataset:{items}\r\n\
         used_memory_dataset_perc:{:.2}%\r\n",
        Human(used),
        Human(resident),
        Human(peak),
        ratio(used, peak) * 100.0,
        used.saturating_sub(items),
        ratio(items, used) * 100.0,
    )?;
    scripts(text, shared)?;
    write!(
        text,
        "total_system_memory:{}\r\ntotal_system_memory_human:{}\r\nmaxmemory:{}\r\nmaxmemory_human:{}\r\n\
         maxmemory_policy:{}\r\nallocator_allocated:{used}\r\nallocator_active:{used}\r\n\
         allocator_resident:{resident}\r\nallocator_frag_ratio:1.00\r\nallocator_frag_bytes:0\r\n\
         allocator_rss_ratio:{:.2}\r\nallocator_rss_bytes:{}\r\nrss_overhead_ratio:1.00\r\nrss_overhead_bytes:0\r\n\
         mem_fragmentation_ratio:{:.2}\r\nmem_fragmentation_bytes:{}\r\nmem_clients_normal:{}\r\n\
         mem_allocator:segments\r\n{NO_MEMORY_OF}",
        found.system_bytes,
        Human(found.system_bytes),
        stats.memory_bytes,
        Human(stats.memory_bytes),
        policy(shared, request.namespace),
        ratio(resident, used),
        resident as i64 - used as i64,
        ratio(resident, used),
        resident as i64 - used as i64,
        shared.budget.used(),
    )?;
    write!(
        text,
        "client_memory:{}\r\nclient_memory_max:{}\r\nclient_memory_refused:{}\r\n",
        shared.budget.used(),
        shared.budget.bytes_max(),
        shared.budget.refused()
    )
}

/// Returns the eviction policy of a namespace, under the name that Redis has for it.
pub(in crate::resp) fn policy(shared: &Shared, namespace: Namespace) -> &'static str {
    if shared.store.keeps(namespace) { "noeviction" } else { "allkeys-lfu" }
}

pub(super) fn persistence(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    write!(
        text,
        "loading:0\r\nasync_loading:0\r\ncurrent_cow_peak:0\r\ncurrent_cow_size:0\r\ncurrent_cow_size_age:0\r\n\
         current_fork_perc:0.00\r\ncurrent_save_keys_processed:0\r\ncurrent_save_keys_total:0\r\n\
         rdb_changes_since_last_save:0\r\nrdb_bgsave_in_progress:0\r\nrdb_last_save_time:{}\r\n\
         rdb_last_bgsave_status:ok\r\nrdb_last_bgsave_time_sec:-1\r\nrdb_current_bgsave_time_sec:-1\r\n\
         rdb_saves:0\r\nrdb_last_cow_size:0\r\nrdb_last_load_keys_expired:0\r\nrdb_last_load_keys_loaded:0\r\n\
         aof_enabled:0\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:-1\r\n\
         aof_current_rewrite_time_sec:-1\r\naof_last_bgrewrite_status:ok\r\naof_rewrites:0\r\n\
         aof_rewrites_consecutive_failures:0\r\naof_last_write_status:ok\r\naof_last_cow_size:0\r\n\
         module_fork_in_progress:0\r\nmodule_fork_last_cow_size:0\r\n",
        shared.started.secs()
    )
}

/// The fields of Redis on replicas, forks, defragmentation and I/O threads, which the server lacks.
const NO_STATS_OF: &str = "total_net_repl_input_bytes:0\r\ntotal_net_repl_output_bytes:0\r\n\
    instantaneous_input_repl_kbps:0.00\r\ninstantaneous_output_repl_kbps:0.00\r\nsync_full:0\r\nsync_partial_ok:0\r\n\
    sync_partial_err:0\r\nexpired_time_cap_reached_count:0\r\ntotal_eviction_exceeded_time:0\r\n\
    current_eviction_exceeded_time:0\r\nlatest_fork_usec:0\r\ntotal_forks:0\r\nmigrate_cached_sockets:0\r\n\
    slave_expires_tracked_keys:0\r\nactive_defrag_hits:0\r\nactive_defrag_misses:0\r\nactive_defrag_key_hits:0\r\n\
    active_defrag_key_misses:0\r\ntotal_active_defrag_time:0\r\ncurrent_active_defrag_time:0\r\n\
    unexpected_error_replies:0\r\n\
    dump_payload_sanitizations:0\r\nio_threaded_reads_processed:0\r\nio_threaded_writes_processed:0\r\n\
    reply_buffer_shrinks:0\r\nreply_buffer_expands:0\r\n";

pub(super) fn stats(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    let (commands, totals, rates) =
        (shared.stats_since_reset(), shared.info_since_reset(), shared.survey.latest().rates);
    let counts = totals.counts;
    let sum = |of: fn(&WorkerShared) -> u64| shared.workers.iter().map(of).sum::<u64>();
    write!(
        text,
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\ninstantaneous_ops_per_sec:{}\r\n\
         total_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\ninstantaneous_input_kbps:{:.2}\r\n\
         instantaneous_output_kbps:{:.2}\r\nrejected_connections:{}\r\nexpired_keys:{}\r\n\
         expire_cycle_cpu_milliseconds:{}\r\nevicted_keys:{}\r\n\
         evicted_clients:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\nacl_access_denied_auth:{}\r\n\
         acl_access_denied_cmd:{}\r\nacl_access_denied_key:{}\r\nacl_access_denied_channel:{}\r\n\
         auth_delayed:{}\r\nuser_ops_refused:{}\r\n",
        counts.connections,
        counts.ops,
        rates.ops_per_s,
        counts.bytes_read,
        counts.bytes_written,
        rates.input_bytes_per_s as f64 / 1024.0,
        rates.output_bytes_per_s as f64 / 1024.0,
        counts.rejected,
        counts.expired,
        counts.expire_cpu_ms,
        counts.evicted + counts.flash_evicted,
        sum(|worker| worker.counters.client_memory_dropped.value()),
        commands.get_hits,
        commands.get_misses,
        commands.auth_errors,
        commands.denied_commands,
        commands.denied_keys,
        commands.denied_channels,
        commands.auth_delayed,
        commands.user_ops_refused,
    )?;
    write!(
        text,
        "pubsub_channels:{}\r\npubsub_patterns:{}\r\npubsubshard_channels:{}\r\ntotal_error_replies:{}\r\n\
         client_output_buffer_limit_disconnections:{}\r\ntracking_total_keys:{}\r\ntracking_total_items:{}\r\n\
         tracking_total_prefixes:{}\r\ntotal_reads_processed:{}\r\ntotal_writes_processed:{}\r\n{NO_STATS_OF}",
        shared.channels.names(ChannelKind::Channel),
        shared.channels.names(ChannelKind::Pattern),
        shared.channels.names(ChannelKind::Shard),
        totals.stats.errors.values().sum::<u64>(),
        shared.channels.dropped.load(Relaxed),
        shared.tracking.keys(),
        shared.tracking.items(),
        shared.tracking.prefixes(),
        counts.receives,
        counts.sends,
    )
}

pub(super) fn replication(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    write!(
        text,
        "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\nmaster_replid:{}\r\n\
         master_replid2:{:040}\r\nmaster_repl_offset:0\r\nsecond_repl_offset:-1\r\nrepl_backlog_active:0\r\n\
         repl_backlog_size:0\r\nrepl_backlog_first_byte_offset:0\r\nrepl_backlog_histlen:0\r\n",
        identity(shared, 1),
        0
    )
}

pub(super) fn cpu(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    let cpu = shared.survey.latest().cpu;
    let secs = |ms: u64| ms as f64 / 1000.0;
    write!(
        text,
        "used_cpu_sys:{:.6}\r\nused_cpu_user:{:.6}\r\nused_cpu_sys_children:{:.6}\r\nused_cpu_user_children:{:.6}\r\n\
         used_cpu_sys_main_thread:{:.6}\r\nused_cpu_user_main_thread:{:.6}\r\n",
        secs(cpu.system_ms),
        secs(cpu.user_ms),
        secs(cpu.children_system_ms),
        secs(cpu.children_user_ms),
        secs(cpu.main_system_ms),
        secs(cpu.main_user_ms)
    )
}

pub(super) fn keyspace(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    let expiring = shared.survey.latest().census.expiring;
    let databases = shared.namespaces.databases();
    for Namespace(database) in Namespaces::numbers() {
        let namespace = databases.namespace(database);
        let items = shared.store.keys(namespace);
        if items > 0 {
            let expires = expiring[usize::from(namespace.0)].min(items);
            write!(text, "db{database}:keys={items},expires={expires},avg_ttl=0\r\n")?;
        }
    }
    Ok(())
}

/// Writes the figures of `G.STATS`.
pub(super) fn graph(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    let (Some(figures), Some(store)) = (graph_figures(shared), shared.graphs.store()) else { return Ok(()) };
    write!(text, "graph_count:{}\r\n", store.graphs().count())?;
    figures.into_iter().try_for_each(|(name, value)| write!(text, "graph_{name}:{value}\r\n"))
}

pub(super) fn namespaces(text: &mut String, shared: &Shared, _: InfoRequest) -> std::fmt::Result {
    for space in crate::keyspace::figures::figures(shared) {
        let (store, room, commands) = (space.store, space.room, space.commands);
        write!(
            text,
            "ns{}:name={},keys={},bytes={},heap={},heap_max={},evicted={},expired={},flushed={},hits={},misses={},\
             connections={},connections_refused={},ops_refused={}\r\n",
            space.namespace.0,
            space.name,
            store.values,
            store.item_bytes,
            store.heap_bytes,
            store.heap_bytes_max,
            store.evicted,
            store.expired,
            store.flushed,
            commands.get_hits,
            commands.get_misses,
            room.connections,
            room.connections_refused,
            room.ops_refused
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_redis_writes_them() {
        let shown = [0, 1023, 1024, 916_448, 6_590_464, 25_276_502_016].map(|bytes| Human(bytes).to_string());
        assert_eq!(shown, ["0B", "1023B", "1.00K", "894.97K", "6.29M", "23.54G"]);
    }
}
