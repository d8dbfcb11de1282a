use super::*;
use crate::result::Timeline;
use crate::result::tests::sample;

/// Returns the tags that are opened and not closed, in order. Panics at a closing tag that does not match.
fn unbalanced(html: &str) -> Vec<String> {
    const VOID: [&str; 2] = ["meta", "!doctype"];
    let mut open: Vec<String> = Vec::new();
    let style_end = html.find("</style>").expect("the style is in the page");
    for tag in html[style_end + 8..].split('<').skip(1) {
        let tag = tag.split('>').next().expect("split gives one");
        if let Some(name) = tag.strip_prefix('/') {
            if name != "head" && name != "html" {
                assert_eq!(open.pop().as_deref(), Some(name), "in {open:?}");
            }
        } else if !tag.ends_with('/') {
            let name = tag.split_whitespace().next().expect("a tag has a name").to_owned();
            if !VOID.contains(&name.as_str()) {
                open.push(name);
            }
        }
    }
    open
}

#[test]
fn html_report_is_self_contained_and_escapes_input() {
    let mut result = sample(1);
    result.verdict.headline = "<b>0</b> & \"more\"".to_owned();
    result.figures.verbs[0].name = "<script>".to_owned();
    let page = html(&result);
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    for outside in ["http://", "https://", "src=", "href=", "url(", "@import", "<script", "<b>0"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("&lt;script&gt;") && page.contains("&lt;b&gt;0&lt;/b&gt; &amp; &quot;more&quot;"));
    assert!(page.len() < 400_000, "{} bytes", page.len());
}

#[test]
fn verdict_with_invalid_and_partial_marks_precedes_figures() {
    let mut result = sample(1);
    result.invalid = Some("GENERATOR LIMITED: a thread is at 100 % CPU".to_owned());
    result.partial = Some("it was stopped".to_owned());
    let page = html(&result);
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("the page does not contain {text}"));
    assert!(at("<h1>96,400/s with p999 at most 2 ms") < at("<b>INVALID:</b> GENERATOR LIMITED"));
    assert!(at("<b>PARTIAL:</b> it was stopped") < at("<svg"));
    assert!(at("<b>INVALID:</b> GENERATOR") < at("class=\"tiles\""));
    assert!(at("busiest thread was at 99 % CPU") < at("<svg"));
    let lines = terminal::summary(&result);
    assert!(lines.starts_with("INVALID: GENERATOR LIMITED"), "{lines}");
}

#[test]
fn first_failed_rate_is_printed_once() {
    let mut result = sample(1);
    let search = result.search.as_ref().unwrap();
    let first = search.steps.iter().find(|step| Some(step.number) == search.first_broken).unwrap();
    let line = terminal::step(first);
    result.verdict.notes.push(format!("the first rate that failed: {}", line.trim()));
    let summary = terminal::summary(&result);
    assert_eq!(summary.matches(line.trim()).count(), 1, "{summary}");
    assert_eq!(summary.matches("first rate that failed").count(), 1, "{summary}");
}

#[test]
fn a_search_shows_every_trial_with_the_objective_and_the_interval() {
    let chart = charts::rate_against_percentile(&sample(1)).unwrap();
    assert_eq!(chart.series.iter().map(|series| series.points.len()).collect::<Vec<_>>(), [3, 2]);
    let svg = chart.render();
    assert!(svg.contains("p999 at most 2 ms") && svg.contains("class=\"band\""), "{svg}");
    assert_eq!((svg.matches("class=\"dot").count(), svg.matches("class=\"cross").count()), (3, 2));
    let mut fixed = sample(1);
    fixed.search = None;
    assert!(charts::rate_against_percentile(&fixed).is_none());
    assert!(!html(&fixed).contains("every trial"));
}

#[test]
fn generator_limited_trials_are_marked_apart_from_broken_ones() {
    let mut result = sample(1);
    let steps = &mut result.search.as_mut().unwrap().steps;
    steps[1].generator_limit = Some("late by 3 ms".to_owned());
    let svg = charts::rate_against_percentile(&result).unwrap().render();
    assert!(svg.contains("limited by the generator, not judged"), "{svg}");
    let count = |class: &str| svg.matches(class).count();
    assert_eq!([count("class=\"dot"), count("class=\"cross"), count("class=\"ring")], [3, 1, 1]);
    let steps = &mut result.search.as_mut().unwrap().steps;
    let met = steps.iter_mut().find(|step| step.passed).unwrap();
    met.generator_limit = Some("late by 1 ms".to_owned());
    let svg = charts::rate_against_percentile(&result).unwrap().render();
    assert!(svg.contains("objectives met, limited by the generator"), "{svg}");
    let count = |class: &str| svg.matches(class).count();
    assert_eq!([count("class=\"dot"), count("class=\"cross"), count("class=\"ring")], [2, 1, 2]);
}

#[test]
fn figures_that_did_not_change_share_one_table_instead_of_charts() {
    let mut result = sample(1);
    let (moving, flat) = charts::timelines(&result);
    assert_eq!((moving.len(), flat.len()), (2, 0));
    for (name, unit, value) in [("evictions per second", "per_s", 0.0), ("CPU busy/all", "share", 0.5)] {
        let points = (0..8).map(|n| (f64::from(n), value)).collect();
        result.timelines.push(Timeline { source: "server".into(), name: name.into(), unit: unit.into(), points });
    }
    let (moving, flat) = charts::timelines(&result);
    assert_eq!((moving.len(), flat.len()), (2, 2));
    let page = html(&result);
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    assert!(page.contains("Figures that did not change: 2") && page.contains("<td>server: CPU busy, all</td>"));
}

#[test]
fn stored_values_are_no_hits_and_the_report_can_be_printed() {
    let result = sample(1);
    let summary = terminal::summary(&result);
    assert!(summary.contains("10,000 hits, 10,000 misses, 10,000 writes done, 0 not done"), "{summary}");
    assert!(!summary.contains("set hit") && summary.contains("set done"), "{summary}");
    let page = html(&result);
    assert!(page.contains("<td>writes done</td>") && page.contains("@media print") && page.contains("@page"));
}

#[test]
fn stopped_search_is_reported_with_its_trials() {
    let mut result = sample(1);
    assert!(!terminal::summary(&result).contains("trial   3"), "a whole search has printed them");
    result.search.as_mut().unwrap().end = "stopped".to_owned();
    result.partial = Some(crate::result::STOPPED[1].to_owned());
    let summary = terminal::summary(&result);
    assert_eq!(summary.lines().filter(|line| line.starts_with("trial ")).count(), 5, "{summary}");
    assert!(result.is_stopped());
}

#[test]
fn comparison_shows_a_lower_bound_as_one() {
    let (mut a, mut b) = (sample(1), sample(1));
    (a.name, b.name) = ("a.json".to_owned(), "b.json".to_owned());
    let search = b.search.as_mut().unwrap();
    (search.end, search.answer_per_s) = ("generator limited".to_owned(), Some(192_800.0));
    let text = compare::text(&[a.clone(), b.clone()]);
    assert!(text.contains(">= 192,800 (>= x 2.00)"), "{text}");
    assert!(compare::text(&[b, a]).contains("96,400 (<= x 0.50)"));
}

#[test]
fn a_closed_loop_is_labelled_in_every_output() {
    let mut result = sample(1);
    result.arrivals = Arrivals::Closed { depth: 4 };
    assert!(html(&result).contains("CLOSED LOOP, 4 in flight"));
    assert!(terminal::summary(&result).contains("CLOSED LOOP"));
    assert!(crate::result::hdr::log(&result).contains("CLOSED LOOP"));
    assert!(result.to_json().contains("\"loop\":\"closed\""));
}

#[test]
fn an_empty_result_is_a_page_too() {
    let page = html(&RunResult::new("nothing"));
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn progress_is_one_line_that_fits_a_terminal() {
    let line = terminal::progress(&terminal::RunProgress {
        what: "trial 12, bisect".to_owned(),
        done: Some(0.43),
        target_per_s: 1_234_567.0,
        achieved_per_s: 1_234_560.0,
        percentiles_ns: [51_000, 480_000, 1_900_000],
        answered: 0,
        errors: 12,
        ..terminal::RunProgress::default()
    });
    assert!(line.starts_with("[#########...........] trial 12, bisect  1,234,560/s of 1,234,567/s"), "{line}");
    assert!(line.contains("p999 1.9 ms  errors 12") && line.len() < 130 && !line.contains('\n'));
}

#[test]
fn comparison_shows_ratios_and_unfair_differences() {
    let (mut a, mut b) = (sample(1), sample(2));
    (a.name, b.name) = ("before".to_owned(), "after".to_owned());
    b.workload = None;
    b.invalid = Some("GENERATOR LIMITED".to_owned());
    let text = compare::text(&[a.clone(), b.clone()]);
    assert!(text.contains("careful: after is INVALID") && text.contains("before and after have another workload"));
    let p50 = text.lines().find(|line| line.starts_with("p50, response")).unwrap();
    assert!(p50.contains("(x 2.0"), "{p50}");
    let page = compare::html(&[a, b]);
    assert_eq!(unbalanced(&page), Vec::<String>::new());
    assert!(page.contains("<h1>after against before: ") && page.contains("p50 x 2.0"));
}
