package mgmt

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// description describes the request and the answer of a handler. A handler that reads another body or
// returns another answer panics, so that a test fails.
type description struct {
	body    reflect.Type // nil if the request has none
	use     contract.Use // operation that the body is for
	answer  reflect.Type // nil if the answer has none
	member  string       // name of the member that wraps the answer; "" if it isn't wrapped
	media   string       // content type of the answer; "" for JSON
	empty   bool         // the answer may also be 204
	state   bool         // rejected with 409 if the object's state forbids it
	public  bool         // needs no API key
	maxBody int64        // limit in bytes, checked before authentication; 0 for none
	queries []func(*server, *call)
}

// returning wraps a handler whose answer is of type W.
func returning[W any](serve func(s *server, c *call) (any, error)) handler {
	return handler{func(s *server, c *call) (any, error) {
		body, err := serve(s, c)
		if err != nil {
			return nil, err
		}
		if _, isEmpty := body.(noContent); isEmpty {
			return body, nil
		}
		return body.(W), nil
	}, description{answer: reflect.TypeFor[W]()}}
}

// streaming wraps a handler whose answer isn't JSON.
func streaming(media string, serve func(s *server, c *call) (any, error)) handler {
	h := returning[http.Handler](serve)
	h.media = media
	return h
}

// withBody declares that a handler decodes a body of type B.
func withBody[B any](u contract.Use, h handler) handler {
	h.body, h.use = reflect.TypeFor[B](), u
	return h
}

// withQuery declares the function with which a handler reads parameters; the function declares them.
func withQuery[Q any](read func(*call) (Q, error), h handler) handler {
	return withServerQuery(func(_ *server, c *call) (Q, error) { return read(c) }, h)
}

// withServerQuery is withQuery for parameters that depend on the server's time.
func withServerQuery[Q any](read func(*server, *call) (Q, error), h handler) handler {
	h.queries = append(h.queries, func(s *server, c *call) { _, _ = read(s, c) })
	return h
}

// withFlags declares the flags that a handler of version 1 reads.
func withFlags(names []string, h handler) handler {
	return withQuery(func(c *call) (map[string]bool, error) { return includeFlags(c, names...) }, h)
}

// orNothing describes a handler whose answer may also be 204.
func orNothing(h handler) handler { h.empty = true; return h }

// conflicts describes a handler that rejects requests which the object's state forbids.
func conflicts(h handler) handler { h.state = true; return h }

// limitsBody rejects larger bodies before authentication.
func limitsBody(bytes int64, h handler) handler { h.maxBody = bytes; return h }

// withoutKey declares that a handler needs no API key.
func withoutKey(h handler) handler { h.public = true; return h }

// mustTake panics if the handler decodes another body than it describes.
func (d description) mustTake(body reflect.Type, u contract.Use) {
	if d.body != body || d.use != u {
		panic(fmt.Sprintf("the handler decodes a %s for use %d and describes a %v for use %d: see withBody", body, u, d.body, d.use))
	}
}

// declare records a parameter that a handler reads, if description.parameters calls it.
func (c *call) declare(p openapi.Parameter) {
	if c.declared != nil {
		*c.declared = append(*c.declared, p)
	}
}

// parameters returns the parameters in the path, and those that the handler's functions read.
func (d description) parameters(version int, path string) (out []openapi.Parameter) {
	for segment := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			out = append(out, openapi.Parameter{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: &openapi.Schema{Type: "string"}})
		}
	}
	s := &server{Config: Config{Clock: new(clock.Clock)}}
	c := &call{http: &http.Request{URL: new(url.URL)}, version: version, declared: &out}
	for _, read := range d.queries {
		read(s, c)
	}
	return out
}
