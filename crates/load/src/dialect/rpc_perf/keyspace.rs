//! Key spaces of rpc-perf: `[[workload.keyspace]]` of version 5 and `[[keyspace]]` of the older form.

use base::units::TimeSpan;

use super::{SECOND_NS, span};
use crate::dialect::Mapped;
use crate::workload::fault::WorkloadFault;
use crate::workload::file::reader::{DocumentReader, Section};
use crate::workload::key;
use crate::workload::model::{KeyCommand, KeySpace, LengthStep, Order, Protocol, Sizes, Verb};
use crate::workload::units::Share;

/// All names of rpc-perf's verbs, with the equivalent verb.
const VERBS: [(&str, Option<Verb>); 55] = [
    ("get", Some(Verb::Get)),
    ("get_batch", Some(Verb::Get)),
    ("gets", Some(Verb::Gets)),
    ("set", Some(Verb::Set)),
    ("add", Some(Verb::Add)),
    ("replace", Some(Verb::Replace)),
    ("append", Some(Verb::Append)),
    ("prepend", Some(Verb::Prepend)),
    ("cas", Some(Verb::Cas)),
    ("incr", Some(Verb::Incr)),
    ("decr", Some(Verb::Decr)),
    ("delete", Some(Verb::Delete)),
    ("del", Some(Verb::Delete)),
    ("touch", Some(Verb::Touch)),
    ("ping", Some(Verb::Ping)),
    ("hash_get", Some(Verb::HashGet)),
    ("hget", Some(Verb::HashGet)),
    ("hash_get_field", Some(Verb::HashGet)),
    ("hash_get_all", Some(Verb::HashGetAll)),
    ("hgetall", Some(Verb::HashGetAll)),
    ("hash_set", Some(Verb::HashSet)),
    ("hset", Some(Verb::HashSet)),
    ("hash_delete", Some(Verb::HashDelete)),
    ("hdel", Some(Verb::HashDelete)),
    ("hash_increment", None),
    ("hincrby", None),
    ("hash_exists", None),
    ("hexists", None),
    ("list_fetch", None),
    ("list_length", None),
    ("llen", None),
    ("list_pop_back", None),
    ("rpop", None),
    ("list_pop_front", None),
    ("lpop", None),
    ("list_push_back", None),
    ("rpush", None),
    ("list_push_front", None),
    ("lpush", None),
    ("list_remove", None),
    ("set_add", None),
    ("sadd", None),
    ("set_members", None),
    ("smembers", None),
    ("set_remove", None),
    ("srem", None),
    ("sorted_set_add", None),
    ("zadd", None),
    ("zrange", None),
    ("zscore", None),
    ("zmscore", None),
    ("zrem", None),
    ("zrank", None),
    ("zincrby", None),
    ("sorted_set_range", None),
];

const REMEDY: &str = "write commands = [{ verb = \"get\", weight = 80 }, { verb = \"set\", weight = 20 }]";

/// Reads the list `[[workload.keyspace]]` of `section`.
pub fn all<'t>(reader: &mut DocumentReader<'t>, section: &mut Section<'_, 't>, mapped: &mut Mapped) {
    let spaces =
        reader.list(section, "keyspace", "write [[workload.keyspace]] above each key space").unwrap_or_default();
    if spaces.is_empty() && mapped.workload.protocol != Protocol::Ping {
        let what = "the file describes no key space";
        reader.located(vec![WorkloadFault::new("workload", what, "write [[workload.keyspace]] with commands")]);
    }
    for (path, value) in spaces {
        let Some(table) = value.get_ref().as_table() else {
            reader.misshapen(&path, value, "a table", "write [[workload.keyspace]] above each key space");
            continue;
        };
        let space = space(reader, Section::new(path, table), mapped);
        mapped.workload.keys.push(space);
    }
    if mapped.workload.keys.is_empty() && mapped.workload.protocol == Protocol::Ping {
        mapped.workload.keys = vec![KeySpace { verbs: vec![KeyCommand::new(Verb::Ping)], ..KeySpace::default() }];
    }
}

const ORDERS: [(&str, Order); 2] = [("uniform", Order::Uniform), ("zipf", Order::Zipf { exponent: 1.0 })];

fn space<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>, mapped: &mut Mapped) -> KeySpace {
    let mut space = KeySpace { weight: reader.number(&mut section, "weight").unwrap_or(1.0), ..KeySpace::default() };
    space.key_bytes = Sizes::Fixed(reader.count(&mut section, "klen").unwrap_or(32));
    space.count = reader.count(&mut section, "nkeys").unwrap_or(1_000_000);
    space.order = order(reader, &mut section);
    let fields = reader.small(&mut section, "inner_keys_nkeys").filter(|fields| *fields > 0);
    if section.has("inner_keys_klen") {
        mapped.notes.push(format!("{}.inner_keys_klen has no effect: fields have generated names", section.path));
    }
    let is_number = reader.text(&mut section, "vkind").is_some_and(|kind| kind == "i64");
    let length = reader.count(&mut section, "vlen").unwrap_or(if is_number { 19 } else { 0 });
    space.value_bytes = Sizes::Fixed(length);
    if let Some(ratio) = reader.number(&mut section, "compression_ratio").filter(|ratio| *ratio > 1.0) {
        space.compressible = Share(1.0 - 1.0 / ratio);
    }
    space.ttl = lifetime(span(reader, &mut section, "ttl", SECOND_NS));
    space.verbs = commands(reader, &mut section);
    if space.is_hash() {
        space.fields = fields.unwrap_or(space.fields);
        of_hashes(&mut space, &section.path, &mut mapped.notes);
    }
    reader.end(section);
    space
}

/// Maps the differences of hashes: a hash has its own delete command, and it does not expire.
fn of_hashes(space: &mut KeySpace, path: &str, notes: &mut Vec<String>) {
    for command in space.verbs.iter_mut().filter(|command| command.verb == Verb::Delete) {
        *command = KeyCommand { text: "DEL __key__".into(), ..KeyCommand::weighted(Verb::Raw, command.weight) };
    }
    if !space.ttl.is_empty() {
        space.ttl.clear();
        notes.push(format!("{path}.ttl has no effect: the fields of a hash do not expire"));
    }
}

fn lifetime(ttl: Option<TimeSpan>) -> Vec<(TimeSpan, f64)> {
    ttl.filter(|ttl| ttl.0 > 0).map(|ttl| (ttl, 1.0)).into_iter().collect()
}

/// Reads the order in which keys are drawn, under either of its names.
fn order<'t>(reader: &mut DocumentReader<'t>, section: &mut Section<'_, 't>) -> Order {
    let mut picked = Order::Uniform;
    for key in ["key_distribution", "distribution"] {
        let names: Vec<(&'static str, usize)> = ORDERS.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        if let Some(at) = reader.word(section, key, &names) {
            picked = ORDERS[at].1.clone();
        }
    }
    picked
}

fn commands<'t>(reader: &mut DocumentReader<'t>, section: &mut Section<'_, 't>) -> Vec<KeyCommand> {
    let Some(list) = reader.list(section, "commands", REMEDY) else {
        if !section.has("commands") {
            let name = section.path.clone();
            reader.located(vec![WorkloadFault::new(name, "the key space has no commands", REMEDY)]);
        }
        return Vec::new();
    };
    let mut commands = Vec::new();
    for (path, value) in list {
        match value.get_ref().as_table() {
            Some(table) => commands.extend(command(reader, Section::new(path, table))),
            None => reader.misshapen(&path, value, "a table", REMEDY),
        }
    }
    commands
}

/// Returns a command; `None` if its weight is 0, because it is never sent.
fn command<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>) -> Option<KeyCommand> {
    let verb = reader.word(&mut section, "verb", &VERBS);
    let weight = reader.number(&mut section, "weight").unwrap_or(1.0);
    let cardinality = reader.small(&mut section, "cardinality").unwrap_or(1).max(1);
    let path = section.path.clone();
    let is_read = verb.is_some_and(|verb| verb.is_some());
    if !is_read {
        // Settings of lists and sorted sets, which have no effect here.
        for key in ["truncate", "start", "end", "by_score"] {
            section.has(key);
        }
    }
    let has_verb = section.has("verb");
    reader.end(section);
    match verb {
        _ if weight == 0.0 => None,
        Some(Some(Verb::Get)) => Some(KeyCommand { keys: cardinality, ..KeyCommand::weighted(Verb::Get, weight) }),
        Some(Some(Verb::HashGet)) if cardinality > 1 => {
            Some(KeyCommand { fields: cardinality, ..KeyCommand::weighted(Verb::HashMultiGet, weight) })
        }
        Some(Some(verb @ (Verb::HashSet | Verb::HashDelete))) => {
            Some(KeyCommand { fields: cardinality, ..KeyCommand::weighted(verb, weight) })
        }
        Some(Some(verb)) => Some(KeyCommand::weighted(verb, weight)),
        Some(None) => {
            let remedy = "set its weight to 0, or remove it";
            reader.located(vec![WorkloadFault::new(format!("{path}.verb"), "this verb is not supported", remedy)]);
            None
        }
        None => {
            if !has_verb {
                reader.located(vec![WorkloadFault::new(path, "the verb is missing", REMEDY)]);
            }
            None
        }
    }
}

/// Reads the list `[[keyspace]]` of the older form: every possible key of `length` characters.
pub fn older<'t>(reader: &mut DocumentReader<'t>, root: &mut Section<'_, 't>, mapped: &mut Mapped) {
    let spaces = reader.list(root, "keyspace", "write [[keyspace]] above each key space").unwrap_or_default();
    if spaces.is_empty() && mapped.workload.protocol != Protocol::Ping {
        reader.fault(0, "keyspace", "the file describes no key space", "write [[keyspace]] with commands");
    }
    for (path, value) in spaces {
        let Some(table) = value.get_ref().as_table() else {
            reader.misshapen(&path, value, "a table", "write [[keyspace]] above each key space");
            continue;
        };
        let space = older_space(reader, Section::new(path, table), mapped);
        mapped.workload.keys.push(space);
    }
    if mapped.workload.keys.is_empty() {
        mapped.workload.keys = vec![KeySpace { verbs: vec![KeyCommand::new(Verb::Ping)], ..KeySpace::default() }];
    }
}

/// The kinds of keys of the older form, with the number of characters that each position can have.
const KEY_KINDS: [(&str, u64); 3] = [("alphanumeric", 62), ("numeric", 10), ("u32", 10)];

fn older_space<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>, mapped: &mut Mapped) -> KeySpace {
    let mut space = KeySpace { weight: reader.number(&mut section, "weight").unwrap_or(1.0), ..KeySpace::default() };
    let length = reader.count(&mut section, "length").unwrap_or(1);
    space.key_bytes = Sizes::Fixed(length);
    let letters = reader.word(&mut section, "key_type", &KEY_KINDS).unwrap_or(62);
    let every = letters.checked_pow(u32::try_from(length).unwrap_or(u32::MAX)).unwrap_or(u64::MAX);
    let most = every.min(key::numbers_of(length, false)).min(crate::workload::model::KEYS_MAX);
    space.count = reader.count(&mut section, "cardinality").unwrap_or(most).min(most);
    space.value_bytes = values(reader, &mut section);
    space.ttl = lifetime(span(reader, &mut section, "ttl", SECOND_NS));
    space.verbs = commands(reader, &mut section);
    if let Some(batch) = reader.small(&mut section, "batch_size").filter(|batch| *batch > 1) {
        for command in space.verbs.iter_mut().filter(|command| command.verb == Verb::Get) {
            command.keys = batch;
        }
    }
    if every > most {
        mapped.notes.push(format!("{}: uses {most} keys of the {every} possible keys of its length", section.path));
    }
    reader.end(section);
    space
}

/// Reads `values = [{ length, weight }, ...]`.
fn values<'t>(reader: &mut DocumentReader<'t>, section: &mut Section<'_, 't>) -> Sizes {
    let list = reader.list(section, "values", "write values = [{ length = 256 }]").unwrap_or_default();
    let mut steps = Vec::new();
    for (path, value) in list {
        let Some(table) = value.get_ref().as_table() else {
            reader.misshapen(&path, value, "a table", "write { length = 256 }");
            continue;
        };
        let mut inner = Section::new(path, table);
        let bytes = reader.count(&mut inner, "length").unwrap_or(1);
        let weight = reader.number(&mut inner, "weight").unwrap_or(1.0);
        // Values are random bytes, whether they are alphanumeric in rpc-perf or not.
        inner.has("type");
        inner.has("value_type");
        reader.end(inner);
        steps.push(LengthStep { from: bytes, to: bytes, weight });
    }
    match *steps {
        [] => Sizes::Fixed(1),
        [LengthStep { from, .. }] => Sizes::Fixed(from),
        _ => Sizes::Steps(steps),
    }
}
