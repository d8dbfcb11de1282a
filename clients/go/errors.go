package gannet

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Code is the kind of an error. All client libraries have the same codes.
type Code int

// The kinds of errors.
const (
	// CodeUnknown is another error of the server.
	CodeUnknown Code = iota
	// CodeInvalidArgument shows that an argument is not allowed, such as an empty key.
	CodeInvalidArgument
	// CodeNotFoundCache shows that the cache does not exist.
	CodeNotFoundCache
	// CodeAlreadyExists shows that the cache exists already.
	CodeAlreadyExists
	// CodeFailedPrecondition shows that the item has another type, or that its value is not a number; of a graph, that
	// the edge type has another form, that its cap is reached, or that the server has no graph store.
	CodeFailedPrecondition
	// CodeUnauthenticated shows that the token is missing or wrong.
	CodeUnauthenticated
	// CodePermissionDenied shows that the user of the token may not execute the call.
	CodePermissionDenied
	// CodeLimitExceeded names a limit of the server: memory, quota, size of a message or value, number of caches, graphs
	// or nodes.
	CodeLimitExceeded
	// CodeTimeout shows that the deadline passed before a reply arrived. The server may have executed the call.
	CodeTimeout
	// CodeClientQueueTimeout shows that the deadline passed while the request waited in the client. The server did not
	// receive it.
	CodeClientQueueTimeout
	// CodeClientQueueFull shows that too many requests wait in the client. The server did not receive this one.
	CodeClientQueueFull
	// CodeCancelled shows that the caller cancelled the call, or closed the client.
	CodeCancelled
	// CodeUnavailable shows that the server cannot be reached, or does not speak the protocol of the client.
	CodeUnavailable
	// CodeUnimplemented shows that the server does not have the call.
	CodeUnimplemented
	// CodeInternal shows that the server failed, or that a reply contradicts the protocol.
	CodeInternal
	// CodeAborted shows that the record has another revision than the call names.
	CodeAborted
	// CodeNotFoundRecord shows that the record to change does not exist.
	CodeNotFoundRecord
	// CodeNotFoundGraph shows that the graph or the edge type is not declared.
	CodeNotFoundGraph

	codesCount = int(iota)
)

var codeNames = [codesCount]string{
	"UNKNOWN", "INVALID_ARGUMENT", "NOT_FOUND_CACHE", "ALREADY_EXISTS", "FAILED_PRECONDITION", "UNAUTHENTICATED",
	"PERMISSION_DENIED", "LIMIT_EXCEEDED", "TIMEOUT", "CLIENT_QUEUE_TIMEOUT", "CLIENT_QUEUE_FULL", "CANCELLED",
	"UNAVAILABLE", "UNIMPLEMENTED", "INTERNAL", "ABORTED", "NOT_FOUND_RECORD", "NOT_FOUND_GRAPH",
}

// String returns the name that all client libraries use, such as "NOT_FOUND_CACHE".
func (c Code) String() string {
	if c < 0 || int(c) >= codesCount {
		return fmt.Sprintf("Code(%d)", int(c))
	}
	return codeNames[c]
}

// Error is a call that failed, or a client that cannot be created. Every error of this package is a *Error:
//
//	var failure *gannet.Error
//	if errors.As(err, &failure) && failure.Code == gannet.CodeNotFoundCache { ... }
type Error struct {
	Code Code
	// Message is one sentence for people: cannot VERB OBJECT: CAUSE; REMEDY.
	Message string
	// Remedy is the end of Message: an action that avoids the error.
	Remedy string
	// Retryable is true if the same call may succeed later. A call that is not idempotent may have been executed.
	Retryable bool

	cause error
	// status is that of the server or of its connection; codes.OK for an error of the client itself.
	status codes.Code
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the error of gRPC or of the context, or nil.
func (e *Error) Unwrap() error { return e.cause }

func newError(code Code, action, cause, remedy string, wrapped error) *Error {
	return &Error{code, action + ": " + cause + "; " + remedy, remedy, isRetryable(code), wrapped, codes.OK}
}

func isRetryable(code Code) bool {
	switch code {
	case CodeUnavailable, CodeInternal, CodeTimeout, CodeClientQueueTimeout, CodeClientQueueFull:
		return true
	}
	return false
}

// refusal is the reason why the client does not send a request.
type refusal struct {
	code          Code
	cause, remedy string
	wrapped       error
}

var (
	refusalClosed    = refusal{CodeCancelled, "the client is closed", "create a new client", context.Canceled}
	refusalCancelled = refusal{
		CodeCancelled, "the caller cancelled it", "repeat the call if its result is still needed", context.Canceled,
	}
	refusalCacheName = refusal{
		CodeInvalidArgument, "the name of the cache is not printable ASCII", "correct the name", nil,
	}
	refusalQueueTimeout = refusal{
		CodeClientQueueTimeout, "the deadline passed while the request waited in the client's queue",
		"send fewer requests at once, or raise RequestsInFlightMax or the deadline", context.DeadlineExceeded,
	}
)

func refusalQueueFull(requests int) *refusal {
	return &refusal{
		CodeClientQueueFull, fmt.Sprintf("%d requests wait in the client's queue, which is its maximum", requests),
		"send fewer requests at once, or raise RequestsQueuedMax", nil,
	}
}

// refusalShort returns the reason why a time cannot be sent: the server takes 0 ms for its default.
func refusalShort(name string, given time.Duration, alternative string) *refusal {
	return &refusal{
		CodeInvalidArgument, fmt.Sprintf("%s is %s, which is below 1 ms", name, given),
		"pass at least 1 ms, or " + alternative, nil,
	}
}

// refusalOf returns the reason why a request whose context ended leaves the queue.
func refusalOf(ctx context.Context) *refusal {
	if ctx.Err() == context.DeadlineExceeded {
		return &refusalQueueTimeout
	}
	return &refusalCancelled
}

func (r *refusal) error(method string) *Error {
	return newError(r.code, "cannot execute "+method, r.cause, r.remedy, r.wrapped)
}

// isPrintableASCII returns whether a header of HTTP/2 may have a text as its value.
func isPrintableASCII(text string) bool {
	for at := range len(text) {
		if text[at] < ' ' || text[at] > '~' {
			return false
		}
	}
	return true
}

// isNotEncoded returns whether a request was not sent because a text in it is not UTF-8.
func isNotEncoded(err error) bool {
	return status.Code(err) == codes.Internal && strings.Contains(status.Convert(err).Message(), "error while marshaling")
}

// codeOf returns the kind of a status other than OK.
func codeOf(code codes.Code) Code {
	switch code {
	case codes.InvalidArgument, codes.OutOfRange:
		return CodeInvalidArgument
	case codes.NotFound:
		return CodeNotFoundCache
	case codes.AlreadyExists:
		return CodeAlreadyExists
	case codes.FailedPrecondition:
		return CodeFailedPrecondition
	case codes.Unauthenticated:
		return CodeUnauthenticated
	case codes.PermissionDenied:
		return CodePermissionDenied
	case codes.ResourceExhausted:
		return CodeLimitExceeded
	case codes.DeadlineExceeded:
		return CodeTimeout
	case codes.Canceled:
		return CodeCancelled
	case codes.Unavailable:
		return CodeUnavailable
	case codes.Unimplemented:
		return CodeUnimplemented
	case codes.Aborted:
		return CodeAborted
	case codes.Internal, codes.DataLoss:
		return CodeInternal
	}
	return CodeUnknown
}

var remedies = map[Code]string{
	CodeInvalidArgument:    "change the argument",
	CodeNotFoundCache:      "create the cache with CreateCache, or correct its name",
	CodeAlreadyExists:      "use the cache, or choose another name",
	CodeFailedPrecondition: "use the calls of the item's type (GetType returns it), or delete the item first",
	CodeUnauthenticated: "pass gannet.Token(ADDRESS, TOKEN); the token is the password of the user default, " +
		"or USER:PASSWORD",
	CodePermissionDenied: "create a token with this permission (gannet user token, or GenerateDisposableToken), " +
		"or grant the right to the user with ACL SETUSER",
	CodeLimitExceeded:  "store less in one call, or raise the limit of the server",
	CodeTimeout:        "raise the deadline of the configuration or of the context, or reduce the load of the server",
	CodeCancelled:      "repeat the call if its result is still needed",
	CodeUnimplemented:  "use a server of the same version as the client, or newer",
	CodeInternal:       "repeat the call; if it fails again, read the log of the server",
	CodeUnknown:        "read the log of the server",
	CodeAborted:        "read the record with RecordGet, and repeat the change with its revision",
	CodeNotFoundRecord: "create the record with RecordPut",
	CodeNotFoundGraph:  "declare the edge type with DeclareType, or correct the names",
}

// graphRemedies are those of refused calls on graphs, whose messages name the cause. The ones above are of items.
var graphRemedies = map[Code]string{
	CodeFailedPrecondition: "see the limits of graphs in docs/graph/README.md, and change the call",
	CodeLimitExceeded:      "send or store less, or raise the limit of the server (graph.memory for graphs)",
}

// serverMessageBytesMax is the maximum size of a request in bytes. No setting of the server changes it.
const serverMessageBytesMax = 10 << 20

// explainLimit returns the cause and the remedy of an exceeded limit, if the message of the server, or that of the gRPC
// library, names no remedy.
func (e *engine) explainLimit(cause, remedy string, request proto.Message) (string, string) {
	messageMax := e.configuration.messageBytesMax
	switch {
	case strings.Contains(cause, "size limit exceeded"):
		return fmt.Sprintf("%s, and the request has %d bytes", cause, proto.Size(request)),
			"store less in one item, or raise the limit by --item-max of the server"
	case strings.Contains(cause, "send message larger than max"):
		remedy = "send less in one call"
		if messageMax < serverMessageBytesMax {
			remedy = fmt.Sprintf("%s, or raise MessageBytesMax to at most %d bytes", remedy, serverMessageBytesMax)
		}
		return fmt.Sprintf("the request has %d bytes, above the maximum of %d bytes", proto.Size(request), messageMax),
			remedy
	case strings.Contains(cause, "larger than max"):
		return fmt.Sprintf("the reply is longer than the maximum of %d bytes", messageMax),
			"read less in one call, or raise MessageBytesMax"
	}
	return cause, remedy
}

// codeOf returns the kind of a status other than OK of a call.
func (m *method) codeOf(state *status.Status) Code {
	code := codeOf(state.Code())
	switch {
	case code != CodeNotFoundCache || strings.HasPrefix(state.Message(), "the cache"):
		return code
	case strings.HasPrefix(m.name, "Record"):
		return CodeNotFoundRecord
	case strings.HasPrefix(m.path, graphPath):
		return CodeNotFoundGraph
	}
	return code
}

// remedyOf returns the remedy of a kind of errors of a call, for messages of the server that name none.
func (m *method) remedyOf(code Code) string {
	if remedy, has := graphRemedies[code]; has && strings.HasPrefix(m.path, graphPath) {
		return remedy
	}
	return remedies[code]
}

// errorOfStatus returns the error of a call that ended with a gRPC status other than OK.
func (e *engine) errorOfStatus(m *method, request proto.Message, failure error) *Error {
	if isNotEncoded(failure) {
		result := newError(CodeInvalidArgument, "cannot execute "+m.name, "a name, filter or text is not UTF-8",
			"pass UTF-8; only keys, values, fields and elements may hold any bytes", failure)
		result.status = codes.InvalidArgument
		return result
	}
	state := status.Convert(failure)
	code := m.codeOf(state)
	cause, remedy := strings.TrimSpace(state.Message()), m.remedyOf(code)
	if cause == "" {
		cause = state.Code().String()
	}
	if own, theirs, found := strings.Cut(cause, "; "); found && code != CodeUnavailable {
		// The server's own message names the remedy.
		cause = own
		if code != CodeNotFoundCache && code != CodeNotFoundGraph {
			remedy = theirs
		}
	}
	wrapped := failure
	switch code {
	case CodeUnavailable:
		cause, remedy = e.target.unavailable(state.Message())
	case CodeUnauthenticated:
		cause, remedy = "the server needs a token, and none was passed", remedies[code]
		if e.target.token != "" {
			cause = "the server does not accept the token"
		}
	case CodeTimeout:
		cause, remedy, wrapped = "no reply arrived before the deadline", remedies[code], context.DeadlineExceeded
	case CodeLimitExceeded:
		cause, remedy = e.explainLimit(cause, remedy, request)
	case CodeCancelled:
		wrapped = context.Canceled
	}
	result := newError(code, "cannot execute "+m.name+" at "+e.target.address, cause, remedy, wrapped)
	result.status = state.Code()
	return result
}

// badReply returns the error of a reply that contradicts the schema.
func badReply(method, cause string) *Error {
	return newError(CodeInternal, "cannot execute "+method, cause, "use a server and a client of one version", nil)
}

// unavailable returns the cause and the remedy of a connection that failed, by the text of the gRPC library.
func (c Credentials) unavailable(details string) (cause, remedy string) {
	text := strings.ToLower(details)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	isHandshake := has("handshake failed")
	switch {
	case has("no such host", "server misbehaving", "lookup "):
		return "the host name is unknown", "correct the host name, or check DNS"
	case has("server preface") && has("use of closed network connection"):
		// gRPC closed the connection when the time for opening it had passed.
		return "the server accepts connections, but does not answer",
			"check that the server is not stopped or overloaded, and that a firewall does not discard its replies"
	case has("i/o timeout", "deadline exceeded", "no route to host", "unreachable", "timed out"):
		return "the server does not answer (" + lastOf(details) + ")",
			"check the address, the network and the firewall, and that the server is not stopped"
	case isHandshake && has("x509", "certificate"):
		return "the certificate of the server was not signed by a known CA, or names another host (" + lastOf(details) + ")",
			"pass Credentials.WithCAFile(PATH) with the CA of the server, and the host name of its certificate as the address"
	case isHandshake && has("does not look like a tls handshake", "eof", "reset"):
		return "the server at this port does not use TLS",
			"pass Credentials.WithPlaintext(), or the address of the port that uses TLS"
	case isHandshake && has("alpn", "application protocol"):
		return "the server at this port uses TLS, but does not speak gRPC",
			"pass the address of gannet serve --grpc, not the port of memcached, Redis or HTTP clients"
	case isHandshake:
		return "the TLS handshake failed (" + lastOf(details) + ")", "check that the port uses TLS, and its certificate"
	case has("connection refused"):
		return "no server listens there",
			"start one with `gannet serve --grpc " + c.address + "`, or correct the address"
	case has("server preface", "preface", "http/1.x", "http2: frame too large", "frame header looked like"):
		return "the server at this port does not speak gRPC",
			"pass the address of `gannet serve --grpc`, not the port of memcached, Redis or HTTP clients; " +
				"if the port uses TLS, pass Credentials.WithTLS()"
	case has("eof", "reset by peer", "broken pipe", "goaway", "closing", "error reading from server"):
		return "the server closed the connection", "repeat the call; if it fails again, check that the server runs, and " +
			"that TLS is as on its port"
	case details == "":
		details = "the server is unavailable"
	}
	return details, "repeat the call; if it fails again, check that the server runs"
}

// lastOf returns the innermost cause of a message of gRPC, without its quotes.
func lastOf(details string) string {
	if at := strings.LastIndex(details, "failed: "); at >= 0 {
		details = details[at+len("failed: "):]
	} else if at := strings.LastIndex(details, "desc = "); at >= 0 {
		details = details[at+len("desc = "):]
	}
	return strings.Trim(details, "\"")
}

func sorted(names []string) []string {
	sort.Strings(names)
	return names
}
