//! Measures the memory of scripts whose outputs refer to one long string many times. The only test of its process,
//! because it measures the whole process.
#![cfg(target_os = "linux")]

use gannet_script::{HEAP_BYTES_MAX, Header, Input, Machine, MachineEvent, Script, digest_of};
use std::sync::Arc;

/// Makes `s`, a string of 10 MiB, and `t`, a table with 100 references to it.
const BEFORE: &str = "local s = ('x'):rep(10485760) local t = {} for i = 1, 100 do t[i] = s end ";
/// Each makes about 1 GiB.
const OUTPUTS: &[&str] = &[
    "return t",
    "return {t, {map = t}, {set = t}}",
    "for i = 1, 100 do t[i] = {ok = s} end return t",
    "for i = 1, 100 do t[i] = {err = s} end return t",
    "for i = 1, 100 do t[i] = {double = 1} t[i + 100] = {big_number = s} end return t",
    "for i = 1, 100 do t[i] = {verbatim_string = {format = 'txt', string = s}} end return t",
    "return redis.call('ECHO', unpack(t))",
    "return redis.pcall('ECHO', unpack(t))",
    "return redis.acl_check_cmd('ECHO', unpack(t))",
    "return redis.log(redis.LOG_DEBUG, unpack(t))",
    "return #(string.gsub(('y'):rep(100), '.', s))",
    "return #(string.gsub(('y'):rep(100), '.', {y = s}))",
    "return #(string.gsub(('y'):rep(100), '.', function() return s end))",
    "return #(string.gsub(s, '.*', ('%0'):rep(100)))",
    "return #(string.gsub(s, '(.*)', ('%1'):rep(100)))",
    "return #cjson.encode(t)",
    "return #cjson.encode({[s] = t})",
    "return #cjson.encode(('\\1'):rep(100000000))",
    "cjson.encode_sparse_array(false, 0) return #cjson.encode({[200000000] = 1})",
    "return #cmsgpack.pack(t)",
    "return #cmsgpack.pack(unpack(t))",
    "return #struct.pack(('s'):rep(100), unpack(t))",
    "return #struct.pack(('c0'):rep(100), unpack(t))",
    "return cmsgpack.unpack(('\\1'):rep(40000000))",
    "return struct.unpack(('b'):rep(40000000), ('b'):rep(40000000))",
];
/// The maximum of the resident memory: a full heap, two outputs of that length and room for the rest.
const RESIDENT_BYTES_MAX: usize = 4 * HEAP_BYTES_MAX;

/// Returns the maximum of the resident memory since the last reset, in bytes, and resets it.
fn take_peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a maximum");
    let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<usize>().ok());
    std::fs::write("/proc/self/clear_refs", "5").expect("a reset of the maximum");
    kib.expect("a number") << 10
}

/// Runs a script. Returns its result.
fn run(machine: &mut Machine, number: u64, text: &str) -> String {
    let text = text.as_bytes();
    let script = Script { number, digest: digest_of(text), text: text.into(), header: Header::default() };
    machine.begin(Arc::new(script), std::iter::empty(), 0, number.is_multiple_of(2));
    let mut event = machine.step(Input::Run);
    while event != MachineEvent::Done {
        let is_tick = matches!(event, MachineEvent::Tick | MachineEvent::ShortTick);
        machine.set_reply(|out| out.extend_from_slice(b"+OK\r\n"));
        event = machine.step(if is_tick { Input::Continue } else { Input::Reply });
    }
    let result = machine.with_result(|result| String::from_utf8_lossy(&result[..result.len().min(200)]).into_owned());
    machine.free_buffers();
    result
}

#[test]
fn outputs_that_refer_to_one_string_many_times_are_refused_before_they_take_memory() {
    let mut machine = Machine::new().expect("a stack");
    for (number, output) in OUTPUTS.iter().enumerate() {
        take_peak();
        let result = run(&mut machine, number as u64, &format!("{BEFORE}{output}"));
        let peak = take_peak();
        assert!(peak < RESIDENT_BYTES_MAX, "{} MiB: {output}: {result}", peak >> 20);
        let is_refused = result.contains("not enough memory") || result.contains("out of Lua stack");
        assert!(is_refused, "{output}: {result}");
        assert_eq!(run(&mut machine, 1_000, "return 1"), ":1\r\n", "{output}");
    }
}
