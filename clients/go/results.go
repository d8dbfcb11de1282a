package gannet

import (
	"time"
)

// GetResult is *GetHit or *GetMiss.
type GetResult interface{ isGetResult() }

// GetWithHashResult is *GetWithHashHit or *GetMiss.
type GetWithHashResult interface{ isGetWithHashResult() }

// ConditionalSetResult is *Stored or *NotStored.
type ConditionalSetResult interface{ isConditionalSetResult() }

// HashSetResult is *StoredWithHash or *NotStored.
type HashSetResult interface{ isHashSetResult() }

// UpdateTTLResult is *Stored, *NotStored or *Miss.
type UpdateTTLResult interface{ isUpdateTTLResult() }

// TTLResult is *TTLHit or *Miss.
type TTLResult interface{ isTTLResult() }

// TypeResult is *TypeHit or *Miss.
type TypeResult interface{ isTypeResult() }

// LengthResult is *LengthHit or *Miss.
type LengthResult interface{ isLengthResult() }

// DictionaryFieldsResult is *DictionaryFieldsHit or *Miss.
type DictionaryFieldsResult interface{ isDictionaryFieldsResult() }

// DictionaryResult is *DictionaryHit or *Miss.
type DictionaryResult interface{ isDictionaryResult() }

// SetResult is *SetHit or *Miss.
type SetResult interface{ isSetResult() }

// FoundResult is *Found or *Miss.
type FoundResult interface{ isFoundResult() }

// ContainsResult is *ContainsHit or *Miss.
type ContainsResult interface{ isContainsResult() }

// ListResult is *ListHit or *Miss.
type ListResult interface{ isListResult() }

// PopResult is *PopHit or *Miss.
type PopResult interface{ isPopResult() }

// SortedSetResult is *SortedSetHit or *Miss.
type SortedSetResult interface{ isSortedSetResult() }

// ScoreResult is *ScoreHit or *Miss.
type ScoreResult interface{ isScoreResult() }

// ScoresResult is *ScoresHit or *Miss.
type ScoresResult interface{ isScoresResult() }

// RankResult is *RankHit or *Miss.
type RankResult interface{ isRankResult() }

// Miss shows that the item, or the part of it that the call names, does not exist.
type Miss struct{}

// GetMiss is the Miss of Get.
type GetMiss = Miss

func (*Miss) isGetResult()              {}
func (*Miss) isGetWithHashResult()      {}
func (*Miss) isUpdateTTLResult()        {}
func (*Miss) isTTLResult()              {}
func (*Miss) isTypeResult()             {}
func (*Miss) isLengthResult()           {}
func (*Miss) isDictionaryFieldsResult() {}
func (*Miss) isDictionaryResult()       {}
func (*Miss) isSetResult()              {}
func (*Miss) isFoundResult()            {}
func (*Miss) isContainsResult()         {}
func (*Miss) isListResult()             {}
func (*Miss) isPopResult()              {}
func (*Miss) isSortedSetResult()        {}
func (*Miss) isScoreResult()            {}
func (*Miss) isScoresResult()           {}
func (*Miss) isRankResult()             {}

// GetHit is a value.
type GetHit struct{ Value []byte }

func (*GetHit) isGetResult() {}

// ValueString returns the value as text.
func (h *GetHit) ValueString() string { return string(h.Value) }

// GetWithHashHit is a value and its hash, which a later conditional set can name.
type GetWithHashHit struct{ Value, Hash []byte }

func (*GetWithHashHit) isGetWithHashResult() {}

// ValueString returns the value as text.
func (h *GetWithHashHit) ValueString() string { return string(h.Value) }

// Stored shows that the condition held, and the value or the time to live was stored.
type Stored struct{}

func (*Stored) isConditionalSetResult() {}
func (*Stored) isUpdateTTLResult()      {}

// NotStored shows that the condition did not hold, and nothing was changed.
type NotStored struct{}

func (*NotStored) isConditionalSetResult() {}
func (*NotStored) isHashSetResult()        {}
func (*NotStored) isUpdateTTLResult()      {}

// StoredWithHash shows that the condition held, and has the hash of the new value.
type StoredWithHash struct{ Hash []byte }

func (*StoredWithHash) isHashSetResult() {}

// Found shows that the collection existed, and was changed.
type Found struct{}

func (*Found) isFoundResult() {}

// TTLHit is the time to live of an item.
type TTLHit struct {
	// Remaining is 0 if the item has no time to live. A time above 292 years is shown as 292 years.
	Remaining time.Duration
	// Expires is false if the item has no time to live.
	Expires bool
}

func (*TTLHit) isTTLResult() {}

// ItemType is the type of an item.
type ItemType int

// The types of items.
const (
	TypeValue ItemType = iota
	TypeDictionary
	TypeSet
	TypeList
	TypeSortedSet
)

// String returns the name of the type.
func (t ItemType) String() string {
	names := [...]string{"value", "dictionary", "set", "list", "sorted set"}
	if t < 0 || int(t) >= len(names) {
		return "unknown"
	}
	return names[t]
}

// TypeHit is the type of an item.
type TypeHit struct{ Type ItemType }

func (*TypeHit) isTypeResult() {}

// LengthHit is the number of elements.
type LengthHit struct{ Length int }

func (*LengthHit) isLengthResult() {}

// DictionaryFieldsHit has one result for each field, in the order of the call.
type DictionaryFieldsHit struct{ Results []GetResult }

func (*DictionaryFieldsHit) isDictionaryFieldsResult() {}

// DictionaryHit has all fields of a dictionary with their values.
type DictionaryHit struct{ Fields map[string][]byte }

func (*DictionaryHit) isDictionaryResult() {}

// FieldStrings returns the fields with their values as text.
func (h *DictionaryHit) FieldStrings() map[string]string {
	texts := make(map[string]string, len(h.Fields))
	for field, value := range h.Fields {
		texts[field] = string(value)
	}
	return texts
}

// SetHit has elements of a set, in no order.
type SetHit struct{ Elements []string }

func (*SetHit) isSetResult() {}

// ContainsHit has one bool for each element, in the order of the call.
type ContainsHit struct{ Contained []bool }

func (*ContainsHit) isContainsResult() {}

// ListHit has elements of a list, in its order.
type ListHit struct{ Elements [][]byte }

func (*ListHit) isListResult() {}

// ElementStrings returns the elements as text.
func (h *ListHit) ElementStrings() []string { return stringsOf(h.Elements) }

// PopHit is the element that was removed from a list, and the length of the list without it.
type PopHit struct {
	Value  []byte
	Length int
}

func (*PopHit) isPopResult() {}

// ValueString returns the element as text.
func (h *PopHit) ValueString() string { return string(h.Value) }

// Scored is an element of a sorted set with its score.
type Scored struct {
	Element string
	Score   float64
}

// SortedSetHit has elements of a sorted set, in the order of the call.
type SortedSetHit struct{ Elements []Scored }

func (*SortedSetHit) isSortedSetResult() {}

// ScoreHit is the score of an element.
type ScoreHit struct{ Score float64 }

func (*ScoreHit) isScoreResult() {}

// ScoresHit has one result for each element, in the order of the call.
type ScoresHit struct{ Results []ScoreResult }

func (*ScoresHit) isScoresResult() {}

// RankHit is the rank of an element; the first one has rank 0.
type RankHit struct{ Rank uint64 }

func (*RankHit) isRankResult() {}

var (
	miss      = &Miss{}
	stored    = &Stored{}
	notStored = &NotStored{}
)

func stringsOf(data [][]byte) []string {
	texts := make([]string, len(data))
	for at, each := range data {
		texts[at] = string(each)
	}
	return texts
}

func bytesOf(texts []string) [][]byte {
	data := make([][]byte, len(texts))
	for at, each := range texts {
		data[at] = []byte(each)
	}
	return data
}
