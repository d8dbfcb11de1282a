//! Passes any bytes to the libraries of scripts.

use gannet_script::{Header, Input, Machine, MachineEvent, Script, digest_of};
use std::cell::RefCell;
use std::sync::Arc;

/// Decodes the argument with each library. What was decoded is encoded again.
const TEXT: &str = "local bytes = ARGV[1] \
    local packed, value = pcall(function() return (cmsgpack.unpack(bytes)) end) \
    if packed then pcall(cjson.encode, value) pcall(function() return (cmsgpack.unpack(cmsgpack.pack(value))) end) end \
    local parsed, value = pcall(cjson.decode, bytes) \
    if parsed then cmsgpack.pack(value) pcall(cjson.encode, value) end \
    pcall(function() local first = struct.unpack(bytes, bytes) end) \
    pcall(struct.size, bytes) \
    pcall(struct.pack, bytes, 1, 2, 'three', 4) \
    pcall(loadstring, bytes) \
    return 1";

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::new(Machine::new().expect("a stack"));
}

/// Passes bytes to the libraries, which must neither panic nor run without end.
pub fn walk(bytes: &[u8]) {
    let text = TEXT.as_bytes();
    let script = Script { number: 1, digest: digest_of(text), text: text.into(), header: Header::default() };
    MACHINE.with_borrow_mut(|machine| {
        machine.begin(Arc::new(script), std::iter::once(bytes), 0, false);
        let mut event = machine.step(Input::Run);
        while event != MachineEvent::Done {
            assert!(matches!(event, MachineEvent::Tick | MachineEvent::ShortTick), "{event:?}");
            event = machine.step(Input::Continue);
        }
        machine.with_result(|result| assert_eq!(result, b":1\r\n", "{}", result.escape_ascii()));
    });
}
