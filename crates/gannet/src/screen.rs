//! Shows a live view in a terminal. It uses the terminal's alternate screen, and restores the original screen at the
//! end, even after an error.
//!
//! ```text
//!   take ──a reading per interval──> show(now, before, columns) ──lines──> the terminal
//! ```
//! Keys: q, Esc or Ctrl-C quits; space pauses and resumes.

use std::io::{Stdout, Write, stdout};
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
        Self { text: text.chars().take(columns).collect(), weight }
    }
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
    /// Redraws.
    Draw,
}

/// Shows the readings of `take` until the user ends the view with a key. `show` formats the last reading and its
/// difference from the previous one. If `take` fails, the view shows the error.
///
/// # Errors
/// If the terminal fails.
pub fn run<R>(
    interval: Duration,
    mut take: impl FnMut() -> Result<R, String>,
    show: impl Fn(&R, Option<&R>, usize) -> Vec<ViewLine>,
) -> std::io::Result<()> {
    let mut screen = Screen::open()?;
    let (mut before, mut now, mut fault, mut held) = (None, None, None, false);
    loop {
        if !held {
            match take() {
                Ok(reading) => {
                    before = now.replace(reading);
                    fault = None;
                }
                Err(why) => fault = Some(why),
            }
        }
        let due = Instant::now() + interval;
        loop {
            let (columns, rows) = terminal::size()?;
            let said = fault.as_deref().or(held.then_some("paused: space resumes"));
            let said = said.map(|text| ViewLine::new(Weight::Head, text, columns.into()));
            let shown = now.as_ref().map(|now| show(now, before.as_ref(), columns.into()));
            let lines: Vec<ViewLine> = said.into_iter().chain(shown.into_iter().flatten()).collect();
            screen.draw(&lines, rows)?;
            match wait(due)? {
                Some(Wish::End) => return Ok(()),
                Some(Wish::Hold) => held = !held,
                Some(Wish::Draw) => {}
                None => break,
            }
        }
    }
}

/// Waits until `due`, or until a key is pressed.
fn wait(due: Instant) -> std::io::Result<Option<Wish>> {
    while event::poll(due.saturating_duration_since(Instant::now()))? {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(Some(Wish::End)),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(Some(Wish::End)),
                KeyCode::Char(' ') => return Ok(Some(Wish::Hold)),
                _ => {}
            },
            Event::Resize(..) => return Ok(Some(Wish::Draw)),
            _ => {}
        }
    }
    Ok(None)
}
