package gannet

import (
	"context"
	"iter"
	"time"

	pb "gannet.dev/client/gannetv1"
)

// BinValue is the value of a bin: BinInteger, BinNumber, BinBoolean, BinText, BinBinary, BinList or BinMap.
type BinValue interface{ message() *pb.BinValue }

// The values of bins.
type (
	BinInteger int64
	BinNumber  float64
	BinBoolean bool
	BinText    string
	BinBinary  []byte
	BinList    []BinValue
	BinMap     map[string]BinValue
)

func (v BinInteger) message() *pb.BinValue {
	return &pb.BinValue{Kind: &pb.BinValue_Integer{Integer: int64(v)}}
}

func (v BinNumber) message() *pb.BinValue {
	return &pb.BinValue{Kind: &pb.BinValue_Number{Number: float64(v)}}
}

func (v BinBoolean) message() *pb.BinValue {
	return &pb.BinValue{Kind: &pb.BinValue_Boolean{Boolean: bool(v)}}
}

func (v BinText) message() *pb.BinValue {
	return &pb.BinValue{Kind: &pb.BinValue_Text{Text: string(v)}}
}

func (v BinBinary) message() *pb.BinValue { return &pb.BinValue{Kind: &pb.BinValue_Binary{Binary: v}} }

func (v BinList) message() *pb.BinValue {
	list := &pb.BinList{Values: make([]*pb.BinValue, len(v))}
	for at, each := range v {
		list.Values[at] = messageOf(each)
	}
	return &pb.BinValue{Kind: &pb.BinValue_List{List: list}}
}

func (v BinMap) message() *pb.BinValue {
	entries := &pb.BinMap{}
	for key, value := range v {
		entries.Entries = append(entries.Entries, &pb.BinMap_Entry{Key: []byte(key), Value: messageOf(value)})
	}
	return &pb.BinValue{Kind: &pb.BinValue_Map{Map: entries}}
}

// messageOf returns the message of a value. The server refuses that of nil.
func messageOf(value BinValue) *pb.BinValue {
	if value == nil {
		return &pb.BinValue{}
	}
	return value.message()
}

// valueOf returns the value of a message, or nil for a kind of a later schema.
func valueOf(message *pb.BinValue) BinValue {
	switch kind := message.GetKind().(type) {
	case *pb.BinValue_Integer:
		return BinInteger(kind.Integer)
	case *pb.BinValue_Number:
		return BinNumber(kind.Number)
	case *pb.BinValue_Boolean:
		return BinBoolean(kind.Boolean)
	case *pb.BinValue_Text:
		return BinText(kind.Text)
	case *pb.BinValue_Binary:
		return BinBinary(kind.Binary)
	case *pb.BinValue_List:
		list := make(BinList, len(kind.List.Values))
		for at, each := range kind.List.Values {
			list[at] = valueOf(each)
		}
		return list
	case *pb.BinValue_Map:
		entries := BinMap{}
		for _, each := range kind.Map.Entries {
			entries[string(each.Key)] = valueOf(each.Value)
		}
		return entries
	}
	return nil
}

// Bins are the bins of a record by their names.
type Bins map[string]BinValue

// Record is a record, or the bins of it that the call names.
type Record struct {
	Key string
	// Revision grows with each change.
	Revision uint32
	// ExpiresAt is the zero time if the record has no time to live.
	ExpiresAt time.Time
	Bins      Bins
}

// RecordResult is *RecordHit or *Miss.
type RecordResult interface{ isRecordResult() }

// RecordHit is a record.
type RecordHit struct{ Record }

func (*RecordHit) isRecordResult() {}
func (*Miss) isRecordResult()      {}

// RecordPage is a page of records.
type RecordPage struct {
	Records []Record
	// Cursor is that of the next page; empty after the last one.
	Cursor string
}

// RecordChangeOption changes a call that changes a record: TTL, NoTTL, When, IfRevision, IfRevisionAbove, InSet and
// Filter are such options. A record that has no time to live has none unless TTL is passed.
type RecordChangeOption interface{ applyChange(*recordChange) }

// recordChange is the request of a change of a record, with the reason why it cannot be sent.
type recordChange struct {
	*pb.RecordChangeRequest
	refused *refusal
}

// RecordDeleteOption changes RecordDelete: IfRevision and IfRevisionAbove are such options.
type RecordDeleteOption interface{ applyDelete(*pb.RecordDeleteRequest) }

// RecordReadOption changes a call that reads records. Filter and OnlyBins are such options, and for pages also Cursor
// and CountMax.
type RecordReadOption interface{ applyRead(*recordRead) }

type recordRead struct {
	filter, cursor string
	bins           [][]byte
	countMax       uint32
}

func (t TTL) applyChange(r *recordChange) {
	if r.TtlMs = milliseconds(time.Duration(t)); r.TtlMs == 0 {
		// The server takes 0 for no change of the time to live.
		r.refused = refusalShort("TTL", time.Duration(t), "pass NoTTL to remove it")
	}
}

// NoTTL removes the time to live of a record.
var NoTTL noTTL

type noTTL struct{}

func (noTTL) applyChange(r *recordChange) { r.Persist = true }

// When is the condition of a change of a record.
type When int

// The conditions of a change of a record. The default is that there is none.
const (
	// WhenAbsent is a change that creates the record. The error CodeAlreadyExists shows that it exists.
	WhenAbsent = When(pb.RecordChangeRequest_CREATE)
	// WhenPresent is a change of a record that exists. The error CodeNotFoundRecord shows that it does not.
	WhenPresent = When(pb.RecordChangeRequest_UPDATE)
	// Replacing is a change that removes all earlier bins of a record that exists.
	Replacing = When(pb.RecordChangeRequest_REPLACE)
)

func (w When) applyChange(r *recordChange) { r.When = pb.RecordChangeRequest_When(w) }

// IfRevision is the revision that the record has to have. The error CodeAborted shows that it has another one.
type IfRevision uint32

func (i IfRevision) applyChange(r *recordChange)           { r.IfRevision = (*uint32)(&i) }
func (i IfRevision) applyDelete(r *pb.RecordDeleteRequest) { r.IfRevision = (*uint32)(&i) }

// IfRevisionAbove is a revision below which the record's own is an error, for copies of records from elsewhere.
type IfRevisionAbove uint32

func (i IfRevisionAbove) applyChange(r *recordChange)           { r.IfRevisionAbove = (*uint32)(&i) }
func (i IfRevisionAbove) applyDelete(r *pb.RecordDeleteRequest) { r.IfRevisionAbove = (*uint32)(&i) }

// InSet is the set of the record, by which RecordScan and RecordQuery find it.
type InSet string

func (s InSet) applyChange(r *recordChange) { r.Set = string(s) }

// Filter is a condition on the bins, such as "age >= 18". A record of a read for which it is false is missing, and a
// change gets the error CodeFailedPrecondition. docs/protocol/records.md describes filters.
type Filter string

func (f Filter) applyChange(r *recordChange) { r.Filter = string(f) }
func (f Filter) applyRead(r *recordRead)     { r.filter = string(f) }

// OnlyBins are the names of the bins that a read returns; all of them without this option.
type OnlyBins []string

func (o OnlyBins) applyRead(r *recordRead) { r.bins = bytesOf(o) }

// Cursor is the start of a page: RecordPage.Cursor of the page before.
type Cursor string

func (c Cursor) applyRead(r *recordRead) { r.cursor = string(c) }

// CountMax is the maximum number of records of a page.
type CountMax uint32

func (c CountMax) applyRead(r *recordRead) { r.countMax = uint32(c) }

// RecordPut sets bins of a record, and returns its new revision. Other bins stay.
func (c *Client) RecordPut(
	ctx context.Context, cache, key string, bins Bins, options ...RecordChangeOption,
) (uint32, error) {
	return c.changeRecord(ctx, methodRecordPut, cache, key, bins, options)
}

// RecordAdd adds to integers and numbers, and returns the new revision. A bin that does not exist counts as 0.
func (c *Client) RecordAdd(
	ctx context.Context, cache, key string, bins Bins, options ...RecordChangeOption,
) (uint32, error) {
	return c.changeRecord(ctx, methodRecordAdd, cache, key, bins, options)
}

// RecordAppend appends to texts and binary values, and returns the new revision.
func (c *Client) RecordAppend(
	ctx context.Context, cache, key string, bins Bins, options ...RecordChangeOption,
) (uint32, error) {
	return c.changeRecord(ctx, methodRecordAppend, cache, key, bins, options)
}

// RecordTouch changes the time to live and the revision alone, and returns the new revision.
func (c *Client) RecordTouch(
	ctx context.Context, cache, key string, options ...RecordChangeOption,
) (uint32, error) {
	return c.changeRecord(ctx, methodRecordTouch, cache, key, nil, options)
}

func (c *Client) changeRecord(
	ctx context.Context, m *method, cache, key string, bins Bins, options []RecordChangeOption,
) (uint32, error) {
	request := &pb.RecordChangeRequest{Key: []byte(key)}
	for name, value := range bins {
		request.Bins = append(request.Bins, &pb.Bin{Name: []byte(name), Value: messageOf(value)})
	}
	change := recordChange{request, nil}
	for _, each := range options {
		each.applyChange(&change)
	}
	if change.refused != nil {
		return 0, change.refused.error(m.name)
	}
	reply, err := unary(ctx, c, m, cache, request, &pb.RecordRevision{})
	if err != nil {
		return 0, err
	}
	return reply.Revision, nil
}

// RecordGet returns a record: *RecordHit, or *Miss if there is none or the filter is false.
func (c *Client) RecordGet(
	ctx context.Context, cache, key string, options ...RecordReadOption,
) (RecordResult, error) {
	read := readOf(options)
	request := &pb.RecordGetRequest{Key: []byte(key), Filter: read.filter, Bins: read.bins}
	reply, err := unary(ctx, c, methodRecordGet, cache, request, &pb.RecordGetReply{})
	if err != nil {
		return nil, err
	}
	switch which := reply.Reply.(type) {
	case *pb.RecordGetReply_Found:
		// The reply does not repeat the key.
		hit := &RecordHit{recordOf(which.Found)}
		hit.Key = key
		return hit, nil
	case *pb.RecordGetReply_Missing:
		return miss, nil
	}
	return nil, emptyReplyError(methodRecordGet)
}

// RecordDelete deletes a record: *Found or *Miss.
func (c *Client) RecordDelete(
	ctx context.Context, cache, key string, options ...RecordDeleteOption,
) (FoundResult, error) {
	request := &pb.RecordDeleteRequest{Key: []byte(key)}
	for _, each := range options {
		each.applyDelete(request)
	}
	reply, err := unary(ctx, c, methodRecordDelete, cache, request, &pb.RecordDeleteReply{})
	if err != nil {
		return nil, err
	}
	if reply.Found {
		return &Found{}, nil
	}
	return miss, nil
}

// RecordScan returns a page of the records of a set, in no order.
func (c *Client) RecordScan(
	ctx context.Context, cache, set string, options ...RecordReadOption,
) (*RecordPage, error) {
	read := readOf(options)
	reply, err := unary(ctx, c, methodRecordScan, cache, &pb.RecordScanRequest{
		Set: set, Cursor: read.cursor, CountMax: read.countMax, Filter: read.filter, Bins: read.bins,
	}, &pb.RecordPage{})
	return pageOf(reply, err)
}

// BinRange are the values of a bin that RecordQuery finds. EqualTo and WithinRange return ranges.
type BinRange struct{ equal, least, greatest *pb.BinValue }

// EqualTo returns the range of one value.
func EqualTo(value BinValue) BinRange { return BinRange{equal: messageOf(value)} }

// WithinRange returns the range from one value to another one, both included.
func WithinRange(least, greatest BinValue) BinRange {
	return BinRange{least: messageOf(least), greatest: messageOf(greatest)}
}

// RecordQuery returns a page of the records of a set whose bin has one of these values. The bin needs an index: the
// error CodeFailedPrecondition shows that it has none.
func (c *Client) RecordQuery(
	ctx context.Context, cache, set, bin string, values BinRange, options ...RecordReadOption,
) (*RecordPage, error) {
	read := readOf(options)
	reply, err := unary(ctx, c, methodRecordQuery, cache, &pb.RecordQueryRequest{
		Set: set, Bin: []byte(bin), Equal: values.equal, Least: values.least, Greatest: values.greatest,
		Cursor: read.cursor, CountMax: read.countMax, Filter: read.filter, Bins: read.bins,
	}, &pb.RecordPage{})
	return pageOf(reply, err)
}

// AllPages returns the records of all pages of RecordScan or RecordQuery. It ends after an error.
//
//	records := gannet.AllPages(func(cursor gannet.Cursor) (*gannet.RecordPage, error) {
//		return client.RecordScan(ctx, "default", "people", cursor)
//	})
//	for record, err := range records { ... }
func AllPages(page func(Cursor) (*RecordPage, error)) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for cursor := Cursor(""); ; {
			next, err := page(cursor)
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, each := range next.Records {
				if !yield(each, nil) {
					return
				}
			}
			if cursor = Cursor(next.Cursor); cursor == "" {
				return
			}
		}
	}
}

func readOf(options []RecordReadOption) recordRead {
	var read recordRead
	for _, each := range options {
		each.applyRead(&read)
	}
	return read
}

func recordOf(message *pb.Record) Record {
	record := Record{Key: string(message.Key), Revision: message.Revision, Bins: make(Bins, len(message.Bins))}
	if message.ExpiresAtMs > 0 {
		record.ExpiresAt = time.UnixMilli(int64(message.ExpiresAtMs))
	}
	for _, bin := range message.Bins {
		record.Bins[string(bin.Name)] = valueOf(bin.Value)
	}
	return record
}

func pageOf(reply *pb.RecordPage, err error) (*RecordPage, error) {
	if err != nil {
		return nil, err
	}
	page := &RecordPage{Cursor: reply.Cursor, Records: make([]Record, len(reply.Records))}
	for at, each := range reply.Records {
		page.Records[at] = recordOf(each)
	}
	return page, nil
}
