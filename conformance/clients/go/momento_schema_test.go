package conformance

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The version of Momento's published schemas, software.momento.java:client-protos on Maven Central. Momento's Go module
// has them in an internal package. They lack the calls on hashes of values and unions of sorted sets, which the tests
// for Node and Python make.
const schemasVersion = "0.122.1"

// The schemas of the services that Gannet serves, at least in part.
var schemaFiles = []string{
	"auth.proto", "cacheclient.proto", "cacheping.proto", "cachepubsub.proto", "controlclient.proto",
	"leaderboard.proto", "token.proto",
}

// Returns the methods of the published schemas by their full names, as in "cache_client.Scs/Get".
var momentoMethods = sync.OnceValues(func() (map[string]protoreflect.MethodDescriptor, error) {
	sources, err := publishedSchemas()
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(sources),
	})}
	files, err := compiler.Compile(context.Background(), schemaFiles...)
	if err != nil {
		return nil, err
	}
	methods := map[string]protoreflect.MethodDescriptor{}
	for _, file := range files {
		for at := 0; at < file.Services().Len(); at++ {
			service := file.Services().Get(at)
			for of := 0; of < service.Methods().Len(); of++ {
				method := service.Methods().Get(of)
				methods[fmt.Sprintf("%s/%s", service.FullName(), method.Name())] = method
			}
		}
	}
	return methods, nil
})

// Reads the schemas from the local Maven repository, into which Maven loads them if they are absent.
func publishedSchemas() (map[string]string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("software/momento/java/client-protos/%s/client-protos-%[1]s.jar", schemasVersion)
	path := filepath.Join(home, ".m2/repository", name)
	if _, err := os.Stat(path); err != nil {
		artifact := "-Dartifact=software.momento.java:client-protos:" + schemasVersion
		maven := exec.Command("mvn", "-q", "-B", "-ntp", "dependency:get", "-Dtransitive=false", artifact)
		if output, err := maven.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("cannot load %s: %w: %s", artifact, err, output)
		}
	}
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	sources := map[string]string{}
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, ".proto") {
			continue
		}
		reader, err := file.Open()
		if err != nil {
			return nil, err
		}
		source, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		sources[file.Name] = string(source)
	}
	return sources, nil
}

// A client that sends requests written as text, and compares replies with such texts.
type momentoClient struct {
	t       *testing.T
	conn    *grpc.ClientConn
	methods map[string]protoreflect.MethodDescriptor
	called  map[string]bool
	// A Redis client, which sees the same items.
	plain *redis.Client
	// The credential of later calls; empty: none.
	token string
}

func connectMomento(t *testing.T) *momentoClient {
	t.Helper()
	methods, err := momentoMethods()
	must(t, err)
	port, redisAddress := startGrpcAndRedis(t)
	conn, err := grpc.NewClient(
		net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	plain := redis.NewClient(&redis.Options{Addr: redisAddress})
	t.Cleanup(func() {
		_ = conn.Close()
		_ = plain.Close()
	})
	return &momentoClient{t: t, conn: conn, methods: methods, called: map[string]bool{}, plain: plain}
}

func (c *momentoClient) context(cache string) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	c.t.Cleanup(cancel)
	pairs := []string{"cache", cache}
	if c.token != "" {
		pairs = append(pairs, "authorization", c.token)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

func (c *momentoClient) message(of protoreflect.MessageDescriptor, text string) *dynamicpb.Message {
	c.t.Helper()
	message := dynamicpb.NewMessage(of)
	if err := prototext.Unmarshal([]byte(text), message); err != nil {
		c.t.Fatalf("%s %q: %v", of.FullName(), text, err)
	}
	return message
}

func (c *momentoClient) method(name string) protoreflect.MethodDescriptor {
	c.t.Helper()
	method, found := c.methods[name]
	if !found {
		c.t.Fatalf("the published schemas have no %s", name)
	}
	c.called[name] = true
	return method
}

// Sends a request, and returns the reply or the first reply of a stream.
func (c *momentoClient) try(cache, name, request string) (*dynamicpb.Message, error) {
	c.t.Helper()
	method := c.method(name)
	if method.IsStreamingServer() {
		stream, err := c.open(cache, name, request)
		if err != nil {
			return nil, err
		}
		return c.next(stream, method)
	}
	reply := dynamicpb.NewMessage(method.Output())
	err := c.conn.Invoke(c.context(cache), "/"+name, c.message(method.Input(), request), reply)
	return reply, err
}

// Sends a request, and fails unless the reply is this one.
func (c *momentoClient) is(name, request, wanted string) {
	c.t.Helper()
	reply, err := c.try("default", name, request)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	if expected := c.message(reply.Descriptor(), wanted); !proto.Equal(reply, expected) {
		c.t.Errorf("%s: got %v, wanted %v", name, reply, expected)
	}
}

// Sends a request, and returns the value of a field of the reply.
func (c *momentoClient) field(name, request string, path ...string) protoreflect.Value {
	c.t.Helper()
	reply, err := c.try("default", name, request)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return field(reply, path...)
}

func field(message protoreflect.Message, path ...string) protoreflect.Value {
	of := message.Descriptor().Fields().ByName(protoreflect.Name(path[0]))
	value := message.Get(of)
	if len(path) > 1 {
		return field(value.Message(), path[1:]...)
	}
	return value
}

// Sends a request, and fails unless the reply is an error with this code. `limit`: the limit that it names, or "".
func (c *momentoClient) fails(code codes.Code, limit, cache, name, request string) {
	c.t.Helper()
	method := c.method(name)
	var trailer metadata.MD
	var err error
	if method.IsStreamingServer() {
		_, err = c.try(cache, name, request)
	} else {
		reply := dynamicpb.NewMessage(method.Output())
		message := c.message(method.Input(), request)
		err = c.conn.Invoke(c.context(cache), "/"+name, message, reply, grpc.Trailer(&trailer))
	}
	if status.Code(err) != code {
		c.t.Errorf("%s: got %v, wanted %v", name, err, code)
	}
	if got := strings.Join(trailer.Get("err"), " "); got != limit {
		c.t.Errorf("%s: the limit is %q, wanted %q", name, got, limit)
	}
}

func (c *momentoClient) open(cache, name, request string) (grpc.ClientStream, error) {
	c.t.Helper()
	method := c.method(name)
	stream, err := c.conn.NewStream(c.context(cache), &grpc.StreamDesc{ServerStreams: true}, "/"+name)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(c.message(method.Input(), request)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream, stream.CloseSend()
}

func (c *momentoClient) next(
	stream grpc.ClientStream, method protoreflect.MethodDescriptor,
) (*dynamicpb.Message, error) {
	reply := dynamicpb.NewMessage(method.Output())
	err := stream.RecvMsg(reply)
	return reply, err
}

// Sends a request, and fails unless the stream has these replies and ends.
func (c *momentoClient) streams(name, request string, wanted ...string) {
	c.t.Helper()
	stream, err := c.open("default", name, request)
	must(c.t, err)
	method := c.method(name)
	for at, text := range wanted {
		reply, err := c.next(stream, method)
		must(c.t, err)
		if expected := c.message(method.Output(), text); !proto.Equal(reply, expected) {
			c.t.Errorf("%s, reply %d: got %v, wanted %v", name, at, reply, expected)
		}
	}
	if _, err := c.next(stream, method); !errors.Is(err, io.EOF) {
		c.t.Errorf("%s: got %v after the last reply", name, err)
	}
}

// Fails if a method of these services was not called.
func (c *momentoClient) calledAllOf(services ...string) {
	c.t.Helper()
	var missing []string
	for _, service := range services {
		count := 0
		for name := range c.methods {
			if strings.HasPrefix(name, service+"/") {
				count++
				if !c.called[name] {
					missing = append(missing, name)
				}
			}
		}
		if count == 0 {
			c.t.Errorf("the published schemas have no service %s", service)
		}
	}
	sort.Strings(missing)
	if len(missing) > 0 {
		c.t.Errorf("not called: %s", strings.Join(missing, " "))
	}
}
