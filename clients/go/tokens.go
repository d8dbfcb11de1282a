package gannet

import (
	"context"
	"time"

	pb "gannet.dev/client/gannetv1"
)

// Role is what a permission allows.
type Role int

// The roles of permissions.
const (
	ReadWrite = Role(pb.Permission_READ_WRITE)
	ReadOnly  = Role(pb.Permission_READ_ONLY)
	// WriteOnly excludes calls whose effect or reply depends on present values.
	WriteOnly = Role(pb.Permission_WRITE_ONLY)
)

// CacheSelector selects the caches of a permission. AllCaches and OneCache return selectors.
type CacheSelector struct {
	name  string
	isOne bool
}

// AllCaches selects all caches.
func AllCaches() CacheSelector { return CacheSelector{} }

// OneCache selects the cache with this name.
func OneCache(name string) CacheSelector { return CacheSelector{name, true} }

// NameSelector selects keys or topics of a permission. AllNames, OneName and NamesWithPrefix return selectors.
type NameSelector struct{ part *pb.Permission_Part }

// AllNames selects all keys or topics.
func AllNames() NameSelector { return NameSelector{} }

// OneName selects one key or topic.
func OneName(name string) NameSelector {
	return NameSelector{&pb.Permission_Part{Kind: &pb.Permission_Part_Name{Name: []byte(name)}}}
}

// NamesWithPrefix selects the keys or topics that begin with this prefix.
func NamesWithPrefix(prefix string) NameSelector {
	return NameSelector{&pb.Permission_Part{Kind: &pb.Permission_Part_Prefix{Prefix: []byte(prefix)}}}
}

// Permission is one right of a token. PermitItems and PermitTopics return permissions.
type Permission struct{ message *pb.Permission }

// PermitItems returns the permission to use items.
func PermitItems(role Role, caches CacheSelector, keys NameSelector) Permission {
	return Permission{&pb.Permission{Kind: &pb.Permission_Items{Items: scopeOf(role, caches, keys)}}}
}

// PermitTopics returns the permission to publish (WriteOnly), to subscribe (ReadOnly), or both.
func PermitTopics(role Role, caches CacheSelector, topics NameSelector) Permission {
	return Permission{&pb.Permission{Kind: &pb.Permission_Topics{Topics: scopeOf(role, caches, topics)}}}
}

func scopeOf(role Role, caches CacheSelector, names NameSelector) *pb.Permission_Scope {
	scope := &pb.Permission_Scope{Role: pb.Permission_Role(role)}
	if caches.isOne {
		scope.Cache = &pb.Permission_Scope_OneCache{OneCache: &pb.Permission_CacheSelector{Name: caches.name}}
	} else {
		scope.Cache = &pb.Permission_Scope_AllCaches{AllCaches: &pb.Permission_All{}}
	}
	if names.part != nil {
		scope.Which = &pb.Permission_Scope_Part{Part: names.part}
	} else {
		scope.Which = &pb.Permission_Scope_Everything{Everything: &pb.Permission_All{}}
	}
	return scope
}

// Permissions are all rights of a token. Superuser and Permit return permissions.
type Permissions struct{ message *pb.Permissions }

// Superuser returns all permissions.
func Superuser() Permissions { return Permissions{&pb.Permissions{Kind: &pb.Permissions_Superuser_{}}} }

// Permit returns these permissions and no other ones.
func Permit(permissions ...Permission) Permissions {
	all := &pb.Permissions_Explicit{}
	for _, each := range permissions {
		all.Permissions = append(all.Permissions, each.message)
	}
	return Permissions{&pb.Permissions{Kind: &pb.Permissions_Explicit_{Explicit: all}}}
}

// TokenOption changes a call that issues a token. TokenID is one.
type TokenOption interface{ applyToken() string }

// TokenID is the identity that messages carry which the holder of the token publishes.
type TokenID string

func (t TokenID) applyToken() string { return string(t) }

// APIToken is a token and the refresh token that replaces both before they end. No format prints them.
type APIToken struct {
	Token, RefreshToken string
	// Endpoint is the address under which the client knows the server.
	Endpoint string
	// ValidUntil is the zero time if the token does not end.
	ValidUntil time.Time
}

// String returns the address.
func (t APIToken) String() string { return "gannet.APIToken(" + t.Endpoint + ")" }

// GoString returns the same text as String.
func (t APIToken) GoString() string { return t.String() }

// DisposableToken is a token for a short time. No format prints it.
type DisposableToken struct {
	Token      string
	Endpoint   string
	ValidUntil time.Time
}

// String returns the address.
func (t DisposableToken) String() string { return "gannet.DisposableToken(" + t.Endpoint + ")" }

// GoString returns the same text as String.
func (t DisposableToken) GoString() string { return t.String() }

// GenerateAPIToken issues a token that is valid for this time, in whole seconds, or does not end if it is 0. The caller
// needs all rights.
func (c *Client) GenerateAPIToken(
	ctx context.Context, permissions Permissions, validity time.Duration, options ...TokenOption,
) (*APIToken, error) {
	request := &pb.GenerateApiTokenRequest{Permissions: permissions.message, TokenId: idOf(options)}
	if validity == 0 {
		request.Expiry = &pb.GenerateApiTokenRequest_Never_{Never: &pb.GenerateApiTokenRequest_Never{}}
	} else {
		request.Expiry = &pb.GenerateApiTokenRequest_Expires{Expires: validityOf(validity)}
	}
	reply, err := unary(ctx, c, methodGenerateAPIToken, "", request, &pb.ApiToken{})
	return apiTokenOf(reply, err)
}

// RefreshAPIToken replaces a token and its refresh token, which are valid until they would end by themselves.
func (c *Client) RefreshAPIToken(ctx context.Context, token *APIToken) (*APIToken, error) {
	request := &pb.RefreshApiTokenRequest{Token: token.Token, RefreshToken: token.RefreshToken}
	reply, err := unary(ctx, c, methodRefreshAPIToken, "", request, &pb.ApiToken{})
	return apiTokenOf(reply, err)
}

// GenerateDisposableToken issues a token without a refresh token that is valid for this time, in whole seconds. The
// caller needs all rights.
func (c *Client) GenerateDisposableToken(
	ctx context.Context, permissions Permissions, validity time.Duration, options ...TokenOption,
) (*DisposableToken, error) {
	request := &pb.GenerateDisposableTokenRequest{
		Expires: validityOf(validity), Permissions: permissions.message, TokenId: idOf(options),
	}
	reply, err := unary(ctx, c, methodGenerateDisposableToken, "", request, &pb.DisposableToken{})
	if err != nil {
		return nil, err
	}
	return &DisposableToken{reply.Token, reply.Endpoint, instantOf(reply.ValidUntil)}, nil
}

func idOf(options []TokenOption) (id string) {
	for _, each := range options {
		id = each.applyToken()
	}
	return id
}

func validityOf(validity time.Duration) *pb.Validity {
	return &pb.Validity{Seconds: uint32(max(0, min(validity/time.Second, 1<<32-1)))}
}

func instantOf(seconds uint64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

func apiTokenOf(reply *pb.ApiToken, err error) (*APIToken, error) {
	if err != nil {
		return nil, err
	}
	return &APIToken{reply.Token, reply.RefreshToken, reply.Endpoint, instantOf(reply.ValidUntil)}, nil
}
