//! Edits of a file of users by a person or a program, outside a server. Comments, empty lines and the lines of other
//! users remain as they are.

use super::rights::{Rights, role_of};
use super::users::{FileError, NAME_BYTES_MAX, USERS_MAX, User, duplicate, is_name, parse_line};
use crate::clients::argon2id::{Argon2idHash, PASSWORD_BYTES_MAX};

/// A line of the file: its text, and its user if it has one.
struct FileLine {
    text: Vec<u8>,
    user: Option<User>,
}

/// A file of users, as lines of text.
#[derive(Default)]
pub struct UsersFile {
    lines: Vec<FileLine>,
}

impl std::fmt::Debug for UsersFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UsersFile").field("lines", &self.lines.len()).finish()
    }
}

/// A user of a file, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSummary {
    /// The name.
    pub name: String,
    /// True if the user can log in.
    pub is_on: bool,
    /// The role, or the rules for commands, and the quota of requests if there is one.
    pub commands: String,
    /// The patterns of keys.
    pub keys: String,
    /// The patterns of channels.
    pub channels: String,
    /// The namespaces, or `all`.
    pub namespaces: String,
    /// The form in which passwords are stored.
    pub passwords: &'static str,
}

/// A password for a user of a file.
#[derive(Clone, Copy)]
pub enum NewPassword<'p> {
    /// The passwords remain.
    Keep,
    /// This password replaces all others.
    Only(&'p [u8]),
}

/// The reason why a user of a file cannot be changed.
#[derive(Debug, PartialEq, Eq)]
pub enum UserError {
    /// The file has a user with this name.
    Exists,
    /// The file has no user with this name.
    Missing,
    /// The name cannot be a user's.
    Name,
    /// The file has the maximum number of users.
    Full,
    /// The password is empty, too long, or has a line end or a zero byte.
    Password,
    /// The rule with this position is a password, which must not be an argument.
    SecretRule(usize),
    /// The rule with this position is refused, for this reason.
    Rule(usize, &'static str),
    /// The memory for the hash cannot be allocated.
    Memory,
}

impl UsersFile {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse(text: &[u8]) -> Result<Self, FileError> {
        let mut file = Self::default();
        for (number, line) in text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n').enumerate() {
            let wrong = |why: String| FileError::Line(number + 1, why);
            let user = parse_line(line).map_err(wrong)?;
            if let Some(user) = &user
                && file.place(&user.name).is_some()
            {
                return Err(wrong(duplicate(&user.name)));
            }
            file.lines.push(FileLine { text: line.to_vec(), user });
        }
        if text.is_empty() {
            file.lines.clear();
        }
        Ok(file)
    }

    /// Returns the text of the file.
    pub fn text(&self) -> Vec<u8> {
        self.lines.iter().flat_map(|line| [&line.text[..], b"\n"].concat()).collect()
    }

    /// Returns the users, in the order of the file.
    pub fn users(&self) -> impl Iterator<Item = UserSummary> {
        self.lines.iter().filter_map(|line| line.user.as_ref()).map(summary)
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        self.lines.iter().position(|line| line.user.as_ref().is_some_and(|user| user.name == name))
    }

    /// Adds a user, who can log in.
    ///
    /// # Errors
    /// If the user exists, or its name, a rule or the password is refused.
    pub fn add(&mut self, name: &[u8], rules: &[&[u8]], password: NewPassword<'_>) -> Result<(), UserError> {
        if !is_name(name) || name.len() > NAME_BYTES_MAX {
            return Err(UserError::Name);
        }
        if self.place(name).is_some() {
            return Err(UserError::Exists);
        }
        if self.users().count() == USERS_MAX {
            return Err(UserError::Full);
        }
        let mut user = User::new(name);
        user.is_on = true;
        let line = changed(user, rules, password)?;
        self.lines.push(line);
        Ok(())
    }

    /// Changes the rights or the password of a user.
    ///
    /// # Errors
    /// If the user does not exist, or a rule or the password is refused.
    pub fn change(&mut self, name: &[u8], rules: &[&[u8]], password: NewPassword<'_>) -> Result<(), UserError> {
        let place = self.place(name).ok_or(UserError::Missing)?;
        let user = self.lines[place].user.as_ref().map(User::copy).ok_or(UserError::Missing)?;
        self.lines[place] = changed(user, rules, password)?;
        Ok(())
    }

    /// Removes a user.
    ///
    /// # Errors
    /// If the user does not exist.
    pub fn remove(&mut self, name: &[u8]) -> Result<(), UserError> {
        let place = self.place(name).ok_or(UserError::Missing)?;
        self.lines.remove(place);
        Ok(())
    }
}

/// Applies rules and a new password to a user. Returns its line.
fn changed(mut user: User, rules: &[&[u8]], password: NewPassword<'_>) -> Result<FileLine, UserError> {
    for (number, rule) in rules.iter().enumerate() {
        if matches!(rule, [b'>' | b'<' | b'#' | b'!' | b'$', ..]) {
            return Err(UserError::SecretRule(number));
        }
        user.apply(rule).map_err(|why| UserError::Rule(number, why))?;
    }
    if let NewPassword::Only(password) = password {
        let is_text = !password.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'));
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX || !is_text {
            return Err(UserError::Password);
        }
        user.set_password(Argon2idHash::create(password).map_err(|_| UserError::Memory)?);
    }
    Ok(FileLine { text: user.line(), user: Some(user) })
}

fn summary(user: &User) -> UserSummary {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rights: &Rights = &user.rights;
    let commands = rights.commands_text();
    let ops = if rights.ops_max() > 0 { format!(" ops={}", rights.ops_max()) } else { String::new() };
    UserSummary {
        name: text(&user.name),
        is_on: user.is_on,
        commands: match role_of(&commands) {
            Some(role) if role != "role:admin" || rights.is_all() => format!("{role}{ops}"),
            _ => commands + &ops,
        },
        keys: text(&rights.keys_text()),
        channels: text(&rights.channels_text()),
        namespaces: if rights.all_namespaces() { "all".to_owned() } else { text(&rights.namespaces_text()) },
        passwords: user.password_forms(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_of_one_user_loses_no_comment_and_no_other_line() {
        let text = b"# people\n\nuser  ann on >plain   ~a:* +get\nuser bob off\n# the end\n";
        let mut file = UsersFile::parse(text).unwrap();
        assert_eq!(file.text(), text);
        file.change(b"bob", &[b"on", b"role:read", b"~*"], NewPassword::Only(b"pass word")).unwrap();
        file.add(b"eve", &[b"role:admin"], NewPassword::Keep).unwrap();
        let after = String::from_utf8(file.text()).unwrap();
        assert!(after.starts_with("# people\n\nuser  ann on >plain   ~a:* +get\nuser bob on $argon2id$"), "{after}");
        assert!(after.contains("\n# the end\nuser eve on ~* &* +@all\n") && !after.contains("pass word"), "{after}");
        let users: Vec<_> = UsersFile::parse(after.as_bytes()).unwrap().users().collect();
        let column = |of: fn(&UserSummary) -> &str| users.iter().map(of).collect::<Vec<_>>();
        assert_eq!(column(|user| user.passwords), ["sha256", "argon2id", "certificate only"]);
        assert_eq!(column(|user| &user.commands), ["-@all +get", "role:read", "role:admin"]);
        file.remove(b"ann").unwrap();
        assert!(!String::from_utf8(file.text()).unwrap().contains("user  ann"));
        // A new password replaces all others.
        file.change(b"bob", &[], NewPassword::Only(b"other")).unwrap();
        assert_eq!(String::from_utf8(file.text()).unwrap().matches("$argon2id$").count(), 1);
    }

    #[test]
    fn refused_edit_changes_nothing() {
        let mut file = UsersFile::parse(b"user ann on nopass\n").unwrap();
        let before = file.text();
        let keep = NewPassword::Keep;
        for (name, rules, password, error) in [
            ("ann", &[][..], keep, UserError::Exists),
            ("a b", &[][..], keep, UserError::Name),
            ("", &[][..], keep, UserError::Name),
            ("bob", &[&b"+get"[..], b">secret"][..], keep, UserError::SecretRule(1)),
            (
                "bob",
                &[&b"role:none"[..]][..],
                keep,
                UserError::Rule(0, "Unknown role: use role:read, role:write or role:admin"),
            ),
            ("bob", &[][..], NewPassword::Only(b""), UserError::Password),
            ("bob", &[][..], NewPassword::Only(b"a\nb"), UserError::Password),
        ] {
            assert_eq!(file.add(name.as_bytes(), rules, password), Err(error), "{name}");
        }
        assert_eq!(file.change(b"bob", &[], keep), Err(UserError::Missing));
        assert_eq!(file.remove(b"bob"), Err(UserError::Missing));
        assert_eq!(file.text(), before);
        for (text, line) in [("user a\nuser a\n", 2), ("password\n", 1), ("user a\n\nuser b zzz\n", 3)] {
            assert!(matches!(UsersFile::parse(text.as_bytes()), Err(FileError::Line(at, _)) if at == line), "{text}");
        }
    }
}
