//! Compares the store with plain maps over drawn changes. `GRAPH_SEED=N` repeats a run.
#![cfg(not(shuttle))]

mod reference;

use std::collections::BTreeSet;

use base::prng::Prng;
use gannet_graph::*;
use reference::{Action, Change, Reference, check_edges, check_values, declare, draw, new_store, seed};

fn run_page(view: &View<'_>, node: u64, ty: TypeId, cursor: Cursor, options: &PageOptions, slice: u32) -> ListPage {
    let mut query = PageQuery::begin(view, node, ty, cursor, options).expect("valid");
    while query.step(view, slice) == QueryStep::More {}
    query.finish(view)
}

fn check_pages(view: &View<'_>, model: &Reference, prng: &mut Prng, types: &[TypeId], nodes: u64) {
    for _ in 0..300 {
        let (index, node) = (prng.below(types.len() as u64) as usize, 1 + prng.below(nodes / 8));
        let ty = types[index];
        let by_time = index == 1 || index == 2;
        let state = [EdgeState::Live, EdgeState::Negative, EdgeState::Archived][prng.below(3) as usize];
        let is_reversed = prng.chance(1, 2);
        let range = (by_time && prng.chance(1, 2)).then(|| (prng.below(500), 500 + prng.below(500)));
        let limit = 1 + prng.below(40) as usize;
        let options =
            PageOptions { state, limit, is_reversed, by_time: range, with_attributes: true, ..Default::default() };
        let mut expected = model.in_state(ty, node, state);
        let time = |other: &u64| model.value(ty, node, *other).expect("listed").state.0;
        if by_time {
            expected.sort_by_key(|other| (std::cmp::Reverse(time(other)), model.numbers[other]));
            expected.retain(|other| range.is_none_or(|(low, high)| (low..=high).contains(&time(other))));
        }
        if is_reversed {
            expected.reverse();
        }
        let (mut cursor, mut found) = (Cursor::START, Vec::new());
        loop {
            let page = run_page(view, node, ty, cursor, &options, 1 + prng.below(50) as u32);
            assert!(page.edges.len() <= limit && !page.is_partial);
            found.extend(page.edges.iter().map(|edge| edge.node));
            assert!(page.edges.iter().all(|edge| edge.time_ms == time(&edge.node)));
            cursor = page.next;
            if cursor == Cursor::START {
                break;
            }
        }
        assert_eq!(found, expected, "pages of {node}, {options:?}");
    }
}

fn check_sets(view: &View<'_>, model: &Reference, prng: &mut Prng, types: &[TypeId], nodes: u64) {
    for _ in 0..300 {
        let count = 1 + prng.below(4) as usize;
        let mut one = || (1 + prng.below(nodes / 4), types[prng.below(types.len() as u64) as usize]);
        let lists: Vec<(u64, TypeId)> = (0..count).map(|_| one()).collect();
        let sets: Vec<BTreeSet<u64>> =
            lists.iter().map(|(node, ty)| model.neighbours(*ty, *node).into_iter().collect()).collect();
        let (first, others) = sets.split_first().expect("one at least");
        let operation =
            [SetOperation::Intersection, SetOperation::Union, SetOperation::Difference][prng.below(3) as usize];
        let fold = |f: fn(&BTreeSet<u64>, &BTreeSet<u64>) -> BTreeSet<u64>| {
            others.iter().fold(first.clone(), |all, set| f(&all, set))
        };
        let mut expected: Vec<u64> = match operation {
            SetOperation::Intersection => fold(|a, b| a & b),
            SetOperation::Union => fold(|a, b| a | b),
            SetOperation::Difference => fold(|a, b| a - b),
        }
        .into_iter()
        .collect();
        expected.sort_by_key(|node| model.numbers[node]);
        let (mut cursor, mut found) = (Cursor::START, Vec::new());
        loop {
            let mut query = SetQuery::begin(view, operation, &lists, cursor, 10, u64::MAX).expect("valid");
            while query.step(view, 20) == QueryStep::More {}
            let page = query.finish(view);
            found.extend(page.nodes);
            cursor = page.next;
            if cursor == Cursor::START {
                break;
            }
        }
        assert_eq!(found, expected, "{operation:?} of {lists:?}");
        let query = SetQuery::begin(view, operation, &lists, Cursor::START, 1, u64::MAX).expect("valid");
        let mut query = query.counting();
        while query.step(view, 1000) == QueryStep::More {}
        assert_eq!(query.finish(view).count, expected.len() as u64);
    }
}

fn check_walks(view: &View<'_>, model: &Reference, prng: &mut Prng, types: &[TypeId], nodes: u64) {
    let mut scratch = Scratch::new();
    let mut reached = [0; 5];
    for _ in 0..150 {
        let (ty, source) = (types[prng.below(types.len() as u64) as usize], 1 + prng.below(nodes));
        let max = 1 + prng.below(3) as u8;
        let slice = 1 + prng.below(100) as u32;
        let targets: Vec<u64> = (0..1 + prng.below(6)).map(|_| 1 + prng.below(nodes)).collect();
        let truth = model.distances(ty, source, max);
        let mut query = DistanceQuery::begin(view, scratch, source, ty, &targets, max, u64::MAX).expect("valid");
        while query.step(view, slice) == QueryStep::More {}
        let (answer, back) = query.finish();
        scratch = back;
        let is_hidden = |node: &u64| model.archived.contains(node) || !model.numbers.contains_key(node);
        let of = |node: &u64| truth.get(node).copied().filter(|_| !is_hidden(node) && !is_hidden(&source));
        let expected: Vec<Option<u8>> = targets.iter().map(of).collect();
        assert_eq!(answer.distances, expected, "from {source} to {targets:?} within {max} by {ty:?}");
        expected.iter().for_each(|distance| reached[distance.map_or(4, usize::from)] += 1);

        let destination = targets[0];
        let mut query = PathQuery::begin(view, scratch, source, destination, ty, max, 50, u64::MAX).expect("valid");
        while query.step(view, slice) == QueryStep::More {}
        let (paths, back) = query.finish(view);
        scratch = back;
        let mut expected = model.paths(ty, source, destination, usize::from(max));
        if is_hidden(&source) {
            expected.clear();
        }
        expected.truncate(50);
        assert_eq!(paths.paths, expected, "paths from {source} to {destination}");
        scratch = check_second(view, model, scratch, source, ty, slice);
    }
    assert!(reached.iter().all(|count| *count > 0), "every distance occurs: {reached:?}");
}

fn check_second(view: &View<'_>, model: &Reference, scratch: Scratch, source: u64, ty: TypeId, slice: u32) -> Scratch {
    let mut query = SecondDegreeQuery::begin(view, scratch, source, ty, u64::MAX).expect("valid");
    while query.step(view, slice) == QueryStep::More {}
    let (set, scratch) = query.finish();
    let truth = model.distances(ty, source, 2);
    let mut expected: Vec<u64> = truth.iter().filter(|(_, distance)| **distance == 2).map(|(node, _)| *node).collect();
    expected.sort_by_key(|node| model.numbers[node]);
    let (next, page) = set.page(view, Cursor::START, usize::MAX).expect("the start");
    assert_eq!((next, &page), (Cursor::START, &expected), "second degree of {source}");

    let mut query = SecondDegreeQuery::begin_suggestions(view, scratch, source, ty, 5, u64::MAX).expect("valid");
    while query.step(view, slice) == QueryStep::More {}
    let (suggestions, is_partial, _, scratch) = query.finish_suggestions(view);
    let common = |node: &u64| {
        let firsts = model.neighbours(ty, source).into_iter();
        firsts.filter(|first| model.neighbours(ty, *first).contains(node)).count() as u32
    };
    let mut ranked: Vec<(u64, u32)> = expected.iter().map(|node| (*node, common(node))).collect();
    ranked.sort_by_key(|(node, common)| (std::cmp::Reverse(*common), model.numbers[node]));
    ranked.truncate(5);
    let got: Vec<(u64, u32)> = suggestions.iter().map(|found| (found.node, found.common)).collect();
    assert_eq!((got, is_partial), (ranked, false), "suggestions for {source}");
    scratch
}

#[test]
fn drawn_changes_equal_plain_maps_in_every_query() {
    let mut prng = Prng::new(seed());
    let nodes = 160;
    let store = new_store(40);
    let graph = store.create_graph("test").expect("room");
    let (types, mut model) = declare(&graph);
    let mut reader = store.reader().expect("one of four");
    for round in 0..6 {
        for _ in 0..1500 {
            let change = draw(&mut prng, &types, nodes);
            graph.writer().apply(&change.view()).expect("room");
            model.apply(&change);
        }
        if round >= 3 {
            let (node, is_archived) = (1 + prng.below(nodes), prng.chance(3, 4));
            let changed = graph.writer().mark_node(node, is_archived, 10 + round).expect("room");
            assert_eq!(changed, is_archived);
            if is_archived {
                model.archived.insert(node);
            }
            assert_eq!(graph.writer().mark_node(node, !is_archived, 5), Ok(false), "an older mark");
        }
        let guard = reader.enter();
        let view = guard.view(&graph);
        check_edges(&view, &model, &types, nodes);
        check_values(&view, &model, &mut prng, &types, nodes);
        check_pages(&view, &model, &mut prng, &types, nodes);
        check_sets(&view, &model, &mut prng, &types, nodes);
        check_walks(&view, &model, &mut prng, &types, nodes);
    }
}

#[test]
fn list_of_many_leaves_equals_plain_maps() {
    let mut prng = Prng::new(seed());
    let store = new_store(80);
    let graph = store.create_graph("hub").expect("room");
    let (types, mut model) = declare(&graph);
    for step in 0..40_000 {
        let destination = 2 + prng.below(20_000);
        let action = if prng.chance(1, 8) { Action::Remove } else { Action::Add(vec![]) };
        let change = Change { source: 1, ty: types[0], destination, time_ms: step, action };
        graph.writer().apply(&change.view()).expect("room");
        model.apply(&change);
    }
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    check_edges(&view, &model, &types[..1], 300);
    let options = PageOptions { limit: 3000, ..Default::default() };
    for is_reversed in [false, true] {
        let options = PageOptions { is_reversed, ..options };
        let mut expected = model.neighbours(types[0], 1);
        assert!(expected.len() > 12_000, "{} edges need several leaves", expected.len());
        if is_reversed {
            expected.reverse();
        }
        let (mut cursor, mut found) = (Cursor::START, Vec::new());
        loop {
            let page = run_page(&view, 1, types[0], cursor, &options, 500);
            found.extend(page.edges.iter().map(|edge| edge.node));
            cursor = page.next;
            if cursor == Cursor::START {
                break;
            }
        }
        let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!((found.len(), differs), (expected.len(), None), "reversed: {is_reversed}");
    }
}

#[test]
fn changes_in_any_order_with_duplicates_give_one_state() {
    let mut prng = Prng::new(seed());
    let drawn = 1_000_000;
    let (mut hashes, mut accepted) = (Vec::new(), Vec::new());
    let mut changes: Option<Vec<Change>> = None;
    for _ in 0..3 {
        let store = new_store(1200);
        let graph = store.create_graph("test").expect("room");
        let (types, _) = declare(&graph);
        let changes = changes.get_or_insert_with(|| (0..drawn).map(|_| draw(&mut prng, &types, 5000)).collect());
        let mut writer = graph.writer();
        let mut order: Vec<usize> = (0..changes.len()).chain((0..changes.len() / 4).map(|at| at * 3)).collect();
        (1..order.len()).rev().for_each(|at| order.swap(at, prng.below(at as u64 + 1) as usize));
        let changed = order.iter().filter(|at| writer.apply(&changes[**at].view()) == Ok(true)).count();
        accepted.push(changed);
        drop(writer);
        let mut reader = store.reader().expect("one of four");
        let guard = reader.enter();
        let hash: Vec<u64> = types.iter().map(|ty| guard.view(&graph).state_hash(*ty).expect("known")).collect();
        hashes.push(hash);
    }
    assert!(accepted.windows(2).any(|pair| pair[0] != pair[1]), "the orders differ: {accepted:?}");
    assert_eq!(hashes[0], hashes[1]);
    assert_eq!(hashes[1], hashes[2]);
}

#[test]
fn edge_that_changes_after_a_page_has_listed_it_is_shown_as_it_is_or_not_at_all() {
    let store = reference::new_store(9);
    let graph = store.create_graph("test").expect("room");
    let (types, _) = declare(&graph);
    let apply = |destination: u64, time_ms: u64, action| {
        let change = EdgeChange { source: 1, edge_type: types[0], destination, time_ms, action };
        assert_eq!(graph.writer().apply(&change), Ok(true));
    };
    (2..=5).for_each(|destination| apply(destination, 10, EdgeAction::Add(b"old")));
    let mut reader = store.reader().expect("one of four");
    let guard = reader.enter();
    let view = guard.view(&graph);
    let options = PageOptions { with_attributes: true, limit: 10, ..Default::default() };
    let mut query = PageQuery::begin(&view, 1, types[0], Cursor::START, &options).expect("valid");
    while query.step(&view, 64) == QueryStep::More {}
    apply(2, 20, EdgeAction::Remove);
    apply(3, 20, EdgeAction::Archive);
    apply(4, 20, EdgeAction::Add(b"new"));
    let page = query.finish(&view);
    let edges: Vec<_> = page.edges.iter().map(|edge| (edge.node, edge.time_ms, &edge.attributes[..])).collect();
    assert_eq!(edges, [(4, 20, &b"new"[..]), (5, 10, b"old")]);
}
