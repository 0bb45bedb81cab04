package env

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// CleanUp deletes the objects in the ledger, except those to keep, and returns those that
// remain. A deletion that succeeded counts once no list of any version shows the object; what
// others depend on is deleted again after them.
func (e *Env) CleanUp(ctx context.Context, keep func(Object) bool) (left []Object) {
	for wait := time.Second; ; wait *= 2 {
		_ = e.deleteAll(ctx, slices.DeleteFunc(e.Ledger.Remaining(""), keep)) // what remains is returned
		e.restoreShown(ctx)
		left = slices.DeleteFunc(e.Ledger.Remaining(""), keep)
		if len(left) == 0 || wait > maxCleanUpWait || pause(ctx, wait) != nil {
			return left
		}
	}
}

// maxCleanUpWait is the longest pause between two attempts to delete what remains.
const maxCleanUpWait = 4 * time.Second

// DeleteCreated deletes the objects that a case created, or all for "", the newest
// first. The error names those that remain. Where the target is silent, CleanUp tries again.
func (e *Env) DeleteCreated(ctx context.Context, of string) error {
	return e.deleteAll(ctx, slices.DeleteFunc(e.Ledger.Remaining(of), func(m Object) bool { return e.Silent("", m.URL) != "" }))
}

// deleteAll deletes objects until a round deletes none: one may depend on a later one.
func (e *Env) deleteAll(ctx context.Context, list []Object) error {
	for {
		var errs []error
		var left []Object
		for _, m := range list {
			if err := e.deleteObject(ctx, m); err != nil {
				errs, left = append(errs, err), append(left, m)
			}
		}
		if len(left) == 0 || len(left) == len(list) {
			return errors.Join(errs...)
		}
		list = left
	}
}

func (e *Env) deleteObject(ctx context.Context, m Object) error {
	x := e.ask(ctx, m.Method, m.URL)
	switch {
	case x.Err != nil:
		return fmt.Errorf("%s %s is left, made by %s: %s", m.Kind, m.ID, m.Case, e.Secrets.Redact(x.Err.Error()))
	case x.Status/100 == 2, m.Kind == "job" && x.Status/100 == 4: // the job is over
		return e.Ledger.Remove(m)
	case !saysMissing(x.Status):
		return fmt.Errorf("%s %s is left, made by %s: its deletion is answered %d", m.Kind, m.ID, m.Case, x.Status)
	}
	// A version may hide an object from its reads, such as a template that an endpoint uses.
	for _, address := range m.reads() {
		if read := e.ask(ctx, http.MethodGet, address); !saysMissing(read.Status) && !ended(read) {
			return fmt.Errorf("%s %s is left, made by %s: its deletion is answered %d, and GET %s %d", m.Kind, m.ID, m.Case, x.Status, address, read.Status)
		}
	}
	return e.Ledger.Remove(m)
}

// saysMissing tells whether a status may mean that the object does not exist: version 1
// answers 400 for it.
func saysMissing(status int) bool {
	return slices.Contains([]int{http.StatusNotFound, http.StatusGone, http.StatusBadRequest, http.StatusUnprocessableEntity}, status)
}

// ended tells whether the answer shows an object that was terminated.
func ended(x *wire.Exchange) bool {
	body, _ := x.JSON()
	object, _ := body.(map[string]any)
	return x.Status/100 == 2 && isTerminated(object)
}

func isTerminated(object map[string]any) bool {
	return object["status"] == "TERMINATED" || object["desiredStatus"] == "TERMINATED"
}

func (e *Env) ask(ctx context.Context, method, address string) *wire.Exchange {
	return e.Do(ctx, wire.Request{Method: method, URL: address, Header: http.Header{"Authorization": {"Bearer " + e.Target.Key}}})
}

// restoreShown returns to the ledger what a list still shows although its deletion
// succeeded.
func (e *Env) restoreShown(ctx context.Context) {
	lists := map[string]map[string]bool{} // ids by address of the list
	for _, m := range e.Ledger.takeDeleted() {
		for _, address := range m.reads() {
			path := pathOf(address)
			list := path[:strings.LastIndex(path, "/")] + address[len(path):]
			if lists[list] == nil {
				lists[list] = e.listedIDs(ctx, list)
			}
			if lists[list][m.ID] {
				_, _ = e.Ledger.Add(m) // in memory at least, for the next attempt
				break
			}
		}
	}
}

// maxListPages bounds the pages that are read of a list.
const maxListPages = 50

// listedIDs returns the ids in a list, with its further pages; none where the target does
// not serve it.
func (e *Env) listedIDs(ctx context.Context, list string) map[string]bool {
	ids := map[string]bool{}
	for range maxListPages {
		x := e.ask(ctx, http.MethodGet, list)
		body, _ := x.JSON()
		if x.Status/100 != 2 {
			return ids
		}
		for _, object := range objectsIn(body) {
			if id, ok := object["id"].(string); ok && !isTerminated(object) {
				ids[id] = true
			}
		}
		next := nextPage.FindStringSubmatch(x.Header.Get("Link"))
		if next == nil {
			break
		}
		list = pathOf(list) + next[1]
	}
	return ids
}

// nextPage is a link to the next page of a list (RFC 8288).
var nextPage = regexp.MustCompile(`<[^>?]*(\?[^>]*)>[^,]*rel="?next`)

// objectsIn returns the objects of a list: an array, or an object with arrays.
func objectsIn(body any) (list []map[string]any) {
	if members, ok := body.(map[string]any); ok {
		for _, member := range members {
			if _, ok := member.([]any); ok {
				list = append(list, objectsIn(member)...)
			}
		}
	}
	items, _ := body.([]any)
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			list = append(list, object)
		}
	}
	return list
}
