//! Makes a running server read its file of users.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::ToSocketAddrs;
use std::time::Duration;

use crate::Failure;
use link::tls::Maker;
use link::{Address, ServerStream};

/// The time limit of each step.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum length of a reply, in bytes.
const REPLY_BYTES_MAX: u64 = 4096;

/// Sends `ACL LOAD`, after a login if `login` has a name and a password. Without TLS, the address must be of this host,
/// because the password is sent unencrypted.
pub fn load(addr: &str, tls: Option<&Maker>, login: Option<(&str, &str)>) -> Result<(), Failure> {
    let failed = |why: String| {
        Failure::Failed(vec![format!(
            "the file is written, but {addr} did not read it: {why}; send it ACL LOAD or SIGHUP"
        )])
    };
    let mut addrs = addr.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    let at = addrs.next().ok_or_else(|| failed("the name has no address".to_owned()))?;
    if tls.is_none() && !at.ip().to_canonical().is_loopback() {
        let why = "it is on another host, and the password would be sent unencrypted; pass --tls-ca FILE";
        return Err(failed(why.to_owned()));
    }
    let address = Address::Tcp(addr.to_owned());
    let stream = ServerStream::connect(&address, tls, PATIENCE).map_err(|error| failed(error.to_string()))?;
    let mut replies = BufReader::new(stream);
    let mut ask = |what: &str, words: &[&str]| {
        let reply = ask(&mut replies, words).map_err(|error| failed(error.to_string()))?;
        if reply == "+OK" { Ok(()) } else { Err(failed(format!("it replies {reply:?} to {what}"))) }
    };
    if let Some((name, password)) = login {
        ask("AUTH", &["AUTH", name, password])?;
    }
    ask("ACL LOAD", &["ACL", "LOAD"])
}

/// Sends a request. Returns the first line of the reply.
fn ask(stream: &mut BufReader<ServerStream>, words: &[&str]) -> std::io::Result<String> {
    let texts: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    stream.get_mut().write_all(format!("*{}\r\n{texts}", words.len()).as_bytes())?;
    let mut line = String::new();
    stream.take(REPLY_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
