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

    /// Removes a key that the command is creating. Returns false if it was not recorded.
    pub(in crate::resp) fn remove(&mut self, key: &[u8]) -> bool {
        let before = self.0.len();
        self.0.retain(|absent| *absent.key != *key);
        self.0.len() < before
    }

    /// Returns the keys that the command reads. A later call does not return them again.
    pub(in crate::resp) fn take_misses(&mut self) -> impl Iterator<Item = &[u8]> {
        self.0.iter_mut().filter_map(|absent| std::mem::take(&mut absent.is_read).then_some(&*absent.key))
    }
}
