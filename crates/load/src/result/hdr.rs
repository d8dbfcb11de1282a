//! HDR histograms as text, and the interval log of HDR tools.

use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

use super::RunResult;

/// Divisor of the log's maxima, which are in milliseconds.
const NS_A_MS: f64 = 1e6;

/// Returns `histogram` as text: V2, deflated, base 64.
pub fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).expect("writing to memory does not fail");
    STANDARD.encode(bytes)
}

/// Parses a histogram; `None` if the text is not one.
pub fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    let mut histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
    histogram.auto(true);
    Some(histogram)
}

/// Returns the response times of every interval as an HDR interval log.
pub fn log(result: &RunResult) -> String {
    let started = UNIX_EPOCH + Duration::from_millis(result.started_at_unix_ms);
    let (mut bytes, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut head = IntervalLogWriterBuilder::new();
    let loops = result.arrivals.words();
    head.add_comment(&format!("[{}: {}; response times in ns, maxima in ms]", result.program, loops));
    head.with_start_time(started).with_base_time(started).with_max_value_divisor(NS_A_MS);
    let mut log = head.begin_log_with(&mut bytes, &mut serializer).expect("writing to memory does not fail");
    for interval in &result.intervals {
        let histogram = interval.response.histogram().unwrap_or_else(super::latencies::empty);
        let span = |s: f64| Duration::from_secs_f64(s.max(0.0));
        log.write_histogram(&histogram, span(interval.at_s), span(interval.duration_s), None)
            .expect("writing to memory does not fail");
    }
    String::from_utf8(bytes).expect("the log is ASCII")
}
