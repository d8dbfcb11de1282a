//! Encodes the items of a long reply in steps, as the reply arrives.
//!
//! ```text
//!   reply of a command ──parts, as long as the output──> ItemReply ──> 1 found: 1 item, 1 item, ...
//!                                                          └── rest: an item that is not complete
//! ```

use protocol::grpc::MESSAGE_PREFIX_BYTES;
use protocol::grpc::message_prefix;
use protocol::grpc::protobuf::{put_varint, varint_len};
use protocol::number::parse_u64;

/// The first byte of a field 1 of bytes or a message, and of a field 2.
const FIELD_1: u8 = 0x0a;
const FIELD_2: u8 = 0x12;

/// The room for what precedes the items: the prefix of the message, and the field 1 with its length.
const HEAD_BYTES_MAX: usize = MESSAGE_PREFIX_BYTES + 1 + 10;

/// The maximum length of a line that precedes a word or an array: a byte, a number, and the end of the line.
const LINE_BYTES_MAX: usize = 32;

/// The maximum number of words that one step decodes.
const WORDS_A_STEP: usize = 4096;

/// The items that the words of a reply form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemForm {
    /// Each word is an item of bytes.
    Words,
    /// Two words are an item: a message with the fields 1 and 2.
    Pairs,
}

/// The reply of a command that replies with an array of words, of which a part has arrived.
#[derive(Debug)]
pub(super) struct ItemReply {
    form: ItemForm,
    /// Bytes of the reply, of which those before `at` are decoded.
    rest: Vec<u8>,
    at: usize,
    /// The number of words that have not arrived; `None` before the array has begun.
    left: Option<u64>,
    /// The first word of a pair whose second one has not arrived.
    first: Option<Vec<u8>>,
    /// Room for the head, and the items.
    message: Vec<u8>,
    error: Option<ItemError>,
}

/// The reason why a reply has no items.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ItemError {
    /// The command replied with this error.
    Refused(Vec<u8>),
    /// The reply is of another type than expected, or not complete.
    Unexpected,
}

/// The next part of a reply.
enum ReplyPart<'b> {
    /// The number of words of the array.
    Array(u64),
    Word(&'b [u8]),
    Error(&'b [u8]),
}

impl ItemReply {
    pub(super) fn new(form: ItemForm) -> Self {
        Self { form, rest: Vec::new(), at: 0, left: None, first: None, message: Vec::new(), error: None }
    }

    /// Returns the memory of the reply, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        let first = self.first.as_ref().map_or(0, Vec::capacity);
        (self.rest.capacity() + first + self.message.capacity()) as u64
    }

    /// Adds the next bytes of the reply.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.rest.drain(..std::mem::take(&mut self.at));
        self.rest.extend_from_slice(bytes);
    }

    /// Decodes the next words, at most [`WORDS_A_STEP`]. Returns true if there may be more.
    pub(super) fn advance(&mut self) -> bool {
        let rest = std::mem::take(&mut self.rest);
        let mut has_more = true;
        for _ in 0..WORDS_A_STEP {
            match part(&rest[self.at..]) {
                _ if self.error.is_some() => has_more = false,
                Ok(None) => has_more = false,
                Ok(Some((part, consumed))) => {
                    self.at += consumed;
                    self.take(&part);
                }
                Err(error) => self.error = Some(error),
            }
            if !has_more {
                break;
            }
        }
        self.rest = rest;
        if self.error.is_some() || self.at == self.rest.len() {
            (self.rest, self.at) = (Vec::new(), 0);
        }
        has_more && !self.rest.is_empty()
    }

    fn take(&mut self, part: &ReplyPart<'_>) {
        match (part, self.left) {
            (ReplyPart::Error(line), None) => self.error = Some(ItemError::Refused(line.to_vec())),
            (ReplyPart::Array(count), None) => {
                self.left = Some(*count);
                self.message = vec![0; HEAD_BYTES_MAX];
            }
            (ReplyPart::Word(word), Some(left @ 1..)) => {
                self.left = Some(left - 1);
                self.add_word(word);
            }
            _ => self.error = Some(ItemError::Unexpected),
        }
    }

    fn add_word(&mut self, word: &[u8]) {
        let message = &mut self.message;
        match (self.form, self.first.take()) {
            (ItemForm::Words, _) => add_field(message, FIELD_1, word),
            (ItemForm::Pairs, None) => self.first = Some(word.to_vec()),
            (ItemForm::Pairs, Some(first)) => {
                // As in proto3, a field without bytes is left out.
                let fields = [(FIELD_1, &first[..]), (FIELD_2, word)];
                let fields = fields.into_iter().filter(|(_, word)| !word.is_empty());
                let len: usize = fields.clone().map(|(_, word)| 1 + varint_len(word.len() as u64) + word.len()).sum();
                message.push(FIELD_1);
                put_varint(message, len as u64);
                fields.for_each(|(field, word)| add_field(message, field, word));
            }
        }
    }

    /// Returns the message of the complete reply with its prefix: 1 found (1 items). Returns `None` if there are no
    /// items.
    pub(super) fn finish(&mut self) -> Result<Option<Vec<u8>>, ItemError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.left != Some(0) || self.first.is_some() || !self.rest.is_empty() {
            return Err(ItemError::Unexpected);
        }
        let mut messages = std::mem::take(&mut self.message);
        let items = messages.len() - HEAD_BYTES_MAX;
        if items == 0 {
            return Ok(None);
        }
        let mut found = vec![FIELD_1];
        put_varint(&mut found, items as u64);
        let prefix = message_prefix((found.len() + items) as u32);
        let head = [&prefix[..], &found].concat();
        let from = HEAD_BYTES_MAX - head.len();
        messages[from..HEAD_BYTES_MAX].copy_from_slice(&head);
        messages.drain(..from);
        Ok(Some(messages))
    }
}

fn add_field(message: &mut Vec<u8>, field: u8, word: &[u8]) {
    message.push(field);
    put_varint(message, word.len() as u64);
    message.extend_from_slice(word);
}

/// Returns the first part of `bytes` with its length; `None` if it is not complete.
fn part(bytes: &[u8]) -> Result<Option<(ReplyPart<'_>, usize)>, ItemError> {
    let Some((kind, after)) = bytes.split_first() else { return Ok(None) };
    let most = if *kind == b'-' { after.len() } else { after.len().min(LINE_BYTES_MAX) };
    let Some(len) = after[..most].windows(2).position(|pair| pair == b"\r\n") else {
        return if most == LINE_BYTES_MAX { Err(ItemError::Unexpected) } else { Ok(None) };
    };
    let (line, body) = (&after[..len], 1 + len + 2);
    if *kind == b'-' {
        return Ok(Some((ReplyPart::Error(line), body)));
    }
    let number = parse_u64(line).ok_or(ItemError::Unexpected)?;
    match kind {
        b'*' => Ok(Some((ReplyPart::Array(number), body))),
        b'$' => {
            let word = usize::try_from(number).map_err(|_| ItemError::Unexpected)?;
            // The end of the line follows.
            if bytes.len() - body < word.saturating_add(2) {
                return Ok(None);
            }
            Ok(Some((ReplyPart::Word(&bytes[body..body + word]), body + word + 2)))
        }
        _ => Err(ItemError::Unexpected),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::grpc::protobuf::Message;

    fn reply_of(bytes: &[u8], form: ItemForm, part: usize) -> Result<Option<Vec<u8>>, ItemError> {
        let mut reply = ItemReply::new(form);
        for part in bytes.chunks(part) {
            reply.add(part);
            while reply.advance() {}
        }
        reply.finish()
    }

    fn message_of(bytes: &[u8], form: ItemForm, part: usize) -> Vec<u8> {
        let messages = reply_of(bytes, form, part).expect("a reply").expect("items");
        let len = u32::from_be_bytes(messages[1..5].try_into().expect("a prefix")) as usize;
        assert_eq!((messages[0], messages.len()), (0, 5 + len));
        messages[5..].to_vec()
    }

    fn array(words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    #[test]
    fn words_survive_any_division_of_their_reply() {
        let long = vec![b'\r'; 300];
        let words: [&[u8]; 6] = [b"a", b"", b"\r\n", b"$1\r\nx\r\n", &long, b"-ERR"];
        let bytes = array(&words);
        for part in 1..=bytes.len() {
            let message = message_of(&bytes, ItemForm::Words, part);
            let found = Message::parse(&message).expect("a message").message(1).expect("a message").expect("found");
            assert_eq!(found.all(1).collect::<Vec<_>>(), words, "parts of {part} bytes");
            let message = message_of(&bytes, ItemForm::Pairs, part);
            let found = Message::parse(&message).expect("a message").message(1).expect("a message").expect("found");
            let pairs = found.all(1).map(|pair| found.part(pair).expect("a pair"));
            let pairs: Vec<&[u8]> = pairs.flat_map(|pair| [pair.bytes(1), pair.bytes(2)]).collect();
            assert_eq!(pairs, words, "parts of {part} bytes");
        }
    }

    #[test]
    fn long_reply_takes_several_steps() {
        let words = vec![&b"word"[..]; 3 * WORDS_A_STEP];
        let mut reply = ItemReply::new(ItemForm::Words);
        reply.add(&array(&words));
        let steps = std::iter::from_fn(|| reply.advance().then_some(())).count();
        assert_eq!(steps, 3);
        assert!(reply.finish().is_ok());
    }

    #[test]
    fn reply_without_items_has_no_message_and_an_error_is_that_of_the_command() {
        let cuts = [
            &b"*2\r\n$1\r\na\r\n"[..],
            b"*1\r\n$3\r\na\r\n",
            b"",
            b"*1\r\n:5\r\n",
            b"*1\r\n*0\r\n",
            b"*0\r\n$1\r\na\r\n",
        ];
        for part in 1..5 {
            assert_eq!(reply_of(b"*0\r\n", ItemForm::Words, part), Ok(None));
            let refused = Err(ItemError::Refused(b"WRONGTYPE no list".to_vec()));
            assert_eq!(reply_of(b"-WRONGTYPE no list\r\n", ItemForm::Pairs, part), refused);
            for cut in cuts {
                assert_eq!(reply_of(cut, ItemForm::Words, part), Err(ItemError::Unexpected), "{cut:?}");
            }
        }
    }
}
