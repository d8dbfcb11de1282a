//! The terminal: another screen while it runs, and the one before when it ends, however it ends.

use std::io::{Stdout, Write, stdout};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};

use super::reading::Reading;
use super::view::{self, Line, Weight};

/// Restores the terminal when it is dropped.
struct Screen(Stdout);

impl Screen {
    fn open() -> std::io::Result<Self> {
        terminal::enable_raw_mode()?;
        let mut screen = Self(stdout());
        execute!(screen.0, EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws as many of the lines as there are rows, in one write.
    fn draw(&mut self, lines: &[Line], rows: u16) -> std::io::Result<()> {
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

/// What a key does.
enum Wish {
    End,
    /// Stops, or goes on.
    Hold,
    /// Draws anew.
    Draw,
}

/// Shows the server at `addr` until somebody ends it.
///
/// # Errors
/// What the terminal refused.
pub fn run(addr: SocketAddr, interval: Duration) -> std::io::Result<()> {
    let mut screen = Screen::open()?;
    let (mut before, mut now, mut fault, mut held) = (None, None, None, false);
    loop {
        if !held {
            match Reading::take(addr) {
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
            screen.draw(&lines(&now, &before, fault.as_deref(), held, addr, columns.into()), rows)?;
            match wait(due)? {
                Some(Wish::End) => return Ok(()),
                Some(Wish::Hold) => held = !held,
                Some(Wish::Draw) => {}
                None => break,
            }
        }
    }
}

fn lines(
    now: &Option<Reading>,
    before: &Option<Reading>,
    fault: Option<&str>,
    held: bool,
    addr: SocketAddr,
    columns: usize,
) -> Vec<Line> {
    let said = fault
        .or(held.then_some("held: space goes on"))
        .map(|text| Line { text: text.chars().take(columns).collect(), weight: Weight::Head });
    let shown = now.as_ref().map(|now| view::lines(now, before.as_ref(), &addr.to_string(), columns));
    said.into_iter().chain(shown.into_iter().flatten()).collect()
}

/// Waits until `due`, or until somebody wants something.
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
