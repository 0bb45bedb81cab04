package mgmt

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// description describes the request and the answer of a handler.
type description struct {
	body    reflect.Type // nil if the request has none
	use     contract.Use // operation that the body is for
	answer  reflect.Type // nil if the answer has none
	member  string       // name of the member that wraps the answer; "" if it isn't wrapped
	paged   bool         // the answer also has the member pagination
	media   string       // content type of the answer; "" for JSON
	empty   bool         // the answer may also be 204
	state   bool         // rejected with 409 if the object's state forbids it
	public  bool         // needs no API key
	maxBody int64        // limit in bytes, checked before authentication; 0 for none
	// readQuery reads the parameters; nil if there are none.
	readQuery func(*query)
}

// withMedia describes a handler whose answer isn't JSON.
func withMedia(media string, h handler) handler { h.media = media; return h }

// withEmptyAnswer describes a handler whose answer is a W, or noContent for 204.
func withEmptyAnswer[W any](h handler) handler {
	h.empty, h.answer = true, reflect.TypeFor[W]()
	return h
}

// conflicts describes a handler that rejects requests which the object's state forbids.
func conflicts(h handler) handler { h.state = true; return h }

// limitsBody rejects larger bodies before authentication.
func limitsBody(bytes int64, h handler) handler { h.maxBody = bytes; return h }

// withoutKey declares that a handler needs no API key.
func withoutKey(h handler) handler { h.public = true; return h }

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
	if d.readQuery != nil {
		s := &server{Config: Config{Clock: new(clock.Clock)}}
		d.readQuery(newQuery(&call{server: s, http: &http.Request{URL: new(url.URL)}, version: version, declared: &out}))
	}
	return out
}
