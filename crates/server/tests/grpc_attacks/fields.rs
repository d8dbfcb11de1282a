//! Tests that a request of millions of fields delays no other client. A field may be two bytes long, and a decoder
//! reads a message once for each field that it looks for.
//!
//! The tests send such requests of all methods of the schema, and assert what the server refuses and the number of
//! iterations in which another client (the bystander) gets its reply. `--nocapture` prints the CPU time of the longest
//! iteration of each.

use crate::flood::{Effort, Flood};
use crate::grpc_schema::{Schema, SchemaMethod};
use protocol::grpc::MESSAGE_BYTES_MAX;
use protocol::grpc::protobuf::{Encoder, FIELDS_MAX};

const INVALID_ARGUMENT: &str = "3";
const RESOURCE_EXHAUSTED: &str = "8";

/// The number of a field that no request has.
const UNKNOWN: u32 = 15;

/// Returns a field that the request does not know, `count` times: two bytes each.
fn unknown(count: usize) -> Vec<u8> {
    let mut one = Encoder::new();
    one.one_of_uint(UNKNOWN, 0);
    one.as_slice().repeat(count)
}

/// Returns the floods of a method, each a name and the encoding of one field.
fn floods(schema: &Schema, method: &SchemaMethod) -> Vec<(String, Vec<u8>)> {
    let mut floods = vec![("unknown fields".to_owned(), unknown(1))];
    for field in schema.fields(method) {
        if field.number == 1 {
            let mut one = Encoder::new();
            field.write(&mut one, schema, b"k", 0);
            floods.push(("occurrences of field 1".to_owned(), one.as_slice().to_vec()));
        }
        if field.is_message() {
            let mut one = Encoder::new();
            one.item(field.number, b"");
            floods.push((format!("empty messages of field {}", field.number), one.as_slice().to_vec()));
        }
    }
    floods
}

#[test]
fn schema_names_every_method_of_the_server() {
    let schema = Schema::read();
    let named = |name: &str| schema.methods.iter().any(|method| method.path.rsplit('/').next() == Some(name));
    let missing: Vec<&str> = command::grpc::method_names().filter(|name| !named(name)).collect();
    assert!(missing.is_empty(), "the tests of all methods do not have {missing:?}");
}

#[test]
fn request_of_10_mib_of_short_fields_is_refused_by_every_method() {
    let (schema, mut flood) = (Schema::read(), Flood::new());
    for method in &schema.methods {
        let base = schema.request(method, b"k");
        for (name, field) in floods(&schema, method) {
            let count = (MESSAGE_BYTES_MAX as usize - base.len()) / field.len();
            // A field that is long has its count bounded by the length of the request.
            if count <= FIELDS_MAX as usize {
                continue;
            }
            let request = [&base[..], &field.repeat(count)].concat();
            let (answer, Effort { longest_ns, iterations }) = flood.call(&method.path, &request);
            let (path, us) = (&method.path, longest_ns / 1000);
            println!("{path}: {count} {name}: {iterations} iterations, the longest {us} us");
            let is_refused = answer.status == RESOURCE_EXHAUSTED && answer.text.contains("more than");
            assert!(is_refused, "{path}: {count} {name}: {answer:?}");
            flood.assert_bystander_was_served(path);
        }
    }
}

#[test]
fn request_of_as_many_fields_as_permitted_delays_no_other_client() {
    let (schema, mut flood) = (Schema::read(), Flood::new());
    for method in &schema.methods {
        let base = schema.request(method, b"k");
        for (name, field) in floods(&schema, method) {
            // The fields of nested messages count too: at most one for each two bytes.
            let fields = if field.len() > 4 { 1 + field.len() / 2 } else { 1 };
            let count = (FIELDS_MAX as usize - base.len()) / fields;
            let request = [&base[..], &field.repeat(count)].concat();
            let (answer, Effort { longest_ns, iterations }) = flood.call(&method.path, &request);
            let (path, status, us) = (&method.path, &answer.status, longest_ns / 1000);
            println!("{path}: {count} {name}: status {status}, {iterations} iterations, the longest {us} us");
            assert!(!answer.text.contains("too many fields for this call"), "{path}: {count} {name}: {answer:?}");
            assert!(!answer.text.contains("more than 65536 fields"), "{path}: {count} {name}: {answer:?}");
            flood.assert_bystander_was_served(path);
        }
    }
}

#[test]
fn cut_varint_behind_many_fields_is_refused_with_its_place() {
    let (schema, mut flood) = (Schema::read(), Flood::new());
    for method in &schema.methods {
        let fields = unknown(1000);
        let request = [&fields[..], &[8, 0x80, 0x80]].concat();
        let (answer, _) = flood.call(&method.path, &request);
        let place = format!("at byte {}", fields.len());
        let is_refused = answer.status == INVALID_ARGUMENT && answer.text.contains(&place);
        assert!(is_refused, "{}: {answer:?}", method.path);
        flood.assert_bystander_was_served(&method.path);
    }
}
