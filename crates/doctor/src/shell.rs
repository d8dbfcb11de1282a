//! Quoting of words for a shell.

/// Returns the word unchanged, or in quotes if a shell would split or expand it. The shell executes no part of it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:,=@+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn shell_metacharacters_are_quoted() {
        for word in ["$(touch gone)", "a'b", "a;b", "`id`", "", "two words", "a\nb", "$HOME", "*"] {
            let line = format!("printf '%s' {}", quoted(word));
            let output = std::process::Command::new("sh").arg("-c").arg(line).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
        assert_eq!(quoted("/sys/class/net/eth0"), "/sys/class/net/eth0");
    }
}
