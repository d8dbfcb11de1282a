//! The new server's side of a handover.

use std::fs::File;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arena::MapFile;
use base::units::ByteSize;
use io::listen::ListenAddr;
use io::pass::{Pass, Process};
use segment::{FileFault, Power, StoreFile, file_config, file_fits, file_is_clean};
use serde_json::{Value, json};

use super::HandoverState;
use super::names::{Names, name_of};
use super::wire::{
    PATIENCE, PROTOCOL, ReceivedMessage, addr_of, listeners_of, names_of, receive, receive_bytes, receive_connections,
    send,
};
use crate::admin::Bound;
use crate::config::kinds::FlashPlace;
use crate::start::config::{ServerConfig, endpoints, store_config};

/// The time limit for the running server to release its connections, and then its threads.
const HANDED_PATIENCE: Duration = Duration::from_secs(60);
/// The time that the running process may take to exit once its end of the socket is closed.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(1);
/// The number of attempts to connect, if the running server exits before it sends its offer.
const CONNECT_ATTEMPTS_MAX: usize = 3;

/// The reason why a takeover was refused, and the remedy, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Returns true if `error` means that the other end of the socket is closed.
fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

impl Refused {
    fn talking(error: &std::io::Error) -> Self {
        match error.kind() {
            _ if is_end(error) => Self("the running server closed the connection; its log has the reason".to_owned()),
            ErrorKind::TimedOut => Self("the running server did not reply in time; see its log".to_owned()),
            _ => Self(format!("the running server does not respond as expected: {error}")),
        }
    }
}

/// The state that a running server has released.
#[derive(Debug, Default)]
pub struct Received {
    /// The running server's memory, listeners, connections and users.
    pub handover_state: HandoverState,
    /// The running server's admin port.
    pub admin: Option<Bound>,
    /// The names of abstract sockets by which the running server was found.
    pub names: Names,
    /// True if the running process exited before it had handed everything over. In that case no other process serves.
    pub is_orphaned: bool,
}

/// A takeover that has begun.
#[derive(Debug)]
pub struct Takeover {
    pass: Pass,
    /// The running server.
    server: Process,
    memory: Arc<MapFile>,
    memory_bytes: u64,
    /// The devices of flash, in the order of the configuration.
    devices: Vec<Arc<File>>,
    /// The memory of the graph store.
    graphs: Option<Arc<MapFile>>,
    addrs: Vec<ListenAddr>,
    admin: Option<SocketAddr>,
    pid: u64,
}

impl Takeover {
    /// Finds the server that listens at an address of `config`, and checks that its offer matches `config`. Changes
    /// nothing. `memory_said` is true if the user has set the memory size. The sizes must then be equal; otherwise the
    /// running server determines the size. Returns `None` if the running server was killed before its offer. The caller
    /// then starts as without `--upgrade`.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn begin(config: &ServerConfig, memory_said: bool) -> Result<Option<Self>, Refused> {
        for met in 0..CONNECT_ATTEMPTS_MAX {
            let pass = match connect(config)? {
                Ok(pass) => pass,
                Err(_) if met > 0 || was_killed(config) => return Ok(None),
                Err(error) => return Err(error),
            };
            if let Some(taking) = Self::request_offer(pass, config, memory_said)? {
                tracing::info!(pid = taking.pid, "taking over from a running server");
                return Ok(Some(taking));
            }
        }
        Err(Refused::talking(&ErrorKind::UnexpectedEof.into()))
    }

    /// Requests the running server's offer. Returns `None` if the server exited before it answered.
    fn request_offer(pass: Pass, config: &ServerConfig, memory_said: bool) -> Result<Option<Self>, Refused> {
        let process =
            Process::this().map_err(|error| Refused(format!("this kernel cannot distinguish processes ({error})")))?;
        let hello = json!({"protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION")});
        let heard = send(&pass, "hello", hello, &[process.as_fd()]).and_then(|()| receive(&pass, PATIENCE));
        let ReceivedMessage { is, body, descriptors } = match heard {
            Ok(heard) => heard,
            Err(error) if is_end(&error) => return Ok(None),
            Err(error) => return Err(Refused::talking(&error)),
        };
        if is != "offer" {
            let why = body["why"].as_str().unwrap_or("no reason given");
            return Err(Refused(format!("the running server refused the takeover: {why}")));
        }
        let mut descriptors = descriptors.into_iter();
        let server = descriptors.next().map(Process::of);
        let server =
            server.ok_or_else(|| Refused("the running server did not send its process descriptor".to_owned()))?;
        let checked = offered(&body, descriptors, config, memory_said);
        if let Err(Refused(why)) = &checked {
            // The running server logs the reason and resumes.
            let _ = send(&pass, "refused", json!({"why": why}), &[]);
        }
        let Offered { memory, memory_bytes, devices, graphs } = checked?;
        let addrs = body["addrs"].as_array().map(|addrs| addrs.iter().filter_map(addr_of).collect());
        Ok(Some(Self {
            pass,
            server,
            memory,
            memory_bytes,
            devices,
            graphs,
            addrs: addrs.unwrap_or_default(),
            admin: body["admin"].as_str().and_then(|admin| admin.parse().ok()),
            pid: body["pid"].as_u64().unwrap_or(0),
        }))
    }

    /// Returns the size of the memory that is taken over, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Returns true if the running server has its admin port at `addr` and will hand it over.
    pub fn has_admin(&self, addr: SocketAddr) -> bool {
        self.admin == Some(addr)
    }

    /// Returns true if the running server listens at `addr` and will hand the listener over.
    pub fn has(&self, addr: &ListenAddr) -> bool {
        self.addrs.contains(addr)
    }

    /// Receives everything that the running server releases. From this point no client is served until this server
    /// serves, or the takeover fails.
    ///
    /// # Errors
    /// If the takeover fails: see [`Refused`]. The running server then resumes.
    pub fn receive(&self) -> Result<Received, Refused> {
        let mut received = Received::default();
        received.handover_state.memory = Some(Arc::clone(&self.memory));
        received.handover_state.devices.clone_from(&self.devices);
        received.handover_state.graphs.clone_from(&self.graphs);
        match self.receive_into(&mut received) {
            Ok(()) => {}
            Err(error) if self.is_orphaned(&error) => received.is_orphaned = true,
            Err(error) => return Err(Refused::talking(&error)),
        }
        Ok(received)
    }

    fn receive_into(&self, received: &mut Received) -> std::io::Result<()> {
        send(&self.pass, "ready", json!({}), &[])?;
        let handover_state = &mut received.handover_state;
        loop {
            let mut heard = receive(&self.pass, HANDED_PATIENCE)?;
            match &heard.is[..] {
                "connections" => handover_state.connections.extend(receive_connections(&self.pass, heard)?),
                "users" => {
                    let bytes = heard.body["bytes"].as_u64().unwrap_or(0) as usize;
                    handover_state.users = Some(receive_bytes(&self.pass, bytes)?);
                }
                "index" => {
                    let fd = heard.descriptors.pop();
                    handover_state.index =
                        fd.and_then(|fd| MapFile::adopt(fd, Path::new("its index")).ok()).map(Arc::new);
                }
                "listeners" => handover_state.listeners.extend(listeners_of(heard)?),
                "names" => received.names.extend(names_of(heard)?),
                "handed" => {
                    // An older server hands over no settings.
                    handover_state.settings = serde_json::from_value(heard.body["settings"].take()).unwrap_or_default();
                    received.admin = heard.descriptors.pop().map(Bound::adopt).transpose()?;
                    return Ok(());
                }
                other => return Err(std::io::Error::other(format!("unknown message {other:?}"))),
            }
        }
    }

    /// Returns true if the socket was closed because the running process exited, so that no process works on its
    /// memory.
    fn is_orphaned(&self, error: &std::io::Error) -> bool {
        is_end(error) && self.server.has_ended(ORPHAN_PATIENCE)
    }

    /// Reports to the running server that everything is received. After `Ok` the caller serves. If the running server
    /// is still alive, it is returned, and watches the caller from then on.
    ///
    /// # Errors
    /// If the takeover fails: see [`Refused`]. The running server then resumes, and this process must exit.
    pub fn confirm(self) -> Result<Option<Predecessor>, Refused> {
        match send(&self.pass, "taken", json!({}), &[]).and_then(|()| receive(&self.pass, PATIENCE)) {
            Ok(heard) if heard.is == "go" => Ok(Some(Predecessor(self.pass))),
            Ok(_) => Err(Refused("the running server did not confirm the takeover".to_owned())),
            Err(error) if self.is_orphaned(&error) => Ok(None),
            Err(error) => Err(Refused::talking(&error)),
        }
    }

    /// Sends the reason why the takeover failed, for the running server's log.
    pub fn fail(&self, why: &str) {
        let _ = send(&self.pass, "refused", json!({"why": why}), &[]);
    }
}

/// The previous server, which still watches this process. It takes memory and listeners back if this process exits
/// within a second without having called [`Predecessor::report_end`].
#[derive(Debug)]
pub struct Predecessor(Pass);

impl Predecessor {
    /// Reports that this process serves.
    pub fn report_serving(&self) {
        self.report("serves");
    }

    /// Reports that this process ends normally, or itself hands over to another process.
    pub fn report_end(self) {
        self.report("over");
    }

    /// Sends one message to the predecessor. Ignores errors, because the predecessor may have exited.
    fn report(&self, what: &str) {
        let _ = send(&self.0, what, json!({}), &[]);
    }
}

/// Returns true if the memory file exists, is not in use, and was not closed normally by the last server that used it.
fn was_killed(config: &ServerConfig) -> bool {
    let file = config.file.as_deref().and_then(|path| MapFile::open_there(path).ok());
    file.is_some_and(|file| file_is_clean(&Arc::new(file)).is_ok_and(|is_clean| !is_clean))
}

/// Returns the size of the store in the configured memory file, in bytes, if the file exists and is not in use.
pub fn memory_of_file(config: &ServerConfig) -> Option<u64> {
    let file = MapFile::open_there(config.file.as_deref()?).ok()?;
    Some(file_config(&Arc::new(file)).ok()?.memory_bytes)
}

/// Connects to the server that listens at one of the configured addresses. The inner error means that no such server
/// exists.
fn connect(config: &ServerConfig) -> Result<Result<Pass, Refused>, Refused> {
    let mut tried = Vec::new();
    for (_, addr) in endpoints(config) {
        match Pass::connect(&name_of(&addr)) {
            Ok(pass) => return Ok(Ok(pass)),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => tried.push(addr.to_string()),
            Err(error) => {
                return Err(Refused(format!(
                    "cannot take over the server at {addr}: {error}; run this process as the server's user and in its \
                     PID namespace"
                )));
            }
        }
    }
    let tried = tried.join(", ");
    Ok(Err(Refused(format!(
        "no server that supports a takeover listens at {tried}; start without --upgrade, or pass an address of \
         the running server"
    ))))
}

/// The offered store, which matches the settings.
struct Offered {
    memory: Arc<MapFile>,
    memory_bytes: u64,
    devices: Vec<Arc<File>>,
    graphs: Option<Arc<MapFile>>,
}

/// Checks the offered parts of a store. Returns the store if it matches the settings.
fn offered(
    body: &Value,
    mut descriptors: impl Iterator<Item = OwnedFd>,
    config: &ServerConfig,
    has_memory_setting: bool,
) -> Result<Offered, Refused> {
    if body["protocol"].as_u64() != Some(PROTOCOL) {
        return Err(Refused(
            "the two builds use different handover protocols; restart instead, with --file".to_owned(),
        ));
    }
    let bytes: Option<Vec<u8>> = serde_json::from_value(body["file"].clone()).ok();
    let theirs = bytes.map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
    let what = |path: &Option<PathBuf>| path.as_ref().map_or("no file".to_owned(), |path| path.display().to_string());
    let differs = || {
        let (theirs, ours) = (what(&theirs), what(&config.file));
        Refused(format!(
            "its memory is in {theirs}, but this process is configured for {ours}; use the running server's setting"
        ))
    };
    if theirs.is_some() != config.file.is_some() {
        return Err(differs());
    }
    let fd = descriptors.next().ok_or_else(|| Refused("the running server offered no memory".to_owned()))?;
    let path = theirs.as_deref().unwrap_or(Path::new("shared memory"));
    let file = MapFile::adopt(fd, path).map_err(|error| Refused(format!("cannot use its memory: {error}")))?;
    if let Some(ours) = &config.file
        && !file.is_at(ours).unwrap_or(false)
    {
        return Err(if theirs.as_ref() == Some(ours) { unlinked(ours) } else { differs() });
    }
    let memory_bytes = match body["memory_bytes"].as_u64() {
        Some(bytes) if !has_memory_setting => bytes,
        _ => config.memory_bytes,
    };
    let graphs = if body["graphs"].as_bool() == Some(true) {
        let fd = descriptors.next().ok_or_else(|| Refused("the running server offered no graphs".to_owned()))?;
        Some(Arc::new(offered_graphs(&body["graph_file"], fd, config)?))
    } else {
        None
    };
    let devices = offered_devices(&body["flash"], descriptors.map(|fd| Arc::new(File::from(fd))).collect(), config)?;
    // The longest item is derived from the memory once that is known.
    let item_bytes_max = config.item_bytes_max.min(memory_bytes / 4);
    let config = ServerConfig { memory_bytes, item_bytes_max, ..config.clone() };
    let plan = (!devices.is_empty()).then(|| crate::tier::plan(&config, config.file_index)).transpose();
    let plan = plan.map_err(|error| Refused(error.to_string()))?.map(|(_, plan)| plan);
    let file = Arc::new(file);
    let store_file = StoreFile {
        file: Arc::clone(&file),
        reset: false,
        index: config.file_index,
        index_left: None,
        power: Power::default(),
    };
    file_fits(&store_config(&config), &store_file, plan.as_ref())
        .map_err(|fault| Refused(describe_mismatch(&fault)))?;
    Ok(Offered { memory: file, memory_bytes, devices, graphs })
}

/// Returns the offered memory of graphs, if it is in the configured file, or both servers have none. `theirs` is the
/// path of the running server's file, or null. An older server does not report it.
fn offered_graphs(theirs: &Value, fd: OwnedFd, config: &ServerConfig) -> Result<MapFile, Refused> {
    let bytes: Option<Vec<u8>> = serde_json::from_value(theirs.clone()).ok();
    let theirs = bytes.map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes)));
    let ours = config.graph_file.as_deref();
    let path = ours.unwrap_or(Path::new("shared memory"));
    let file = MapFile::adopt(fd, path).map_err(|error| Refused(format!("cannot use its graphs: {error}")))?;
    let is_same = match ours {
        Some(ours) => file.is_at(ours).unwrap_or(false),
        None => theirs.is_none(),
    };
    if is_same {
        return Ok(file);
    }
    let what = |path: Option<&Path>| path.map_or("no file".to_owned(), |path| path.display().to_string());
    Err(Refused(format!(
        "its graphs are in {}, but this process is configured for {}: edges would be lost at the next restart; use the \
         running server's --graph-file",
        what(theirs.as_deref()),
        what(ours)
    )))
}

/// Returns the refusal for a running server whose memory file was unlinked. Linux cannot link such a file again.
fn unlinked(path: &Path) -> Refused {
    let found = if path.exists() { "another file is there" } else { "nothing is there" };
    Refused(format!(
        "the running server's memory file {} was removed or renamed since it started, and {found} now; rename it \
         back, or restart without --upgrade (all items are lost with the running server)",
        path.display()
    ))
}

/// Returns the offered devices in the order of the configuration, if the configuration lists exactly the offered
/// devices.
fn offered_devices(body: &Value, files: Vec<Arc<File>>, config: &ServerConfig) -> Result<Vec<Arc<File>>, Refused> {
    let body: Vec<Value> = body.as_array().cloned().unwrap_or_default();
    let place = |body: &Value| Some((body["path"].as_str()?.to_owned(), body["bytes"].as_u64()?));
    let places = body.iter().map(place).collect::<Option<Vec<_>>>().filter(|places| places.len() == files.len());
    let places = places.ok_or_else(|| Refused("the description of its flash is malformed".to_owned()))?;
    let texts: Vec<String> = places.iter().map(|(path, bytes)| format!("{path}:{}", ByteSize(*bytes))).collect();
    let differs = |what: String| match &texts[..] {
        [] => Refused(format!("{what}: it has no items on flash; remove --flash")),
        theirs => Refused(format!("{what}; pass --flash {}", theirs.join(" --flash "))),
    };
    let mut rest: Vec<_> = places.into_iter().zip(files).collect();
    let mut found = Vec::new();
    for FlashPlace { path, size } in &config.flash {
        let same = |(_, file): &(_, Arc<File>)| flash::is_at(file, path).unwrap_or(false);
        let at = rest.iter().position(same);
        let at = at.ok_or_else(|| differs(format!("the running server does not use {}", path.display())))?;
        let ((_, bytes), file) = rest.swap_remove(at);
        if bytes != size.0 {
            let theirs = ByteSize(bytes);
            return Err(differs(format!("the running server uses {theirs} of {}, not {size}", path.display())));
        }
        found.push(file);
    }
    if rest.is_empty() {
        return Ok(found);
    }
    Err(differs("some of the running server's items are on flash that is not configured here".to_owned()))
}

/// Describes why the running server's memory does not match this configuration.
fn describe_mismatch(fault: &FileFault) -> String {
    let remedy = "the running server continues; start the new one without --upgrade if all items may be lost";
    match fault {
        FileFault::Layout => format!("the running server's build uses another memory layout; {remedy}"),
        FileFault::Version { found, known } => {
            format!("the running server's memory has version {found}, but this build reads version {known}; {remedy}")
        }
        FileFault::Memory { found, asked } => {
            format!("the running server has --memory {found}B, not {asked}B; pass --memory {found}B, or none")
        }
        FileFault::Segment { found, asked } => {
            format!("the running server's segments have {found} bytes, not {asked}; pass --segment {found}B, or none")
        }
        FileFault::Index { .. } => {
            "the running server's index is at another place; pass the same --file-index".to_owned()
        }
        other => format!("cannot open the running server's memory: {other}"),
    }
}
