//! Reflection: the services and their messages, for tools that know no schema.
//!
//! The schemas of Momento's services have the messages of `gannet.v1`, whose encoding is the same.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn name(part: &[u8]) -> String {
        let part = Message::parse(part).expect("a compiled schema");
        String::from_utf8(part.bytes(1).to_vec()).expect("a name")
    }

    #[test]
    fn each_listed_service_is_described_with_its_methods_alone() {
        for service in SERVICES {
            let (package, local) = service.name.rsplit_once('.').expect("a package");
            let found = schemas().find(|(file, _, package)| defines(file, package, service.name.as_bytes()));
            let (file, _, of) = found.unwrap_or_else(|| panic!("no schema has {}", service.name));
            assert_eq!(of, package.as_bytes());
            let file = Message::parse(file).expect("a compiled schema");
            let described = file.all(6).find(|part| name(part) == local).expect("the service");
            let methods = Message::parse(described).expect("a compiled schema").all(2).map(name);
            let served = service.methods.iter().flat_map(|methods| methods.iter()).map(|method| method.name.to_owned());
            assert_eq!(methods.collect::<BTreeSet<_>>(), served.collect::<BTreeSet<_>>(), "{}", service.name);
        }
    }

    #[test]
    fn imports_of_each_schema_can_be_asked_for() {
        let names: BTreeSet<_> = schemas().map(|(_, name, _)| name).collect();
        let mut imports = 0;
        for (file, name, _) in schemas() {
            for import in Message::parse(file).expect("a compiled schema").all(3) {
                assert!(names.contains(import), "{}", String::from_utf8_lossy(name));
                imports += 1;
            }
        }
        assert!(imports > 5, "{imports} imports are too few to prove anything");
    }
}
