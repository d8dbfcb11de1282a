//! The log: one line for each event on standard error, with time, level, target, message and fields, as text or as a
//! JSON object.
//!
//! No code on a request's path writes to the log, because a slow reader of the log must never delay a request. The
//! level can change while the server runs.

pub(crate) mod audit;

use std::fmt::{Debug, Result};

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::kinds::{LogFormat, LogLevel};

/// The log of the process.
#[derive(Debug)]
pub struct Log {
    level: reload::Handle<LevelFilter, Registry>,
    format: LogFormat,
}

impl Log {
    /// Starts the log.
    ///
    /// # Errors
    /// If this process already has a log.
    pub fn start(level: LogLevel, format: LogFormat) -> std::result::Result<Self, TryInitError> {
        let (filter, handle) = reload::Layer::new(filter(level));
        let registry = tracing_subscriber::registry().with(filter);
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr);
        match format {
            LogFormat::Text => registry.with(lines).try_init()?,
            LogFormat::Json => {
                registry.with(lines.event_format(JsonLines)).try_init()?;
                std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
            }
        }
        Ok(Self { level: handle, format })
    }

    /// Writes events of `level` and above from now on.
    pub fn set_level(&self, level: LogLevel) {
        // The call fails only if the log no longer exists. Then there is no level to set.
        let _ = self.level.reload(filter(level));
    }

    /// Logs the lines that report why the process ends, if the log's format requires that. Returns the lines that the
    /// caller must print instead.
    pub fn last_lines(&self, lines: Vec<String>) -> Vec<String> {
        match self.format {
            LogFormat::Text => lines,
            LogFormat::Json => {
                // A log that is off hides no reason for an end, as in text form.
                let _ = self.level.modify(|filter| *filter = (*filter).max(LevelFilter::ERROR));
                lines.iter().for_each(|line| tracing::error!("{line}"));
                Vec::new()
            }
        }
    }

    /// Returns a line that can be written where the log cannot: in a signal handler. As JSON it has no time.
    pub fn prepared_line(&self, message: &str) -> String {
        match self.format {
            LogFormat::Text => message.to_owned(),
            LogFormat::Json => {
                json!({"level": "ERROR", "target": module_path!(), "message": message, "fields": {}}).to_string()
            }
        }
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// The format with one JSON object for each event.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let (level, target) = (event.metadata().level(), Value::from(event.metadata().target()));
        let (message, fields) = (Value::from(fields.message), Value::from(fields.others));
        // A map of the library would sort the keys, and a reader looks for the time first.
        write!(
            writer,
            r#"{{"time":"{time}","level":"{level}","target":{target},"message":{message},"fields":{fields}}}"#
        )?;
        writer.write_char('\n')
    }
}

/// The message and the other fields of an event.
#[derive(Default)]
struct EventFields {
    message: String,
    others: Map<String, Value>,
}

impl EventFields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.add(field, format!("{value:?}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn quotes_and_line_ends_in_a_message_stay_in_one_json_object() {
        let written = Written::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt::layer().event_format(JsonLines).with_writer(move || writer.clone());
        let log = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(log, || {
            let path = "/a\"b\n\u{1}c";
            let error = "bad\r\n";
            tracing::warn!(path, count = 7, part = 0.5, fits = false, %error, "cannot open {path}: \u{fffd}");
            tracing::info!("second");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["message"], "cannot open /a\"b\n\u{1}c: \u{fffd}");
        let fields = json!({"path": "/a\"b\n\u{1}c", "count": 7, "part": 0.5, "fits": false, "error": "bad\r\n"});
        assert_eq!((&lines[0]["level"], &lines[0]["fields"]), (&json!("WARN"), &fields));
        assert_eq!(lines[0]["target"], module_path!());
        assert!(text.starts_with("{\"time\":\"20") && text.contains("Z\",\"level\":\"WARN\""), "{text}");
    }
}
