//! The calls of scenarios: their requests, and their results as the scenario files write them. The numbers of fields
//! are those of the schemas in `proto/gannet/v1`.

use protocol::grpc::Status;
use protocol::grpc::protobuf::{DecodeError, Encoder, Message};
use toml::{Table, Value};

use super::client::{CallEnd, CallReply};

/// The time to live of a store without one, in milliseconds: an hour.
const TTL_MS_DEFAULT: u64 = 3_600_000;

const RESULT_HIT: u64 = 2;

/// States of a `LeaseGetReply`.
const LEASE_HIT: u64 = 1;
const LEASE_WON: u64 = 2;

/// Returns true if a repetition of the call changes nothing, so that a client retries it.
pub(super) fn is_repeatable(call: &str) -> bool {
    let changes_more = [
        "create_cache",
        "delete_cache",
        "increment",
        "set_if_absent",
        "update_ttl",
        "increase_ttl",
        "decrease_ttl",
        "list_push_back",
        "lease_get",
        "lease_set",
        "record_put",
        "record_add",
        "record_delete",
        "topic_publish",
    ];
    !changes_more.contains(&call)
}

/// Returns the path and the request of a call. `token` is that of the lease that the client won last.
///
/// # Errors
/// If the call or one of its arguments is unknown or of another type.
pub(super) fn request(call: &str, arguments: &Table, token: u64) -> Result<(String, Vec<u8>), String> {
    let mut given = Arguments { table: arguments, used: Vec::new() };
    let mut out = Encoder::new();
    let of_service = match call.split_once('_') {
        Some(("leaderboard", method)) => Some(("Leaderboards", leaderboard_request(method, &mut given, &mut out)?)),
        Some(("record", method)) => Some(("Records", record_request(method, &mut given, &mut out)?)),
        Some(("lease", method)) => Some(("Leases", lease_request(method, &mut given, token, &mut out)?)),
        Some(("topic", "publish")) => {
            let value = given.text("value")?;
            out.bytes(2, given.text("topic")?).message(3, |field| {
                field.item(1, value);
            });
            Some(("Topics", "Publish"))
        }
        _ => None,
    };
    if let Some((service, method)) = of_service {
        given.end()?;
        return Ok((format!("/gannet.v1.{service}/{method}"), out.as_slice().to_vec()));
    }
    let method = match call {
        "create_cache" | "delete_cache" | "flush_cache" => {
            out.bytes(1, given.text("name")?);
            let method = match call {
                "create_cache" => "CreateCache",
                "delete_cache" => "DeleteCache",
                _ => "FlushCache",
            };
            given.end()?;
            return Ok((format!("/gannet.v1.Caches/{method}"), out.as_slice().to_vec()));
        }
        "get_batch" => {
            for key in given.texts("keys")? {
                out.message(1, |item| {
                    item.bytes(1, key);
                });
            }
            "GetBatch"
        }
        "set_batch" => {
            let (items, ttl_ms) = (given.table("items")?, given.ttl_ms()?);
            for (key, value) in items {
                let value = value.as_str().ok_or("a value of `items` is no text")?.as_bytes();
                out.message(1, |item| {
                    item.bytes(1, key.as_bytes()).bytes(2, value).uint(3, ttl_ms);
                });
            }
            "SetBatch"
        }
        _ => {
            let mut rest = Encoder::new();
            let method = item_request(call, &mut given, &mut rest)?;
            out.bytes(1, given.text("key")?).append(&rest);
            method
        }
    };
    given.end()?;
    Ok((format!("/gannet.v1.Cache/{method}"), out.as_slice().to_vec()))
}

/// Appends the fields of a request behind its key. Returns the method.
fn item_request(call: &str, given: &mut Arguments<'_>, out: &mut Encoder) -> Result<&'static str, String> {
    Ok(match call {
        "get" => "Get",
        "delete" => "Delete",
        "get_ttl" => "ItemGetTtl",
        "set" => {
            out.bytes(2, given.text("value")?).uint(3, given.ttl_ms()?);
            "Set"
        }
        "set_if_absent" => {
            out.bytes(2, given.text("value")?).uint(3, given.ttl_ms()?).message(6, |_| {});
            "SetIf"
        }
        "increment" => {
            out.int(2, given.integer("amount")?).uint(3, given.ttl_ms()?);
            "Increment"
        }
        "increase_ttl" | "decrease_ttl" | "update_ttl" => {
            let number = if call == "increase_ttl" { 2 } else { 3 + u32::from(call == "update_ttl") };
            out.one_of_uint(number, given.ttl_ms()?);
            "UpdateTtl"
        }
        "list_push_back" => {
            out.bytes(2, given.text("value")?).uint(3, given.ttl_ms()?);
            "ListPushBack"
        }
        "list_fetch" => {
            out.message(2, |_| {}).message(4, |_| {});
            "ListFetch"
        }
        "dictionary_set_fields" => {
            for (field, value) in given.table("fields")? {
                let value = value.as_str().ok_or("a value of `fields` is no text")?.as_bytes();
                out.message(2, |item| {
                    item.bytes(1, field.as_bytes()).bytes(2, value);
                });
            }
            out.uint(3, given.ttl_ms()?);
            "DictionarySet"
        }
        "dictionary_fetch" => "DictionaryFetch",
        "set_add_elements" => {
            for element in given.texts("elements")? {
                out.item(2, element);
            }
            out.uint(3, given.ttl_ms()?);
            "SetUnion"
        }
        "set_contains" => {
            for element in given.texts("elements")? {
                out.item(2, element);
            }
            "SetContains"
        }
        "sorted_set_put_elements" => {
            for (element, score) in given.table("elements")? {
                let score = number(score).ok_or("a score of `elements` is no number")?;
                out.message(2, |item| {
                    item.bytes(1, element.as_bytes()).double(2, score);
                });
            }
            out.uint(3, given.ttl_ms()?);
            "SortedSetPut"
        }
        "sorted_set_fetch_by_index" => {
            out.uint(3, 1).message(4, |range| {
                range.message(1, |_| {}).message(3, |_| {});
            });
            "SortedSetFetch"
        }
        _ => return Err(unknown(call)),
    })
}

fn unknown(call: &str) -> String {
    format!("the call {call} is unknown; `conformance/clients/scenarios/README.md` lists the calls")
}

/// Appends a request of the service of leaderboards. Returns the method.
fn leaderboard_request(call: &str, given: &mut Arguments<'_>, out: &mut Encoder) -> Result<&'static str, String> {
    let leaderboard = given.text("leaderboard")?;
    // The schema of competition ranks is that of Momento, which begins at 1.
    let first = if call == "get_competition_rank" { 1 } else { 2 };
    out.bytes(first, leaderboard);
    Ok(match call {
        "length" => "GetLeaderboardLength",
        "delete" => "DeleteLeaderboard",
        "upsert" => {
            for element in given.list("elements")? {
                let element = element.as_array().map_or(&[][..], Vec::as_slice);
                let [Value::Integer(id), score] = element else {
                    return Err("an element is no [id, score]".to_owned());
                };
                let score = number(score).ok_or("a score of `elements` is no number")?;
                let id = u64::try_from(*id).map_err(|_| format!("the id {id} is negative"))?;
                out.message(3, |item| {
                    item.uint(1, id).double(3, score);
                });
            }
            "UpsertElements"
        }
        "remove" | "get_rank" | "get_competition_rank" => {
            out.packed_uints(first + 1, given.unsigned_list("ids")?.into_iter());
            if call != "remove" {
                // The order of a competition rank is descending if it is absent.
                out.one_of_uint(first + 2, given.order()?);
            }
            match call {
                "remove" => "RemoveElements",
                "get_rank" => "GetRank",
                _ => "GetCompetitionRank",
            }
        }
        "get_by_rank" => {
            let (first, end) = (given.unsigned("first")?, given.unsigned("end")?);
            out.message(3, |ranks| {
                ranks.uint(1, first).uint(2, end);
            });
            out.uint(4, given.order()?);
            "GetByRank"
        }
        "get_by_score" => {
            let (least, end) = (given.number("least")?, given.number("end")?);
            out.message(3, |scores| {
                scores.one_of_double(5, least).one_of_double(6, end);
            });
            out.uint(6, given.order()?);
            "GetByScore"
        }
        _ => return Err(unknown(&format!("leaderboard_{call}"))),
    })
}

/// Appends a request of the service of leases. Returns the method.
fn lease_request(call: &str, given: &mut Arguments<'_>, token: u64, out: &mut Encoder) -> Result<&'static str, String> {
    out.bytes(1, given.text("key")?);
    Ok(match call {
        "get" => "LeaseGet",
        "set" => {
            out.uint(2, token).bytes(3, given.text("value")?).uint(4, TTL_MS_DEFAULT);
            "LeaseSet"
        }
        "stale" => "LeaseStale",
        _ => return Err(unknown(&format!("lease_{call}"))),
    })
}

/// Appends a request of the service of records. Returns the method.
fn record_request(call: &str, given: &mut Arguments<'_>, out: &mut Encoder) -> Result<&'static str, String> {
    if call == "scan" {
        out.bytes(1, given.text("set")?);
        return Ok("RecordScan");
    }
    out.bytes(1, given.text("key")?);
    Ok(match call {
        "get" => {
            if given.has("filter") {
                out.bytes(2, given.text("filter")?);
            }
            "RecordGet"
        }
        "put" | "add" => {
            for (name, value) in given.table("bins")? {
                let mut bin = Encoder::new();
                bin.bytes(1, name.as_bytes()).item(2, bin_value(value)?.as_slice());
                out.item(2, bin.as_slice());
            }
            if given.has("only") {
                let when = match given.text("only")? {
                    b"create" => 1,
                    b"update" => 2,
                    b"replace" => 3,
                    _ => return Err("`only` is neither create, update nor replace".to_owned()),
                };
                out.uint(5, when);
            }
            if given.has("if_revision") {
                out.one_of_uint(6, given.unsigned("if_revision")?);
            }
            if given.has("set") {
                out.bytes(8, given.text("set")?);
            }
            if call == "put" { "RecordPut" } else { "RecordAdd" }
        }
        "delete" => {
            if given.has("if_revision") {
                out.one_of_uint(2, given.unsigned("if_revision")?);
            }
            "RecordDelete"
        }
        _ => return Err(unknown(&format!("record_{call}"))),
    })
}

/// Returns a `BinValue`.
fn bin_value(value: &Value) -> Result<Encoder, String> {
    let mut out = Encoder::new();
    match value {
        Value::Integer(integer) => out.one_of_uint(1, ((integer << 1) ^ (integer >> 63)).cast_unsigned()),
        Value::Float(number) => out.one_of_double(2, *number),
        Value::Boolean(boolean) => out.one_of_uint(3, u64::from(*boolean)),
        Value::String(text) => out.item(4, text.as_bytes()),
        Value::Array(values) => {
            let mut list = Encoder::new();
            for value in values {
                list.item(1, bin_value(value)?.as_slice());
            }
            out.item(6, list.as_slice())
        }
        _ => return Err(format!("the value {value} is of no type of bins")),
    };
    Ok(out)
}

/// Returns the value of a `BinValue`, as a scenario writes it.
fn bin_of(value: Message<'_>) -> Result<Value, DecodeError> {
    if let Some(integer) = value.try_sint(1) {
        return Ok(Value::Integer(integer));
    }
    if let Some(number) = value.try_double(2) {
        return Ok(Value::Float(number));
    }
    if let Some(boolean) = value.try_uint(3) {
        return Ok(Value::Boolean(boolean != 0));
    }
    if let Some(list) = value.message(6)? {
        let values = list.all(1).map(|each| bin_of(Message::parse(each)?));
        return values.collect::<Result<Vec<_>, _>>().map(Value::Array);
    }
    Ok(text(value.bytes(4)))
}

/// Returns the result of a call, with all fields that the scenario files know.
///
/// # Errors
/// If a message of the reply does not follow the schema.
pub(super) fn result(call: &str, reply: &CallReply) -> Result<Table, String> {
    if reply.end != CallEnd::Status(Status::Ok) {
        return Ok(typed("error", [("code", Value::from(code(call, reply)))]));
    }
    let malformed = |_: DecodeError| "the reply's message does not follow the schema".to_owned();
    let all: Result<Vec<Message<'_>>, DecodeError> = reply.messages.iter().map(|each| Message::parse(each)).collect();
    let all = all.map_err(malformed)?;
    if matches!(call, "get_batch" | "set_batch") {
        let results: Vec<Value> = all.iter().map(|message| Value::Table(value_of(*message))).collect();
        return Ok(typed("success", [("results", Value::Array(results))]));
    }
    let [message] = all[..] else { return Err(format!("the reply has {} messages, and one is expected", all.len())) };
    if let Some(result) = result_of_service(call, message).map_err(malformed)? {
        return Ok(result);
    }
    // Most replies have a message 1 if there is an item, and another one if there is none.
    let found = message.message(1).map_err(malformed)?;
    let texts = |found: Message<'_>| Value::Array(found.all(1).map(text).collect());
    Ok(match (call, found) {
        ("get", _) => value_of(message),
        ("increment", _) => typed("success", [("number", Value::from(message.int(1)))]),
        ("set_if_absent", found) => typed(if found.is_some() { "stored" } else { "not_stored" }, []),
        ("increase_ttl" | "decrease_ttl" | "update_ttl", Some(_)) => typed("stored", []),
        ("increase_ttl" | "decrease_ttl" | "update_ttl", None) if message.try_bytes(2).is_some() => {
            typed("not_stored", [])
        }
        ("get_ttl", Some(found)) => typed("hit", [("remaining_ms", Value::from(found.uint(1).cast_signed()))]),
        ("list_fetch", Some(found)) => typed("hit", [("elements", texts(found))]),
        ("dictionary_fetch", Some(found)) => {
            let items: Result<Vec<Message<'_>>, DecodeError> = found.all(1).map(Message::parse).collect();
            let fields = items.map_err(malformed)?.into_iter().map(|item| (plain(item.bytes(1)), text(item.bytes(2))));
            typed("hit", [("fields", Value::Table(fields.collect()))])
        }
        ("set_contains", Some(found)) => {
            let contained = found.uints(1, usize::MAX).map_err(malformed)?;
            typed("hit", [("contained", Value::Array(contained.into_iter().map(|one| (one != 0).into()).collect()))])
        }
        ("sorted_set_fetch_by_index", Some(found)) => {
            let scored = found.message(1).map_err(malformed)?.ok_or("the reply has no scores")?;
            let items: Result<Vec<Message<'_>>, DecodeError> = scored.all(1).map(Message::parse).collect();
            let pair = |item: Message<'_>| vec![text(item.bytes(1)), Value::from(item.try_double(2).unwrap_or(0.0))];
            let scored = items.map_err(malformed)?.into_iter().map(|item| Value::Array(pair(item)));
            typed("hit", [("scored", Value::Array(scored.collect()))])
        }
        (
            "increase_ttl"
            | "decrease_ttl"
            | "update_ttl"
            | "get_ttl"
            | "list_fetch"
            | "dictionary_fetch"
            | "set_contains"
            | "sorted_set_fetch_by_index",
            None,
        ) => typed("miss", []),
        _ => typed("success", []),
    })
}

/// Returns the result of a call of leases, records or leaderboards that has one of its own.
fn result_of_service(call: &str, message: Message<'_>) -> Result<Option<Table>, DecodeError> {
    let unsigned = |value: u64| Value::from(value.cast_signed());
    let is_set = message.uint(1) != 0;
    Ok(Some(match call {
        "lease_get" => {
            let name = match message.uint(1) {
                LEASE_HIT => "hit",
                LEASE_WON => "won",
                _ => "wait",
            };
            let mut result = typed(name, [("token", unsigned(message.uint(3)))]);
            if let Some(value) = message.try_bytes(2) {
                result.insert("value".to_owned(), text(value));
            }
            result
        }
        "lease_set" => typed(if is_set { "stored" } else { "not_stored" }, []),
        "lease_stale" | "record_delete" => typed(if is_set { "hit" } else { "miss" }, []),
        "record_put" | "record_add" => typed("success", [("revision", unsigned(message.uint(1)))]),
        "record_get" => {
            let Some(record) = message.message(1)? else { return Ok(Some(typed("miss", []))) };
            let mut bins = Table::new();
            for bin in record.all(4) {
                let bin = Message::parse(bin)?;
                if let Some(value) = bin.message(2)? {
                    bins.insert(plain(bin.bytes(1)), bin_of(value)?);
                }
            }
            typed("hit", [("revision", unsigned(record.uint(2))), ("bins", Value::Table(bins))])
        }
        "record_scan" => {
            let records: Result<Vec<Message<'_>>, DecodeError> = message.all(2).map(Message::parse).collect();
            let mut keys: Vec<String> = records?.into_iter().map(|record| plain(record.bytes(1))).collect();
            keys.sort_unstable();
            typed("success", [("keys", Value::from(keys))])
        }
        "leaderboard_length" => typed("success", [("length", unsigned(message.uint(1)))]),
        _ if call.starts_with("leaderboard_get") => {
            let elements: Result<Vec<Message<'_>>, DecodeError> = message.all(1).map(Message::parse).collect();
            let ranked = elements?.into_iter().map(|element| {
                let score = Value::from(element.try_double(4).unwrap_or(0.0));
                Value::Array(vec![unsigned(element.uint(1)), unsigned(element.uint(3)), score])
            });
            typed("success", [("ranked", Value::Array(ranked.collect()))])
        }
        _ => return Ok(None),
    }))
}

/// Returns the result of a `GetReply`.
fn value_of(message: Message<'_>) -> Table {
    match message.uint(1) {
        RESULT_HIT => typed("hit", [("value", text(message.bytes(2)))]),
        _ => typed("miss", []),
    }
}

/// Returns a result of a type with fields.
pub(super) fn typed<const N: usize>(name: &str, fields: [(&str, Value); N]) -> Table {
    let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value));
    [("type".to_owned(), Value::from(name))].into_iter().chain(fields).collect()
}

fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn text(bytes: &[u8]) -> Value {
    Value::String(plain(bytes))
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|integer| integer as f64))
}

/// Returns the name of the error code of a call.
fn code(call: &str, reply: &CallReply) -> &'static str {
    let is_record_change = matches!(call, "record_put" | "record_add" | "record_delete");
    match reply.end {
        CallEnd::QueueFull => "CLIENT_QUEUE_FULL",
        CallEnd::QueueTimeout => "CLIENT_QUEUE_TIMEOUT",
        CallEnd::Status(Status::NotFound) if is_record_change && !reply.text.starts_with("the cache") => {
            "NOT_FOUND_RECORD"
        }
        CallEnd::Status(status) => code_of(status),
    }
}

/// Returns the name of the error code of a status.
pub(super) fn code_of(status: Status) -> &'static str {
    match status {
        Status::OutOfRange => Status::InvalidArgument.name(),
        Status::NotFound => "NOT_FOUND_CACHE",
        Status::ResourceExhausted => "LIMIT_EXCEEDED",
        Status::DeadlineExceeded => "TIMEOUT",
        Status::DataLoss => Status::Internal.name(),
        status => status.name(),
    }
}

/// The arguments of a step, each of which must be used.
struct Arguments<'t> {
    table: &'t Table,
    used: Vec<&'static str>,
}

impl<'t> Arguments<'t> {
    fn get(&mut self, name: &'static str) -> Result<&'t Value, String> {
        self.used.push(name);
        self.table.get(name).ok_or_else(|| format!("the argument {name} is missing"))
    }

    fn text(&mut self, name: &'static str) -> Result<&'t [u8], String> {
        self.get(name)?.as_str().map(str::as_bytes).ok_or_else(|| format!("the argument {name} is no text"))
    }

    fn integer(&mut self, name: &'static str) -> Result<i64, String> {
        self.get(name)?.as_integer().ok_or_else(|| format!("the argument {name} is no integer"))
    }

    fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    fn unsigned(&mut self, name: &'static str) -> Result<u64, String> {
        u64::try_from(self.integer(name)?).map_err(|_| format!("the argument {name} is negative"))
    }

    fn number(&mut self, name: &'static str) -> Result<f64, String> {
        number(self.get(name)?).ok_or_else(|| format!("the argument {name} is no number"))
    }

    fn list(&mut self, name: &'static str) -> Result<&'t [Value], String> {
        self.get(name)?.as_array().map(Vec::as_slice).ok_or_else(|| format!("the argument {name} is no list"))
    }

    fn unsigned_list(&mut self, name: &'static str) -> Result<Vec<u64>, String> {
        let all = self.list(name)?.iter().map(|each| each.as_integer().and_then(|id| u64::try_from(id).ok()));
        all.collect::<Option<_>>().ok_or_else(|| format!("the argument {name} is no list of unsigned integers"))
    }

    /// Returns the number of the argument `order`.
    fn order(&mut self) -> Result<u64, String> {
        match self.text("order")? {
            b"ascending" => Ok(0),
            b"descending" => Ok(1),
            _ => Err("the argument order is neither ascending nor descending".to_owned()),
        }
    }

    fn texts(&mut self, name: &'static str) -> Result<Vec<&'t [u8]>, String> {
        let all = self.get(name)?.as_array().into_iter().flatten().map(|each| each.as_str().map(str::as_bytes));
        all.collect::<Option<_>>().ok_or_else(|| format!("the argument {name} is no list of texts"))
    }

    fn table(&mut self, name: &'static str) -> Result<&'t Table, String> {
        self.get(name)?.as_table().ok_or_else(|| format!("the argument {name} is no table"))
    }

    fn ttl_ms(&mut self) -> Result<u64, String> {
        if !self.table.contains_key("ttl_ms") {
            return Ok(TTL_MS_DEFAULT);
        }
        let ttl_ms = self.integer("ttl_ms")?;
        u64::try_from(ttl_ms).map_err(|_| format!("the argument ttl_ms is {ttl_ms}"))
    }

    fn end(&self) -> Result<(), String> {
        match self.table.keys().find(|name| !self.used.contains(&name.as_str())) {
            Some(name) => Err(format!("the argument {name} is unknown")),
            None => Ok(()),
        }
    }
}
