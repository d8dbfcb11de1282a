//! Geohashes: positions on the earth as numbers of 52 bits, in which near positions often have near numbers; and
//! distances on a sphere.
//!
//! ```text
//!   longitude -180 .. 180              ──> 26 bits o     bit    51 50 49 48 ...  1  0
//!   latitude  -85.05112878 .. the same ──> 26 bits a             o  a  o  a  ...  o  a
//! ```
//!
//! The first 2n bits are the number of a cell of the grid with 2^n columns and rows. The range of latitudes is that of
//! the Mercator projection (EPSG:3857).

use std::f64::consts::PI;

pub(super) const LONGITUDE_MAX: f64 = 180.0;
pub(super) const LATITUDE_MAX: f64 = 85.051_128_78;
/// The maximum latitude in the common text form of geohashes.
const TEXT_LATITUDE_MAX: f64 = 90.0;
/// The number of bits of each coordinate.
const STEPS: u32 = 26;
/// The radius of the earth in metres that Redis uses.
const EARTH_METERS: f64 = 6_372_797.560_856;
/// The maximum number of cells that [`cells_around`] returns.
const CELLS_MAX: u64 = 16;
/// Degrees that are added to an area, so that no position on its edge is missed.
const SLACK_DEGREES: f64 = 1e-6;

/// A position in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GeoPosition {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// Moves bit n of a number to bit 2n.
fn spread(number: u32) -> u64 {
    (0..u32::BITS).fold(0, |bits, at| bits | u64::from(number >> at & 1) << (2 * at))
}

/// Moves each bit 2n to bit n.
fn gather(bits: u64) -> u32 {
    (0..u32::BITS).fold(0, |number, at| number | ((bits >> (2 * at) & 1) as u32) << at)
}

/// Returns the number of the part that contains `degrees`, of 2^`steps` equal parts from `-max` to `max`.
fn part(degrees: f64, max: f64, steps: u32) -> f64 {
    (degrees + max) / (2.0 * max) * f64::from(1_u32 << steps)
}

/// Returns the middle of a part, as [`part`] counts them.
fn middle(part: u32, max: f64) -> f64 {
    let edge = |number: f64| -max + number / f64::from(1_u32 << STEPS) * (2.0 * max);
    let middle = f64::midpoint(edge(f64::from(part)), edge(f64::from(part) + 1.0));
    middle.clamp(-max, max)
}

impl GeoPosition {
    /// Returns true if geohashes have a cell for the position.
    pub(super) fn is_valid(&self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    fn hash(&self, latitude_max: f64) -> u64 {
        let longitude = part(self.longitude, LONGITUDE_MAX, STEPS) as u32;
        spread(part(self.latitude, latitude_max, STEPS) as u32) | spread(longitude) << 1
    }

    /// Returns the score under which a sorted set has the position.
    pub(super) fn to_score(self) -> f64 {
        self.hash(LATITUDE_MAX) as f64
    }

    /// Returns the middle of the cell whose number is `score`.
    pub(super) fn of_score(score: f64) -> Self {
        let bits = score as i64 as u64;
        Self { longitude: middle(gather(bits >> 1), LONGITUDE_MAX), latitude: middle(gather(bits), LATITUDE_MAX) }
    }

    /// Returns the geohash in its common text form, of 11 characters. As in Redis, the last one is 0.
    pub(super) fn text(&self) -> [u8; 11] {
        const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = self.hash(TEXT_LATITUDE_MAX);
        std::array::from_fn(|at| match (2 * STEPS).checked_sub(5 * (at as u32 + 1)) {
            Some(behind) => DIGITS[(bits >> behind & 31) as usize],
            None => DIGITS[0],
        })
    }

    /// Returns the distance to another position in metres, by the haversine formula.
    pub(super) fn meters_to(&self, other: &Self) -> f64 {
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if v == 0.0 {
            return latitude_meters(self.latitude, other.latitude);
        }
        let (from, to) = (radians(self.latitude), radians(other.latitude));
        let u = ((to - from) / 2.0).sin();
        2.0 * EARTH_METERS * (u * u + from.cos() * to.cos() * v * v).sqrt().asin()
    }
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

/// Returns the distance between two latitudes in metres.
fn latitude_meters(one: f64, other: f64) -> f64 {
    EARTH_METERS * (radians(other) - radians(one)).abs()
}

/// An area. Sizes around its centre are in metres.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Area {
    Circle {
        radius: f64,
    },
    Box {
        width: f64,
        height: f64,
    },
    /// A polygon with these corners. Its edges are straight on a map of longitudes and latitudes, from -180 to 180
    /// degrees.
    Polygon(Vec<GeoPosition>),
}

/// Returns the centre of positions: the direction of the sum of their vectors from the centre of the earth.
pub(super) fn centroid(positions: &[GeoPosition]) -> GeoPosition {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for position in positions {
        let (longitude, latitude) = (radians(position.longitude), radians(position.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    GeoPosition { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2(x.hypot(y))) }
}

/// Returns true if a position is within a polygon: if the line from it to the east crosses an odd number of edges.
fn is_within(corners: &[GeoPosition], position: &GeoPosition) -> bool {
    let Some(mut last) = corners.last() else { return false };
    let mut is_inside = false;
    for corner in corners {
        if (corner.latitude > position.latitude) != (last.latitude > position.latitude) {
            let part = (position.latitude - corner.latitude) / (last.latitude - corner.latitude);
            is_inside ^= position.longitude < (last.longitude - corner.longitude) * part + corner.longitude;
        }
        last = corner;
    }
    is_inside
}

impl Area {
    /// Returns the distance of a position from the centre in metres, if it is in the area.
    pub(super) fn distance(&self, center: &GeoPosition, position: &GeoPosition) -> Option<f64> {
        let distance = center.meters_to(position);
        let is_inside = match self {
            Self::Circle { radius } => distance <= *radius,
            Self::Polygon(corners) => is_within(corners, position),
            Self::Box { width, height } => {
                let beside = GeoPosition { latitude: position.latitude, ..*center };
                latitude_meters(position.latitude, center.latitude) <= height / 2.0
                    && position.meters_to(&beside) <= width / 2.0
            }
        };
        is_inside.then_some(distance)
    }

    /// Returns the south-western and the north-eastern corner of a box that contains the area. They may be outside of
    /// the ranges of longitudes and latitudes.
    fn bounds(&self, center: &GeoPosition) -> [GeoPosition; 2] {
        let (width, height) = match self {
            Self::Circle { radius } => (2.0 * radius, 2.0 * radius),
            Self::Box { width, height } => (*width, *height),
            Self::Polygon(corners) => {
                let by = |bound: fn(f64, f64) -> f64, of: fn(&GeoPosition) -> f64, slack: f64| {
                    corners.iter().map(of).reduce(bound).unwrap_or_default() + slack
                };
                return [(f64::min as fn(f64, f64) -> f64, -SLACK_DEGREES), (f64::max, SLACK_DEGREES)].map(
                    |(bound, slack)| GeoPosition {
                        longitude: by(bound, |corner| corner.longitude, slack),
                        latitude: by(bound, |corner| corner.latitude, slack),
                    },
                );
            }
        };
        let latitude = degrees(height / 2.0 / EARTH_METERS) + SLACK_DEGREES;
        // Meridians are nearest to each other at the edge that is nearest to a pole.
        let edge = (center.latitude.abs() + latitude).min(LATITUDE_MAX);
        let sine = (width / 4.0 / EARTH_METERS).min(PI / 2.0).sin() / radians(edge).cos();
        let longitude = if sine < 1.0 { degrees(2.0 * sine.asin()) + SLACK_DEGREES } else { LONGITUDE_MAX };
        [-1.0, 1.0].map(|side| GeoPosition {
            longitude: center.longitude + side * longitude,
            latitude: center.latitude + side * latitude,
        })
    }
}

/// Returns the intervals of scores that together contain all positions of an area, in ascending order: each the first
/// score, and the first one behind the interval.
pub(super) fn cells_around(center: &GeoPosition, shape: &Area) -> Vec<(f64, f64)> {
    let [from, to] = shape.bounds(center);
    for steps in (0..=STEPS).rev() {
        let count = 1_i64 << steps;
        // The greatest latitude and longitude have a row and a column of their own.
        let row = |degrees| (part(degrees, LATITUDE_MAX, steps) as i64).clamp(0, count);
        let rows = row(from.latitude)..=row(to.latitude);
        let column = |degrees| part(degrees, LONGITUDE_MAX, steps).floor() as i64;
        let (first, last) = (column(from.longitude), column(to.longitude));
        // The first column is beside the last one.
        let columns = first..=last.min(first + count - 1);
        let cells = (rows.end() - rows.start() + 1) as u64 * (columns.end() - columns.start() + 1) as u64;
        if cells <= CELLS_MAX {
            let numbers = rows.flat_map(|row| {
                let columns = columns.clone().map(|column| column.rem_euclid(count));
                // The edge column contains only positions at longitude 180, which is beside the last and the first
                // column.
                let edge = columns.clone().any(|column| column == count - 1 || column == 0).then_some(count);
                columns.chain(edge).map(move |column| spread(row as u32) | spread(column as u32) << 1)
            });
            return intervals(numbers.collect(), 2 * (STEPS - steps));
        }
    }
    Vec::new()
}

/// Returns an interval of scores that contains those of all positions from `first` to before `end`. A number of the
/// edge column may be above 2^53, where a score is rounded to an even number.
fn scores(first: u64, end: u64) -> (f64, f64) {
    const EXACT_MAX: u64 = 1 << f64::MANTISSA_DIGITS;
    let below = u64::from(first > EXACT_MAX);
    let above = if end > EXACT_MAX { 2 } else { 0 };
    ((first - below) as f64, (end + above) as f64)
}

/// Joins cells to intervals of scores. `bits` is the number of bits behind the numbers of the cells.
fn intervals(mut cells: Vec<u64>, bits: u32) -> Vec<(f64, f64)> {
    cells.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for cell in cells {
        match joined.last_mut() {
            Some((_, end)) if *end == cell => *end += 1,
            _ => joined.push((cell, cell + 1)),
        }
    }
    joined.into_iter().map(|(first, end)| scores(first << bits, end << bits)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    /// The cells must contain every position of the area, also across the antimeridian and near the poles.
    #[test]
    fn no_position_of_an_area_is_outside_of_its_cells() {
        let (mut prng, mut inside) = (Prng::new(5), 0);
        for _ in 0..20_000 {
            let mut degrees = |max: f64| (prng.below(2_000_001) as f64 / 1e6 - 1.0) * max;
            let center = GeoPosition { longitude: degrees(LONGITUDE_MAX), latitude: degrees(LATITUDE_MAX) };
            let size = 10_f64.powf(degrees(3.5) + 4.0);
            let position = GeoPosition {
                longitude: (center.longitude + degrees(size / 5e4)).clamp(-180.0, 180.0),
                latitude: (center.latitude + degrees(size / 1e5)).clamp(-LATITUDE_MAX, LATITUDE_MAX - 1e-6),
            };
            let position = GeoPosition::of_score(position.to_score());
            let score = position.to_score();
            for shape in [Area::Circle { radius: size }, Area::Box { width: size * 2.0, height: size }] {
                let cells = cells_around(&center, &shape);
                assert!(!cells.is_empty() && cells.len() as u64 <= 2 * CELLS_MAX);
                if shape.distance(&center, &position).is_some() {
                    inside += 1;
                    let has = cells.iter().any(|(first, end)| (*first..*end).contains(&score));
                    assert!(has, "{position:?} is within {shape:?} of {center:?}");
                }
            }
        }
        assert!(inside > 5000, "{inside} positions were inside");
    }

    /// The cells must contain every position of a polygon, and a polygon with a notch must not contain the notch.
    #[test]
    fn no_position_of_a_polygon_is_outside_of_its_cells() {
        let (mut prng, mut inside) = (Prng::new(7), 0);
        for _ in 0..20_000 {
            let mut degrees = |max: f64| (prng.below(2_000_001) as f64 / 1e6 - 1.0) * max;
            let (center, size) = ([degrees(179.0), degrees(84.0)], 10_f64.powf(degrees(2.0)));
            let mut near = |size: f64| {
                let [longitude, latitude] = center.map(|at| at + degrees(size));
                GeoPosition {
                    longitude: longitude.clamp(-180.0, 180.0),
                    latitude: latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX - 1e-6),
                }
            };
            let shape = Area::Polygon((0..5).map(|_| near(size)).collect());
            let position = GeoPosition::of_score(near(size * 1.2).to_score());
            let cells = cells_around(&GeoPosition::default(), &shape);
            assert!(!cells.is_empty() && cells.len() as u64 <= 2 * CELLS_MAX);
            if shape.distance(&GeoPosition::default(), &position).is_some() {
                inside += 1;
                let score = position.to_score();
                let has = cells.iter().any(|(first, end)| (*first..*end).contains(&score));
                assert!(has, "{position:?} is within {shape:?}");
            }
        }
        assert!(inside > 1000, "{inside} positions were inside");
        let at = |longitude, latitude| GeoPosition { longitude, latitude };
        let notched = [at(0.0, 0.0), at(4.0, 0.0), at(4.0, 4.0), at(2.0, 1.0), at(0.0, 4.0)];
        assert!(is_within(&notched, &at(1.0, 1.0)) && is_within(&notched, &at(3.0, 2.0)));
        assert!(!is_within(&notched, &at(2.0, 2.0)) && !is_within(&notched, &at(5.0, 1.0)));
    }

    #[test]
    fn a_small_area_has_few_cells_of_its_own_size() {
        let center = GeoPosition { longitude: 15.0, latitude: 37.0 };
        let cells = cells_around(&center, &Area::Circle { radius: 1000.0 });
        let scores: f64 = cells.iter().map(|(first, end)| end - first).sum();
        // The area is about 2 km by 2.5 km of the earth; a cell may be twice as large in each direction.
        assert!(scores / (1_u64 << 52) as f64 <= 4e6 * 16.0 / 4e14, "{cells:?}");
    }
}
