package mgmt

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
)

// Every route is an operation of its version's document, with a body of the answer or
// 204, and every operation of a document is a route.
func TestDocumentsHaveTheRoutes(t *testing.T) {
	described := map[string]*openapi.Operation{}
	ids := map[string]bool{}
	for _, e := range editions {
		for path, item := range e.document().Paths {
			for method, o := range item {
				described[strings.ToUpper(method)+" "+strings.TrimSuffix(e.server, "/")+path] = o
				if id := fmt.Sprint(e.version, o.OperationID); ids[id] {
					t.Errorf("the operation id %s is used twice", id)
				} else {
					ids[id] = true
				}
			}
		}
	}
	for _, o := range operations {
		route := o.method + " " + o.path
		operation := described[route]
		delete(described, route)
		switch {
		case operation == nil:
			t.Errorf("%s is not in its document", route)
		case o.handle.answer == nil && o.success != 204:
			t.Errorf("%s describes no answer: see plainHandler in operations.go", route)
		case o.handle.body == nil && (o.method == "PATCH" || o.method == "PUT" || o.method == "POST" && !strings.Contains(o.path, "{id}/")):
			t.Errorf("%s describes no body: see bodyHandler in operations.go", route)
		}
	}
	for route := range described {
		t.Errorf("%s is in a document, and not a route", route)
	}
}

// Each checker's rules are in the document, or in the list of rules that no schema can express.
func TestChecksAreDescribed(t *testing.T) {
	inexpressible := map[reflect.Type]string{reflect.TypeFor[delegationBodyV2](): "the length of a part of the pattern"}
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(body reflect.Type) {
		for body.Kind() == reflect.Pointer || body.Kind() == reflect.Slice {
			body = body.Elem()
		}
		if body.Kind() != reflect.Struct || seen[body] {
			return
		}
		seen[body] = true
		instance := reflect.New(body).Interface()
		_, checks := instance.(checker)
		_, describes := instance.(describer)
		must.Hold(t, !checks || describes || inexpressible[body] != "", body, "checks what its schema does not say: see schema_checks.go")
		for _, m := range members(body, place{}) {
			visit(body.FieldByIndex(m.index).Type)
		}
	}
	for _, o := range operations {
		if o.handle.body != nil {
			visit(o.handle.body)
		}
	}
}
