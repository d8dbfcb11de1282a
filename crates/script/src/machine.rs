//! A Lua state on a stack of its own, as its caller sees it.

use crate::events::{Input, MachineEvent};
use crate::exchange::{Exchange, SharedExchange};
use crate::script::{RegisteredFunction, Script};
use crate::vm;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use std::io;
use std::sync::Arc;

/// The size of a machine's stack, in bytes. Only touched pages use memory. 200 nested calls of `string.gsub`, the
/// maximum, take less than 3 MiB.
const STACK_BYTES: usize = 8 << 20;

/// The maximum size in bytes of a buffer that a machine at rest retains.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// A Lua state that runs one script at a time.
pub struct Machine {
    coroutine: Coroutine<Input, MachineEvent, ()>,
    exchange: SharedExchange,
}

impl Machine {
    /// Creates a machine.
    ///
    /// # Errors
    /// If its stack cannot be allocated.
    pub fn new() -> io::Result<Self> {
        let exchange = SharedExchange::default();
        let inner = SharedExchange::clone(&exchange);
        let stack = DefaultStack::new(STACK_BYTES)?;
        let coroutine = Coroutine::with_stack(stack, move |yielder, first| vm::serve(yielder, first, &inner));
        let mut machine = Self { coroutine, exchange };
        machine.step(Input::Continue);
        Ok(machine)
    }

    /// Sets the script to run, its keys and arguments, of which the first `keys` are keys, and the protocol version of
    /// the client.
    pub fn begin<'w>(
        &mut self,
        script: Arc<Script>,
        words: impl Iterator<Item = &'w [u8]>,
        keys: usize,
        replies_in_3: bool,
    ) {
        let mut exchange = self.exchange.borrow_mut();
        exchange.words.clear();
        exchange.ends.clear();
        for word in words {
            exchange.words.extend_from_slice(word);
            let end = exchange.words.len();
            exchange.ends.push(end);
        }
        (exchange.script, exchange.function) = (Some(script), None);
        (exchange.keys, exchange.replies_in_3, exchange.calls_in_3) = (keys, replies_in_3, false);
    }

    /// Selects the function of a library that [`Input::Run`] calls. [`Machine::begin`] has set the library.
    pub fn call_function(&mut self, name: &[u8]) {
        self.exchange.borrow_mut().function = Some(name.into());
    }

    /// Returns the functions that the library has registered which was loaded last.
    pub fn take_registered(&mut self) -> Vec<RegisteredFunction> {
        std::mem::take(&mut self.exchange.borrow_mut().registered)
    }

    /// Continues the machine until its next event.
    pub fn step(&mut self, input: Input) -> MachineEvent {
        if self.coroutine.done() {
            self.exchange.borrow_mut().result = b"-ERR the Lua interpreter could not be started\r\n".to_vec();
            return MachineEvent::Done;
        }
        match self.coroutine.resume(input) {
            CoroutineResult::Yield(event) => event,
            CoroutineResult::Return(()) => MachineEvent::Done,
        }
    }

    /// Calls `look` with the request of the called command, a RESP array.
    pub fn with_request<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.exchange.borrow().request)
    }

    /// Returns the number of the words of that request, and the offset in bytes at which the first one begins with its
    /// length.
    pub fn request_words(&self) -> (u32, usize) {
        self.exchange.borrow().request_words
    }

    /// Returns true if the reply to the called command must have version 3 of the protocol.
    pub fn calls_in_3(&self) -> bool {
        self.exchange.borrow().calls_in_3
    }

    /// Replaces the reply to the called command by what `fill` appends to an empty buffer.
    pub fn set_reply(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let reply = &mut self.exchange.borrow_mut().reply;
        reply.clear();
        fill(reply);
    }

    /// Calls `look` with the script's result, which is a RESP reply.
    pub fn with_result<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.exchange.borrow().result)
    }

    /// Frees the long buffers of the last script: its request, the reply to it, and its result.
    pub fn free_buffers(&mut self) {
        let mut exchange = self.exchange.borrow_mut();
        let Exchange { words, request, reply, result, .. } = &mut *exchange;
        for buffer in [words, request, reply, result] {
            if buffer.capacity() > BUFFER_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }

    /// Returns true if the last script did not compile.
    pub fn is_uncompiled(&self) -> bool {
        self.exchange.borrow().is_uncompiled
    }

    /// Returns the size of the Lua heap when the last script ended, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.exchange.borrow().heap_bytes
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        while !self.coroutine.done() {
            self.step(Input::Stop);
        }
    }
}
