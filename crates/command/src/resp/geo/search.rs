//! Commands that find the elements of a sorted set in an area: a circle or a box around a position or an element, or
//! a polygon.
//!
//! ```text
//!   area ──> intervals of scores ──> elements ──> those in the area, by distance ──> reply, or another sorted set
//! ```
//!
//! The found elements are collected in client memory, with `COUNT` only so many.

use super::hash::{Area, GeoPosition, cells_around, centroid};
use super::{put_distance, put_position};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::words;
use crate::resp::catalog::{entry, lower};
use crate::resp::collection;
use crate::resp::error::ErrorReply;
use crate::resp::found;
use crate::resp::number::{double, integer};
use crate::resp::state::walk::{Walk, order_of};
use crate::resp::stored::{self, Destination};
use protocol::resp::{Args, Version, reply};
use record::{Bound, Digits, SortedSetValue, SortedSets};

/// The number of elements that one step examines, and one visit at most.
const EXAMINED_A_STEP: u64 = 64;
const EXAMINED_A_VISIT: u64 = 256;
/// The number of elements that are examined for the cost of one operation.
const EXAMINED_AN_OP: u64 = 4;
/// The maximum number of corners of a polygon, and the number of corners for which an element counts as one more.
const CORNERS_MAX: usize = 1024;
const CORNERS_AN_ELEMENT: usize = 32;

/// The forms of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchForm {
    /// `GEORADIUS` and `GEORADIUSBYMEMBER`; the command may store its result if `may_store`.
    Radius { is_by_member: bool, may_store: bool },
    /// `GEOSEARCH` and `GEOSEARCHSTORE`.
    Search { is_stored: bool },
}

/// A request. The centre is not known if the key does not exist.
struct AreaSearch<'c> {
    name: &'static str,
    key: &'c [u8],
    center: Option<GeoPosition>,
    shape: Option<Area>,
    /// The length of the unit in metres.
    unit: f64,
    /// The order of the result: descending if true, not sorted if `None`.
    order: Option<bool>,
    /// The maximum number of elements; 0 for no maximum.
    count: u64,
    is_any: bool,
    has_distance: bool,
    has_hash: bool,
    has_position: bool,
    store: Option<&'c [u8]>,
    stores_distance: bool,
}

/// An element in the area: its distance from the centre in metres, its score and its text.
struct Hit<'h> {
    distance: f64,
    score: f64,
    text: &'h [u8],
}

impl<'h> Hit<'h> {
    fn to_bytes(&self) -> Vec<u8> {
        [&self.distance.to_le_bytes()[..], &self.score.to_le_bytes(), self.text].concat()
    }

    fn of(bytes: &'h [u8]) -> Option<Self> {
        let (distance, behind) = bytes.split_first_chunk()?;
        let (score, text) = behind.split_first_chunk()?;
        Some(Self { distance: f64::from_le_bytes(*distance), score: f64::from_le_bytes(*score), text })
    }
}

/// Parses a distance, which is not negative. Returns it in metres.
fn distance(words: [&[u8]; 2]) -> Result<(f64, f64), ErrorReply> {
    let distance = double(words[0]).map_err(|_| ErrorReply::NotNumeric("radius"))?;
    if distance < 0.0 {
        return Err(ErrorReply::NegativeSize("radius"));
    }
    let unit = super::unit(words[1])?;
    Ok((distance * unit, unit))
}

/// Returns the position of an element. Returns `None` if the key does not exist.
fn member(set: Option<&SortedSetValue<'_>>, text: &[u8]) -> Result<Option<GeoPosition>, ErrorReply> {
    let found = super::position_of(set, text)?;
    if set.is_some() && found.is_none() { Err(ErrorReply::NoPosition) } else { Ok(found) }
}

impl<'c> AreaSearch<'c> {
    /// Parses a request for the value `set`, which may have the element that is the centre.
    fn read(
        set: Option<&SortedSetValue<'_>>,
        name: &'static str,
        mut args: Args<'c>,
        form: SearchForm,
    ) -> Result<Self, ErrorReply> {
        let mut search = Self::new(name);
        if form == (SearchForm::Search { is_stored: true }) {
            search.store = args.next();
        }
        search.key = args.next().unwrap_or_default();
        let mut next = || args.next().unwrap_or_default();
        if let SearchForm::Radius { is_by_member, .. } = form {
            search.center = match is_by_member {
                true => member(set, next())?,
                false => Some(super::position([next(), next()])?),
            };
            let words = [next(), next()];
            if set.is_some() || !is_by_member {
                let (radius, unit) = distance(words)?;
                (search.shape, search.unit) = (Some(Area::Circle { radius }), unit);
            }
        }
        search.read_options(set, args, form)?;
        Ok(search)
    }

    fn new(name: &'static str) -> Self {
        Self {
            name,
            key: b"",
            center: None,
            shape: None,
            unit: 1.0,
            order: None,
            count: 0,
            is_any: false,
            has_distance: false,
            has_hash: false,
            has_position: false,
            store: None,
            stores_distance: false,
        }
    }

    fn read_options(
        &mut self,
        set: Option<&SortedSetValue<'_>>,
        mut args: Args<'c>,
        form: SearchForm,
    ) -> Result<(), ErrorReply> {
        let is_search = matches!(form, SearchForm::Search { .. });
        let may_store = matches!(form, SearchForm::Radius { may_store: true, .. });
        // The element or position that is the centre, and the shape, if options have given them.
        let (mut has_member, mut has_position, mut has_radius, mut has_box) = (false, false, false, false);
        let mut has_polygon = false;
        while let Some(word) = args.next() {
            let left = args.len();
            let mut next = || args.next().unwrap_or_default();
            match &lower(word)[..] {
                b"withdist" => self.has_distance = true,
                b"withhash" => self.has_hash = true,
                b"withcoord" => self.has_position = true,
                b"any" => self.is_any = true,
                b"asc" => self.order = Some(false),
                b"desc" => self.order = Some(true),
                b"count" if left >= 1 => {
                    let count = integer(next())?;
                    self.count = u64::try_from(count).ok().filter(|count| *count > 0).ok_or(ErrorReply::GeoCount)?;
                }
                b"store" if may_store && left >= 1 => (self.store, self.stores_distance) = (Some(next()), false),
                b"storedist" if may_store && left >= 1 => (self.store, self.stores_distance) = (Some(next()), true),
                b"storedist" if form == (SearchForm::Search { is_stored: true }) => self.stores_distance = true,
                b"frommember" if is_search && left >= 1 && !has_position && !has_polygon => {
                    (self.center, has_member) = (member(set, next())?, true);
                }
                b"fromlonlat" if is_search && left >= 2 && !has_member && !has_polygon => {
                    (self.center, has_position) = (Some(super::position([next(), next()])?), true);
                }
                b"byradius" if is_search && left >= 2 && !has_box && !has_polygon => {
                    let (radius, unit) = distance([next(), next()])?;
                    (self.shape, self.unit, has_radius) = (Some(Area::Circle { radius }), unit, true);
                }
                b"bybox" if is_search && left >= 3 && !has_radius && !has_polygon => {
                    let (shape, unit) = rectangle([next(), next(), next()])?;
                    (self.shape, self.unit, has_box) = (Some(shape), unit, true);
                }
                b"bypolygon" if is_search && left >= 1 && !(has_radius || has_box || has_member || has_position) => {
                    let corners = corners(&mut args)?;
                    (self.center, self.shape) = (Some(centroid(&corners)), Some(Area::Polygon(corners)));
                    has_polygon = true;
                }
                _ => return Err(ErrorReply::Syntax),
            }
        }
        if self.store.is_some() && (self.has_distance || self.has_hash || self.has_position) {
            let name = if is_search { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(ErrorReply::NotStorable(name));
        }
        if is_search && !has_member && !has_position && !has_polygon {
            return Err(ErrorReply::NoCenter(self.name));
        }
        if is_search && !has_radius && !has_box && !has_polygon {
            return Err(ErrorReply::NoShape(self.name));
        }
        if self.is_any && self.count == 0 {
            return Err(ErrorReply::AnyWithoutCount);
        }
        if self.count > 0 && !self.is_any && self.order.is_none() {
            // The nearest elements are wanted.
            self.order = Some(false);
        }
        Ok(())
    }

    /// Returns the number of elements as which one examined element counts.
    fn weight(&self) -> u64 {
        match &self.shape {
            Some(Area::Polygon(corners)) => 1 + (corners.len() / CORNERS_AN_ELEMENT) as u64,
            _ => 1,
        }
    }

    /// Collects the elements of `set` in the area, from examined ones that count as up to `most`. Returns as how many
    /// they count, and true after the last one. `walk.start` is the number of the interval of scores, and `walk.cursor`
    /// that of the element in it.
    fn collect(&self, set: Option<&SortedSetValue<'_>>, walk: &mut Walk, most: u64) -> Result<(u64, bool), ErrorReply> {
        let (Some(center), Some(shape), Some(set)) = (self.center, &self.shape, set) else { return Ok((0, true)) };
        let (weight, most) = (self.weight(), (most / self.weight()).max(1));
        let (cells, mut left) = (cells_around(&center, shape), most);
        while let Some((first, end)) = cells.get(walk.start as usize).filter(|_| left > 0) {
            let at = set.before(&Bound::before(*first))? + walk.cursor;
            let count = set.before(&Bound::before(*end))?.saturating_sub(at);
            for element in set.from(at)?.take(count.min(left) as usize) {
                let (score, value) = element?;
                let mut digits = Digits::new();
                self.take(walk, center, shape, (score, value.text(&mut digits)));
                walk.keys += 1;
                if self.is_any && walk.sorted.len() as u64 == self.count {
                    return Ok(((most - left) * weight, true));
                }
            }
            walk.cursor += count.min(left);
            if count <= left {
                (walk.start, walk.cursor) = (walk.start + 1, 0);
            }
            left -= count.min(left);
        }
        Ok(((most - left) * weight, walk.start as usize >= cells.len()))
    }

    /// Collects the elements in the area, and returns them with the number of examined elements. Returns `None` if more
    /// than one visit may examine are near the area.
    fn collect_all(&self, set: Option<&SortedSetValue<'_>>) -> Result<Option<(Walk, u64)>, ErrorReply> {
        if self.examined(set)? > EXAMINED_A_VISIT {
            return Ok(None);
        }
        let mut walk = Walk::default();
        let (examined, _) = self.collect(set, &mut walk, u64::MAX)?;
        (walk.has_wrapped, walk.keys) = (true, 0);
        Ok(Some((walk, examined)))
    }

    /// Collects an element if it is in the area.
    fn take(&self, walk: &mut Walk, center: GeoPosition, shape: &Area, (score, text): (f64, &[u8])) {
        let Some(distance) = shape.distance(&center, &GeoPosition::of_score(score)) else { return };
        let place = if self.order.is_some() { order_of(distance).to_be_bytes().to_vec() } else { Vec::new() };
        walk.sorted.add(place, walk.keys, Hit { distance, score, text }.to_bytes());
        if self.count > 0 && walk.sorted.len() as u64 > self.count {
            walk.sorted.pop(!self.is_last_first());
        }
    }

    /// Returns true if the last of the collected elements is the first of the result.
    fn is_last_first(&self) -> bool {
        self.order == Some(true)
    }

    /// Advances by one step: collects elements, or appends some of those that are collected to `found` with `put`.
    /// Returns true after the last one. `walk.has_wrapped` is set when all elements are collected.
    fn step(
        &self,
        call: &mut Call<'_, '_>,
        walk: &mut Walk,
        found: &mut Vec<u8>,
        put: &dyn Fn(&mut Vec<u8>, &Hit<'_>),
    ) -> Result<bool, Interrupt> {
        if !walk.has_wrapped {
            let (examined, is_last) = collection::look::<SortedSets, _>(call, self.key, |_, set| {
                Ok(self.collect(set, walk, EXAMINED_A_STEP)?)
            })?;
            call.ops += 2 + (examined / EXAMINED_AN_OP) as usize;
            walk.has_wrapped = is_last;
            walk.keys = if walk.has_wrapped { 0 } else { walk.keys };
            return Ok(false);
        }
        for _ in 0..EXAMINED_A_STEP {
            let Some(bytes) = walk.sorted.peek(self.is_last_first()) else { return Ok(true) };
            if let Some(hit) = Hit::of(bytes) {
                put(found, &hit);
                walk.wanted += 1;
            }
            walk.sorted.pop(self.is_last_first());
        }
        call.ops += (EXAMINED_A_STEP / EXAMINED_AN_OP) as usize;
        Ok(false)
    }

    /// Writes an element with what the options name.
    fn put(&self, to: &mut Vec<u8>, hit: &Hit<'_>, version: Version) {
        let more = [self.has_distance, self.has_hash, self.has_position].into_iter().filter(|has| *has).count();
        if more > 0 {
            reply::array(to, more as u64 + 1);
        }
        reply::bulk(to, hit.text);
        if self.has_distance {
            put_distance(to, hit.distance / self.unit);
        }
        if self.has_hash {
            reply::int(to, hit.score as i64);
        }
        if self.has_position {
            put_position(to, version, &GeoPosition::of_score(hit.score));
        }
    }

    /// Returns as how many elements those of `set` count that are near the area, and therefore examined.
    fn examined(&self, set: Option<&SortedSetValue<'_>>) -> Result<u64, ErrorReply> {
        let (Some(center), Some(shape), Some(set)) = (self.center, &self.shape, set) else { return Ok(0) };
        let near: u64 = cells_around(&center, shape).into_iter().try_fold(0, |sum, (first, end)| {
            Ok::<_, ErrorReply>(sum + set.before(&Bound::before(end))? - set.before(&Bound::before(first))?)
        })?;
        Ok(near * self.weight())
    }

    fn store(&self, call: &mut Call<'c, '_>, to: &[u8], (sources, is_search): (Args<'_>, bool)) -> Run {
        let event = if is_search { KeyEvent::GEOSEARCHSTORE } else { KeyEvent::GEORADIUSSTORE };
        let to = Destination { key: to, sources, is_apart: to != self.key, event };
        let is_long =
            collection::look::<SortedSets, _>(call, self.key, |_, set| Ok(self.examined(set)?))? > EXAMINED_A_VISIT;
        let most = if self.count > 0 { self.count } else { 0 };
        stored::store::<SortedSets>(call, to, (most, is_long), &mut |call, walk, found| {
            self.step(call, walk, found, &|found, hit| {
                let score = if self.stores_distance { hit.distance / self.unit } else { hit.score };
                stored::collect(found, score, hit.text);
            })
        })
    }
}

/// Parses the number of corners of a polygon, and their positions.
fn corners(args: &mut Args<'_>) -> Result<Vec<GeoPosition>, ErrorReply> {
    let count = integer(args.next().unwrap_or_default()).map_err(|_| ErrorReply::CornerCount)?;
    let count = usize::try_from(count).unwrap_or(0);
    if count < 3 || args.len() / 2 < count {
        return Err(ErrorReply::TooFewCorners);
    }
    if count > CORNERS_MAX {
        return Err(ErrorReply::TooManyCorners);
    }
    (0..count).map(|_| super::position([args.next().unwrap_or_default(), args.next().unwrap_or_default()])).collect()
}

/// Parses the sizes of a box and their unit.
fn rectangle(words: [&[u8]; 3]) -> Result<(Area, f64), ErrorReply> {
    let width = double(words[0]).map_err(|_| ErrorReply::NotNumeric("width"))?;
    let height = double(words[1]).map_err(|_| ErrorReply::NotNumeric("height"))?;
    if width < 0.0 || height < 0.0 {
        return Err(ErrorReply::NegativeSize("height or width"));
    }
    let unit = super::unit(words[2])?;
    Ok((Area::Box { width: width * unit, height: height * unit }, unit))
}

fn run<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, form: SearchForm) -> Run {
    let is_search = matches!(form, SearchForm::Search { .. });
    if let Some(to) = stored::continued(call, entry(name), args) {
        let event = if is_search { KeyEvent::GEOSEARCHSTORE } else { KeyEvent::GEORADIUSSTORE };
        // The source may be the destination, so it is not read again.
        let (sources, _) = args.split(0);
        let to = Destination { key: to, sources, is_apart: false, event };
        return stored::store::<SortedSets>(call, to, (0, false), &mut |_, _, _| Ok(true));
    }
    let [first, second] = words(args);
    let key = if form == (SearchForm::Search { is_stored: true }) { second } else { first };
    let (is_locked, version) = (call.collects_replies, call.session.version);
    // The key is not locked, so another client may change the value after this look.
    let (search, mut collected) = collection::look::<SortedSets, _>(call, key, |_, set| {
        let search = AreaSearch::read(set, name, args, form)?;
        let collected = if is_locked || search.store.is_some() { None } else { search.collect_all(set)? };
        Ok((search, collected))
    })?;
    if let Some(to) = search.store {
        let keys = if is_search { args.after_first() } else { args };
        return search.store(call, to, (keys.split(1).0, is_search));
    }
    let is_long = !is_locked && collected.is_none();
    found::reply(call, (name, args), (search.key, is_long), &mut |call, walk, found| {
        if let Some((collected, examined)) = collected.take() {
            *walk = collected;
            call.ops += 2 + (examined / EXAMINED_AN_OP) as usize;
        }
        search.step(call, walk, found, &|found, hit| search.put(found, hit, version))
    })
}

pub(in crate::resp) fn georadius<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, "georadius", args, SearchForm::Radius { is_by_member: false, may_store: true })
}

pub(in crate::resp) fn georadius_ro<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, "georadius_ro", args, SearchForm::Radius { is_by_member: false, may_store: false })
}

pub(in crate::resp) fn georadiusbymember<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, "georadiusbymember", args, SearchForm::Radius { is_by_member: true, may_store: true })
}

pub(in crate::resp) fn georadiusbymember_ro<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, "georadiusbymember_ro", args, SearchForm::Radius { is_by_member: true, may_store: false })
}

pub(in crate::resp) fn geosearch<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, "geosearch", args, SearchForm::Search { is_stored: false })
}

pub(in crate::resp) fn geosearchstore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, "geosearchstore", args, SearchForm::Search { is_stored: true })
}
