//! Bad input is refused with an error that names it, and changes nothing.
#![cfg(not(shuttle))]

mod reference;

use gannet_graph::limits::{ATTRIBUTE_BYTES_MAX, DISTANCE_MAX, NAME_BYTES_MAX, OBJECT_BYTES_MAX, TIME_MS_MAX};
use gannet_graph::*;
use reference::{declare, new_store};

fn add(edge_type: TypeId, source: u64, destination: u64, attributes: &[u8]) -> EdgeChange<'_> {
    EdgeChange { source, edge_type, destination, time_ms: 1, action: EdgeAction::Add(attributes) }
}

#[test]
fn bad_change_is_refused_with_its_reason() {
    let store = new_store(9);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let mut writer = graph.writer();
    let long = [0; ATTRIBUTE_BYTES_MAX + 1];
    let fits = &long[1..];
    for reserved in [0, u64::MAX] {
        assert_eq!(writer.apply(&add(types[0], reserved, 2, b"")), Err(GraphError::ReservedNode(reserved)));
        assert_eq!(writer.apply(&add(types[0], 2, reserved, b"")), Err(GraphError::ReservedNode(reserved)));
        assert_eq!(writer.mark_node(reserved, true, 1), Err(GraphError::ReservedNode(reserved)));
        assert_eq!(writer.set_object(reserved, None, 1), Err(GraphError::ReservedNode(reserved)));
    }
    assert_eq!(writer.apply(&add(types[0], 2, 2, b"")), Err(GraphError::SelfEdge(2)));
    assert_eq!(writer.apply(&add(types[0], 1, 2, &long)), Err(GraphError::AttributesTooLong(256)));
    assert_eq!(writer.apply(&add(types[1], 1, 2, b"x")), Err(GraphError::NoSchema));
    let late = EdgeChange { time_ms: TIME_MS_MAX + 1, ..add(types[0], 1, 2, b"") };
    assert_eq!(writer.apply(&late), Err(GraphError::TimeOutOfRange(TIME_MS_MAX + 1)));
    let object = vec![0; OBJECT_BYTES_MAX + 1];
    assert_eq!(writer.set_object(1, Some(&object), 1), Err(GraphError::ObjectTooLong(object.len())));
    let (good, bad) = (add(types[0], 1, 2, b""), add(types[0], 3, 3, b""));
    assert_eq!(writer.apply_all(&[good, bad]), Err((0, GraphError::SelfEdge(3))), "all are checked first");
    assert_eq!(writer.apply(&add(types[0], 1, 2, fits)), Ok(true));
    drop(writer);
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    assert_eq!(view.nodes(), 2, "a refused change adds no node");
    let edge = view.edges(1, types[0], &[2]).expect("valid").remove(0).expect("added");
    assert_eq!(edge.attributes, fits);
}

#[test]
fn bad_declaration_is_refused_with_its_reason() {
    let store = new_store(9);
    assert_eq!(store.create_graph("").map(|_| ()), Err(GraphError::BadName));
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let mut writer = graph.writer();
    let plain = EdgeTypeConfig::default();
    assert_eq!(writer.declare_type(&"x".repeat(NAME_BYTES_MAX + 1), &plain), Err(GraphError::BadName));
    let twice = EdgeTypeConfig { schema: vec!["a".into(), "a".into()], ..plain.clone() };
    assert_eq!(writer.declare_type("t", &twice), Err(GraphError::BadSchema));
    let orphan = EdgeTypeConfig { direction: Direction::InverseOf("none".into()), ..plain.clone() };
    assert_eq!(writer.declare_type("t", &orphan), Err(GraphError::UnknownType));
    assert_eq!(writer.declare_type("knows", &plain), Err(GraphError::TypeDiffers("direction")));
    let likes = EdgeTypeConfig { schema: vec!["rank".into()], ..plain.clone() };
    assert_eq!(writer.declare_type("likes", &likes), Ok(types[3]), "the same declaration does nothing");
    assert_eq!(writer.declare_type("likes", &EdgeTypeConfig { cap: 5, ..likes }), Err(GraphError::TypeDiffers("cap")));
    writer.apply(&add(types[3], 1, 2, b"")).expect("room");
    let late = EdgeTypeConfig { direction: Direction::InverseOf("likes".into()), ..plain };
    assert_eq!(writer.declare_type("liked", &late), Err(GraphError::NoInverse));
    for control in ["a\0b", "line\nend", "\u{7f}"] {
        assert_eq!(writer.declare_type(control, &EdgeTypeConfig::default()), Err(GraphError::BadName));
        let schema = EdgeTypeConfig { schema: vec![control.into()], ..Default::default() };
        assert_eq!(writer.declare_type("t", &schema), Err(GraphError::BadName));
    }
}

#[test]
fn inverse_type_has_the_schema_of_the_other_type_and_no_other() {
    let store = new_store(9);
    let graph = store.create_graph("test").expect("room");
    let mut writer = graph.writer();
    let schema = vec!["weight".to_owned()];
    let follows = EdgeTypeConfig { schema: schema.clone(), ..Default::default() };
    let follows = writer.declare_type("follows", &follows).expect("valid");
    let inverse = EdgeTypeConfig { direction: Direction::InverseOf("follows".into()), ..Default::default() };
    let other = EdgeTypeConfig { schema: vec!["other".to_owned()], ..inverse.clone() };
    assert_eq!(writer.declare_type("followed", &other), Err(GraphError::InverseSchema));
    let followed = writer.declare_type("followed", &inverse).expect("the schema is omitted");
    assert_eq!(writer.declare_type("followed", &inverse), Ok(followed));
    assert_eq!(writer.declare_type("followed", &EdgeTypeConfig { schema, ..inverse }), Ok(followed));
    // A change through the inverse leaves the attributes in both lists.
    writer.apply(&EdgeChange { time_ms: 5, ..add(follows, 1, 2, b"xyz") }).expect("room");
    let archive = EdgeChange { time_ms: 6, action: EdgeAction::Archive, ..add(followed, 2, 1, b"") };
    writer.apply(&archive).expect("room");
    drop(writer);
    let mut reader = store.reader().expect("one");
    let guard = reader.enter();
    let view = guard.view(&graph);
    for (source, ty, to) in [(1, follows, 2), (2, followed, 1)] {
        let edge = view.edges(source, ty, &[to]).expect("valid").remove(0).expect("archived");
        assert_eq!((edge.state, &edge.attributes[..]), (EdgeState::Archived, &b"xyz"[..]));
    }
}

#[test]
fn list_at_its_cap_refuses_a_new_edge_until_one_is_removed() {
    let store = new_store(9);
    let graph = store.create_graph("test").expect("room");
    let mut writer = graph.writer();
    let config = EdgeTypeConfig { direction: Direction::Undirected, cap: 3, ..Default::default() };
    let ty = writer.declare_type("knows", &config).expect("valid");
    for destination in 2..5 {
        assert_eq!(writer.apply(&add(ty, 1, destination, b"")), Ok(true));
    }
    assert_eq!(writer.apply(&add(ty, 1, 2, b"")), Ok(false), "the edge is there");
    assert_eq!(writer.apply(&add(ty, 1, 9, b"")), Err(GraphError::CapReached { node: 1, cap: 3 }));
    assert_eq!(writer.apply(&add(ty, 9, 1, b"")), Err(GraphError::CapReached { node: 1, cap: 3 }));
    let remove = EdgeChange { time_ms: 2, action: EdgeAction::Remove, ..add(ty, 2, 1, b"") };
    assert_eq!(writer.apply(&remove), Ok(true));
    assert_eq!(writer.apply(&add(ty, 9, 1, b"")), Ok(true));
}

#[test]
fn bad_query_is_refused_with_its_reason() {
    let store = new_store(9);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let other = store.create_graph("other").expect("room");
    assert_eq!(other.edge_type("knows"), Err(GraphError::UnknownType));
    for destination in 2..40 {
        graph.writer().apply(&add(types[0], 1, destination, b"")).expect("room");
    }
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let (view, empty) = (guard.view(&graph), guard.view(&other));
    assert_eq!(empty.count(1, types[0]), Err(GraphError::UnknownType));
    assert_eq!(view.count(0, types[0]), Err(GraphError::ReservedNode(0)));
    let distance =
        |max| DistanceQuery::begin(&view, Scratch::new(), 1, types[0], &[2], max, 10).map(|_| ()).expect_err("refused");
    assert_eq!(distance(0), GraphError::BadDistance(0));
    assert_eq!(distance(DISTANCE_MAX + 1), GraphError::BadDistance(DISTANCE_MAX + 1));
    let options = PageOptions { limit: 5, ..Default::default() };
    let mut query = PageQuery::begin(&view, 1, types[0], Cursor::START, &options).expect("valid");
    while query.step(&view, 100) == QueryStep::More {}
    let cursor = query.finish(&view).next;
    let text = cursor.to_string();
    assert_eq!(text.parse(), Ok(cursor), "a cursor survives its text form");
    assert_eq!("x".parse::<Cursor>(), Err(GraphError::BadCursor));
    let again = |node, ty, options: &PageOptions| PageQuery::begin(&view, node, ty, cursor, options).map(|_| ());
    assert_eq!(again(1, types[0], &options), Ok(()));
    assert_eq!(again(2, types[0], &options), Err(GraphError::BadCursor), "another node");
    assert_eq!(again(1, types[3], &options), Err(GraphError::BadCursor), "another type");
    let reversed = PageOptions { is_reversed: true, ..options };
    assert_eq!(again(1, types[0], &reversed), Err(GraphError::BadCursor), "another order");
    let by_time = PageOptions { by_time: Some((1, 2)), ..options };
    assert_eq!(again(1, types[0], &by_time), Err(GraphError::NotSortedByTime));
    let sets =
        |lists: &[(u64, TypeId)], cursor| SetQuery::begin(&view, SetOperation::Union, lists, cursor, 5, 10).map(|_| ());
    assert_eq!(sets(&[], Cursor::START).expect_err("refused"), GraphError::BadSetCount(0));
    assert_eq!(sets(&[(1, types[0]); 17], Cursor::START).expect_err("refused"), GraphError::BadSetCount(17));
    assert_eq!(sets(&[(1, types[0])], cursor).expect_err("refused"), GraphError::BadCursor);
}

#[test]
fn query_without_budget_says_that_its_answer_is_partial() {
    let store = new_store(9);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    for destination in 2..400 {
        graph.writer().apply(&add(types[0], 1, destination, b"")).expect("room");
        graph.writer().apply(&add(types[0], destination, destination + 1000, b"")).expect("room");
    }
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    for (budget, expected) in [(6, true), (100_000, false)] {
        let mut query = DistanceQuery::begin(&view, Scratch::new(), 2, types[0], &[1399], 3, budget).expect("valid");
        while query.step(&view, 64) == QueryStep::More {}
        let answer = query.finish().0;
        assert_eq!((answer.is_partial, answer.distances[0].is_none()), (expected, expected));
        assert!(answer.edges <= budget + 4, "{answer:?}");
    }
}

#[test]
fn full_pool_refuses_changes_and_compaction_makes_room() {
    let store = new_store(9);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let mut refused = 0;
    for step in 0..60_000u64 {
        let change = EdgeChange { time_ms: step, ..add(types[0], 1 + step % 50, 51 + step % 700, b"") };
        let mut writer = graph.writer();
        while writer.apply(&change) == Err(GraphError::NoSpace) {
            refused += 1;
            assert!(refused < 10_000, "compaction must free segments");
            while writer.compact(100, 1 << 20).expect("the reserve suffices") == CompactionStep::More {}
        }
    }
    assert!(refused > 0 && store.stats().segments_recycled > 6, "{refused} refused, {:?}", store.stats());
}

#[test]
fn readers_are_as_many_as_configured() {
    let store = new_store(9);
    let readers: Vec<GraphReader> = (0..4).map(|_| store.reader().expect("one of four")).collect();
    assert_eq!(store.reader().map(|_| ()), Err(GraphError::TooManyReaders));
    drop(readers);
    assert!(store.reader().is_ok());
}
