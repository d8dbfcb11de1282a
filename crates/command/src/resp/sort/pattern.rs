//! The patterns of `SORT`: each names, for an element, a string, or a field of a hash.

use crate::resp::call::{Call, Interrupt};
use crate::resp::error::ErrorReply;
use crate::resp::string::copy_value;
use crate::resp::typed::{self, KeyParts, View, live};
use crate::visit::progress::SessionWait;
use record::{Digits, Name};
use segment::{Guard, Namespace, Value};

/// A pattern.
pub(super) enum Pattern<'c> {
    /// The element itself.
    Element,
    /// No key: the pattern has no place for the element.
    Nothing,
    /// The key with the element between `before` and `behind`, or this field of the hash under it.
    Key { before: &'c [u8], behind: &'c [u8], field: Option<&'c [u8]> },
}

impl<'c> Pattern<'c> {
    pub(super) fn of(text: &'c [u8]) -> Self {
        if text == b"#" {
            return Self::Element;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else { return Self::Nothing };
        let (before, behind) = (&text[..star], &text[star + 1..]);
        // A field without a name belongs to the key.
        let arrow = behind.windows(2).position(|pair| pair == b"->").filter(|arrow| arrow + 2 < behind.len());
        let (behind, field) = match arrow {
            Some(arrow) => (&behind[..arrow], Some(&behind[arrow + 2..])),
            None => (behind, None),
        };
        Self::Key { before, behind, field }
    }

    /// Returns true if the pattern is the element itself.
    pub(super) fn is_element(&self) -> bool {
        matches!(self, Self::Element)
    }

    /// Returns true if the pattern has a place for the element.
    pub(super) fn has_star(&self) -> bool {
        matches!(self, Self::Key { .. })
    }

    /// Returns the key for an element.
    fn key(&self, element: &[u8]) -> Option<Vec<u8>> {
        let Self::Key { before, behind, .. } = self else { return None };
        Some([before, element, behind].concat())
    }
}

/// Reads of the keys that patterns name.
pub(super) struct Lookup<'g> {
    guard: &'g Guard<'g>,
    view: View<'g>,
    namespace: Namespace,
    /// The key of a value that could not be read.
    broken: Option<Vec<u8>>,
}

impl<'g> Lookup<'g> {
    pub(super) fn new(guard: &'g Guard<'g>, view: View<'g>, namespace: Namespace) -> Self {
        Self { guard, view, namespace, broken: None }
    }

    /// Returns the key of a value that could not be read.
    pub(super) fn broken(self) -> Option<Vec<u8>> {
        self.broken
    }

    /// Waits until the values of a pattern for these elements are in memory, and starts their reads from flash.
    pub(super) fn fetch(&self, pattern: &Pattern<'_>, elements: &[Vec<u8>]) -> Result<(), Interrupt> {
        if !self.guard.is_tiered() {
            return Ok(());
        }
        let keys = elements.iter().filter_map(|element| pattern.key(element));
        let away = |waits, key: Vec<u8>| self.guard.tier().is_on_flash(&self.guard.key(self.namespace, &key)) | waits;
        if keys.fold(false, away) { Err(SessionWait::Parked.into()) } else { Ok(()) }
    }

    /// Appends to `to` what a pattern names for an element. Returns false if there is nothing.
    pub(super) fn find(&mut self, pattern: &Pattern<'_>, element: &[u8], to: &mut Vec<u8>) -> Result<bool, Interrupt> {
        if pattern.is_element() {
            to.extend_from_slice(element);
            return Ok(true);
        }
        let Some(bytes) = pattern.key(element) else { return Ok(false) };
        let key = self.guard.key(self.namespace, &bytes);
        if self.guard.is_tiered() && self.guard.tier().is_on_flash(&key) {
            return Err(SessionWait::Parked.into());
        }
        let item = live(self.guard.items().get(&key), self.view);
        let Pattern::Key { field: Some(field), .. } = pattern else {
            let item = item.filter(|item| !matches!(item.value, Value::Typed { .. }));
            copy_value(self.guard, &key, item.as_ref(), to);
            return Ok(item.is_some());
        };
        let parts = KeyParts::new(self.guard, key);
        let record = match typed::record(item.as_ref(), self.view, &parts) {
            Err(ErrorReply::WrongType) => return Ok(false),
            record => record,
        };
        let found = record.and_then(|record| {
            let Some(record) = record else { return Ok(false) };
            let Some(bin) = record.find(&Name::new(field), self.view.now_ms)? else { return Ok(false) };
            to.extend_from_slice(bin.value.text(&mut Digits::new()));
            Ok(true)
        });
        if found == Err(ErrorReply::Damaged) {
            self.broken = Some(bytes);
        }
        Ok(found?)
    }
}

/// Returns the wait state after which the request is executed again if the value under the key `broken` could not be
/// read. Otherwise returns `stop`.
pub(super) fn retry_broken(call: &mut Call<'_, '_>, broken: Option<Vec<u8>>, stop: Interrupt) -> Interrupt {
    match broken {
        Some(key) => call.retry_after_lost_part(std::iter::once(&key[..])).into(),
        None => stop,
    }
}
