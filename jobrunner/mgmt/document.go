package mgmt

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/httpanswer"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// edition is a version of the API. openAPI and apiVersion are as in RunPod's document.
type edition struct {
	version    int
	openAPI    string
	apiVersion string
	server     string // base of the paths
	errors     httpanswer.Form
}

var editions = []edition{
	{1, "3.0.3", "0.1.0", "/v1", httpanswer.MessageForm},
	{2, "3.1.0", "2.0.0", "/", httpanswer.ProblemForm},
}

// apiDocuments are the OpenAPI documents of both versions, and the page of version 1.
type apiDocuments struct{ v1, v1Page, v2 httpanswer.File }

// describeAPI generates the documents of both versions from the table of operations.
func describeAPI() apiDocuments {
	v1, v2 := editions[0].document(), editions[1].document()
	return apiDocuments{
		v1:     httpanswer.NewFile("application/json", encodeDocument(v1)),
		v1Page: newPage(v1),
		v2:     httpanswer.NewFile("application/json", encodeDocument(v2)),
	}
}

func encodeDocument(d openapi.Document) []byte {
	text, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		panic(err) // never: a document has a JSON form
	}
	return append(text, '\n')
}

func (e edition) document() openapi.Document {
	s := &schemas{e.version == 1, map[string]*openapi.Schema{}, map[string]reflect.Type{}}
	d := openapi.Document{
		OpenAPI: e.openAPI,
		Info: openapi.Info{
			Title:       fmt.Sprintf("Management API, version %d", e.version),
			Description: "The operations that this deployment serves, generated from the server's routes and rules.",
			Version:     e.apiVersion,
		},
		Servers:  []openapi.Server{{URL: e.server}},
		Security: []map[string][]string{{"apiKey": {}}},
		Paths:    map[string]openapi.PathItem{},
		Components: openapi.Components{
			Schemas: s.components, Responses: map[string]*openapi.Response{},
			SecuritySchemes: map[string]openapi.SecurityScheme{"apiKey": {Type: "http", Scheme: "bearer"}},
		},
	}
	e.describeFailures(s, d.Components.Responses)
	prefix := fmt.Sprintf("/v%d/", e.version)
	for _, o := range operations {
		rest, inVersion := strings.CutPrefix(o.path, prefix)
		if !inVersion {
			continue
		}
		path := "/" + rest
		if e.server == "/" {
			path = o.path
		}
		if d.Paths[path] == nil {
			d.Paths[path] = openapi.PathItem{}
		}
		operation := e.describeOperation(s, o.method, rest, o.success, o.handle.description)
		d.Paths[path][strings.ToLower(o.method)] = operation
		if tag := (openapi.Tag{Name: operation.Tags[0]}); !slices.Contains(d.Tags, tag) {
			d.Tags = append(d.Tags, tag)
		}
	}
	return d
}

// describeOperation describes a route. The path is relative to the version.
func (e edition) describeOperation(s *schemas, method, path string, success int, h description) *openapi.Operation {
	first, _, _ := strings.Cut(path, "/")
	words := operationWords(method, path, h)
	out := &openapi.Operation{
		OperationID: operationID(words), Summary: strings.ToUpper(words[0][:1]) + strings.Join(words, " ")[1:],
		Tags: []string{first}, Parameters: h.parameters(e.version, path), Responses: map[string]*openapi.Response{},
	}
	if h.public {
		out.Security = new([]map[string][]string{})
	}
	if h.body != nil {
		out.RequestBody = &openapi.RequestBody{Required: true, Content: map[string]openapi.MediaType{"application/json": {Schema: s.bodyComponent(h.body, bodyPathOf(h.body, h.use))}}}
	}
	answer := &openapi.Response{Description: http.StatusText(success), Headers: e.headers()}
	if h.answer != nil {
		answer.Content = map[string]openapi.MediaType{cmp.Or(h.media, "application/json"): {Schema: s.successSchema(h)}}
	}
	out.Responses[strconv.Itoa(success)] = answer
	if h.empty {
		out.Responses["204"] = &openapi.Response{Description: http.StatusText(http.StatusNoContent), Headers: e.headers()}
	}
	for _, status := range e.failures(method, out, h) {
		out.Responses[strconv.Itoa(status)] = &openapi.Response{Ref: "#/components/responses/" + failureName(status)}
	}
	out.Responses["default"] = &openapi.Response{Ref: "#/components/responses/" + failureName(0)}
	return out
}

func (s *schemas) successSchema(h description) *openapi.Schema {
	switch {
	case h.media == "application/json":
		return &openapi.Schema{Type: "object"}
	case h.media != "":
		return &openapi.Schema{Type: "string"}
	case h.resource != "" && h.answer.Kind() == reflect.Slice:
		return &openapi.Schema{Type: "array", Items: s.contractObject(h.resource, "")}
	case h.resource != "":
		return s.contractObject(h.resource, "")
	case h.member != "":
		out := &openapi.Schema{Type: "object", Required: []string{h.member}, Properties: map[string]*openapi.Schema{h.member: s.answer(h.answer)}}
		if h.paged {
			out.Required = append(out.Required, "pagination")
			out.Properties["pagination"] = s.answer(reflect.TypeFor[paginationV2]())
		}
		return out
	}
	return s.answer(h.answer)
}

// headers returns the headers of every answer to a request with a valid key. Version 1 has no quotas.
func (e edition) headers() map[string]openapi.Header {
	out := map[string]openapi.Header{httpanswer.RequestID: {Description: "The id of the request.", Schema: &openapi.Schema{Type: "string"}}}
	if e.version == 2 {
		out["RateLimit"] = openapi.Header{Description: "The remaining quotas.", Schema: &openapi.Schema{Type: "string"}}
		out["RateLimit-Policy"] = openapi.Header{Description: "The quotas.", Schema: &openapi.Schema{Type: "string"}}
	}
	return out
}

// failures returns the error statuses of an operation. Any other status is the default response.
func (e edition) failures(method string, o *openapi.Operation, h description) (out []int) {
	if h.public {
		return nil
	}
	out = []int{http.StatusUnauthorized, http.StatusForbidden}
	hasInput, hasID := h.body != nil, false
	for _, p := range o.Parameters {
		hasID = hasID || p.In == "path"
		hasInput = hasInput || p.In != "path"
	}
	namesTemplate := h.body != nil && bodyPathOf(h.body, h.use).row("templateId") != nil
	if h.conflict {
		out = append(out, http.StatusConflict)
	}
	if h.maxBody > 0 {
		out = append(out, http.StatusRequestEntityTooLarge)
	}
	if e.version == 2 && (hasID || namesTemplate) || hasID && method != http.MethodDelete {
		out = append(out, http.StatusNotFound)
	}
	if hasInput || method != http.MethodGet {
		out = append(out, http.StatusBadRequest)
	}
	if e.version == 2 {
		out = append(out, http.StatusTooManyRequests)
		if hasInput {
			out = append(out, http.StatusUnprocessableEntity)
		}
	}
	return out
}

// failureName returns the name of a status's response; 0 stands for any other status.
func failureName(status int) string {
	if status == 0 {
		return "Failure"
	}
	return strings.ReplaceAll(http.StatusText(status), " ", "")
}

func (e edition) describeFailures(s *schemas, out map[string]*openapi.Response) {
	body := s.component("Error", e.errors.BodyType(), s.answerObject)
	for _, status := range []int{0, 400, 401, 403, 404, 409, 413, 422, 429} {
		if e.version == 1 && status > 404 {
			continue
		}
		r := &openapi.Response{
			Description: cmp.Or(http.StatusText(status), "Any other error"), Headers: e.headers(),
			Content: map[string]openapi.MediaType{e.errors.BodyMedia(): {Schema: body}},
		}
		switch status {
		case 0, http.StatusUnauthorized, http.StatusRequestEntityTooLarge: // without a valid key there are no quotas
			delete(r.Headers, "RateLimit")
			delete(r.Headers, "RateLimit-Policy")
		case http.StatusTooManyRequests:
			r.Headers["Retry-After"] = openapi.Header{Description: "Seconds to wait.", Schema: &openapi.Schema{Type: "integer"}}
		}
		out[failureName(status)] = r
	}
}

// operationWords returns an operation's name in words, such as list templates or start pod.
func operationWords(method, path string, h description) []string {
	segments := strings.Split(path, "/")
	var nouns []string
	inItem := false
	for i, segment := range segments {
		if inItem = strings.HasPrefix(segment, "{"); inItem {
			nouns[len(nouns)-1] = singular(nouns[len(nouns)-1])
			continue
		}
		nouns = append(nouns, strings.FieldsFunc(segments[i], func(r rune) bool { return r == '-' || r == '.' })...)
	}
	last := len(nouns) - 1
	verb := map[string]string{"GET": "get", "PATCH": "update", "PUT": "replace", "DELETE": "delete", "POST": "create"}[method]
	action := method == http.MethodPost && len(segments) > 2 && strings.HasPrefix(segments[len(segments)-2], "{")
	switch {
	case action && nouns[last] == "update": // version 1's other form of PATCH
		return slices.Concat([]string{"update"}, nouns[:last], []string{"by", "post"})
	case action:
		return slices.Concat(nouns[last:], nouns[:last])
	case method == http.MethodGet && !inItem && h.media == "":
		verb = "list"
	case method == http.MethodPost:
		nouns[last] = singular(nouns[last])
	}
	return append([]string{verb}, nouns...)
}

func singular(noun string) string {
	if stem, ok := strings.CutSuffix(noun, "ies"); ok {
		return stem + "y"
	}
	if strings.HasSuffix(noun, "ss") {
		return noun
	}
	return strings.TrimSuffix(noun, "s")
}

func operationID(words []string) string {
	out := words[0]
	for _, w := range words[1:] {
		out += strings.ToUpper(w[:1]) + w[1:]
	}
	return out
}

// newPage renders a document as a page that loads nothing and runs no script.
func newPage(d openapi.Document) httpanswer.File {
	style := sha256.Sum256([]byte(openapi.PageStyle))
	f := httpanswer.NewFile("text/html; charset=utf-8", openapi.Page(d))
	f.Header.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(style[:])+
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	f.Header.Set("Referrer-Policy", "no-referrer")
	return f
}

func (c *call) openAPIV1() (httpanswer.File, error) { return c.documents().v1, nil }

func (c *call) docsV1() (httpanswer.File, error) { return c.documents().v1Page, nil }

func (c *call) openAPIV2() (httpanswer.File, error) { return c.documents().v2, nil }
