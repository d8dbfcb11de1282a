//! The methods of the gRPC service with the fields of their requests, from the compiled schemas. Used by tests that
//! send requests of all methods, and by a fuzz target.
#![allow(dead_code, reason = "not every test binary uses all of it")]

use protocol::grpc::protobuf::{Encoder, Message};

/// The compiled schemas: a `FileDescriptorSet`.
const SCHEMAS: &[u8] = include_bytes!("../../../../proto/schemas.binpb");

/// The depth of nested messages in a request.
const DEPTH_MAX: usize = 4;

/// The numbers of types of fields in a `FieldDescriptorProto`.
const DOUBLE: u64 = 1;
const FLOAT: u64 = 2;
const STRING: u64 = 9;
const MESSAGE: u64 = 11;
const BYTES: u64 = 12;

/// A method: its path, and its request.
pub struct SchemaMethod {
    pub path: String,
    /// The name of the request's type.
    request: String,
}

/// A field of a message.
#[derive(Clone)]
pub struct SchemaField {
    pub number: u32,
    kind: u64,
    /// The name of its type if it is a message.
    of: String,
    pub is_repeated: bool,
    /// True if it is in a group of fields of which a message has one.
    is_alternative: bool,
}

impl SchemaField {
    /// Returns true if the field is a message.
    pub fn is_message(&self) -> bool {
        self.kind == MESSAGE
    }

    /// Appends the field with a value of its type. A text is `word`.
    pub fn write(&self, out: &mut Encoder, schema: &Schema, word: &[u8], depth: usize) {
        match self.kind {
            DOUBLE => out.one_of_double(self.number, 1.5),
            FLOAT => out.one_of_float(self.number, 1.5),
            STRING | BYTES => out.item(self.number, word),
            MESSAGE => out.item(self.number, &schema.message(&self.of, word, depth + 1)),
            _ => out.one_of_uint(self.number, 1),
        };
    }
}

/// The methods and messages of the schemas.
pub struct Schema {
    pub methods: Vec<SchemaMethod>,
    messages: Vec<(String, Vec<SchemaField>)>,
}

impl Schema {
    /// Reads the compiled schemas. A method that several services share occurs once, in the first of them.
    pub fn read() -> Self {
        let mut schema = Self { methods: Vec::new(), messages: Vec::new() };
        for file in parse(SCHEMAS).all(1) {
            let file = parse(file);
            let package = text(file, 2);
            for message in file.all(4) {
                schema.add_message(&format!(".{package}"), parse(message));
            }
            for service in file.all(6).map(parse) {
                for method in service.all(2).map(parse) {
                    schema.add_method(&format!("/{package}.{}/", text(service, 1)), method);
                }
            }
        }
        schema
    }

    fn add_method(&mut self, service: &str, method: Message<'_>) {
        let name = text(method, 1);
        if self.methods.iter().all(|other| other.path.rsplit('/').next() != Some(&name)) {
            self.methods.push(SchemaMethod { path: format!("{service}{name}"), request: text(method, 2) });
        }
    }

    fn add_message(&mut self, scope: &str, message: Message<'_>) {
        let name = format!("{scope}.{}", text(message, 1));
        for nested in message.all(3) {
            self.add_message(&name, parse(nested));
        }
        let field = |field: &[u8]| {
            let field = parse(field);
            SchemaField {
                number: u32::try_from(field.uint(3)).expect("the number of a field"),
                kind: field.uint(5),
                of: text(field, 6),
                is_repeated: field.uint(4) == 3,
                is_alternative: field.try_uint(9).is_some(),
            }
        };
        self.messages.push((name, message.all(2).map(field).collect()));
    }

    /// Returns the fields of a type of messages.
    pub fn fields_of(&self, of: &str) -> &[SchemaField] {
        self.messages.iter().find(|(name, _)| name == of).map_or(&[], |(_, fields)| fields)
    }

    /// Returns the fields of a method's request.
    pub fn fields(&self, method: &SchemaMethod) -> &[SchemaField] {
        self.fields_of(&method.request)
    }

    /// Returns a request of a method that has all fields, with one of each group of alternatives.
    pub fn request(&self, method: &SchemaMethod, word: &[u8]) -> Vec<u8> {
        self.message(&method.request, word, 0)
    }

    fn message(&self, of: &str, word: &[u8], depth: usize) -> Vec<u8> {
        let (mut out, mut has_alternative) = (Encoder::new(), false);
        if depth == DEPTH_MAX {
            return Vec::new();
        }
        for field in self.fields_of(of) {
            if field.is_alternative && std::mem::replace(&mut has_alternative, true) {
                continue;
            }
            field.write(&mut out, self, word, depth);
        }
        out.as_slice().to_vec()
    }
}

fn parse(bytes: &[u8]) -> Message<'_> {
    Message::parse(bytes).expect("compiled schemas")
}

fn text(message: Message<'_>, number: u32) -> String {
    String::from_utf8(message.bytes(number).to_vec()).expect("a name")
}
