//! Commands on positions, which are elements of sorted sets: the score of each is the geohash of its position. This
//! file contains the commands on named elements, and `search` those that find elements in an area.

mod hash;
mod search;

pub(super) use search::{georadius, georadius_ro, georadiusbymember, georadiusbymember_ro, geosearch, geosearchstore};

use super::call::{Call, Run};
use super::catalog::lower;
use super::catalog::words;
use super::collection;
use super::elements::reply_each;
use super::error::ErrorReply;
use super::number::double;
use crate::resp::sorted_set;
use hash::GeoPosition;
use protocol::resp::{Args, Version, reply};
use protocol::sink::Sink;
use record::{SortedSetValue, SortedSets};

/// The maximum length in bytes of a position in a reply.
const POSITION_BYTES: usize = 80;

/// Parses a longitude and a latitude.
fn position([longitude, latitude]: [&[u8]; 2]) -> Result<GeoPosition, ErrorReply> {
    let position = GeoPosition { longitude: double(longitude)?, latitude: double(latitude)? };
    match position.is_valid() {
        true => Ok(position),
        false => Err(ErrorReply::Coordinates([position.longitude.to_bits(), position.latitude.to_bits()])),
    }
}

/// Parses a unit. Returns its length in metres.
fn unit(word: &[u8]) -> Result<f64, ErrorReply> {
    match &lower(word)[..] {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(ErrorReply::Unit),
    }
}

/// Writes a coordinate with up to 17 digits behind the point, as Redis does.
fn put_coordinate(to: &mut impl Sink, version: Version, degrees: f64) {
    let text = format!("{degrees:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    reply::double_text(to, version, text.as_bytes());
}

fn put_position(to: &mut impl Sink, version: Version, position: &GeoPosition) {
    reply::array(to, 2);
    put_coordinate(to, version, position.longitude);
    put_coordinate(to, version, position.latitude);
}

/// Writes a distance with four digits behind the point.
fn put_distance(to: &mut impl Sink, distance: f64) {
    reply::bulk(to, format!("{distance:.4}").as_bytes());
}

/// Executes `GEOADD key [NX | XX] [CH] longitude latitude element [...]`.
pub(super) fn geoadd<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    sorted_set::add_positions(call, ("geoadd", args), &|pair| Ok(position(pair)?.to_score()))
}

/// Replies with the distance between two elements.
pub(super) fn geodist<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let ([key, one, other, unit], version) = (words(args), call.session.version);
    let meters = match args.len() {
        3 => 1.0,
        4 => self::unit(unit)?,
        _ => return Err(ErrorReply::Syntax.into()),
    };
    collection::look::<SortedSets, _>(call, key, |out, set| {
        let position = |text: &[u8]| match set {
            Some(set) => Ok(set.score(text)?.map(GeoPosition::of_score)),
            None => Ok::<_, ErrorReply>(None),
        };
        match (position(one)?, position(other)?) {
            (Some(one), Some(other)) => put_distance(out, one.meters_to(&other) / meters),
            _ => reply::null(out, version),
        }
        Ok(())
    })
}

/// Returns the position of an element.
fn position_of(set: Option<&SortedSetValue<'_>>, text: &[u8]) -> Result<Option<GeoPosition>, ErrorReply> {
    Ok(set.map(|set| set.score(text)).transpose()?.flatten().map(GeoPosition::of_score))
}

/// Replies with the geohash of each given element, as text.
pub(super) fn geohash<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let version = call.session.version;
    reply_each::<SortedSets>(call, ("geohash", args), POSITION_BYTES, &|out, set, text| {
        match position_of(set, text)? {
            Some(position) => reply::bulk(out, &position.text()),
            None => reply::null(out, version),
        }
        Ok(())
    })
}

/// Replies with the position of each given element.
pub(super) fn geopos<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let version = call.session.version;
    reply_each::<SortedSets>(call, ("geopos", args), POSITION_BYTES, &|out, set, text| {
        match position_of(set, text)? {
            Some(position) => put_position(out, version, &position),
            None => reply::null_array(out, version),
        }
        Ok(())
    })
}
