//! The calls of scenarios: their requests, and their results as the scenario files write them. The numbers of fields
//! are those of `proto/gannet/v1/cache.proto`.

use protocol::grpc::Status;
use protocol::grpc::protobuf::{DecodeError, Encoder, Message};
use toml::{Table, Value};

use super::client::CallReply;

/// The time to live of a store without one, in milliseconds: an hour.
const TTL_MS_DEFAULT: u64 = 3_600_000;

const RESULT_HIT: u64 = 2;

/// Returns the path and the request of a call.
///
/// # Errors
/// If the call or one of its arguments is unknown or of another type.
pub(super) fn request(call: &str, arguments: &Table) -> Result<(String, Vec<u8>), String> {
    let mut given = Arguments { table: arguments, used: Vec::new() };
    let mut out = Encoder::new();
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
        _ => return Err(format!("the call {call} is not one that the generator makes; play it with a client library")),
    })
}

/// Returns the result of a call, with all fields that the scenario files know.
///
/// # Errors
/// If a message of the reply does not follow the schema.
pub(super) fn result(call: &str, reply: &CallReply) -> Result<Table, String> {
    if reply.status != Status::Ok {
        return Ok(typed("error", [("code", Value::from(code(reply.status)))]));
    }
    let malformed = |_: DecodeError| "the reply's message does not follow the schema".to_owned();
    let all: Result<Vec<Message<'_>>, DecodeError> = reply.messages.iter().map(|each| Message::parse(each)).collect();
    let all = all.map_err(malformed)?;
    if matches!(call, "get_batch" | "set_batch") {
        let results: Vec<Value> = all.iter().map(|message| Value::Table(value_of(*message))).collect();
        return Ok(typed("success", [("results", Value::Array(results))]));
    }
    let [message] = all[..] else { return Err(format!("the reply has {} messages, and one is expected", all.len())) };
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
        (
            "increase_ttl" | "decrease_ttl" | "update_ttl" | "get_ttl" | "list_fetch" | "dictionary_fetch"
            | "set_contains",
            None,
        ) => typed("miss", []),
        _ => typed("success", []),
    })
}

/// Returns the result of a `GetReply`.
fn value_of(message: Message<'_>) -> Table {
    match message.uint(1) {
        RESULT_HIT => typed("hit", [("value", text(message.bytes(2)))]),
        _ => typed("miss", []),
    }
}

fn typed<const N: usize>(name: &str, fields: [(&str, Value); N]) -> Table {
    let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value));
    [("type".to_owned(), Value::from(name))].into_iter().chain(fields).collect()
}

fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn text(bytes: &[u8]) -> Value {
    Value::String(plain(bytes))
}

/// Returns the name of the error code of a status.
fn code(status: Status) -> &'static str {
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
