//! `RESTORE` of a stream, in steps.

use crate::resp::call::{Call, Interrupt};
use crate::resp::collection;
use crate::resp::error::ErrorReply;
use crate::resp::state::stream_intake::{IntakeError, StreamIntake, StreamRestore};
use crate::resp::typed::Edited;
use rdb::DumpReader;
use record::Streams;
use segment::Expire;

/// The number of elements of a payload that one step reads and one edit stores. The fields of an entry count, too.
const ELEMENTS_A_STEP: usize = 32;

/// Reads the elements of one step. Returns true after the last one.
pub(in crate::resp) fn read_some(
    call: &Call<'_, '_>,
    reader: &mut DumpReader<'_>,
    intake: &mut StreamIntake,
) -> Result<bool, Interrupt> {
    let bytes_max = call.guard.sizes().element_bytes_max();
    let refused = |refused| match refused {
        IntakeError::Bad => ErrorReply::BadDump,
        IntakeError::TooLong => ErrorReply::ElementTooLong,
    };
    for _ in 0..ELEMENTS_A_STEP {
        match reader.next_element().map_err(|_| ErrorReply::BadDump)? {
            Some(element) => intake.add(&element, bytes_max).map_err(refused)?,
            None => {
                intake.end().map_err(refused)?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Stores the elements that were read: the first ones in place of the old value of the key. Returns false if those that
/// were stored before are not there any more.
pub(in crate::resp) fn restore_some(
    call: &mut Call<'_, '_>,
    key: &[u8],
    expire: Expire,
    work: &mut StreamRestore,
) -> Result<bool, Interrupt> {
    let (intake, is_stored, before) = (&work.intake, work.is_stored, work.numbers);
    let (numbers, _) = collection::change_from::<Streams, _>(call, key, !is_stored, &mut |old, stream| {
        if old.is_none() && is_stored {
            return Ok(Edited::Keep(None));
        }
        let numbers = intake.store(stream, before)?;
        Ok(Edited::StoreUntil(expire, Some(numbers)))
    })?;
    let Some(numbers) = numbers else { return Ok(false) };
    (work.numbers, work.is_stored) = (numbers, true);
    work.intake.drop_complete();
    Ok(true)
}
