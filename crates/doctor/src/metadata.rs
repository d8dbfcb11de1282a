//! A client of a cloud's metadata service, which reports the location of this machine to the machine itself.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::host::Unread;

/// The address of the service, the same on all supported clouds.
pub(crate) const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)), 80);
/// The time limit of each operation. The service runs on the physical host and replies at once.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum size of a reply in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

/// Sends one request and returns the status and the first line of the body.
fn request(addr: SocketAddr, head: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{head}\r\nHost: {}\r\nConnection: close\r\n\r\n", addr.ip()).as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    let invalid = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(invalid)?;
    let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok()).ok_or_else(invalid)?;
    // Only the first line of the body is used.
    Ok((status, body.lines().next().unwrap_or_default().trim().to_owned()))
}

/// Returns the zone and the placement group, one per line: `zone us-east-1a`, `group none`.
///
/// # Errors
/// [`Unread`]: if no service replies, or if the service belongs to an unknown cloud.
pub(crate) fn query(addr: SocketAddr) -> Result<String, Unread> {
    let refused = |why: String| Unread::Refused("the cloud's metadata service".to_owned(), why);
    let failed = |error: std::io::Error| refused(error.to_string());
    let google = "GET /computeMetadata/v1/instance/zone HTTP/1.1\r\nMetadata-Flavor: Google";
    if let (200, zone) = request(addr, google).map_err(failed)? {
        return Ok(format!("zone {}", zone.rsplit('/').next().unwrap_or_default()));
    }
    let token = "PUT /latest/api/token HTTP/1.1\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\nContent-Length: 0";
    let (200, token) = request(addr, token).map_err(failed)? else {
        return Err(refused("it is neither Google's nor Amazon's".to_owned()));
    };
    let path = |name: &str| {
        let head = format!("GET /latest/meta-data/placement/{name} HTTP/1.1\r\nX-aws-ec2-metadata-token: {token}");
        request(addr, &head).map_err(failed)
    };
    let (200, zone) = path("availability-zone")? else {
        return Err(refused("it does not return a zone".to_owned()));
    };
    let group = match path("group-name")? {
        (200, group) if !group.is_empty() => group,
        _ => "none".to_owned(),
    };
    Ok(format!("zone {zone}\ngroup {group}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Starts a service that answers `asked` requests, each according to its first line.
    fn service(
        answers: &'static [(&'static str, &'static str)],
        asked: usize,
    ) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            for _ in 0..asked {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.extend(byte);
                }
                let head = String::from_utf8(head).unwrap();
                let body = answers.iter().find(|(part, _)| head.contains(part)).map(|(_, body)| *body);
                let status = if body.is_some() { "200 OK" } else { "404 Not Found" };
                write!(stream, "HTTP/1.1 {status}\r\n\r\n{}", body.unwrap_or("")).unwrap();
            }
        });
        (addr, thread)
    }

    #[test]
    fn each_cloud_metadata_service_is_queried_in_its_own_protocol() {
        const TOKEN: &str = "availability-zone HTTP/1.1\r\nX-aws-ec2-metadata-token: sesame";
        const AMAZON: &[(&str, &str)] = &[("PUT /latest/api/token", "sesame"), (TOKEN, "us-east-1a")];
        const GOOGLE: &[(&str, &str)] =
            &[("zone HTTP/1.1\r\nMetadata-Flavor: Google", "projects/1/zones/us-central1-a")];
        for (answers, asked, wanted) in [
            (AMAZON, 4, Ok("zone us-east-1a\ngroup none")),
            (GOOGLE, 1, Ok("zone us-central1-a")),
            (&[], 2, Err("neither Google's nor Amazon's")),
        ] {
            let (addr, thread) = service(answers, asked);
            match (query(addr), wanted) {
                (Ok(told), Ok(wanted)) => assert_eq!(told, wanted),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{why}"),
                (told, wanted) => panic!("{told:?} {wanted:?}"),
            }
            thread.join().unwrap();
        }
    }
}
