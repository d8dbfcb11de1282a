//! Compares replies with the model: every value byte by byte, and every line completely.
//!
//! A miss is never wrong, because the item may have been evicted. If the item had not expired and had not been deleted
//! or flushed, it counts as lost; `stages.rs` compares the number of lost items with the server's count of evictions. A
//! hit must agree with the model.

use memchr::memchr;

use super::client::{CONNECTIONS, Mode, REFILLS_MAX, SoakClient, SoakExpect, StoreRequest};
use super::model::{Item, NEVER, Span, client_flags, write_key};
use super::requests::{digits, is_number};

/// The length of a checked reply in bytes; `None` if the reply is incomplete; an error if it is wrong.
type Checked = Result<Option<usize>, String>;

/// Maximum number of a wrong reply's bytes that an error message shows.
const SHOWN_BYTES: usize = 160;

impl SoakClient {
    /// Checks all complete replies of a connection.
    pub(super) fn check_replies(&mut self, index: usize, span: Span) -> Result<(), String> {
        while let Some(expect) = self.connections[index].expects.front().copied() {
            // Some requests have no reply. The arrival of a later request's reply proves that they were executed, so
            // the loop
            // continues only if there are unread bytes.
            if self.connections[index].unread().is_empty() {
                return Ok(());
            }
            let checked = match expect {
                SoakExpect::Values { count, ttl_s } => self.check_values(index, count, ttl_s, span),
                SoakExpect::Group { count } => self.check_group(index, count, span),
                SoakExpect::Meta { key } => self.check_meta(index, key, span),
                SoakExpect::Store { store, silent: true } => self.stored(&store, 0, span).map(|()| Some(0)),
                SoakExpect::Store { store, silent: false } => self.check_store(index, &store, span),
                SoakExpect::Delete { key, silent: true, .. } => {
                    self.items[key as usize].present = false;
                    Ok(Some(0))
                }
                SoakExpect::Delete { key, meta, silent: false } => self.check_delete(index, key, meta, span),
                SoakExpect::Count { key, delta, up, meta } => self.check_count(index, key, delta, up, meta, span),
                SoakExpect::Touch { key, ttl_s } => self.check_touch(index, key, ttl_s, span),
                SoakExpect::Known { key } => self.check_known(index, key, span),
                SoakExpect::Line(begin) => self.check_line(index, begin),
            };
            let checked = checked.map_err(|error| {
                let found = self.connections[index].unread();
                let found = String::from_utf8_lossy(&found[..found.len().min(SHOWN_BYTES)]).into_owned();
                format!("{error}; request {expect:?}; {span:?}; the reply begins {found:?}")
            })?;
            let Some(used) = checked else { return Ok(()) };
            let connection = &mut self.connections[index];
            connection.read += used;
            connection.expects.pop_front();
            self.tally.requests += 1;
        }
        Ok(())
    }

    fn check_line(&self, index: usize, begin: &str) -> Checked {
        let Some(line) = line(self.connections[index].unread()) else { return Ok(None) };
        match line.starts_with(begin.as_bytes()) {
            true => Ok(Some(line.len() + 2)),
            false => Err(format!("expected a line '{begin}'")),
        }
    }

    /// Checks the reply to a get: `VALUE KEY FLAGS BYTES [TOKEN]` for each key that is found, and `END`. Each value is
    /// removed from the input after its check, so that an incomplete reply continues with the next value.
    fn check_values(&mut self, index: usize, count: u32, ttl_s: Option<i64>, span: Span) -> Checked {
        let Some(line) = line(self.connections[index].unread()) else { return Ok(None) };
        let head_bytes = line.len() + 2;
        let Some(found) = line.strip_prefix(b"VALUE ") else {
            if line != b"END" {
                return Err("expected VALUE or END".into());
            }
            self.missed(index, count, span);
            return Ok(Some(head_bytes));
        };
        let mut words = found.split(|byte| *byte == b' ');
        let text = words.next().unwrap_or_default();
        let (text_bytes, flags) = (text.len(), words.next().and_then(number));
        let (bytes, token) = (words.next().and_then(number), words.next().and_then(number));
        let (Some(flags), Some(bytes)) = (flags, bytes) else { return Err("expected a VALUE line".into()) };
        let whole_bytes = head_bytes + bytes as usize + 2;
        if self.connections[index].unread().len() < whole_bytes {
            return Ok(None);
        }
        let (key, left) = self.key_of(index, count, b"VALUE ".len(), text_bytes, span)?;
        let item = self.items[key as usize];
        self.check_item(index, key, head_bytes, bytes as usize, span)?;
        if flags != u64::from(client_flags(key, item.version)) {
            return Err(format!("key {key}: expected flags {}", client_flags(key, item.version)));
        }
        let item = &mut self.items[key as usize];
        if let Some(token) = token {
            learn_token(key, item, token)?;
        }
        if let Some(ttl_s) = ttl_s {
            item.ends_after(ttl_s, span);
        }
        let connection = &mut self.connections[index];
        connection.read += whole_bytes;
        connection.expects[0] = SoakExpect::Values { count: left, ttl_s };
        self.check_values(index, left, ttl_s, span)
    }

    /// Returns the first of the connection's next keys whose text is at offset `begin` of the input. Records a miss for
    /// each key before it.
    fn key_of(
        &mut self,
        index: usize,
        count: u32,
        begin: usize,
        bytes: usize,
        span: Span,
    ) -> Result<(u32, u32), String> {
        for passed in 0..count {
            let key = self.connections[index].keys[passed as usize];
            self.scratch.clear();
            write_key(key, &mut self.scratch);
            if self.scratch == self.connections[index].unread()[begin..begin + bytes] {
                self.missed(index, passed, span);
                self.connections[index].keys.pop_front();
                return Ok((key, count - passed - 1));
            }
        }
        Err("the reply has a key that was not requested".into())
    }

    /// Records that the next `count` keys of the connection were not found.
    fn missed(&mut self, index: usize, count: u32, span: Span) {
        for _ in 0..count {
            if let Some(key) = self.connections[index].keys.pop_front() {
                self.missed_key(key, span);
            }
        }
    }

    fn missed_key(&mut self, key: u32, span: Span) {
        let item = &mut self.items[key as usize];
        let lost = item.was_missed(span);
        self.tally.misses += 1;
        self.tally.lost += u64::from(lost);
        self.tally.gone += u64::from(item.version > 0 && !lost);
        let refills = &mut self.connections[(key % CONNECTIONS) as usize].refills;
        if refills.len() < REFILLS_MAX {
            refills.push(key);
        }
    }

    /// Checks the value at offset `begin` of the input, and its line end.
    fn check_item(&mut self, index: usize, key: u32, begin: usize, bytes: usize, span: Span) -> Result<(), String> {
        let item = &self.items[key as usize];
        if item.is_gone(span) {
            return Err(format!("key {key} reappeared: {item:?}"));
        }
        let end = begin + bytes;
        let input = self.connections[index].unread();
        let value = &input[begin..end];
        let right = match is_number(key) {
            true => number(value) == Some(item.number) && bytes as u32 == digits(item.number),
            false => self.values.is_item(key, item, value),
        };
        if !right {
            let known = self.versions_of(key, item.version, value);
            return Err(format!("key {key}: wrong value of {bytes} bytes ({known}); expected {item:?}"));
        }
        if &input[end..end + 2] != b"\r\n" {
            return Err(format!("key {key}: the value has no line end"));
        }
        self.tally.hits += 1;
        self.tally.value_bytes += bytes as u64;
        Ok(())
    }

    /// Describes a wrong value: whether it is the complete value of another version of the key, and of which version.
    fn versions_of(&self, key: u32, version: u32, value: &[u8]) -> String {
        const NEAR: u32 = 5_000_000;
        let near = version.saturating_sub(NEAR)..version.saturating_add(NEAR).min(self.version + 1);
        match near.into_iter().find(|version| self.values.is_value(key, *version, value)) {
            Some(found) => format!("it is version {found}"),
            None => "it is not a nearby version".into(),
        }
    }

    /// Checks the replies to quiet `mg`: `VA BYTES k<key>` for each key that is found, and `MN`.
    fn check_group(&mut self, index: usize, count: u32, span: Span) -> Checked {
        let Some(line) = line(self.connections[index].unread()) else { return Ok(None) };
        let head_bytes = line.len() + 2;
        if line == b"MN" {
            self.missed(index, count, span);
            return Ok(Some(head_bytes));
        }
        let found = line.strip_prefix(b"VA ").and_then(|found| {
            let end = memchr(b' ', found)?;
            Some((number(&found[..end])? as usize, found[end..].strip_prefix(b" k")?.len()))
        });
        let Some((bytes, text_bytes)) = found else { return Err("expected VA with a key, or MN".into()) };
        let whole_bytes = head_bytes + bytes + 2;
        if self.connections[index].unread().len() < whole_bytes {
            return Ok(None);
        }
        let (key, left) = self.key_of(index, count, head_bytes - 2 - text_bytes, text_bytes, span)?;
        self.check_item(index, key, head_bytes, bytes, span)?;
        let connection = &mut self.connections[index];
        connection.read += whole_bytes;
        connection.expects[0] = SoakExpect::Group { count: left };
        self.check_group(index, left, span)
    }

    /// Checks the reply to an `mg` with flags: `VA BYTES s f c t k O` for a hit, or `EN k O` for a miss.
    fn check_meta(&mut self, index: usize, key: u32, span: Span) -> Checked {
        let Some(line) = line(self.connections[index].unread()) else { return Ok(None) };
        let head_bytes = line.len() + 2;
        self.scratch.clear();
        write_key(key, &mut self.scratch);
        let mut found = MetaFlags::default();
        for word in line.split(|byte| *byte == b' ').skip(1) {
            found.take(word, &self.scratch)?;
        }
        if !found.key || !found.opaque {
            return Err("expected the key and the opaque".into());
        }
        if line.starts_with(b"EN ") {
            self.missed_key(key, span);
            return Ok(Some(head_bytes));
        }
        let bytes = line.strip_prefix(b"VA ").and_then(|line| number(&line[..memchr(b' ', line)?]));
        let Some(bytes) = bytes else { return Err("expected VA or EN".into()) };
        if self.connections[index].unread().len() < head_bytes + bytes as usize + 2 {
            return Ok(None);
        }
        self.check_item(index, key, head_bytes, bytes as usize, span)?;
        let item = &mut self.items[key as usize];
        if found.flags != Some(u64::from(client_flags(key, item.version))) || found.bytes != Some(bytes) {
            return Err(format!("key {key}: wrong flags or size; expected {item:?}"));
        }
        learn_token(key, item, found.token.ok_or("expected a token")?)?;
        if !found.left_s.is_some_and(|left_s| item.may_have_left(left_s, span)) {
            return Err(format!("key {key}: wrong time to live; expected {item:?}"));
        }
        Ok(Some(head_bytes + bytes as usize + 2))
    }

    fn check_store(&mut self, index: usize, store: &StoreRequest, span: Span) -> Checked {
        let Some(line) = line(self.connections[index].unread()) else { return Ok(None) };
        let used = line.len() + 2;
        let (outcome, token) = StoreReply::of(line, store)?;
        let item = self.items[store.key as usize];
        let may_be_there = !item.is_gone(span);
        let due = match (outcome, store.mode) {
            (StoreReply::Stored, Mode::Set | Mode::Add) => true,
            (StoreReply::Stored, Mode::Swap(token)) => may_be_there && item.token == token,
            (StoreReply::Exists, Mode::Swap(token)) => may_be_there && item.token != token,
            (StoreReply::Stored, _) | (StoreReply::NotStored, Mode::Add) => may_be_there,
            (StoreReply::NotStored, Mode::Replace | Mode::Append | Mode::Prepend) => true,
            (StoreReply::NotFound, Mode::Swap(_)) => true,
            _ => false,
        };
        if !due {
            return Err(format!("key {}: the model has {item:?}", store.key));
        }
        match (outcome, store.mode) {
            (StoreReply::Stored, Mode::Add) | (StoreReply::NotFound, _) => self.missed_key(store.key, span),
            (StoreReply::NotStored, mode) if mode != Mode::Add => self.missed_key(store.key, span),
            _ => {}
        }
        match outcome {
            StoreReply::Stored => self.stored(store, token, span)?,
            StoreReply::Exists => self.tally.refused += 1,
            _ => self.items[store.key as usize].piece_in_flight &= !store.mode.is_piece(),
        }
        Ok(Some(used))
    }

    /// Updates the model after a store.
    fn stored(&mut self, store: &StoreRequest, token: u64, span: Span) -> Result<(), String> {
        let item = &mut self.items[store.key as usize];
        self.tally.stored += 1;
        if store.mode.is_piece() {
            item.piece_in_flight = false;
            item.add_piece(store.version as u8, store.mode == Mode::Prepend);
        } else {
            item.store(store.version, store.bytes, store.number, store.ttl_s, span);
        }
        item.token = token;
        Ok(())
    }

    fn check_delete(&mut self, index: usize, key: u32, meta: bool, span: Span) -> Checked {
        let Some(line) = line(self.connections[index].unread()) else { return Ok(None) };
        let used = line.len() + 2;
        let (done, not) = if meta { (&b"HD"[..], &b"NF"[..]) } else { (&b"DELETED"[..], &b"NOT_FOUND"[..]) };
        match line {
            line if line == done && !self.items[key as usize].is_gone(span) => self.items[key as usize].present = false,
            line if line == not => self.missed_key(key, span),
            _ => return Err(format!("key {key}: the model has {:?}", self.items[key as usize])),
        }
        Ok(Some(used))
    }

    fn check_touch(&mut self, index: usize, key: u32, ttl_s: i64, span: Span) -> Checked {
        let Some(line) = line(self.connections[index].unread()) else { return Ok(None) };
        let used = line.len() + 2;
        match line {
            b"TOUCHED" if !self.items[key as usize].is_gone(span) => self.items[key as usize].ends_after(ttl_s, span),
            b"NOT_FOUND" => self.missed_key(key, span),
            _ => return Err(format!("key {key}: the model has {:?}", self.items[key as usize])),
        }
        Ok(Some(used))
    }

    /// Checks the new number after `incr`, `decr` or `ma`: a line, or a value after `VA`.
    fn check_count(&mut self, index: usize, key: u32, delta: u64, up: bool, meta: bool, span: Span) -> Checked {
        let unread = self.connections[index].unread();
        let Some(head) = line(unread) else { return Ok(None) };
        let mut used = head.len() + 2;
        if head == b"NOT_FOUND" || head == b"NF" {
            self.missed_key(key, span);
            return Ok(Some(used));
        }
        let text = match (meta, head.strip_prefix(b"VA ").and_then(number)) {
            (true, Some(bytes)) => {
                let Some(text) = line(&unread[used..]) else { return Ok(None) };
                used += text.len() + 2;
                if text.len() != bytes as usize {
                    return Err(format!("key {key}: the length of the number differs from the length in the reply"));
                }
                text
            }
            _ => head,
        };
        let (text, item) = (number(text), self.items[key as usize]);
        let due = if up { item.number.wrapping_add(delta) } else { item.number.saturating_sub(delta) };
        if item.is_gone(span) || text != Some(due) {
            return Err(format!("key {key}: expected {due} or a miss; the model has {item:?}"));
        }
        let item = &mut self.items[key as usize];
        item.number = due;
        item.bytes = digits(due);
        item.token = 0;
        Ok(Some(used))
    }

    fn check_known(&mut self, index: usize, key: u32, span: Span) -> Checked {
        let Some(line) = line(self.connections[index].unread()) else { return Ok(None) };
        let used = line.len() + 2;
        match line {
            b"EN" => self.missed_key(key, span),
            line if line.starts_with(b"ME ") && !self.items[key as usize].is_gone(span) => {}
            _ => return Err(format!("key {key}: the model has {:?}", self.items[key as usize])),
        }
        Ok(Some(used))
    }
}

/// The outcome of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreReply {
    Stored,
    NotStored,
    Exists,
    NotFound,
}

impl StoreReply {
    /// Parses the outcome, and the new CAS token if the reply is to `ms`.
    fn of(line: &[u8], store: &StoreRequest) -> Result<(Self, u64), String> {
        if let Some(token) = line.strip_prefix(b"HD c").filter(|_| store.meta) {
            return match number(token) {
                Some(token @ 1..) => Ok((Self::Stored, token)),
                _ => Err("expected a token".into()),
            };
        }
        let code = match memchr(b' ', line) {
            Some(end) if store.meta => &line[..end],
            _ => line,
        };
        match code {
            b"STORED" if !store.meta => Ok((Self::Stored, 0)),
            b"NOT_STORED" | b"NS" => Ok((Self::NotStored, 0)),
            b"EXISTS" => Ok((Self::Exists, 0)),
            b"NOT_FOUND" => Ok((Self::NotFound, 0)),
            _ => Err("expected the reply to a store".into()),
        }
    }
}

impl Mode {
    fn is_piece(self) -> bool {
        matches!(self, Self::Append | Self::Prepend)
    }
}

impl Item {
    /// Returns whether `left_s` is a possible value of the flag `t`, the remaining seconds to live; -1 for no expiry.
    fn may_have_left(&self, left_s: i64, span: Span) -> bool {
        match self.ends_by_ms {
            NEVER => left_s == -1,
            by_ms => {
                let least = self.ends_from_ms.saturating_sub(span.answered_ms) as i64 / 1000 - 1;
                let most = by_ms.saturating_sub(span.sent_ms) as i64 / 1000 + 2;
                (least..=most).contains(&left_s)
            }
        }
    }
}

/// The flags of a reply to `mg`.
#[derive(Default)]
struct MetaFlags {
    bytes: Option<u64>,
    flags: Option<u64>,
    token: Option<u64>,
    left_s: Option<i64>,
    key: bool,
    opaque: bool,
}

impl MetaFlags {
    fn take(&mut self, word: &[u8], key: &[u8]) -> Result<(), String> {
        match word.split_first() {
            Some((b's', rest)) => self.bytes = number(rest),
            Some((b'f', rest)) => self.flags = number(rest),
            Some((b'c', rest)) => self.token = number(rest),
            Some((b't', b"-1")) => self.left_s = Some(-1),
            Some((b't', rest)) => self.left_s = number(rest).map(|left_s| left_s as i64),
            Some((b'k', rest)) => self.key = rest == key,
            Some((b'O', rest)) => self.opaque = rest == b"q7",
            Some((b'0'..=b'9', _)) => {}
            _ => return Err("the reply has a flag that was not requested".into()),
        }
        Ok(())
    }
}

/// Compares a reported CAS token with the token in the model, or stores it in the model if that has none.
fn learn_token(key: u32, item: &mut Item, token: u64) -> Result<(), String> {
    if token == 0 || (item.token != 0 && item.token != token) {
        return Err(format!("key {key}: token {token} of an item that did not change; the model has {item:?}"));
    }
    item.token = token;
    Ok(())
}

/// Returns the first line without its end, if it is complete.
fn line(input: &[u8]) -> Option<&[u8]> {
    let end = memchr(b'\n', input)?;
    input[..end].strip_suffix(b"\r")
}

fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::model::piece;
    use super::*;
    use testbed::clock::Clock;

    const KEY: u32 = 32 * 800 + 3;
    const INDEX: usize = 3;
    const SPAN: Span = Span { sent_ms: 10_000, answered_ms: 10_001 };

    /// Returns a client whose server never replies; the test supplies the replies.
    fn client() -> SoakClient {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let folder = std::env::temp_dir().join(format!("gannet-soak-{}", std::process::id()));
        let clock = Clock::build(&folder).expect("a C compiler");
        let mut client = SoakClient::connect(address, clock, KEY + 32, 1).expect("the kernel accepts");
        client.version = 10;
        client.items[KEY as usize].store(7, 20, 0, 60, Span { sent_ms: 0, answered_ms: 1 });
        client
    }

    fn answer(client: &mut SoakClient, expect: SoakExpect, answer: &[u8], span: Span) -> Result<(), String> {
        client.connections[INDEX].expects.push_back(expect);
        if let SoakExpect::Values { count, .. } | SoakExpect::Group { count } = expect {
            client.connections[INDEX].keys.extend((0..count).map(|_| KEY));
        }
        client.connections[INDEX].receive_from(answer);
        client.check_replies(INDEX, span)
    }

    fn hit(client: &SoakClient, version: u32) -> Vec<u8> {
        let mut reply = b"VALUE ".to_vec();
        write_key(KEY, &mut reply);
        reply.extend_from_slice(format!(" {} 20\r\n", client_flags(KEY, version)).as_bytes());
        client.values.write(KEY, version, 20, &mut reply);
        reply.extend_from_slice(b"\r\nEND\r\n");
        reply
    }

    const GET: SoakExpect = SoakExpect::Values { count: 1, ttl_s: None };

    #[test]
    fn stale_corrupt_and_expired_values_in_replies_are_detected() {
        let mut client = client();
        let (right, old) = (hit(&client, 7), hit(&client, 6));
        assert_eq!(answer(&mut client, GET, &right, SPAN), Ok(()));
        assert_eq!(client.tally.hits, 1);
        for at in 0..right.len() {
            let mut bad = right.clone();
            bad[at] ^= 1;
            // If the changed byte was a line end or a digit of the length, the client may wait for more bytes instead.
            let wrong = answer(&mut client, GET, &bad, SPAN).is_err() || !client.connections[INDEX].expects.is_empty();
            assert!(wrong, "byte {at}");
            client.connections[INDEX].expects.clear();
            client.connections[INDEX].keys.clear();
        }
        let error = answer(&mut self::client(), GET, &old, SPAN).expect_err("an old version");
        assert!(error.contains("it is version 6"), "{error}");
        let late = Span { sent_ms: 65_000, answered_ms: 65_001 };
        let error = answer(&mut self::client(), GET, &right, late).expect_err("it had ended");
        assert!(error.contains("reappeared"), "{error}");
        client.flushed();
        assert!(answer(&mut client, GET, &right, SPAN).is_err_and(|error| error.contains("reappeared")));
    }

    #[test]
    fn miss_is_counted_as_lost_unless_the_item_was_expired() {
        let mut client = client();
        assert_eq!(answer(&mut client, GET, b"END\r\n", SPAN), Ok(()));
        assert_eq!((client.tally.misses, client.tally.lost), (1, 1));
        let late = Span { sent_ms: 65_000, answered_ms: 65_001 };
        let mut client = self::client();
        assert_eq!(answer(&mut client, GET, b"END\r\n", late), Ok(()));
        assert_eq!((client.tally.misses, client.tally.lost, client.tally.gone), (1, 0, 1));
    }

    #[test]
    fn wrong_outcome_of_a_cas_is_detected() {
        let swap = |token| {
            let mode = Mode::Swap(token);
            let store = StoreRequest { key: KEY, version: 8, bytes: 1, number: 0, ttl_s: 0, mode, meta: false };
            SoakExpect::Store { store, silent: false }
        };
        for (token, reply, right) in
            [(5, "STORED", true), (4, "STORED", false), (5, "EXISTS", false), (4, "EXISTS", true)]
        {
            let mut client = client();
            client.items[KEY as usize].token = 5;
            let outcome = answer(&mut client, swap(token), format!("{reply}\r\n").as_bytes(), SPAN);
            assert_eq!(outcome.is_ok(), right, "{token} {reply}: {outcome:?}");
        }
    }

    #[test]
    fn appended_bytes_are_verified_and_an_error_line_is_refused() {
        let mut client = client();
        let store =
            StoreRequest { key: KEY, version: 9, bytes: 8, number: 0, ttl_s: 0, mode: Mode::Append, meta: false };
        let append = SoakExpect::Store { store, silent: false };
        assert_eq!(answer(&mut client, append, b"STORED\r\n", SPAN), Ok(()));
        let mut longer = hit(&client, 7);
        let without = longer.clone();
        longer.truncate(longer.len() - 7);
        longer.extend_from_slice(&piece(KEY, 9));
        longer.extend_from_slice(b"\r\nEND\r\n");
        let text = String::from_utf8_lossy(&longer).into_owned();
        assert!(text.contains(" 20"), "the length that has to change: {text}");
        let at = longer.windows(5).position(|bytes| bytes == b" 20\r\n").expect("the length");
        longer[at..at + 3].copy_from_slice(b" 28");
        assert_eq!(answer(&mut client, GET, &longer, SPAN), Ok(()));
        assert!(answer(&mut client, GET, &without, SPAN).is_err());
        assert!(answer(&mut self::client(), append, b"SERVER_ERROR out of memory storing object\r\n", SPAN).is_err());
    }
}
