//! Calls on leaderboards: sorted sets whose values are numbers.
//!
//! A leaderboard is the sorted set of that name, whose values are the decimal digits of its elements. Redis clients can
//! read and change it.

use super::common::done;
use crate::grpc::plan::{CallError, CallPlan, Commands, Flow, Next, integer, reply};
use protocol::grpc::Status;
use protocol::grpc::protobuf::{Encoder, Message};
use protocol::resp::client::Value;

/// The maximum number of elements in a request and in a reply.
const ELEMENTS_MAX: usize = 8192;
/// The number of `Order` for descending scores.
const DESCENDING: u64 = 1;

/// Returns the name in a field.
fn name(message: Message<'_>, number: u32) -> Result<&[u8], CallError> {
    match message.bytes(number) {
        b"" => Err(CallError::invalid("the name of the leaderboard is empty; give a name")),
        name => Ok(name),
    }
}

/// Checks the number of elements of a request.
fn check_count(count: usize) -> Result<(), CallError> {
    match count {
        0 => Err(CallError::invalid("the request has no elements; give at least one")),
        1..=ELEMENTS_MAX => Ok(()),
        _ => Err(CallError::invalid(format!("the request has more than {ELEMENTS_MAX} elements; send less at once"))),
    }
}

/// Returns the ids in a field, as texts.
fn ids(message: Message<'_>, number: u32) -> Result<Vec<String>, CallError> {
    let ids = message.uints(number, ELEMENTS_MAX)?;
    check_count(ids.len())?;
    if let Some(id) = ids.iter().find(|id| **id > u64::from(u32::MAX)) {
        return Err(CallError::invalid(format!("the id {id} has more than 32 bits")));
    }
    Ok(ids.iter().map(u64::to_string).collect())
}

/// Returns a score as Redis takes it, with all digits.
fn score_text(score: f64) -> Result<String, CallError> {
    if score.is_finite() {
        return Ok(score.to_string());
    }
    Err(CallError::invalid("a score is not a finite number; give a finite number"))
}

/// An element with its score and its rank.
struct RankedElement {
    id: u64,
    score: f64,
    rank: u64,
}

impl RankedElement {
    /// Reads an element from the replies for its value and its score.
    fn of(id: &[u8], score: Value<'_>, rank: u64) -> Result<Self, CallError> {
        let number = |text: Option<&[u8]>| std::str::from_utf8(text?).ok().map(str::to_owned);
        let id = number(Some(id)).and_then(|id| id.parse::<u32>().ok()).map(u64::from);
        let score = number(score.text()).and_then(|score| score.parse().ok());
        match (id, score) {
            (Some(id), Some(score)) => Ok(Self { id, score, rank }),
            _ => {
                let text = "the sorted set has values that are no ids of elements; it is not a leaderboard";
                Err(CallError::new(Status::FailedPrecondition, text))
            }
        }
    }

    /// Adds 1 id, 3 rank, 4 score.
    fn add(&self, out: &mut Encoder) {
        out.message(1, |element| {
            element.uint(1, self.id).uint(3, self.rank).double(4, self.score);
        });
    }
}

/// Returns the reply with 1 elements.
fn elements_reply(elements: impl Iterator<Item = Result<RankedElement, CallError>>) -> Next {
    let elements: Vec<RankedElement> = elements.collect::<Result<_, _>>()?;
    reply(|out| elements.iter().for_each(|element| element.add(out)))
}

/// Returns the elements of a reply with values and scores, of which the first has the rank `first`.
fn ranked<'b>(pairs: Value<'b>, first: u64) -> impl Iterator<Item = Result<RankedElement, CallError>> + use<'b> {
    let items: Vec<Value<'b>> = pairs.items().collect();
    (0..items.len() / 2).map(move |place| {
        let [id, score] = [items[2 * place], items[2 * place + 1]];
        RankedElement::of(id.text().unwrap_or_default(), score, first + place as u64)
    })
}

/// Decodes 2 name.
pub(super) fn delete(message: Message<'_>) -> Result<CallPlan, CallError> {
    let name = name(message, 2)?;
    let deletion = Commands::one(&[b"DEL", name]);
    let decide = move |_: &[Value<'_>]| Ok(Flow::Execute(deletion.clone()));
    Ok(CallPlan::watched(name, &Commands::one(&[b"ZCARD", name]), decide, |_| done()))
}

/// Decodes 2 name, 3 elements (1 id, 3 score). All elements are stored, or none.
pub(super) fn upsert(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (name, mut words) = (name(message, 2)?, Vec::new());
    check_count(message.all(3).take(ELEMENTS_MAX + 1).count())?;
    for element in message.all(3) {
        let element = message.part(element)?;
        words.push(score_text(element.try_double(3).unwrap_or(0.0))?);
        words.push(
            u32::try_from(element.uint(1)).map_err(|_| CallError::invalid("an id has more than 32 bits"))?.to_string(),
        );
    }
    let mut commands = Commands::default();
    commands.add_words(&[b"ZADD", name], words.iter().map(String::as_bytes));
    Ok(CallPlan::new(commands, |_| done()))
}

/// Decodes 2 name, 3 ids.
pub(super) fn remove(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (name, ids) = (name(message, 2)?, ids(message, 3)?);
    let mut commands = Commands::default();
    commands.add_words(&[b"ZREM", name], ids.iter().map(String::as_bytes));
    Ok(CallPlan::new(commands, |_| done()))
}

/// Decodes 2 name. Replies 1 count.
pub(super) fn length(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"ZCARD", name(message, 2)?], |count| {
        let count = integer(count)?;
        reply(|out| {
            out.int(1, count);
        })
    }))
}

/// Decodes 2 name, 3 ranks (1 first, 2 end), 4 order. Replies 1 elements.
pub(super) fn read_by_rank(message: Message<'_>) -> Result<CallPlan, CallError> {
    let name = name(message, 2)?;
    let ranks = message.message(3)?.ok_or_else(|| CallError::invalid("the request has no range of ranks"))?;
    let (first, end) = (ranks.uint(1), ranks.uint(2));
    if end <= first || end - first > ELEMENTS_MAX as u64 {
        let text = format!("the ranks {first} to {end} are not a range of 1 to {ELEMENTS_MAX} elements");
        return Err(CallError::invalid(text));
    }
    let (from, to) = (first.to_string(), (end - 1).to_string());
    let mut words: Vec<&[u8]> = vec![b"ZRANGE", name, from.as_bytes(), to.as_bytes(), b"WITHSCORES"];
    if message.uint(4) == DESCENDING {
        words.push(b"REV");
    }
    Ok(CallPlan::one(&words, move |pairs| elements_reply(ranked(pairs, first))))
}

/// Decodes 2 name, 3 scores (1 no least, 5 least; 3 no greatest, 6 the score above the greatest), 4 offset, 5 maximum
/// number, 6 order. Replies 1 elements.
pub(super) fn read_by_score(message: Message<'_>) -> Result<CallPlan, CallError> {
    let name = name(message, 2)?;
    let scores = message.message(3)?.unwrap_or(Message::parse(&[])?);
    let bound = |number: u32| scores.try_double(number).map(score_text).transpose();
    let (least, end) = (bound(5)?.unwrap_or_else(|| "-inf".into()), bound(6)?);
    let is_descending = message.uint(6) == DESCENDING;
    let (offset, count) = (message.uint(4), message.uint(5));
    if count > ELEMENTS_MAX as u64 {
        return Err(CallError::invalid(format!(
            "the request asks for {count} elements; ask for at most {ELEMENTS_MAX}"
        )));
    }
    let count = if count == 0 { ELEMENTS_MAX as u64 } else { count }.to_string();
    let below = end.as_ref().map_or_else(|| "+inf".to_owned(), |end| format!("({end}"));
    let [first, last] = if is_descending { [&below, &least] } else { [&least, &below] };
    let offset_text = offset.to_string();
    let mut words: Vec<&[u8]> = vec![b"ZRANGE", name, first.as_bytes(), last.as_bytes(), b"BYSCORE"];
    words.extend(is_descending.then_some(&b"REV"[..]));
    words.extend([b"LIMIT", offset_text.as_bytes(), count.as_bytes(), b"WITHSCORES"]);
    // The elements before the first one of the range.
    let before = match (is_descending, &end) {
        (false, _) => ["-inf".to_owned(), format!("({least}")],
        (true, Some(end)) => [end.clone(), "+inf".into()],
        (true, None) => ["(+inf".to_owned(), "(+inf".into()],
    };
    let mut commands = Commands::one(&[b"ZCOUNT", name, before[0].as_bytes(), before[1].as_bytes()]);
    commands.add(&words);
    Ok(CallPlan::transaction(&commands, move |replies| {
        let before = integer(replies[0])? as u64;
        elements_reply(ranked(replies[1], before + offset))
    }))
}

/// Decodes 2 name, 3 ids, 4 order. Replies 1 elements, in the order of the ids, without those that do not exist.
pub(super) fn read_rank(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (name, ids) = (name(message, 2)?, ids(message, 3)?);
    let command: &[u8] = if message.uint(4) == DESCENDING { b"ZREVRANK" } else { b"ZRANK" };
    let mut commands = Commands::default();
    ids.iter().for_each(|id| commands.add(&[command, name, id.as_bytes(), b"WITHSCORE"]));
    let held = ids.iter().map(String::capacity).sum();
    let plan = CallPlan::transaction(&commands, move |replies| {
        let elements = ids.iter().zip(replies).filter_map(|(id, reply)| {
            let mut parts = reply.items();
            let (rank, score) = (parts.next()?, parts.next()?);
            Some(integer(rank).and_then(|rank| RankedElement::of(id.as_bytes(), score, rank as u64)))
        });
        elements_reply(elements)
    });
    Ok(plan.holding(held))
}

/// Decodes 1 name, 2 ids, 3 order (descending if there is none). Replies 1 elements. Elements with the same score have
/// the same rank: the number of elements before all of them.
pub(super) fn read_competition_rank(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (name, ids) = (name(message, 1)?.to_vec(), ids(message, 2)?);
    let is_descending = message.try_uint(3).unwrap_or(DESCENDING) == DESCENDING;
    let mut scores = Commands::default();
    scores.add_words(&[b"ZMSCORE", &name], ids.iter().map(String::as_bytes));
    let all = scores.clone();
    let (held, key, known) = (2 * all.request.capacity(), name.clone(), ids.clone());
    let decide = move |replies: &[Value<'_>]| {
        let mut commands = all.clone();
        for score in replies[0].items().filter_map(|score| score.text()) {
            let bound = [&b"("[..], score].concat();
            let [from, to] = if is_descending { [&bound[..], b"+inf"] } else { [b"-inf", &bound[..]] };
            commands.add(&[b"ZCOUNT", &name, from, to]);
        }
        Ok(Flow::Execute(commands))
    };
    let next = move |replies: &[Value<'_>]| {
        let found = known.iter().zip(replies[0].items()).filter(|(_, score)| score.text().is_some());
        let elements = found.zip(&replies[1..]).map(|((id, score), before)| {
            integer(*before).and_then(|before| RankedElement::of(id.as_bytes(), score, before as u64))
        });
        elements_reply(elements)
    };
    Ok(CallPlan::watched(&key, &scores, decide, next).holding(held))
}
