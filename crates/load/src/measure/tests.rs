//! Tests of histograms, recorders and timelines.

use super::*;

fn verbs() -> Vec<String> {
    vec!["get".to_owned(), "set".to_owned()]
}

fn ended(verb: u8, fate: Fate, bytes: u64, intended_ns: u64, ended_ns: u64) -> EndedRequest {
    EndedRequest { verb, fate, read_bytes: bytes, written_bytes: 0, intended_ns, sent_ns: intended_ns, ended_ns }
}

#[test]
fn size_class_matches_its_name() {
    for (bytes, name) in [(0, "none"), (1, "<=128B"), (128, "<=128B"), (129, "<=1KiB"), (1_024, "<=1KiB")] {
        assert_eq!(SizeClass::of(bytes).name(), name);
    }
    for (bytes, name) in [(8_192, "<=8KiB"), (8_193, "<=64KiB"), (65_536, "<=64KiB"), (65_537, ">64KiB")] {
        assert_eq!(SizeClass::of(bytes).name(), name);
        let written = serde_json::to_string(&SizeClass::of(bytes)).unwrap();
        assert_eq!(written, format!("\"{name}\""), "the serialised name equals the displayed name");
    }
    for fate in Fate::ALL {
        assert_eq!(serde_json::to_string(&fate).unwrap(), format!("\"{}\"", fate.name()));
    }
}

#[test]
fn all_replies_count_when_outcome_kinds_exceed_cells() {
    let many: Vec<String> = (0..64).map(|number| format!("verb{number}")).collect();
    let mut recorder = Recorder::new(&many, 0, 1_000);
    let sizes = [0, 100, 1_000, 8_000, 60_000, 100_000];
    let mut count = 0;
    for verb in 0..64u8 {
        for fate in [Fate::Hit, Fate::Miss, Fate::Error] {
            for size in sizes {
                recorder.end(&ended(verb, fate, size, 10, 20));
                count += 1;
            }
        }
    }
    let snapshot = recorder.finish();
    assert_eq!(snapshot.response.count(), count);
    assert!(snapshot.cells.len() <= 96 + 64 * 3, "{}", snapshot.cells.len());
    let of_last: u64 = snapshot.cells.iter().filter(|cell| cell.verb == 63).map(|cell| cell.response.count()).sum();
    assert_eq!(of_last, 18);
    assert!(snapshot.cells.iter().any(|cell| cell.size == SizeClass::Any));
}

#[test]
fn error_kinds_beyond_limit_are_counted_as_other() {
    let mut recorder = Recorder::new(&verbs(), 0, 1);
    for number in 0..100 {
        recorder.fault(&format!("fault-{number}"), || "first".to_owned());
    }
    let faults = recorder.finish().faults;
    assert_eq!(faults.len(), 32);
    assert_eq!(faults.iter().map(|fault| fault.count).sum::<u64>(), 100);
    assert_eq!(faults.last().unwrap().name, "other");
}

#[test]
fn generator_lateness_is_separated_from_waiting_for_connection_room() {
    let mut recorder = Recorder::new(&verbs(), 0, u64::MAX);
    recorder.send(10 * LATE_NS, 0, 10 * LATE_NS + 5);
    recorder.send(10 * LATE_NS, 0, 12 * LATE_NS);
    recorder.send(10 * LATE_NS, 15 * LATE_NS, 15 * LATE_NS + 7);
    recorder.send(10 * LATE_NS, 15 * LATE_NS, 17 * LATE_NS);
    let snapshot = recorder.finish();
    assert_eq!((snapshot.totals.late_by_generator, snapshot.totals.late_for_room), (2, 1));
    assert_eq!(snapshot.held_up.max_ns() / LATE_NS, 5);
    assert_eq!(snapshot.lateness.max_ns() / LATE_NS, 2);
}

#[test]
fn cut_run_counts_only_requests_due_before_the_cut() {
    let mut recorder = Recorder::new(&verbs(), 100, 1_000);
    recorder.cut(500);
    for at in [99, 100, 499, 500] {
        recorder.send(at, 0, at);
        recorder.end(&ended(0, Fate::Hit, 1, at, at + 7));
    }
    let snapshot = recorder.finish();
    assert_eq!((snapshot.totals.due, snapshot.response.count(), snapshot.measured_ns), (2, 2, 400));
    assert_eq!(snapshot.totals.warm_up, 1);
}

#[test]
fn merged_recorders_equal_a_single_recorder() {
    let mut all = Recorder::new(&verbs(), 0, 1_000_000);
    let mut parts = [Recorder::new(&verbs(), 0, 1_000_000), Recorder::new(&verbs(), 0, 1_000_000)];
    for number in 0..1_000u64 {
        let verb = (number % 2) as u8;
        let fate = if number % 7 == 0 { Fate::Miss } else { Fate::Hit };
        let end = ended(verb, fate, number * 3, number, number * number);
        for recorder in [&mut all, &mut parts[number as usize % 2]] {
            recorder.send(number, 0, number);
            recorder.end(&end);
            recorder.bytes_out(number, 10);
            if number % 100 == 0 {
                recorder.fault("x", String::new);
            }
        }
    }
    let mut merged = Snapshot::default();
    parts.into_iter().for_each(|part| merged.merge(&part.finish()));
    let mut one = Snapshot::default();
    one.merge(&all.finish());
    assert_eq!(merged, one);
    let text = serde_json::to_string(&merged).unwrap();
    let read: Snapshot = serde_json::from_str(&text).unwrap();
    assert_eq!((read.totals, read.cells.len()), (one.totals, one.cells.len()));
    assert_eq!(read.response.quantile_ns(0.99), one.response.quantile_ns(0.99));
}

fn slice(number: u64, sent: u64) -> RawSlice {
    let mut raw = RawSlice { number, sent, ..RawSlice::default() };
    (0..sent).for_each(|ns| raw.end(0, Fate::Hit, ns));
    raw
}

#[test]
fn slices_of_threads_that_run_apart_are_joined_by_number() {
    let mut timeline = Timeline::new(2, 1_000, 1_000, 3_000);
    for (number, sent) in [(0, 1), (1, 2), (2, 3)] {
        timeline.add(slice(number, sent));
        assert_eq!(timeline.slices().len(), 0, "the other thread has not handed its slice over");
    }
    timeline.add(slice(0, 10));
    timeline.add(slice(1, 20));
    assert_eq!(timeline.slices().len(), 2);
    assert_eq!(timeline.response().count(), 22, "only slice 1 is measured so far");
    timeline.add(slice(2, 30));
    timeline.add(slice(3, 40));
    let slices = timeline.finish();
    assert_eq!(slices.iter().map(|slice| slice.sent).collect::<Vec<_>>(), [11, 22, 33, 40]);
    assert_eq!(slices.iter().map(|slice| slice.measured).collect::<Vec<_>>(), [false, true, true, false]);
    assert_eq!(slices.iter().map(|slice| slice.begin_ns).collect::<Vec<_>>(), [0, 1_000, 2_000, 3_000]);
}

#[test]
fn a_thread_that_hands_nothing_over_does_not_hold_the_timeline_up_for_ever() {
    let mut timeline = Timeline::new(2, 1_000, 0, u64::MAX);
    for number in 0..1_000 {
        timeline.add(slice(number, 1));
    }
    assert!(timeline.slices().len() > 900);
    timeline.add(slice(5, 1));
    assert_eq!(timeline.finish().len(), 1_000);
}
