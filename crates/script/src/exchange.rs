//! The data that a machine and its caller exchange. Only one of them accesses it at a time.

use crate::script::{RegisteredFunction, Script};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The arguments and results of a machine.
#[derive(Default)]
pub(crate) struct Exchange {
    /// The script to run or compile.
    pub(crate) script: Option<Arc<Script>>,
    /// The function to call, if the script is a library.
    pub(crate) function: Option<Box<[u8]>>,
    /// The functions that a library has registered while it was loaded.
    pub(crate) registered: Vec<RegisteredFunction>,
    /// The bytes of their names and descriptions.
    pub(crate) registered_bytes: usize,
    /// The keys and arguments of the script, one after another, and their ends.
    pub(crate) words: Vec<u8>,
    pub(crate) ends: Vec<usize>,
    /// The number of words that are keys.
    pub(crate) keys: usize,
    /// True if the result is a reply of version 3 of the protocol.
    pub(crate) replies_in_3: bool,
    /// True if the script has requested replies of version 3 of the protocol to its commands.
    pub(crate) calls_in_3: bool,
    /// The request of a command that the script calls, as a RESP array.
    pub(crate) request: Vec<u8>,
    /// The number of words of that request, and the offset in bytes at which the first one begins with its length.
    pub(crate) request_words: (u32, usize),
    /// The reply to that command.
    pub(crate) reply: Vec<u8>,
    /// The result of the script, as a RESP reply.
    pub(crate) result: Vec<u8>,
    /// True if the result is the error of a script that does not compile.
    pub(crate) is_uncompiled: bool,
    /// The size of the Lua heap when the last script ended, in bytes.
    pub(crate) heap_bytes: usize,
}

/// A reference to the data that a machine and its caller exchange.
pub(crate) type SharedExchange = Rc<RefCell<Exchange>>;

impl Exchange {
    /// Returns the memory of all words in a Lua state without their headers, in bytes, about.
    pub(crate) fn word_bytes(&self) -> usize {
        self.words.len() + size_of::<[usize; 2]>() * self.ends.len()
    }

    /// Returns the word with this number.
    pub(crate) fn word(&self, number: usize) -> &[u8] {
        let from = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.words[from..self.ends[number]]
    }
}
