package openapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

// answer is a response of the jobrunner.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) success() bool { return a.status/100 == 2 }

func init() {
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
}

// judge compares responses with a document. It caches its results, because most errors are equal.
type judge struct{ seen sync.Map }

// differences returns how a response differs from the document: equal texts for equal faults.
func (j *judge) differences(ctx context.Context, o operation, a answer) []string {
	response := o.response(a.status)
	if response == nil {
		return []string{fmt.Sprintf("status %d is not declared", a.status)}
	}
	return j.compareWith(ctx, o, response, a)
}

// response returns the declared response of a status, or nil.
func (o operation) response(status int) *openapi3.Response {
	ref := o.op.Responses.Status(status)
	if ref == nil {
		ref = o.op.Responses.Default()
	}
	if ref == nil {
		return nil
	}
	return ref.Value
}

func (j *judge) compareWith(ctx context.Context, o operation, response *openapi3.Response, a answer) (list []string) {
	for name, header := range response.Headers {
		// No document requires headers, but a declared header is always sent.
		if a.header.Get(name) == "" && header.Value != nil {
			list = append(list, fmt.Sprintf("%d lacks the header %s", a.status, name))
		}
	}
	if len(response.Content) == 0 {
		if len(a.body) > 0 {
			list = append(list, fmt.Sprintf("%d has a body that is not declared", a.status))
		}
		return list
	}
	var schema *openapi3.Schema // in the cache's key instead of the operation, because operations share schemas
	if content := response.Content.Get(a.header.Get("Content-Type")); content != nil && content.Schema != nil {
		schema = content.Schema.Value
	}
	key := fmt.Sprintf("%p %d %q %q %s", schema, a.status, a.header["Content-Type"], a.header["Retry-After"], a.body)
	if known, ok := j.seen.Load(key); ok {
		return append(list, known.([]string)...)
	}
	faults := validate(ctx, o, response, a)
	j.seen.Store(key, faults)
	return append(list, faults...)
}

func validate(ctx context.Context, o operation, response *openapi3.Response, a answer) []string {
	declared := openapi3.NewResponsesWithCapacity(1)
	declared.Set("default", &openapi3.ResponseRef{Value: response})
	route := o.route()
	op := *o.op
	op.Responses, route.Operation = declared, &op
	err := openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: &http.Request{Method: o.method}, Route: route},
		Status:                 a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{MultiError: true, IncludeResponseStatus: true},
	})
	if err == nil {
		return nil
	}
	var list []string
	for _, fault := range innermostFaults(err) {
		list = append(list, fmt.Sprintf("%d %s", a.status, fault))
	}
	return list
}

var index = regexp.MustCompile(`/\d+`)

// innermostFaults returns the innermost faults of an error, without values.
func innermostFaults(err error) (list []string) {
	var (
		several  openapi3.MultiError
		schema   *openapi3.SchemaError
		response *openapi3filter.ResponseError
		request  *openapi3filter.RequestError
	)
	switch {
	case errors.As(err, &schema) && schema.Origin != nil && !errors.As(schema.Origin, &several):
		return innermostFaults(schema.Origin)
	case errors.As(err, &several):
		for _, inner := range several {
			list = append(list, innermostFaults(inner)...)
		}
		slices.Sort(list)
		list = slices.Compact(list)
		// If one part of a schema doesn't match, its members are reported as unknown, too. These faults name no schema field.
		if withField := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.HasSuffix(s, " breaks ") }); len(withField) > 0 {
			return withField
		}
		return list
	case schema != nil:
		return []string{fmt.Sprintf("%s breaks %s", index.ReplaceAllString("/"+strings.Join(schema.JSONPointer(), "/"), "/*"), schema.SchemaField)}
	case errors.As(err, &response):
		return []string{response.Reason}
	case errors.As(err, &request) && request.Reason != "":
		return []string{request.Reason}
	}
	return []string{err.Error()}
}
