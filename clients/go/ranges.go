package gannet

// Range is a range of indexes or ranks: from the first index to before the end. A negative index counts from the end of
// the collection. All, From, Before and Between return ranges.
type Range struct {
	first, end       int32
	hasFirst, hasEnd bool
}

// All returns the range of all elements.
func All() Range { return Range{} }

// From returns the range from index first to the end of the collection.
func From(first int32) Range { return Range{first: first, hasFirst: true} }

// Before returns the range from the start of the collection to before index end.
func Before(end int32) Range { return Range{end: end, hasEnd: true} }

// Between returns the range from index first to before index end.
func Between(first, end int32) Range { return Range{first, end, true, true} }

// Order is the order of a sorted set. The zero value is Ascending.
type Order int

// The orders of a sorted set.
const (
	Ascending Order = iota
	Descending
)

// ScoreRange is a range of scores. The zero value has all scores. Its With methods return changed copies:
//
//	gannet.ScoreRange{}.WithLeast(1.5).WithGreatestExclusive(10).WithCount(100)
type ScoreRange struct {
	least, greatest                   float64
	hasLeast, hasGreatest             bool
	leastExclusive, greatestExclusive bool
	offset                            uint32
	count                             int32
}

// WithLeast returns a copy with the scores from this one.
func (r ScoreRange) WithLeast(score float64) ScoreRange {
	r.least, r.hasLeast, r.leastExclusive = score, true, false
	return r
}

// WithLeastExclusive returns a copy with the scores above this one.
func (r ScoreRange) WithLeastExclusive(score float64) ScoreRange {
	r.least, r.hasLeast, r.leastExclusive = score, true, true
	return r
}

// WithGreatest returns a copy with the scores up to this one.
func (r ScoreRange) WithGreatest(score float64) ScoreRange {
	r.greatest, r.hasGreatest, r.greatestExclusive = score, true, false
	return r
}

// WithGreatestExclusive returns a copy with the scores below this one.
func (r ScoreRange) WithGreatestExclusive(score float64) ScoreRange {
	r.greatest, r.hasGreatest, r.greatestExclusive = score, true, true
	return r
}

// WithOffset returns a copy without this number of elements at the start.
func (r ScoreRange) WithOffset(elements uint32) ScoreRange {
	r.offset = elements
	return r
}

// WithCount returns a copy with at most this number of elements; 0 stands for all.
func (r ScoreRange) WithCount(elements uint32) ScoreRange {
	r.count = int32(min(elements, 1<<31-1))
	return r
}
