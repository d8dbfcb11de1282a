//! Reflection: the services and their messages, for tools that know no schema.
//!
//! Source: the services `grpc.reflection.v1` and `v1alpha` of the gRPC project, whose messages are equal.

use super::SERVICES;
use crate::grpc::plan::{CallError, CallPlan, Commands, reply};
use protocol::grpc::Status;
use protocol::grpc::protobuf::{Encoder, Message};

/// The schemas in their compiled form, a `FileDescriptorSet`: each file as the field 1. `proto/README.md` has the
/// command that writes it.
const SCHEMAS: &[u8] = include_bytes!("../../../../../proto/schemas.binpb");

/// Returns the compiled schemas, each with the name of its file and its package.
fn schemas() -> impl Iterator<Item = (&'static [u8], &'static [u8], &'static [u8])> {
    let files = Message::parse(SCHEMAS).ok().into_iter().flat_map(|set| set.all(1));
    files.filter_map(|file| Message::parse(file).ok().map(|fields| (file, fields.bytes(1), fields.bytes(2))))
}

/// Returns true if a file of a package defines a symbol with a full name, or the type or service that contains it: 4
/// messages, 5 enums and 6 services, each with 1 its name.
fn defines(file: &[u8], package: &[u8], symbol: &[u8]) -> bool {
    let Some(local) = symbol.strip_prefix(package).and_then(|rest| rest.strip_prefix(b".")) else { return false };
    let first = local.split(|byte| *byte == b'.').next();
    let Ok(file) = Message::parse(file) else { return false };
    let mut parts = [4, 5, 6].into_iter().flat_map(|number| file.all(number));
    parts.any(|part| Message::parse(part).is_ok_and(|part| Some(part.bytes(1)) == first))
}

fn write_file(out: &mut Encoder, file: Option<&'static [u8]>, wanted: &[u8]) {
    match file {
        Some(file) => {
            out.message(4, |files| {
                files.item(1, file);
            });
        }
        None => {
            out.message(7, |error| {
                let text = format!("no schema has {}", String::from_utf8_lossy(wanted));
                error.uint(1, Status::NotFound as u64).bytes(2, text.as_bytes());
            });
        }
    }
}

/// Decodes a request: 3 file by its name, 4 file that contains a symbol, 7 services. Replies 2 the request, and 4
/// files, 6 services or 7 error (1 code, 2 text).
pub(super) fn reflect(message: Message<'_>) -> Result<CallPlan, CallError> {
    let request = message.as_bytes().to_vec();
    let plan = CallPlan::new(Commands::default(), move |_| {
        let message = Message::parse(&request)?;
        reply(|out| {
            out.bytes(2, &request);
            if let Some(name) = message.try_bytes(3) {
                write_file(out, schemas().find(|(_, of, _)| *of == name).map(|(file, ..)| file), name);
            } else if let Some(symbol) = message.try_bytes(4) {
                let found = schemas().find(|(file, _, package)| defines(file, package, symbol));
                write_file(out, found.map(|(file, ..)| file), symbol);
            } else if message.try_bytes(7).is_some() {
                out.message(6, |services| {
                    for service in SERVICES {
                        services.message(1, |one| {
                            one.bytes(1, service.name.as_bytes());
                        });
                    }
                });
            } else {
                out.message(7, |error| {
                    error.uint(1, Status::Unimplemented as u64).bytes(2, b"ask for services, a file or a symbol");
                });
            }
        })
    });
    Ok(plan.staying_open())
}
