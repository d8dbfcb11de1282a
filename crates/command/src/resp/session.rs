//! The state of a Redis connection between two visits to its session.

use crate::clients::client_info::ClientMemory;
use crate::context::AuthWait;
use crate::context::WorkerContext;
use crate::host::ReloadResult;
use crate::lookup::large::LargeSet;
use crate::push::outbox::{MessageCheck, Publishing, Subscriber};
use crate::resp::acl::{ClientUser, FileWork, PasswordWork, Users};
use crate::resp::catalog;
use crate::resp::state::Answers;
use crate::resp::state::absent::AbsentKeys;
use crate::resp::state::aside::{ENDED_A_VISIT, PendingOutput};
use crate::resp::state::copying::Copying;
use crate::resp::state::listing::Listing;
use crate::resp::state::long::{Long, LongStage};
use crate::resp::state::script::RunningScript;
use crate::resp::state::tracking::SessionTracking;
use crate::resp::state::transaction::Stage;
use crate::resp::state::transaction::Transaction;
use crate::resp::state::walk::Walk;
use crate::resp::subcommands::{Subcommand, full_name};
use crate::shared::Shared;
use crate::visit::clock::Moment;
use crate::visit::clock::Ticks;
use protocol::resp::Args;
use protocol::resp::{Parser, Version};
use segment::Namespace;

/// The wish of the current request for locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::resp) enum LockWish {
    #[default]
    None,
    /// Other clients change the value that the request reads so often that its key must be locked.
    Keys,
    /// The request waits, with all keys locked, for the end of the guards that other workers have in progress.
    Guards,
    /// That wait has begun.
    GuardsBegun,
}

/// The origin of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::resp) enum CommandOrigin {
    /// A Redis client sent it.
    #[default]
    Client,
    /// A call of another protocol's client became it. Such a session puts commands into transactions itself.
    Call,
    /// A script of the client called it.
    Script,
}

/// The numbers of a connection's database and of its listener's, with four bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DatabaseNumbers(u8);

impl DatabaseNumbers {
    pub(super) fn new(database: u8, home: u8) -> Self {
        Self(database | home << 4)
    }

    /// Returns the number of the connection's database.
    pub(super) fn database(self) -> u8 {
        self.0 & 15
    }

    /// Returns the number of the database of the connection's listener.
    pub(super) fn home(self) -> u8 {
        self.0 >> 4
    }
}

/// The state of a Redis connection between two visits.
#[derive(Default)]
pub struct SessionState {
    /// The namespace in which the connection's requests access keys.
    pub(crate) namespace: Namespace,
    /// The numbers of the connection's database and of its listener's. While a request is being executed, its namespace
    /// may have become that of another database, by `SWAPDB`.
    pub(super) numbers: DatabaseNumbers,
    /// True if the current request has already been counted against the namespace's quota of operations per second.
    pub(super) is_counted: bool,
    pub(super) parser: Parser,
    pub(super) version: Version,
    pub(super) answers: Answers,
    /// True if the client has authenticated, or the server required no authentication when the client connected.
    pub(super) known: bool,
    /// The number of parts of the current request that are done, such as keys or lines of the reply. Each command
    /// defines its own parts.
    pub(super) done: u32,
    /// The number of arguments of the current request that are processed, and their length in bytes (see
    /// `Call::args_after`). A request in a buffer is shorter than 4 GiB.
    pub(super) passed: (u32, u32),
    /// The sum of the results for the keys or fields that the current request has processed. Some commands store their
    /// current stage in this field instead. `DEBUG SLEEP` stores its end, in Unix ms.
    pub(super) sum: i64,
    /// A value that is copied into the reply over several visits.
    pub(super) copying: Option<Copying>,
    /// True if the change of the current request was published to subscribers.
    pub(super) is_published: bool,
    /// The keys of the current request that did not exist when it began, while events about such keys are published.
    pub(super) absent: Option<Box<AbsentKeys>>,
    /// The instant at which a request that may take several visits began.
    pub(super) moment: Moment,
    /// True if all names and values that the current request stores were checked, and none is too long.
    pub(super) fits: bool,
    /// The locks that the current request wants.
    pub(super) lock_wish: LockWish,
    /// The user whose rights the client has.
    pub(super) user: ClientUser,
    /// The number of changes of users, since the server's start, at the last check of `user`.
    pub(super) seen_changes: u64,
    /// The number of changes of users at the last check in which `user` had all rights; 0 if there was no such check.
    pub(super) all_rights_at: u64,
    /// The request that is partly consumed, if there is one.
    pub(super) long: Option<Long>,
    /// The last command that the client called.
    pub(super) last: &'static str,
    /// The last subcommand that the client called. Other commands may have been called after it.
    pub(super) last_part: Option<&'static Subcommand>,
    /// The number of the last pause in which a request of the client had to wait (`CLIENT PAUSE`); 0 if there is none.
    pub(super) paused_in: u64,
    /// True if the client may execute only a few commands, because it is on another host and has not authenticated as a
    /// user with a password (protected mode).
    pub(super) is_restricted: bool,
    /// True if the client is on another host and connects to a listener in protected mode.
    pub(super) is_distant: bool,
    /// Messages for a subscriber, and the rest of a long reply that did not fit into the output.
    pub(super) aside: Option<Box<PendingOutput>>,
    /// Watched keys and queued commands.
    pub(super) transaction: Option<Box<Transaction>>,
    /// The transaction in execution. It completes before any other request is executed.
    pub(super) under_way: Option<Box<Transaction>>,
    /// The origin of the command in execution.
    pub(super) origin: CommandOrigin,
    /// The script in execution, between two visits.
    pub(super) script: Option<Box<RunningScript>>,
    /// An unfinished copy of a value in several parts.
    pub(super) copy: Option<Box<segment::PartsCopy>>,
    /// An unfinished publication.
    pub(super) publishing: Option<Box<Publishing>>,
    /// A list that is collected over several visits.
    pub(super) listing: Option<Box<Listing>>,
    /// The cause, outside this worker's iterations, for which the current request waits.
    pub(super) outside: Option<Box<OutsideWait>>,
    /// An unfinished walk over keys.
    pub(super) walk: Option<Box<Walk>>,
    /// The instant before which a rate-limited walk over records does not continue, in Unix ms.
    pub(super) paced_until_ms: u64,
}

/// A cause, outside the worker's iterations, for which a request waits.
pub(super) enum OutsideWait {
    /// Work on a file that another thread does for the request.
    File(FileWork),
    /// Passwords that another thread hashes for the request.
    Passwords(PasswordWork),
    /// The delay of an authentication attempt, or the check of its password.
    Auth(AuthWait),
    /// Files of certificates that another thread reads.
    Certificates(ReloadResult),
}

/// Removes and returns the wait of the client's authentication attempt.
pub(super) fn take_auth_wait(session: &mut SessionState) -> AuthWait {
    match session.outside.take().map(|outside| *outside) {
        Some(OutsideWait::Auth(wait)) => wait,
        other => {
            session.outside = other.map(Box::new);
            AuthWait::default()
        }
    }
}

/// Returns true if the client's authentication attempt waits.
pub(crate) fn is_auth_delayed(session: &SessionState) -> bool {
    matches!(session.outside.as_deref(), Some(OutsideWait::Auth(_)))
}

/// Returns the tracking of keys that the client has read.
pub(in crate::resp) fn tracking_of(session: &SessionState) -> Option<&SessionTracking> {
    session.aside.as_ref()?.tracking.as_deref()
}

/// Returns the id of the client if it tracks keys; 0 if it does not.
pub(in crate::resp) fn tracking_id(session: &SessionState) -> u64 {
    tracking_of(session).map_or(0, |tracking| tracking.client.id)
}

/// Returns true if the current request may have read values, and is incomplete. A client that tracks keys receives no
/// message before the reply then.
fn has_state_of_request(session: &SessionState) -> bool {
    session.walk.is_some() || session.listing.is_some() || session.script.is_some() || session.copying.is_some()
}

/// Prepares the session for messages that another client has redirected to it, if there are any. `connection` is the
/// session's number in the worker.
pub(crate) fn adopt_messages(session: &mut SessionState, ctx: &WorkerContext, connection: u32) {
    let channels = &ctx.shared.channels;
    if session.subscriber().is_none()
        && let Some(outbox) = channels.waiting_outbox(ctx.worker, connection)
    {
        let subscriber = Subscriber::with_outbox(channels, outbox);
        session.aside.get_or_insert_default().subscriber.insert(subscriber).set_tracking(true);
    }
}

/// Returns true if the client still has to authenticate.
pub(crate) fn needs_login(session: &SessionState, shared: &Shared) -> bool {
    !session.known && shared.requires_authentication()
}

/// Authenticates the client as the user `name`, without a password. Returns false if there is no such user, or if it
/// is disabled.
pub(crate) fn identify(session: &mut SessionState, name: &[u8], shared: &Shared) -> bool {
    let user = match shared.users.find_enabled(name) {
        Some(user) => ClientUser::User(user),
        None if shared.auth.as_ref().is_some_and(|auth| auth.has_user(name)) => ClientUser::OfFile,
        None => return false,
    };
    session.user = user;
    (session.known, session.is_restricted, session.all_rights_at, session.seen_changes) = (true, false, 0, 0);
    true
}

/// Records that a client that has not authenticated must do so, if users have got passwords since it connected.
pub(crate) fn check_admission(session: &mut SessionState, shared: &Shared) {
    if matches!(session.user, ClientUser::Default) && shared.requires_authentication() {
        session.known = false;
    }
}

/// Returns the bytes of client memory that hold what the client has sent of an incomplete request or transaction.
pub(crate) fn incomplete_bytes(session: &SessionState) -> u64 {
    let transaction = session.transaction.as_ref().map_or(0, |transaction| transaction.held.bytes());
    transaction + session.long.as_ref().map_or(0, Long::collected_bytes)
}

/// Makes a client whose user was removed one that has not authenticated.
pub(crate) fn forget_lost_user(session: &mut SessionState, shared: &Shared) {
    if matches!(&session.user, ClientUser::User(user) if user.is_replaced() && !shared.users.has(&user.name)) {
        session.user = ClientUser::Default;
        (session.known, session.all_rights_at, session.seen_changes) = (false, 0, 0);
    }
}

/// Returns true if the client's user was removed, or if the client receives messages, or waits in a command, and must
/// authenticate now.
pub(crate) fn has_lost_user(session: &SessionState, shared: &Shared) -> bool {
    match &session.user {
        ClientUser::OfFile | ClientUser::Token(_) => false,
        ClientUser::User(user) => user.is_replaced() && !shared.users.has(&user.name),
        ClientUser::Default => {
            let receives = session.subscriber().is_some()
                || Long::command_of(&session.long).is_some()
                || tracking_of(session).is_some();
            receives && needs_login(session, shared)
        }
    }
}

/// Returns the state of a new connection of another protocol, whose calls become commands.
pub(crate) fn session_of_calls(namespace: Namespace) -> SessionState {
    SessionState { origin: CommandOrigin::Call, ..SessionState::of(namespace) }
}

/// Returns true if the user is that of a signed token, so that each request is checked even without other users.
#[inline]
pub(crate) fn is_token(session: &SessionState) -> bool {
    matches!(session.user, ClientUser::Token(_))
}

/// Restricts a client on another host, unless it has authenticated as a user with a password.
pub(super) fn update_restriction(session: &mut SessionState) {
    let has_proven = match &session.user {
        ClientUser::Default => false,
        ClientUser::OfFile | ClientUser::Token(_) => true,
        ClientUser::User(user) => !user.no_password,
    };
    session.is_restricted = session.is_distant && !has_proven;
}

impl SessionState {
    /// Returns the state of a new connection.
    pub(crate) fn of(namespace: Namespace) -> Self {
        Self { namespace, numbers: DatabaseNumbers::new(namespace.0, namespace.0), ..Self::default() }
    }

    /// Resets the state of the current request, because the request is complete or starts over.
    #[inline(always)]
    pub(super) fn end_request(&mut self) {
        (self.done, self.passed, self.sum, self.is_published) = (0, (0, 0), 0, false);
        (self.copying, self.fits) = (None, false);
    }

    /// Abandons the current request, and discards the state that was retained for its next visit.
    #[cold]
    pub(super) fn abandon_request(&mut self) {
        (self.walk, self.publishing, self.listing, self.script) = (None, None, None, None);
        self.end_request();
    }

    /// Returns true if a part of the reply to the current request is final and must not be discarded while the request
    /// waits.
    pub(super) fn is_answered_in_part(&self) -> bool {
        self.done > 0 || self.copying.is_some()
    }

    /// Returns true if the current request is unfinished and may take many more visits.
    pub(crate) fn is_long(&self) -> bool {
        self.under_way.is_some() || self.walk.is_some() || self.listing.is_some() || self.done > 0
    }

    /// Returns true if a transaction has begun and its requests are not all done, or its replies are not all sent.
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Returns the last command that the client called, with its subcommand, and the memory of the session's
    /// transaction and held reply. The command is empty if the client has called none.
    pub(crate) fn activity(&self) -> (&'static str, ClientMemory) {
        let transaction = self.transaction.as_ref();
        let memory = ClientMemory {
            queued: transaction.filter(|_| self.is_queueing()).map(|transaction| transaction.commands),
            queue_bytes: transaction.map_or(0, |transaction| transaction.held.bytes()),
            args_bytes: Long::command_of(&self.long).map_or(0, |command| command.grant.bytes() as usize),
            held_bytes: self.reply_held().map_or(0, |(_, bytes)| bytes),
            ..ClientMemory::default()
        };
        (full_name(self.last, self.last_part), memory)
    }

    /// Records whether the new client need not authenticate, and whether protected mode covers it.
    pub(crate) fn introduce(&mut self, is_admitted: bool, is_distant: bool) {
        (self.known, self.is_distant, self.is_restricted) = (is_admitted, is_distant, is_distant);
    }

    pub(in crate::resp) fn subscriber(&self) -> Option<&Subscriber> {
        self.aside.as_ref()?.subscriber.as_ref()
    }

    /// Returns true if messages that the client did not request wait to be sent.
    pub(crate) fn has_messages(&self) -> bool {
        self.subscriber().is_some_and(Subscriber::has_messages)
    }

    /// Decides whether waiting messages may be sent.
    #[inline]
    pub(crate) fn check_messages(&mut self, users: &Users) -> MessageCheck {
        let subscriber = self.aside.as_mut().and_then(|aside| aside.subscriber.as_mut());
        let Some(subscriber) = subscriber else { return MessageCheck::Send };
        if !subscriber.is_checked(users.changes()) {
            match self.user.check_channels(users, subscriber) {
                Some(true) => {}
                Some(false) => return MessageCheck::RightLost,
                None => return MessageCheck::Unfinished,
            }
        }
        if subscriber.is_broken() { MessageCheck::QueueBroken } else { MessageCheck::Send }
    }

    /// Moves the next waiting messages to the front of `into`. Returns the number of their bytes.
    pub(crate) fn take_messages(&mut self, into: &mut [u8]) -> usize {
        self.subscriber().map_or(0, |subscriber| subscriber.take(into, self.version))
    }

    /// Returns true if a reply is written only partly.
    pub(crate) fn is_replying(&self) -> bool {
        self.done != 0
            || self.long.as_ref().is_some_and(|long| long.waits().is_none_or(|waits| !waits.rests))
            || self.under_way.is_some()
            || self.aside.as_ref().is_some_and(|aside| !aside.long.is_empty())
            || tracking_of(self).is_some() && has_state_of_request(self)
    }

    /// Returns the instant at which the request or transaction whose reply is held for the client began, and the
    /// memory of the reply in bytes. Returns `None` if no reply is held.
    pub(crate) fn reply_held(&self) -> Option<(Ticks, u64)> {
        if let Some(transaction) = &self.under_way {
            return transaction.answer_held();
        }
        self.aside.as_ref()?.held.as_ref().map(|(grant, since)| (*since, grant.bytes()))
    }

    /// Removes and returns the client's subscriptions.
    pub(crate) fn take_subscriber(&mut self) -> Option<Subscriber> {
        self.aside.as_mut()?.subscriber.take()
    }

    /// Returns true if the client has a subscription or is in MONITOR mode.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.subscriber().is_some_and(|subscriber| subscriber.is_subscribed() || subscriber.monitors())
    }

    /// Ends some of the client's subscriptions, and drops some of its queued messages, because the connection ends or
    /// is reset. Returns true when no subscription and no message remains.
    pub(in crate::resp) fn end_some_subscriptions(&mut self) -> bool {
        let subscriber = self.aside.as_mut().and_then(|aside| aside.subscriber.as_mut());
        subscriber.is_none_or(|subscriber| subscriber.end_some(ENDED_A_VISIT))
    }

    pub(in crate::resp) fn is_queueing(&self) -> bool {
        self.transaction.as_ref().is_some_and(|transaction| transaction.stage == Stage::Queueing)
    }

    /// Records that the current request was refused. If it would have been queued, `EXEC` will execute nothing.
    #[cold]
    pub(in crate::resp) fn abort_queue(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_aborted |= transaction.stage == Stage::Queueing;
        }
    }

    /// Returns the long value that is being received.
    #[inline]
    pub(crate) fn large(&self) -> Option<&LargeSet> {
        match &self.long {
            Some(Long { stage: LongStage::Value { large, .. }, .. }) => Some(large),
            _ => None,
        }
    }

    /// Returns the long value that is being received, to receive into it.
    pub(crate) fn large_mut(&mut self) -> Option<&mut LargeSet> {
        match &mut self.long {
            Some(Long { stage: LongStage::Value { large, .. }, .. }) => Some(large),
            _ => None,
        }
    }

    /// Returns true if a part of a request is consumed and the rest is still to be received.
    pub(crate) fn is_taking_in(&self) -> bool {
        self.long.is_some() && Long::waits_of(&self.long).is_none()
    }

    /// Returns true if a request is partly consumed, or a transaction is being executed.
    pub(crate) fn is_receiving(&self) -> bool {
        self.long.is_some() || self.is_under_way()
    }

    /// Discards the current request's reply and the positions in it. Returns true if the request must still be
    /// completed. A request that only reads is not completed, because no client waits for it.
    pub(in crate::resp) fn discard_replies(&mut self, mut args: Args<'_>) -> bool {
        let entry = catalog::find(args.next().unwrap_or_default());
        let is_done = self.script.as_ref().is_some_and(|running| running.is_done());
        if is_done || entry.is_some_and(|entry| entry.has(catalog::Flag::ReadOnly)) {
            self.abandon_request();
            return false;
        }
        self.copying = None;
        if let Some(walk) = &mut self.walk {
            walk.head = None;
        }
        true
    }

    /// Returns true if no request is unfinished, and the connection has no subscription, transaction or suppressed
    /// replies, so that plain requests may be executed in runs.
    #[inline(always)]
    pub(in crate::resp) fn is_plain(&self) -> bool {
        let whole = self.long.is_none() && self.parser.is_at_start() && self.done == 0;
        let alone = self.aside.is_none() && self.transaction.is_none() && self.under_way.is_none();
        whole && alone && self.answers == Answers::All
    }
}
