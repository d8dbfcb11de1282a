//! Runs the parsers over a byte stream as a session does, and records the results. Shared by tests and fuzz targets.

use gannet_protocol::memcache::{
    Body, KEY_BYTES_MAX, KeyScratch, MetaKey, Parsed, Request, VALUE_BYTES_MAX, body, parse,
};

/// The reading side of a session: a buffer, and the number of bytes that must still be discarded.
#[derive(Default)]
pub struct Walk {
    buffer: Vec<u8>,
    swallow: u64,
    closed: bool,
    /// The events in order.
    pub events: Vec<String>,
}

impl Walk {
    /// Adds `bytes` and parses as much as possible.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !self.closed && self.step() {}
    }

    fn drop_front(&mut self, len: usize) {
        assert!(len > 0 && len <= self.buffer.len(), "a step of {len} bytes in a buffer of {}", self.buffer.len());
        self.buffer.drain(..len);
    }

    fn step(&mut self) -> bool {
        let gone = self.swallow.min(self.buffer.len() as u64);
        self.buffer.drain(..gone as usize);
        self.swallow -= gone;
        if self.swallow > 0 {
            return false;
        }
        match parse(&self.buffer) {
            Parsed::Incomplete => false,
            Parsed::Bad { error, consumed, swallow, quiet } => {
                assert!(swallow <= u64::from(VALUE_BYTES_MAX) + 2);
                self.events.push(format!("{error} quiet={quiet} swallow={swallow}"));
                self.swallow = swallow;
                self.drop_front(consumed);
                true
            }
            Parsed::Fatal(error) => {
                self.events.push(format!("{error} close"));
                self.closed = true;
                true
            }
            Parsed::Request { request, consumed } => {
                let noted = note(&request);
                let len = match request {
                    Request::Store(store) => Some(store.value_len),
                    Request::MetaStore(_, len) => Some(len),
                    _ => None,
                };
                if let Some(len) = len {
                    let (outcome, taken) = match body(&self.buffer[consumed..], len) {
                        Body::Incomplete => return false,
                        Body::Value(value) => (format!("{noted} value={value:?}"), value.len() + 2),
                        Body::BadTerminator => (format!("{noted} bad chunk"), len as usize + 2),
                    };
                    self.events.push(outcome);
                    self.drop_front(consumed + taken);
                } else {
                    self.closed = request == Request::Quit;
                    self.events.push(noted);
                    self.drop_front(consumed);
                }
                true
            }
        }
    }
}

/// Checks the guarantees of every request, and describes the request in words.
fn note(request: &Request<'_>) -> String {
    let bounded = |key: &[u8]| assert!(!key.is_empty() && key.len() <= KEY_BYTES_MAX, "{key:?}");
    let fits = |key: &[u8]| {
        bounded(key);
        assert!(!key.contains(&b'\n') && !key.contains(&b' '), "{key:?}");
    };
    // A key sent in base64 may contain any bytes.
    let meta_fits = |key: MetaKey<'_>| {
        let check: &dyn Fn(&[u8]) = if key.is_encoded() { &bounded } else { &fits };
        check(key.bytes(&mut KeyScratch::default()));
        fits(&key.token()[..key.token().len().min(KEY_BYTES_MAX)]);
    };
    match request {
        Request::Get(get) => {
            get.keys.for_each(fits);
            format!("{:?} {} {:?}", get.keys.collect::<Vec<_>>(), get.with_cas, get.touch)
        }
        Request::Store(store) => {
            fits(store.key);
            assert!(store.value_len <= VALUE_BYTES_MAX);
            format!("{store:?}")
        }
        Request::Delete { key, .. } | Request::Touch { key, .. } => {
            fits(key);
            format!("{request:?}")
        }
        Request::Arith(arith) => {
            fits(arith.key);
            format!("{arith:?}")
        }
        Request::MetaGet(meta) | Request::MetaStore(meta, _) | Request::MetaDelete(meta) | Request::MetaArith(meta) => {
            meta_fits(meta.key);
            let mut seen = Vec::new();
            for word in meta.in_order() {
                assert!(meta.has(word[0]) && !seen.contains(&word[0]), "{meta:?}");
                seen.push(word[0]);
            }
            let mut out = Vec::new();
            let mut line = gannet_protocol::memcache::reply::MetaLine::new(&mut out, b"HD");
            line.reflect(meta);
            line.finish();
            format!("{request:?} {out:?}")
        }
        Request::MetaDebug(key) => {
            meta_fits(*key);
            format!("{request:?}")
        }
        _ => format!("{request:?}"),
    }
}

/// Returns the events of `bytes` in one piece.
pub fn whole(bytes: &[u8]) -> Vec<String> {
    let mut walk = Walk::default();
    walk.feed(bytes);
    walk.events
}

/// Asserts that `bytes` cut at `cuts` (ascending) cause the same events as in one piece.
pub fn assert_cut(bytes: &[u8], cuts: &[usize]) {
    let mut walk = Walk::default();
    let mut from = 0;
    for &cut in cuts {
        walk.feed(&bytes[from..cut]);
        from = cut;
    }
    walk.feed(&bytes[from..]);
    assert_eq!(walk.events, whole(bytes), "cut at {cuts:?}: {:?}", String::from_utf8_lossy(bytes));
}
