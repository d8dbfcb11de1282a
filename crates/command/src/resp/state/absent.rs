//! The keys of the current request that did not exist when it began. They are recorded only while `new` or `keymiss`
//! events are published.

/// A key of a request that did not exist when the request began.
#[derive(Debug)]
struct AbsentKey {
    key: Box<[u8]>,
    /// True if the command reads the key, which is then a miss.
    is_read: bool,
}

/// The keys of a request that did not exist when it began, in its order. A key occurs as often as in the request.
#[derive(Debug, Default)]
pub(in crate::resp) struct AbsentKeys(Vec<AbsentKey>);

impl AbsentKeys {
    /// Records a key that does not exist.
    pub(in crate::resp) fn add(&mut self, key: &[u8], is_read: bool) {
        self.0.push(AbsentKey { key: key.into(), is_read });
    }

    /// Removes a key that the command is creating. Returns true if the key was recorded as one that the command reads,
    /// false if it was recorded as one that it only creates, and `None` if it was not recorded.
    pub(in crate::resp) fn remove(&mut self, key: &[u8]) -> Option<bool> {
        let is_read = self.0.iter().find(|absent| *absent.key == *key).map(|absent| absent.is_read);
        self.0.retain(|absent| *absent.key != *key);
        is_read
    }

    /// Returns the keys that the command has read and not created.
    pub(in crate::resp) fn misses(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(|absent| absent.is_read).map(|absent| &*absent.key)
    }
}
