//! Charts as inline SVG: axes, lines, dots, limits. The page's style sheet sets the colours, by class.
//!
//! ```text
//!   title
//!   y ┤        ───────── limit
//!     │   ╭──╮   ● kept   ✕ broken
//!     │ ──╯  ╰── series
//!     └──┬───┬───┬── x
//! ```
//!
//! Invariants: a chart draws a bounded number of points, whatever its input; texts from outside are escaped.

use std::fmt::Write;

/// Maximum number of points of one series. Longer series are thinned; each group of neighbours keeps its highest point,
/// so that no peak is lost.
const POINTS_MAX: usize = 600;
/// Maximum number of ticks on an axis.
const TICKS_MAX: usize = 12;
/// Width and height of a chart. The size of its text does not depend on them.
const USUAL: (f64, f64) = (640.0, 280.0);
const SMALL: (f64, f64) = (400.0, 200.0);
const LEFT: f64 = 72.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 42.0;

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear, from 0.
    Linear,
    /// Linear between the minimum and the maximum, which may be far from 0.
    Span,
    /// Logarithmic: each power of ten has the same width. Only for values above 0.
    Log,
    /// Fractions below 1. Each further nine (0.9, 0.99) has the same width; 1 itself has no position.
    Nines,
}

/// An axis.
pub struct Axis {
    /// Name of the quantity on this axis, with its unit.
    pub label: String,
    /// The scale of the axis.
    pub scale: Scale,
    /// Formats a value as text.
    pub show: fn(f64) -> String,
}

/// The way in which a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line through the points.
    Line,
    /// A dashed line through the points.
    Dashed,
    /// A filled circle at each point.
    Dot,
    /// A cross at each point.
    Cross,
    /// An empty circle at each point.
    Ring,
}

/// A named sequence of points, drawn in one colour.
pub struct Series {
    /// Name of the series.
    pub name: String,
    /// Index of one of the page's colours, 0 to 5.
    pub colour: usize,
    /// The way in which the points are drawn.
    pub mark: Mark,
    /// Pairs of x and y. A line has a break where y is not a number.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
pub struct Chart {
    /// Description of the chart, shown above it and read by screen readers.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series that are drawn.
    pub series: Vec<Series>,
    /// A horizontal line and its name.
    pub limit: Option<(f64, String)>,
    /// A shaded range of x and its name.
    pub band: Option<(f64, f64, String)>,
}

/// Escapes the characters that have a meaning in HTML.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// The bounds of an axis, as coordinates on the axis's scale: on a logarithmic scale, the logarithms of the bounds.
#[derive(Clone, Copy)]
struct Range {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Scale {
    /// Returns the coordinate of `value` on this scale; `None` if it has none.
    fn place(self, value: f64) -> Option<f64> {
        let place = match self {
            Self::Linear | Self::Span => value,
            Self::Log if value > 0.0 => value.log10(),
            Self::Nines if (0.0..1.0).contains(&value) => -(1.0 - value).log10(),
            Self::Log | Self::Nines => return None,
        };
        place.is_finite().then_some(place)
    }
}

impl Range {
    fn of(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let (mut from, mut to) = (f64::MAX, f64::MIN);
        for place in values.filter_map(|value| scale.place(value)) {
            (from, to) = (from.min(place), to.max(place));
        }
        if from > to {
            (from, to) = (0.0, 1.0);
        }
        match scale {
            Scale::Linear => (from, to) = (from.min(0.0), if to <= 0.0 { 1.0 } else { to * 1.05 }),
            Scale::Span if to <= from => (from, to) = (from - 0.5, to + 0.5),
            Scale::Span => {}
            Scale::Log => (from, to) = ((from - 0.02).floor(), (to + 0.02).ceil()),
            Scale::Nines => (from, to) = (0.0, to.max(1.0)),
        }
        Self { scale, from, to }
    }

    /// Returns the position of `value` on the axis: 0 at its beginning, 1 at its end.
    fn fit(&self, value: f64) -> Option<f64> {
        let place = self.scale.place(value)?;
        Some(((place - self.from) / (self.to - self.from)).clamp(0.0, 1.0))
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Log => {
                let decades = (self.to - self.from).round() as i32;
                let each = if decades <= 2 { &[1.0, 2.0, 5.0][..] } else { &[1.0][..] };
                let all = (0..=decades)
                    .flat_map(|decade| each.iter().map(move |digit| digit * 10f64.powf(self.from + f64::from(decade))));
                all.filter(|tick| tick.log10() <= self.to + 1e-9).take(TICKS_MAX).collect()
            }
            Scale::Nines => {
                let nines = (1..=self.to.floor() as i32).map(|nines| 1.0 - 10f64.powi(-nines));
                [0.0, 0.5].into_iter().chain(nines).take(TICKS_MAX).collect()
            }
            Scale::Linear | Scale::Span => {
                let step = round_step((self.to - self.from) / 5.0);
                let first = (self.from / step).ceil() * step;
                (0..TICKS_MAX).map(|n| first + step * n as f64).take_while(|tick| *tick <= self.to).collect()
            }
        }
    }
}

/// Returns the smallest number that is at least `least` and is 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= least * 0.999).unwrap_or(power)
}

/// Thins to at most [`POINTS_MAX`] points: each group of neighbours keeps the point with the highest y.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let group = points.len().div_ceil(POINTS_MAX).max(1);
    let highest = |group: &[(f64, f64)]| {
        let finite = group.iter().filter(|point| point.1.is_finite());
        finite.max_by(|a, b| a.1.total_cmp(&b.1)).or(group.first()).copied()
    };
    points.chunks(group).filter_map(highest).collect()
}

/// A chart with its axes, fitted to its data.
struct Frame<'a> {
    chart: &'a Chart,
    width: f64,
    height: f64,
    x: Range,
    y: Range,
}

impl Frame<'_> {
    fn at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let across = LEFT + self.x.fit(x)? * (self.width - LEFT - RIGHT);
        let down = self.height - BOTTOM - self.y.fit(y)? * (self.height - TOP - BOTTOM);
        Some((across, down))
    }

    fn axes(&self, out: &mut String) {
        let (right, bottom) = (self.width - RIGHT, self.height - BOTTOM);
        for tick in self.y.ticks() {
            let Some(at) = self.y.fit(tick) else { continue };
            let y = bottom - at * (bottom - TOP);
            let _ = write!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            let text = escape(&(self.chart.y.show)(tick));
            let _ = write!(out, "<text class=\"tick end level\" x=\"{}\" y=\"{y:.1}\">{text}</text>", LEFT - 6.0);
        }
        for tick in self.x.ticks() {
            let Some(at) = self.x.fit(tick) else { continue };
            let x = LEFT + at * (right - LEFT);
            let _ = write!(
                out,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\"/>",
                bottom + 4.0
            );
            let text = escape(&(self.chart.x.show)(tick));
            let _ = write!(out, "<text class=\"tick mid under\" x=\"{x:.1}\" y=\"{}\">{text}</text>", bottom + 7.0);
        }
        let _ = write!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>");
        let label = escape(&self.chart.x.label);
        let _ = write!(out, "<text class=\"label end\" x=\"{right}\" y=\"{}\">{label}</text>", self.height - 6.0);
    }

    fn band(&self, out: &mut String) {
        let Some((from, to, name)) = &self.chart.band else { return };
        let (Some(from), Some(to)) = (self.x.fit(*from), self.x.fit(*to)) else { return };
        let width = self.width - LEFT - RIGHT;
        let (x, wide) = (LEFT + from * width, ((to - from) * width).max(1.0));
        let high = self.height - TOP - BOTTOM;
        let name = escape(name);
        let _ = write!(
            out,
            "<rect class=\"band\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{wide:.1}\" height=\"{high}\">\
             <title>{name}</title></rect>"
        );
    }

    fn limit(&self, out: &mut String) {
        let Some((value, name)) = &self.chart.limit else { return };
        let Some(at) = self.y.fit(*value) else { return };
        let (right, y) = (self.width - RIGHT, self.height - BOTTOM - at * (self.height - TOP - BOTTOM));
        let _ = write!(out, "<line class=\"limit\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        let above = if y < TOP + 16.0 { y + 14.0 } else { y - 5.0 };
        let _ = write!(out, "<text class=\"limit-name\" x=\"{}\" y=\"{above:.1}\">{}</text>", LEFT + 6.0, escape(name));
    }

    fn series(&self, series: &Series, out: &mut String) {
        let colour = format!("s{}", series.colour % 6);
        let thin = thinned(&series.points);
        if matches!(series.mark, Mark::Line | Mark::Dashed) {
            let dash = if series.mark == Mark::Dashed { " dashed" } else { "" };
            for piece in thin.split(|(_, y)| y.is_nan()) {
                let places = piece.iter().filter_map(|(x, y)| self.at(*x, *y));
                let points: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                if !points.is_empty() {
                    let _ = write!(out, "<polyline class=\"line {colour}{dash}\" points=\"{}\"/>", points.join(" "));
                }
            }
        }
        let shown: Vec<((f64, f64), (f64, f64))> =
            thin.into_iter().filter_map(|(x, y)| Some(((x, y), self.at(x, y)?))).collect();
        for ((x, y), (across, down)) in &shown {
            let text = format!("{}: {}, {}", series.name, (self.chart.x.show)(*x), (self.chart.y.show)(*y));
            let text = escape(&text);
            let _ = match series.mark {
                Mark::Cross => {
                    let (l, r, t, b) = (across - 4.0, across + 4.0, down - 4.0, down + 4.0);
                    write!(
                        out,
                        "<path class=\"cross {colour}\" d=\"M{l:.1} {t:.1}L{r:.1} {b:.1}M{l:.1} {b:.1}L{r:.1} {t:.1}\">\
                         <title>{text}</title></path>"
                    )
                }
                mark => {
                    let (class, radius) = match mark {
                        Mark::Dot => ("dot", 4.5),
                        Mark::Ring => ("ring", 4.5),
                        _ => ("hover", 5.0),
                    };
                    write!(
                        out,
                        "<circle class=\"{class} {colour}\" cx=\"{across:.1}\" cy=\"{down:.1}\" r=\"{radius}\">\
                         <title>{text}</title></circle>"
                    )
                }
            };
        }
    }
}

impl Chart {
    /// Renders the chart as an HTML figure with its title and legend.
    pub fn render(&self) -> String {
        self.render_as(USUAL)
    }

    /// Renders a smaller chart, about two thirds as wide.
    pub fn render_small(&self) -> String {
        self.render_as(SMALL)
    }

    fn render_as(&self, (width, height): (f64, f64)) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let band = self.band.iter().flat_map(|(from, to, _)| [*from, *to]);
        let frame = Frame {
            chart: self,
            width,
            height,
            x: Range::of(self.x.scale, points().map(|point| point.0).chain(band)),
            y: Range::of(self.y.scale, points().map(|point| point.1).chain(self.limit.iter().map(|limit| limit.0))),
        };
        let title = escape(&self.title);
        let mut out = format!("<figure><figcaption>{title}<span class=\"unit\">{}</span>", escape(&self.y.label));
        if self.series.len() > 1 {
            out.push_str("<span class=\"key\">");
            for series in &self.series {
                let (class, name) = (format!("s{}", series.colour % 6), escape(&series.name));
                let sign = match series.mark {
                    Mark::Line => "&#9473;",
                    Mark::Dashed => "&#9477;",
                    Mark::Dot => "&#9679;",
                    Mark::Cross => "&#10005;",
                    Mark::Ring => "&#9675;",
                };
                let _ = write!(out, "<span><i class=\"{class}\">{sign}</i> {name}</span>");
            }
            out.push_str("</span>");
        }
        let _ = write!(out, "</figcaption><svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">");
        frame.band(&mut out);
        frame.axes(&mut out);
        for series in &self.series {
            frame.series(series, &mut out);
        }
        frame.limit(&mut out);
        out.push_str("</svg></figure>\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { label: "x".to_owned(), scale, show: |value| format!("{value}") }
    }

    fn chart(x: Scale, y: Scale, points: Vec<(f64, f64)>) -> Chart {
        let series = Series { name: "a<b".to_owned(), colour: 1, mark: Mark::Line, points };
        Chart { title: "t & u".into(), x: axis(x), y: axis(y), series: vec![series], limit: None, band: None }
    }

    /// Returns the coordinates of the first line of a rendering: x, y, x, y and so on.
    fn coordinates(svg: &str) -> Vec<f64> {
        let line = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        line.split([' ', ',']).map(|number| number.parse().unwrap()).collect()
    }

    #[test]
    fn every_point_is_inside_the_frame_whatever_it_is() {
        let wild = vec![(0.0, 0.0), (1.0, -5.0), (2.0, f64::NAN), (3.0, 1e300), (4.0, f64::INFINITY), (5.0, 1.0)];
        for scale in [Scale::Linear, Scale::Span, Scale::Log, Scale::Nines] {
            for number in coordinates(&chart(Scale::Linear, scale, wild.clone()).render()) {
                assert!((0.0..=USUAL.0).contains(&number), "{scale:?}: {number}");
            }
        }
        chart(Scale::Log, Scale::Log, Vec::new()).render();
    }

    #[test]
    fn thinning_keeps_the_peak_and_bounds_the_points() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[54_321].1 = 99.0;
        let thin = thinned(&points);
        assert!(thin.len() <= POINTS_MAX && thin.contains(&(54_321.0, 99.0)), "{}", thin.len());
    }

    #[test]
    fn a_higher_value_is_higher_up_and_names_are_escaped() {
        let svg = chart(Scale::Linear, Scale::Log, vec![(0.0, 10.0), (1.0, 100.0)]).render();
        let at = coordinates(&svg);
        assert!(at[0] < at[2] && at[1] > at[3], "{at:?}");
        assert!(svg.contains("a&lt;b") && svg.contains("t &amp; u") && !svg.contains("a<b"));
    }

    #[test]
    fn ticks_are_round_and_few() {
        for (from, to) in [(0.0, 7.3), (95_000.0, 98_100.0), (1e-3, 2e-3)] {
            let ticks = Range { scale: Scale::Span, from, to }.ticks();
            assert!((3..=TICKS_MAX).contains(&ticks.len()), "{ticks:?}");
        }
        let nines = Range::of(Scale::Nines, [0.99999].into_iter()).ticks();
        assert_eq!(nines.len(), 7, "{nines:?}");
    }
}
