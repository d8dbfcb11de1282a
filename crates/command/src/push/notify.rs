//! Keyspace notifications: messages about changes of keys, in the form of Redis.
//!
//! ```text
//!   SET k v, by either protocol ──> __keyspace@0__:k  "set"         if K is enabled
//!                               ──> __keyevent@0__:set  "k"         if E is enabled
//! ```
//!
//! The number in a channel's name is the namespace. Notifications are off by default. While they are off, they cost
//! almost nothing: a worker checks one bit of a word that the worker reads once in each batch in any case, for `watch`.

use crate::push::outbox::Channels;

/// The changes that are published, as bits. `K` and `E` select the channels, and the other bits select the kinds of
/// change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyEvents(pub u32);

/// The letters of `notify-keyspace-events`, in the order of their bits and of their output.
const LETTERS: &[u8; 15] = b"g$lshzxetdnKEmA";

/// The bits of the kinds that `A` enables: those of the letters before `n`.
const ALL: u32 = (1 << 10) - 1;

const fn bit(letter: u8) -> u32 {
    let mut at = 0;
    while LETTERS[at] != letter {
        at += 1;
    }
    1 << at
}

impl KeyEvents {
    /// Parses the letters of `notify-keyspace-events`. Returns `None` if a letter is unknown.
    pub fn of(text: &[u8]) -> Option<Self> {
        text.iter()
            .try_fold(0, |bits, letter| match letter {
                b'A' => Some(bits | ALL),
                letter => LETTERS.contains(letter).then(|| bits | bit(*letter)),
            })
            .map(Self)
    }

    /// Returns the enabled letters in the form that Redis 7.0 reports: after `A`, it omits `n`.
    pub fn letters(self) -> String {
        let all = self.0 & ALL == ALL;
        let shown = LETTERS.iter().filter(|letter| {
            let bit = bit(**letter);
            match **letter {
                b'A' => false,
                b'n' if all => false,
                _ => self.0 & bit != 0 && !(all && bit & ALL != 0),
            }
        });
        let all = if all { "A" } else { "" };
        all.chars().chain(shown.map(|letter| char::from(*letter))).collect()
    }

    /// Returns true if any change is published on any channel.
    pub fn any(self) -> bool {
        self.0 & (bit(b'K') | bit(b'E')) != 0 && self.0 & !(bit(b'K') | bit(b'E')) != 0
    }

    /// Returns true if events about keys that do not exist are published: those of new keys, or of misses.
    pub(crate) fn any_of_absent(self) -> bool {
        self.any() && (self.has(b'n') || self.has(b'm'))
    }

    fn has(self, letter: u8) -> bool {
        self.0 & bit(letter) != 0
    }
}

/// A change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyEvent {
    letter: u8,
    name: &'static str,
}

macro_rules! events {
    ($($name:ident $letter:literal $text:literal,)*) => {
        impl KeyEvent { $(pub(crate) const $name: Self = Self { letter: $letter, name: $text };)* }
    };
}

events! {
    COPY_TO b'g' "copy_to",
    MOVE_FROM b'g' "move_from",
    MOVE_TO b'g' "move_to",
    RENAME_FROM b'g' "rename_from",
    RENAME_TO b'g' "rename_to",
    RESTORE b'g' "restore",
    SET b'$' "set",
    SETRANGE b'$' "setrange",
    APPEND b'$' "append",
    INCRBY b'$' "incrby",
    INCRBYFLOAT b'$' "incrbyfloat",
    SETBIT b'$' "setbit",
    PFADD b'$' "pfadd",
    HSET b'h' "hset",
    HDEL b'h' "hdel",
    HINCRBY b'h' "hincrby",
    HINCRBYFLOAT b'h' "hincrbyfloat",
    HEXPIRE b'h' "hexpire",
    HPERSIST b'h' "hpersist",
    LPUSH b'l' "lpush",
    RPUSH b'l' "rpush",
    LPOP b'l' "lpop",
    RPOP b'l' "rpop",
    LINSERT b'l' "linsert",
    LSET b'l' "lset",
    LREM b'l' "lrem",
    LTRIM b'l' "ltrim",
    SADD b's' "sadd",
    SREM b's' "srem",
    SPOP b's' "spop",
    SINTERSTORE b's' "sinterstore",
    SUNIONSTORE b's' "sunionstore",
    SDIFFSTORE b's' "sdiffstore",
    SORTSTORE b'l' "sortstore",
    ZADD b'z' "zadd",
    ZINCR b'z' "zincr",
    ZREM b'z' "zrem",
    ZREMRANGEBYRANK b'z' "zremrangebyrank",
    ZREMRANGEBYSCORE b'z' "zremrangebyscore",
    ZREMRANGEBYLEX b'z' "zremrangebylex",
    ZPOPMIN b'z' "zpopmin",
    ZPOPMAX b'z' "zpopmax",
    GEOSEARCHSTORE b'z' "geosearchstore",
    GEORADIUSSTORE b'z' "georadiusstore",
    ZRANGESTORE b'z' "zrangestore",
    ZUNIONSTORE b'z' "zunionstore",
    ZINTERSTORE b'z' "zinterstore",
    ZDIFFSTORE b'z' "zdiffstore",
    XADD b't' "xadd",
    XTRIM b't' "xtrim",
    XDEL b't' "xdel",
    XSETID b't' "xsetid",
    XGROUP_CREATE b't' "xgroup-create",
    XGROUP_SETID b't' "xgroup-setid",
    XGROUP_DESTROY b't' "xgroup-destroy",
    XGROUP_CREATECONSUMER b't' "xgroup-createconsumer",
    XGROUP_DELCONSUMER b't' "xgroup-delconsumer",
    DEL b'g' "del",
    EXPIRE b'g' "expire",
    PERSIST b'g' "persist",
    EXPIRED b'x' "expired",
    EVICTED b'e' "evicted",
    NEW b'n' "new",
    KEYMISS b'm' "keymiss",
}

impl KeyEvent {
    /// Returns true if a change of this kind creates the key if it does not exist. The events of commands that move a
    /// key, or change a key only if it exists, are of other kinds.
    pub(crate) fn may_create(self) -> bool {
        !b"gxem".contains(&self.letter) || self == Self::RESTORE
    }

    /// Returns true if the value of the key has changed or ended, so that copies of it are no longer valid. The event
    /// of a new key accompanies another one.
    pub(crate) fn is_change(self) -> bool {
        !matches!(self, Self::NEW | Self::KEYMISS)
    }

    /// Returns true if after a change of this kind, the key may hold elements for which clients wait, or no longer hold
    /// the stream of a group that waits, now or when it expires. Other changes remove elements, need existing ones, or
    /// are of other types.
    pub(crate) fn concerns_waiters(self) -> bool {
        const STORES: [KeyEvent; 4] =
            [KeyEvent::SET, KeyEvent::SINTERSTORE, KeyEvent::SUNIONSTORE, KeyEvent::SDIFFSTORE];
        const OTHERS: [KeyEvent; 13] = [
            KeyEvent::LPOP,
            KeyEvent::RPOP,
            KeyEvent::LINSERT,
            KeyEvent::LSET,
            KeyEvent::LREM,
            KeyEvent::LTRIM,
            KeyEvent::ZREM,
            KeyEvent::ZREMRANGEBYRANK,
            KeyEvent::ZREMRANGEBYSCORE,
            KeyEvent::ZREMRANGEBYLEX,
            KeyEvent::ZPOPMIN,
            KeyEvent::ZPOPMAX,
            KeyEvent::PERSIST,
        ];
        STORES.contains(&self) || !b"$hsxenm".contains(&self.letter) && !OTHERS.contains(&self)
    }
}

/// Publishes the change `event` of `key`, if `events` enables this kind of change and there is a subscriber. For each
/// message to publish, calls `publish` with the channel and the text.
pub(crate) fn publish(
    channels: &Channels,
    events: KeyEvents,
    database: u8,
    event: KeyEvent,
    key: &[u8],
    mut publish: impl FnMut(&[u8], &[u8]),
) {
    if !events.has(event.letter) || !channels.has_subscribers() {
        return;
    }
    if events.has(b'K') {
        let place = format!("__keyspace@{database}__:");
        publish(&[place.as_bytes(), key].concat(), event.name.as_bytes());
    }
    if events.has(b'E') {
        let name = format!("__keyevent@{database}__:{}", event.name);
        publish(name.as_bytes(), key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_shown_as_redis_shows_them_and_read_back() {
        for (text, shown) in [("KEA", "AKE"), ("Ex", "xE"), ("g$lshzxetdK", "AK"), ("", ""), ("KEgm", "gKEm")] {
            let events = KeyEvents::of(text.as_bytes()).unwrap();
            assert_eq!(events.letters(), shown);
            assert_eq!(KeyEvents::of(shown.as_bytes()), Some(events));
        }
        assert_eq!(
            (KeyEvents::of(b"KAn").unwrap().letters(), KeyEvents::of(b"Kgn").unwrap().letters()),
            ("AK".to_owned(), "gnK".to_owned())
        );
        assert_eq!(KeyEvents::of(b"KEq"), None);
        assert!(!KeyEvents::of(b"A").unwrap().any() && !KeyEvents::of(b"KE").unwrap().any());
        assert!(KeyEvents::of(b"Kx").unwrap().any());
    }
}
