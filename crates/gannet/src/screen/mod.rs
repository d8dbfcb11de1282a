//! Shows a live view in a terminal. It uses the terminal's alternate screen, and restores the original screen at the
//! end, even after an error.
//!
//! ```text
//!   take ──a reading per interval──> show(now, before, size) ──lines──> the terminal
//! ```
//! Keys: q, Esc or Ctrl-C quits, as SIGTERM and SIGHUP do; space pauses and resumes; ? shows the keys; other keys
//! belong to the view. Everything that does not fit is marked.

pub mod help;

use std::io::{Stdout, Write, stdout};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction};
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};

/// Returns the arguments of a live view: the interval, and whether to print only once.
pub fn readings() -> [Arg; 2] {
    let interval = Arg::new("interval")
        .long("interval")
        .value_name("DURATION")
        .help("Interval between two readings, over which rates are computed")
        .default_value("1s");
    let once = Arg::new("once")
        .long("once")
        .action(ArgAction::SetTrue)
        .help("Take two readings, print them as plain text, and exit");
    [interval, once]
}

/// The keys of every live view.
pub const KEYS: [(&str, &str); 3] = [("q, Esc", "quit"), ("space", "pause, resume"), ("?", "show or hide the keys")];
/// The character that stands for what was cut.
pub const CUT: char = '…';

/// The number of columns and rows of the terminal that a view may fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    /// `usize::MAX` if the output has no end, as in a file.
    pub rows: usize,
}

/// A view that is updated by readings.
pub trait LiveView {
    /// One reading of the figures.
    type Reading;

    /// Takes a reading.
    ///
    /// # Errors
    /// A sentence with the reason, which the view shows until the next reading.
    fn take(&mut self) -> Result<Self::Reading, String>;

    /// Receives each reading with the previous one, before it is shown.
    fn taken(&mut self, now: &Self::Reading, before: Option<&Self::Reading>) {
        let _ = (now, before);
    }

    /// Formats a reading and its difference from the previous one.
    fn show(&self, now: &Self::Reading, before: Option<&Self::Reading>, size: Size) -> Vec<ViewLine>;

    /// Returns the view's own keys with their effects.
    fn keys(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Handles one of the view's own keys.
    fn press(&mut self, key: char) {
        let _ = key;
    }
}

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Headings of columns and lists.
    Head,
    /// All other lines.
    Plain,
}

/// A line of a view.
pub struct ViewLine {
    /// The text, cut to the number of columns.
    pub text: String,
    /// The style of the text.
    pub weight: Weight,
}

impl ViewLine {
    /// Creates a line, cut to `columns`.
    pub fn new(weight: Weight, text: &str, columns: usize) -> Self {
        Self { text: cut(text.trim_end(), columns), weight }
    }
}

/// Cuts `text` to at most this number of characters. The last one marks that it was cut.
pub fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns.saturating_sub(1)).chain(std::iter::once(CUT)).take(columns).collect()
}

/// Limits `lines` to the number of rows. The last line then reports how many are missing.
fn fitted(mut lines: Vec<ViewLine>, size: Size) -> Vec<ViewLine> {
    if lines.len() > size.rows {
        let hidden = lines.len() - size.rows.saturating_sub(1);
        lines.truncate(size.rows.saturating_sub(1));
        lines.push(ViewLine::new(
            Weight::Head,
            &format!("{CUT} {hidden} more lines: enlarge the terminal"),
            size.columns,
        ));
    }
    lines
}

/// Formats the keys, one per line.
fn key_lines(own: &[(&str, &str)], size: Size) -> Vec<ViewLine> {
    let title = ViewLine::new(Weight::Head, "keys", size.columns);
    let line = |(key, what): &(&str, &str)| ViewLine::new(Weight::Plain, &format!("  {key:<10}{what}"), size.columns);
    std::iter::once(title).chain(own.iter().chain(&KEYS).map(line)).collect()
}

/// Formats lines as plain text.
pub fn plain(lines: &[ViewLine]) -> String {
    lines.iter().map(|line| line.text.trim_end().to_owned() + "\n").collect()
}

/// The terminal in live mode. Dropping this value restores the terminal.
struct Screen(Stdout);

impl Screen {
    fn open() -> std::io::Result<Self> {
        terminal::enable_raw_mode()?;
        let mut screen = Self(stdout());
        execute!(screen.0, EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws as many lines as fit, in one write.
    fn draw(&mut self, lines: &[ViewLine], rows: u16) -> std::io::Result<()> {
        for (row, line) in (0..rows).zip(lines) {
            queue!(self.0, cursor::MoveTo(0, row))?;
            if line.weight == Weight::Head {
                queue!(self.0, SetAttribute(Attribute::Bold))?;
            }
            queue!(self.0, Print(&line.text), SetAttribute(Attribute::Reset), Clear(ClearType::UntilNewLine))?;
        }
        if lines.len() < usize::from(rows) {
            queue!(self.0, cursor::MoveTo(0, lines.len() as u16), Clear(ClearType::FromCursorDown))?;
        }
        self.0.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(self.0, cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// The effect of a key that the user pressed.
enum Wish {
    End,
    /// Pauses or resumes.
    Hold,
    /// Shows or hides the keys.
    Help,
    /// Redraws.
    Draw,
    /// A key of the view.
    Own(char),
}

/// The state of a live view.
struct ViewState<R> {
    now: Option<R>,
    before: Option<R>,
    /// The instant of the last successful reading.
    taken_at: Option<Instant>,
    fault: Option<String>,
    is_held: bool,
    is_helping: bool,
}

impl<R> ViewState<R> {
    const fn new() -> Self {
        Self { now: None, before: None, taken_at: None, fault: None, is_held: false, is_helping: false }
    }

    fn take(&mut self, view: &mut impl LiveView<Reading = R>) {
        match view.take() {
            Ok(reading) => {
                view.taken(&reading, self.now.as_ref());
                self.before = self.now.replace(reading);
                self.taken_at = Some(Instant::now());
                self.fault = None;
            }
            Err(why) => self.fault = Some(why),
        }
    }

    fn lines(&self, view: &impl LiveView<Reading = R>, size: Size) -> Vec<ViewLine> {
        // A pause is named beside a fault, which it retains although the server may reply again by now.
        let pause = self.is_held.then_some("paused: space resumes");
        let age = self.taken_at.filter(|_| self.fault.is_some()).map(|at| at.elapsed().as_secs());
        let age = age.map(|age| format!("the figures below are {age} s old"));
        let mut lines: Vec<ViewLine> = [pause, self.fault.as_deref(), age.as_deref()]
            .into_iter()
            .flatten()
            .map(|text| ViewLine::new(Weight::Head, text, size.columns))
            .collect();
        let rest = Size { rows: size.rows.saturating_sub(lines.len()), ..size };
        if self.is_helping {
            lines.extend(key_lines(view.keys(), rest));
        } else if let Some(now) = &self.now {
            lines.extend(view.show(now, self.before.as_ref(), rest));
        }
        fitted(lines, size)
    }
}

/// Shows the readings of `view` until the user ends it with a key, or a signal sets `ends`. If a reading fails, the
/// view shows the error.
///
/// # Errors
/// If the terminal fails.
pub fn run(interval: Duration, view: &mut impl LiveView, ends: &AtomicBool) -> std::io::Result<()> {
    let mut screen = Screen::open()?;
    let mut live = ViewState::new();
    loop {
        if !live.is_held {
            live.take(view);
        }
        let due = Instant::now() + interval;
        loop {
            let (columns, rows) = terminal::size()?;
            let lines = live.lines(view, Size { columns: columns.into(), rows: rows.into() });
            screen.draw(&lines, rows)?;
            match wait(due, ends)? {
                Some(Wish::End) => return Ok(()),
                Some(Wish::Hold) => live.is_held = !live.is_held,
                Some(Wish::Help) => live.is_helping = !live.is_helping,
                Some(Wish::Own(key)) => view.press(key),
                Some(Wish::Draw) => {}
                None => break,
            }
        }
    }
}

/// The longest wait for a key before the flag of the signals is looked at.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// Waits until `due`, until a key is pressed, or until a signal has set `ends`.
fn wait(due: Instant, ends: &AtomicBool) -> std::io::Result<Option<Wish>> {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let has_event = event::poll(left.min(SIGNAL_CHECK))?;
        if ends.load(Relaxed) {
            return Ok(Some(Wish::End));
        }
        if !has_event && left.is_zero() {
            return Ok(None);
        }
        if !has_event {
            continue;
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(Some(Wish::End)),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(Some(Wish::End)),
                KeyCode::Char(' ') => return Ok(Some(Wish::Hold)),
                KeyCode::Char('?') => return Ok(Some(Wish::Help)),
                KeyCode::Char(key) => return Ok(Some(Wish::Own(key))),
                _ => {}
            },
            Event::Resize(..) => return Ok(Some(Wish::Draw)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A view of ten lines.
    struct Ten;

    impl LiveView for Ten {
        type Reading = u32;

        fn take(&mut self) -> Result<u32, String> {
            Ok(1)
        }

        fn show(&self, _: &u32, _: Option<&u32>, size: Size) -> Vec<ViewLine> {
            (0..10).map(|line| ViewLine::new(Weight::Plain, &format!("line {line} is long"), size.columns)).collect()
        }

        fn keys(&self) -> &'static [(&'static str, &'static str)] {
            &[("s", "sort")]
        }
    }

    fn shown(live: &ViewState<u32>, columns: usize, rows: usize) -> Vec<String> {
        let lines = live.lines(&Ten, Size { columns, rows });
        assert!(lines.len() <= rows && lines.iter().all(|line| line.text.chars().count() <= columns));
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn lines_and_text_beyond_the_edge_are_marked() {
        let mut live = ViewState::new();
        assert!(shown(&live, 80, 24).is_empty());
        live.take(&mut Ten);
        assert_eq!(shown(&live, 80, 24).len(), 10);
        let small = shown(&live, 9, 4);
        assert_eq!((small[0].as_str(), small[3].chars().next()), ("line 0 i…", Some('…')));
        assert!(shown(&live, 80, 4)[3].starts_with("… 7 more lines"));
        live.is_held = true;
        assert_eq!(shown(&live, 80, 24)[0], "paused: space resumes");
    }

    #[test]
    fn figures_are_marked_as_old_while_readings_fail() {
        let mut live = ViewState::new();
        live.fault = Some("no reply".to_owned());
        assert_eq!(shown(&live, 80, 24), ["no reply"]);
        live.take(&mut Ten);
        assert!(shown(&live, 80, 24)[0].starts_with("line 0"));
        live.fault = Some("no reply".to_owned());
        live.taken_at = Instant::now().checked_sub(Duration::from_secs(7));
        assert_eq!(shown(&live, 80, 24)[..2], ["no reply", "the figures below are 7 s old"]);
        assert_eq!(shown(&live, 80, 6).len(), 6);
        // Regression: a pause during a fault was not shown, so the fault seemed to last.
        live.is_held = true;
        let lines = ["paused: space resumes", "no reply", "the figures below are 7 s old"];
        assert_eq!(shown(&live, 80, 24)[..3], lines);
    }

    #[test]
    fn question_mark_lists_every_key() {
        let live = ViewState { now: Some(1), is_helping: true, ..ViewState::new() };
        let lines = shown(&live, 80, 24).join("\n");
        for key in ["s ", "q, Esc", "space", "? "] {
            assert!(lines.contains(key), "{key}: {lines}");
        }
    }
}
