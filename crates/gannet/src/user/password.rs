//! Passwords from a terminal without echo, from standard input, or generated. They are never arguments, which other
//! users of the system can read.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::Failure;

/// The maximum length of a line, in bytes.
const LINE_BYTES_MAX: u64 = 8192;
/// The number of random bytes of a generated password. It is twice as long, in hexadecimal digits.
const GENERATED_BYTES: usize = 16;

fn failed(text: &str) -> Failure {
    Failure::Failed(vec![text.to_owned()])
}

/// Returns a random password.
pub fn generate() -> String {
    let mut bytes = [0; GENERATED_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        // The kernel fails only if a signal interrupts it.
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags).unwrap_or_default();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The place that passwords are read from.
pub struct PasswordSource {
    is_stdin: bool,
}

impl PasswordSource {
    /// Creates a source: standard input, or the terminal.
    pub fn new(is_stdin: bool) -> Self {
        Self { is_stdin }
    }

    /// Reads a password.
    pub fn password(&mut self, prompt: &str) -> Result<String, Failure> {
        if self.is_stdin { read_stdin() } else { ask(prompt) }
    }

    /// Reads a new password, twice from a terminal.
    pub fn new_password(&mut self, name: &str) -> Result<String, Failure> {
        let new = self.password(&format!("New password of {name}: "))?;
        if !self.is_stdin && self.password("The same again: ")? != new {
            return Err(failed("the passwords differ; run the command again"));
        }
        Ok(new)
    }
}

/// Reads a line from standard input.
fn read_stdin() -> Result<String, Failure> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(LINE_BYTES_MAX).read_line(&mut line);
    match read {
        Ok(1..) => {
            Ok(line.strip_suffix('\n').map_or(&*line, |line| line.strip_suffix('\r').unwrap_or(line)).to_owned())
        }
        Ok(0) => Err(failed("cannot read a password: standard input has ended; pass one line for each password")),
        Err(error) => Err(failed(&format!("cannot read a password from standard input: {error}; pass a line of text"))),
    }
}

/// The terminal, which shows no typed characters until this is dropped.
struct QuietTerminal {
    file: File,
    before: Termios,
}

impl Drop for QuietTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.file, OptionalActions::Now, &self.before);
        let _ = self.file.write_all(b"\n");
    }
}

impl QuietTerminal {
    fn open() -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
        let before = tcgetattr(&file)?;
        let mut quiet = before.clone();
        // Ctrl-C arrives as a byte, so that the terminal is restored before the program ends.
        quiet.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(&file, OptionalActions::Flush, &quiet)?;
        Ok(Self { file, before })
    }
}

/// Asks for a password at the terminal.
fn ask(prompt: &str) -> Result<String, Failure> {
    let no_terminal = |error: std::io::Error| {
        failed(&format!("cannot read a password from the terminal: {error}; use --password-stdin or --generate"))
    };
    let mut terminal = QuietTerminal::open().map_err(no_terminal)?;
    terminal.file.write_all(prompt.as_bytes()).map_err(no_terminal)?;
    let (mut typed, mut byte) = (Vec::new(), [0]);
    loop {
        let read = terminal.file.read(&mut byte).map_err(no_terminal)?;
        match byte[0] {
            _ if read == 0 => return Err(failed("cannot read a password: the terminal was closed")),
            b'\r' | b'\n' => break,
            // Ctrl-C and Ctrl-D.
            3 | 4 => return Err(failed("aborted; nothing was changed")),
            // Backspace, and Ctrl-U.
            8 | 127 => _ = typed.pop(),
            21 => typed.clear(),
            _ if typed.len() as u64 >= LINE_BYTES_MAX => return Err(failed("the password is over 4096 bytes")),
            other => typed.push(other),
        }
    }
    String::from_utf8(typed).map_err(|_| failed("the password is no text in UTF-8; use another one"))
}
