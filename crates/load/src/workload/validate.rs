//! Validates a workload and reports all faults at once.

use base::units::TimeSpan;

use super::fault::{FAULTS_MAX, WorkloadFault};
use super::graph::{self, EdgeOrigin, GraphLoad};
use super::key;
use super::model::{
    Arrivals, COMMANDS_MAX, CONNECTIONS_MAX, DEPTH_MAX, FIELDS_MAX, KEY_SPACES_MAX, KEYS_MAX, KeyCommand, KeySpace,
    MULTI_KEYS_MAX, Order, Pace, Placement, Protocol, STEPS_MAX, Sizes, THREADS_MAX, VALUE_BYTES_MAX, Verb, Workload,
};

/// The highest exponent of a Zipf distribution; above it the first key gets every request.
const EXPONENT_MAX: f64 = 64.0;
/// The highest rate per second.
const RATE_PER_S_MAX: f64 = 1e9;
/// Shortest time between two storms; below it connections would hardly be up.
const STORM_EVERY_MIN: TimeSpan = TimeSpan::millis(10);
/// Largest length of names and texts, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

impl Workload {
    /// Checks the rules that the types do not enforce.
    ///
    /// # Errors
    /// All faults, at most [`FAULTS_MAX`], each with the path of its field.
    pub fn validate(&self) -> Result<(), Vec<WorkloadFault>> {
        let mut check = Check { faults: Vec::new() };
        check.whole(self);
        check.targets(self);
        check.pace(&self.pace);
        if let Some(graph) = &self.graph {
            check.graph(self, graph);
            return check.ended();
        }
        check.count("keys", self.keys.len() as u64, 1, KEY_SPACES_MAX as u64, "key spaces");
        for (at, space) in self.keys.iter().enumerate() {
            check.space(&format!("keys[{at}]"), self, space);
        }
        check.together(self);
        check.ended()
    }
}

struct Check {
    faults: Vec<WorkloadFault>,
}

impl Check {
    fn ended(self) -> Result<(), Vec<WorkloadFault>> {
        let mut faults = self.faults;
        faults.truncate(FAULTS_MAX);
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn fault(&mut self, name: &str, what: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(WorkloadFault::new(name, what, remedy));
    }

    fn holds(&mut self, holds: bool, name: &str, what: &str, remedy: &str) -> bool {
        if !holds {
            self.fault(name, what, remedy);
        }
        holds
    }

    fn count(&mut self, name: &str, count: u64, least: u64, most: u64, things: &str) -> bool {
        if count < least || count > most {
            self.fault(name, format!("{count} {things}"), format!("write a number from {least} to {most}"));
            return false;
        }
        true
    }

    fn number(&mut self, name: &str, number: f64, least: f64, most: f64) -> bool {
        if !(least..=most).contains(&number) {
            self.fault(name, format!("{number} is out of range"), format!("write a number from {least} to {most}"));
            return false;
        }
        true
    }

    fn weight(&mut self, name: &str, weight: f64) {
        self.number(name, weight, 0.0, 1e15);
    }

    fn whole(&mut self, workload: &Workload) {
        self.count("connections.count", workload.connections.into(), 1, CONNECTIONS_MAX.into(), "connections");
        self.count("connections.threads", workload.threads.into(), 1, THREADS_MAX.into(), "threads");
        self.count("connections.depth", workload.depth.into(), 1, DEPTH_MAX.into(), "requests in flight");
        self.count("connections.batch", workload.batch.into(), 1, DEPTH_MAX.into(), "requests in a batch");
        self.number("connections.reconnect", workload.reconnect_per_s, 0.0, RATE_PER_S_MAX);
        if let Some(every) = workload.storm_every.filter(|&every| every < STORM_EVERY_MIN) {
            let what = format!("a storm every {every} is too frequent");
            self.fault("connections.storm", what, format!("use at least {STORM_EVERY_MIN}"));
        }
        if workload.threads > workload.connections && workload.connections > 0 {
            let what = format!("there are {} threads for {} connections", workload.threads, workload.connections);
            self.fault("connections.threads", what, "use at least one connection per thread");
        }
        if !workload.pin.is_empty() && workload.pin.len() < workload.threads as usize {
            let what = format!("there are {} CPUs for {} threads", workload.pin.len(), workload.threads);
            self.fault("connections.pin", what, "name one CPU per thread, or lower connections.threads");
        }
        if workload.batch > workload.depth {
            let what = format!("a batch of {} exceeds the depth of {}", workload.batch, workload.depth);
            self.fault("connections.batch", what, "raise connections.depth to the size of the batch");
        }
        for (name, text) in [("name", &workload.name), ("about", &workload.about)] {
            self.holds(text.len() <= TEXT_BYTES_MAX, name, "the text is longer than 4096 bytes", "shorten it");
        }
        let has_time = workload.timeout.as_ns() > 0;
        self.holds(has_time, "connections.timeout", "the time limit is 0", "write a duration, as in 10s");
        if workload.blind {
            let is_grpc = workload.protocol == Protocol::Grpc;
            let what = "the windows of gRPC follow from the replies, which blind does not read";
            self.holds(!is_grpc, "connections.blind", what, "remove blind, or use another protocol");
            let remedy = "remove one of the two settings";
            self.holds(!workload.verify, "verify", "blind replies are not parsed, so values cannot be checked", remedy);
            self.holds(
                !workload.fill_on_miss,
                "fill_on_miss",
                "blind replies are not parsed, so misses are unknown",
                remedy,
            );
            let two = workload.commands().any(|command| command.verb.is_two());
            let what = "a command of two requests needs the reply to the first one";
            self.holds(!two, "connections.blind", what, "remove blind, or cas, hupdate and similar verbs");
        }
    }

    fn targets(&mut self, workload: &Workload) {
        for (at, target) in workload.targets.iter().enumerate() {
            let path = format!("targets.addresses[{at}]");
            let known = match target.address.strip_prefix("unix:") {
                Some(path) => !path.is_empty(),
                None => target
                    .address
                    .rsplit_once(':')
                    .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)),
            };
            let what = format!("'{}' is not an address", target.address);
            self.holds(known, &path, &what, "write HOST:PORT, as in 127.0.0.1:11211, or unix:PATH");
            self.count(&path, target.weight.into(), 1, 1_000_000, "as the weight of a target");
        }
        self.faults.extend(workload.tls.iter().flat_map(link::tls::TlsSettings::faults).map(WorkloadFault::from));
        if workload.targets.len() > 1 {
            let many = workload.commands().any(|command| command.keys > 1);
            let placed = workload.placement != Placement::Any;
            let remedy = "request one key at a time, or use placement = \"any\"";
            self.holds(
                !(many && placed),
                "targets.placement",
                "the keys of one request belong to several targets",
                remedy,
            );
            let remedy = "use placement ketama or slots, so that a key belongs to one target";
            let filled = workload.fill_on_miss || workload.commands().any(|command| command.verb.is_two());
            self.holds(
                placed || !filled,
                "targets.placement",
                "a request that follows a read (a fill, half of a cas or hupdate) must go to the same target as the \
                 read",
                remedy,
            );
        }
        if let Some(auth) = &workload.auth {
            let is_grpc = workload.protocol == Protocol::Grpc;
            let most = if is_grpc { TEXT_BYTES_MAX } else { 250 };
            let plain = |text: &str| !text.is_empty() && !text.contains([' ', '\r', '\n']) && text.len() <= most;
            let user = plain(&auth.user) || (auth.user.is_empty() && (workload.protocol.is_resp() || is_grpc));
            self.holds(user, "auth.user", "the user's name is not valid", "use 1 to 250 characters without spaces");
            self.holds(
                plain(&auth.password),
                "auth.password",
                "the password is not valid",
                "use 1 to 250 characters without spaces",
            );
            let spoken = workload.protocol != Protocol::Ping;
            self.holds(spoken, "auth", "the ping protocol has no users", "remove auth");
        }
        let has_databases = workload.protocol.is_resp() || workload.database == 0;
        self.holds(has_databases, "auth.database", "only RESP has databases", "remove the database");
        let (is_grpc, cache) = (workload.protocol == Protocol::Grpc, &workload.cache);
        self.holds(is_grpc || cache.is_empty(), "auth.cache", "only gRPC calls have a cache", "remove the cache");
        let plain = cache.len() <= 250 && cache.bytes().all(|byte| byte.is_ascii_graphic());
        self.holds(plain, "auth.cache", "the cache's name is not valid", "use at most 250 characters without spaces");
        let name = &workload.client_name;
        let named = workload.protocol.is_resp() || name.is_empty();
        self.holds(named, "connections.name", "only RESP connections have names", "remove the name");
        let plain = name.len() <= 250 && name.bytes().all(|byte| byte.is_ascii_graphic());
        self.holds(plain, "connections.name", "the name is not valid", "use at most 250 characters without spaces");
    }

    fn pace(&mut self, pace: &Pace) {
        let Pace::Open { rate_per_s, arrivals } = pace else { return };
        let ramp = matches!(arrivals, Arrivals::Ramp { .. });
        if !matches!(arrivals, Arrivals::Trace { .. }) && self.number("pace.rate", *rate_per_s, 0.0, RATE_PER_S_MAX) {
            let remedy = "write requests per second, as in 50k/s";
            self.holds(*rate_per_s > 0.0 || ramp, "pace.rate", "at a rate of 0 no request is ever due", remedy);
        }
        match arrivals {
            Arrivals::Constant | Arrivals::Poisson => {}
            Arrivals::OnOff { on, off } => {
                self.holds(on.0 > 0, "pace.on", "the length of a burst is 0", "write a duration, as in 100ms");
                self.holds(off.0 > 0, "pace.off", "the length of a pause is 0", "write a duration, as in 100ms");
            }
            Arrivals::Ramp { to_per_s, over } => {
                self.number("pace.to", *to_per_s, 1e-3, RATE_PER_S_MAX);
                self.holds(over.0 > 0, "pace.over", "the length of the ramp is 0", "write a duration, as in 60s");
            }
            Arrivals::Sine { swing, period } => {
                self.number("pace.swing", swing.0, 0.0, 1.0);
                self.holds(period.0 > 0, "pace.period", "the period of the wave is 0", "write a duration, as in 60s");
            }
            Arrivals::Trace { path, speed } => {
                let named = !path.as_os_str().is_empty();
                self.holds(named, "pace.file", "the trace file is missing", "name a file");
                self.number("pace.speed", *speed, 1e-6, 1e6);
            }
        }
    }

    fn space(&mut self, path: &str, workload: &Workload, space: &KeySpace) {
        let at = |field: &str| format!("{path}.{field}");
        self.weight(&at("weight"), space.weight);
        self.count(&at("count"), space.count, 1, KEYS_MAX, "keys");
        self.number(&at("once"), space.once.0, 0.0, 1.0);
        self.number(&at("compressible"), space.compressible.0, 0.0, 1.0);
        self.count(&at("fields"), space.fields.into(), 1, FIELDS_MAX.into(), "fields");
        let ttl_sum: f64 = space.ttl.iter().map(|(_, weight)| weight).sum();
        for (ttl, weight) in &space.ttl {
            self.weight(&at("ttl"), *weight);
            let whole = ttl.0.is_multiple_of(1_000_000_000) && ttl.0 < u64::from(u32::MAX) * 1_000_000_000;
            self.holds(
                whole,
                &at("ttl"),
                "a time to live must be in whole seconds, up to 2^32",
                "write a duration such as 60s or 2h",
            );
        }
        let drawn = space.ttl.is_empty() || ttl_sum > 0.0;
        self.holds(drawn, &at("ttl"), "every time to live has the weight 0", "give at least one of them a weight");
        self.sizes(&at("value_bytes"), &space.value_bytes, VALUE_BYTES_MAX);
        self.key_text(path, workload, space);
        self.order(&at("order"), workload, space);
        if space.is_hash() {
            let mixed = space.verbs.iter().any(|command| !command.verb.is_hash() && command.verb != Verb::Raw);
            let remedy = "give the other verbs their own key space";
            self.holds(!mixed, &at("verbs"), "a key cannot hold both a hash and a string", remedy);
            let remedy = "remove ttl, or send a raw EXPIRE";
            self.holds(ttl_sum == 0.0, &at("ttl"), "a hash stored by hset does not expire", remedy);
        }
        if space.is_counter() && workload.prefill {
            let mixed = space.verbs.iter().any(|command| command.verb.stores());
            let remedy = "give the counters their own key space";
            self.holds(!mixed, &at("verbs"), "a key cannot hold both a counter and a stored value", remedy);
        }
        self.count(&at("verbs"), space.verbs.len() as u64, 1, COMMANDS_MAX as u64, "verbs");
        let sum: f64 = space.verbs.iter().map(|command| command.weight).sum();
        self.holds(sum > 0.0, &at("verbs"), "every verb has the weight 0", "give at least one of them a weight");
        for (at, command) in space.verbs.iter().enumerate() {
            self.command(&format!("{path}.verbs[{at}]"), workload, space.key_bytes.bounds().1, command);
        }
    }

    fn graph(&mut self, workload: &Workload, load: &GraphLoad) {
        let remedy = "use protocol resp or resp3";
        self.holds(workload.protocol.is_resp(), "protocol", "a graph is reached by RESP", remedy);
        let remedy = "pass one target";
        self.holds(workload.targets.len() <= 1, "targets.addresses", "a graph is on one server", remedy);
        let is_any = workload.placement == Placement::Any;
        self.holds(is_any, "targets.placement", "a graph is on one server", "use placement = \"any\"");
        let remedy = "remove the setting";
        self.holds(!workload.blind, "connections.blind", "the replies of a graph are always read", remedy);
        self.holds(!workload.fill_on_miss, "fill_on_miss", "no query of a graph is followed by a store", remedy);
        for (field, name) in [("graph.name", &load.name), ("graph.type", &load.edge_type)] {
            let plain = (1..=graph::NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
            self.holds(plain, field, "the name is not valid", "use 1 to 64 characters without spaces");
        }
        if let EdgeOrigin::Rmat { scale, edges_per_node } = load.origin {
            self.count("graph.scale", scale.into(), 1, graph::SCALE_MAX.into(), "as the scale");
            let most = graph::EDGES_PER_NODE_MAX.into();
            self.count("graph.edges_per_node", edges_per_node.into(), 1, most, "edges for each node");
        }
        let (least, most) = load.targets;
        self.count("graph.targets", least.into(), 1, graph::TARGETS_MAX.into(), "destinations");
        self.count("graph.targets", most.into(), least.into(), graph::TARGETS_MAX.into(), "destinations");
        self.count("graph.page", load.page.into(), 1, graph::PAGE_MAX.into(), "neighbours in a page");
        self.count("graph.hops", load.hops.into(), 1, graph::HOPS_MAX.into(), "hops");
        if let Some(budget) = load.budget {
            self.count("graph.budget", budget.into(), 1, graph::BUDGET_MAX.into(), "edges");
        }
        self.number("graph.writes", load.writes_per_s, 0.0, graph::WRITES_PER_S_MAX);
        self.count("graph.write_edges", load.write_edges.into(), 1, graph::WRITE_EDGES_MAX.into(), "edges in a write");
        for (at, (_, weight)) in load.queries.iter().enumerate() {
            self.weight(&format!("graph.queries[{at}].weight"), *weight);
        }
        self.count("graph.queries", load.queries.len() as u64, 1, COMMANDS_MAX as u64, "queries");
        let sum: f64 = load.queries.iter().map(|(_, weight)| weight).sum();
        self.holds(sum > 0.0, "graph.queries", "every query has the weight 0", "give at least one of them a weight");
    }

    fn key_text(&mut self, path: &str, workload: &Workload, space: &KeySpace) {
        let at = |field: &str| format!("{path}.{field}");
        let most = if workload.protocol.is_memcached() { key::MEMCACHED_BYTES_MAX } else { key::BYTES_MAX };
        let plain = space.prefix.bytes().all(|byte| byte.is_ascii_graphic());
        let remedy = "use ASCII letters, digits and punctuation, without spaces";
        self.holds(plain, &at("prefix"), "a key cannot contain spaces, control characters or non-ASCII text", remedy);
        if !self.sizes(&at("key_bytes"), &space.key_bytes, most) || space.count == 0 || space.count > KEYS_MAX {
            return;
        }
        let (least, wanted) = (space.key_bytes.bounds().0, key::bytes_least(space));
        if least < wanted {
            let once = if space.once.0 > 0.0 { " (some of them requested once)" } else { "" };
            let what = format!("{} keys{once} cannot all have distinct texts of {least} bytes", space.count);
            let remedy = format!("use at least \"{wanted}B\", including the prefix, or fewer keys");
            self.fault(&at("key_bytes"), what, remedy);
        }
    }

    fn sizes(&mut self, path: &str, sizes: &Sizes, most: u64) -> bool {
        let before = self.faults.len();
        let steps: Vec<(u64, u64)> = match sizes {
            Sizes::Fixed(bytes) => vec![(*bytes, *bytes)],
            Sizes::Range(from, to) => vec![(*from, *to)],
            Sizes::Steps(steps) => steps.iter().map(|step| (step.from, step.to)).collect(),
        };
        self.count(path, steps.len() as u64, 1, STEPS_MAX as u64, "lengths");
        if let Some((from, to)) = steps.iter().find(|(from, to)| from > to) {
            self.fault(
                path,
                format!("the range from {from} to {to} bytes is reversed"),
                "write the shorter length first",
            );
        }
        if let Some((_, to)) = steps.iter().find(|(_, to)| *to > most) {
            self.fault(path, format!("a length of {to} bytes is too long"), format!("use at most {most} bytes"));
        }
        if let Sizes::Steps(steps) = sizes {
            let legal = steps.iter().all(|step| (0.0..=1e15).contains(&step.weight));
            self.holds(legal, path, "a weight is negative or not a number", "use weights from 0 to 1e15");
            let sum: f64 = steps.iter().map(|step| step.weight).sum();
            let drawn = sum > 0.0 || !legal || steps.is_empty();
            self.holds(drawn, path, "every length has the weight 0", "give at least one of them a weight");
        }
        self.faults.len() == before
    }

    fn order(&mut self, path: &str, workload: &Workload, space: &KeySpace) {
        match &space.order {
            Order::Uniform | Order::Sequential => {}
            Order::Zipf { exponent } | Order::Latest { exponent } => {
                self.number(path, *exponent, 0.0, EXPONENT_MAX);
            }
            Order::Hot { keys, requests } => {
                self.number(&format!("{path}.keys"), keys.0, 0.0, 1.0);
                self.number(&format!("{path}.requests"), requests.0, 0.0, 1.0);
            }
            Order::Scan { length } => {
                self.count(path, *length, 1, KEYS_MAX, "keys in a range");
            }
            Order::Groups(groups) => {
                self.count(path, groups.len() as u64, 1, STEPS_MAX as u64, "groups");
                let legal =
                    |(keys, weight): &(u64, f64)| (1..=KEYS_MAX).contains(keys) && (0.0..=1e15).contains(weight);
                let remedy = "give every group at least one key and a weight from 0 to 1e15";
                self.holds(groups.iter().all(legal), path, "a group has no keys or an invalid weight", remedy);
                let sum: f64 = groups.iter().map(|(_, weight)| weight).sum();
                self.holds(sum > 0.0, path, "every group has the weight 0", "give at least one of them a weight");
            }
        }
        let parted = matches!(space.order, Order::Sequential | Order::Latest { .. });
        if parted && u64::from(workload.threads) > space.count {
            let what = format!("{} threads cannot divide {} keys", workload.threads, space.count);
            self.fault(path, what, "use fewer threads or more keys");
        }
    }

    fn command(&mut self, path: &str, workload: &Workload, key_bytes: u64, command: &KeyCommand) {
        let at = |field: &str| format!("{path}.{field}");
        self.weight(&at("weight"), command.weight);
        let (verb, protocol) = (command.verb, workload.protocol);
        if !verb.is_in(protocol) {
            let has = Verb::NAMES.iter().filter(|(_, verb)| verb.is_in(protocol)).map(|(name, _)| *name);
            let remedy = format!("valid verbs are: {}", has.collect::<Vec<_>>().join(", "));
            self.fault(&at("verb"), format!("protocol {} does not support {}", protocol.name(), verb.name()), remedy);
        }
        self.count(&at("keys"), command.keys.into(), 1, MULTI_KEYS_MAX.into(), "keys in a request");
        let several = verb == Verb::Get || verb == Verb::Gets || (verb == Verb::Set && protocol == Protocol::Grpc);
        let remedy = "remove keys, or use get; with gRPC also set";
        self.holds(command.keys <= 1 || several, &at("keys"), "only a get can request several keys", remedy);
        let batch_bytes = workload.keys.iter().map(|space| space.value_bytes.bounds().1).max().unwrap_or(0);
        let batch_bytes = batch_bytes.saturating_add(key_bytes + 32).saturating_mul(command.keys.max(1).into());
        let fits = protocol != Protocol::Grpc || batch_bytes <= protocol::grpc::MESSAGE_BYTES_MAX.into();
        let what = "the keys and values of one call can exceed gRPC's longest message, 10MiB";
        self.holds(fits, &at("keys"), what, "use shorter values or fewer keys at once");
        let line_bytes = (key_bytes.saturating_add(1)).saturating_mul(command.keys.into()).saturating_add(32);
        let fits = !protocol.is_memcached() || line_bytes <= protocol::memcache::line::LINE_BYTES_MAX as u64;
        self.holds(
            fits,
            &at("keys"),
            "the keys need more than memcached's longest line, 64KiB",
            "request fewer keys at once",
        );
        self.count(&at("fields"), command.fields.into(), 0, FIELDS_MAX.into(), "fields");
        self.text(path, protocol, command);
    }

    /// Checks the flags of a meta verb, or a raw text.
    fn text(&mut self, path: &str, protocol: Protocol, command: &KeyCommand) {
        let at = |field: &str| format!("{path}.{field}");
        let text = &command.text;
        self.holds(text.len() <= TEXT_BYTES_MAX, &at("text"), "the text is longer than 4096 bytes", "shorten it");
        match command.verb {
            Verb::MetaGet | Verb::MetaSet | Verb::MetaDelete | Verb::MetaArith => {
                let legal = text.split_ascii_whitespace().all(|flag| flag.as_bytes()[0].is_ascii_alphabetic());
                let plain = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
                self.holds(
                    legal && plain,
                    &at("flags"),
                    "the flags are not valid",
                    "write letters with their tokens, as in v t T60",
                );
                let hidden = text.split_ascii_whitespace().any(|flag| flag == "q" || flag == "b");
                let remedy = "remove the flag: q suppresses replies, and b changes the key";
                self.holds(!hidden, &at("flags"), "the flags q and b cannot be used here", remedy);
            }
            Verb::Raw => {
                self.holds(
                    !text.trim().is_empty(),
                    &at("command"),
                    "the command is empty",
                    "write a command, as in GET __key__",
                );
                let whole = !protocol.is_resp() || !text.contains(['\r', '\n']);
                self.holds(
                    whole,
                    &at("command"),
                    "a RESP command must be one line",
                    "write its words separated by spaces",
                );
                let answered = !protocol.is_memcached() || super::source::expect_of(text).is_some();
                let remedy = "use a known memcached command without noreply and q";
                self.holds(answered, &at("command"), "the end of the reply to this command cannot be detected", remedy);
            }
            _ => {}
        }
    }

    /// Checks the parts of the workload against each other.
    fn together(&mut self, workload: &Workload) {
        let commands = workload.commands().count();
        self.count("keys", commands as u64, 1, COMMANDS_MAX as u64, "verbs of all key spaces");
        let sum: f64 = workload.keys.iter().map(|space| space.weight).sum();
        self.holds(sum > 0.0, "keys", "every key space has the weight 0", "give at least one of them a weight");
        if !workload.verify {
            return;
        }
        for (at, space) in workload.keys.iter().enumerate() {
            for (number, command) in space.verbs.iter().enumerate().filter(|(_, command)| command.verb.alters()) {
                let what = format!("{} stores a value that cannot be checked", command.verb.name());
                let remedy = "remove it, run it separately with its own key space, or disable verify";
                self.fault(&format!("keys[{at}].verbs[{number}].verb"), what, remedy);
            }
        }
    }
}

impl Workload {
    /// Returns the commands of all key spaces.
    pub fn commands(&self) -> impl Iterator<Item = &KeyCommand> {
        self.keys.iter().flat_map(|space| &space.verbs)
    }
}
