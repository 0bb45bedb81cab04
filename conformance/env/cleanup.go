package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// CleanUp deletes the objects in the ledger, except the objects for which keep returns true. It
// returns the objects that remain. A deletion counts if no list of any version shows the object.
// If other objects depend on an object, its deletion is tried again after theirs.
func (e *Env) CleanUp(ctx context.Context, keep func(Object) bool) (left []Object) {
	e.cleanUpTimeouts.Store(0)
	e.findCreated(ctx, keep)
	for wait := time.Second; ; wait *= 2 {
		e.deleteAll(ctx, slices.DeleteFunc(e.Ledger.Remaining(""), keep))
		e.restoreShown(ctx)
		left = slices.DeleteFunc(e.Ledger.Remaining(""), keep)
		if len(left) == 0 || wait > maxCleanUpWait || pause(ctx, wait) != nil {
			return left
		}
		if e.Target.Advance != nil { // lists may lag by the target's time
			_, _ = e.Target.Advance(ctx, wait)
		}
	}
}

// findCreated finds the objects whose creation wasn't answered. A request that was in flight may
// still have an effect, so the lists are read twice.
func (e *Env) findCreated(ctx context.Context, keep func(Object) bool) {
	for _, last := range []bool{false, true} {
		unanswered := slices.DeleteFunc(e.Ledger.Remaining(""), func(o Object) bool { return o.ID != "" || keep(o) })
		if len(unanswered) == 0 || last && pause(ctx, maxCleanUpWait) != nil {
			return
		}
		read := e.listReader(ctx)
		for _, o := range unanswered {
			list := read(o.URL)
			found, lacksID := false, false
			for _, object := range list {
				switch created := o; {
				case object["name"] != o.Name:
				case object["id"] == nil:
					lacksID = true
				default:
					found = true
					created.ID, created.Name, created.Method = fmt.Sprint(object["id"]), "", http.MethodDelete
					created.URL += "/" + url.PathEscape(created.ID)
					_, _ = e.Ledger.Add(created) // if the file can't be written, the ledger in memory suffices
				}
			}
			if !lacksID && (found || last && (list != nil || o.Refused)) {
				_ = e.Ledger.Remove(o) // if the ledger can't be written, conformance sweep searches again
			}
		}
	}
}

// maxCleanUpWait is the longest pause between two attempts to delete the remaining objects.
const maxCleanUpWait = 4 * time.Second

// DeleteCreated deletes the objects that a case created, or all objects for "", newest first. Objects that remain,
// also because their API timed out and gets no more requests (SilenceReason), are left to CleanUp.
func (e *Env) DeleteCreated(ctx context.Context, caseID string) {
	e.deleteAll(ctx, slices.DeleteFunc(e.Ledger.Remaining(caseID), func(o Object) bool { return e.SilenceReason("", o.URL) != "" }))
}

// deleteAll deletes objects in rounds until a round deletes none: an object may depend on a later one.
func (e *Env) deleteAll(ctx context.Context, list []Object) {
	for n := -1; n != len(list); {
		n = len(list)
		list = slices.DeleteFunc(list, func(o Object) bool { return e.deleteObject(ctx, o) })
	}
}

func (e *Env) deleteObject(ctx context.Context, o Object) (deleted bool) {
	if o.ID == "" {
		return false // its creation was not answered
	}
	x := e.request(ctx, o.Method, o.URL)
	for _, address := range o.Reads { // one version may lack the deletion
		if path := withoutQuery(address); path != o.URL && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, x.Status) {
			x = e.request(ctx, o.Method, path)
		}
	}
	switch {
	case x.Err != nil:
		return false
	case x.Status/100 == 2, o.Kind == "job" && x.Status/100 == 4: // the job has ended
		return e.Ledger.Remove(o) == nil
	case !mayMeanMissing(x.Status):
		return false
	}
	// Each version is asked: one may answer 404 for an object that exists, such as a template that an endpoint uses.
	isMissing := false
	for _, address := range o.reads() {
		read := e.request(ctx, http.MethodGet, address)
		// If objects of a kind can't be read one by one, restoreShown finds the object in the list.
		body, _ := read.JSON()
		object, _ := body.(map[string]any)
		if mayMeanMissing(read.Status) || read.Status == http.StatusMethodNotAllowed || read.Status == http.StatusNotImplemented || read.Status/100 == 2 && isTerminated(object) {
			isMissing = true
		} else if read.Status != http.StatusForbidden { // the key may have no access to one of the versions
			return false
		}
	}
	return isMissing && e.Ledger.Remove(o) == nil
}

// mayMeanMissing reports whether a status may mean a missing object, for which version 1 returns 400.
func mayMeanMissing(status int) bool {
	return slices.Contains([]int{http.StatusNotFound, http.StatusGone, http.StatusBadRequest, http.StatusUnprocessableEntity}, status)
}

func isTerminated(object map[string]any) bool {
	return object["status"] == "TERMINATED" || object["desiredStatus"] == "TERMINATED"
}

// request sends a request of the cleanup. Each timeout in a row halves the time limit of the next request.
func (e *Env) request(ctx context.Context, method, address string) *wire.Exchange {
	r := wire.NewRequest(method, address, e.Target.Key, "")
	r.Try = func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 30*time.Second>>e.cleanUpTimeouts.Load())
	}
	x := e.Do(ctx, r)
	if errors.Is(x.Err, context.DeadlineExceeded) {
		e.cleanUpTimeouts.Add(1)
	} else {
		e.cleanUpTimeouts.Store(0)
	}
	return x
}

// restoreShown adds an object to the ledger again if a list still shows it after a successful deletion.
func (e *Env) restoreShown(ctx context.Context) {
	read := e.listReader(ctx)
	for _, o := range e.Ledger.takeDeleted() {
		for _, address := range o.reads() {
			path := withoutQuery(address)
			list := path[:strings.LastIndex(path, "/")] + address[len(path):]
			if slices.ContainsFunc(read(list), func(object map[string]any) bool { return object["id"] == o.ID }) {
				_, _ = e.Ledger.Add(o) // if the file can't be written, the ledger in memory suffices
				break
			}
		}
	}
}

// MaxPages is how many pages of a list are read.
const MaxPages = 100

// listReader returns a function that returns the list at an address. It reads each list once.
func (e *Env) listReader(ctx context.Context) func(address string) []map[string]any {
	lists := map[string][]map[string]any{}
	return func(address string) []map[string]any {
		if _, ok := lists[address]; !ok {
			lists[address] = e.readList(ctx, address)
		}
		return lists[address]
	}
}

// readList returns the objects on all pages of a list, except terminated ones, or nil after an error.
func (e *Env) readList(ctx context.Context, list string) []map[string]any {
	objects := []map[string]any{}
	for range MaxPages {
		x := e.request(ctx, http.MethodGet, list)
		body, err := x.JSON()
		if x.Status/100 != 2 || err != nil {
			return nil
		}
		objects = append(objects, slices.DeleteFunc(ObjectsIn(body), isTerminated)...)
		if list = NextPage(list, x.Header, body); list == "" {
			break
		}
	}
	return objects
}

// NextPage returns the address of the next page, or "". It uses the cursor in the body or the header Link (RFC 8288).
func NextPage(list string, header http.Header, body any) string {
	path, query, _ := strings.Cut(list, "?")
	members, _ := body.(map[string]any)
	pagination, _ := members["pagination"].(map[string]any)
	if cursor, _ := pagination["nextCursor"].(string); cursor != "" {
		parameters, _ := url.ParseQuery(query)
		parameters.Set("cursor", cursor)
		return path + "?" + parameters.Encode()
	}
	if link := nextLink.FindStringSubmatch(strings.Join(header["Link"], ", ")); link != nil {
		return path + link[1]
	}
	return ""
}

var nextLink = regexp.MustCompile(`<[^>?]*(\?[^>]*)>[^,]*rel="?next`)

// ItemsIn returns the elements of an array, or of all arrays in an object, in the order of their names.
func ItemsIn(body any) (items []any) {
	items, _ = body.([]any)
	members, _ := body.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if list, ok := members[name].([]any); ok {
			items = append(append([]any{}, items...), list...)
		}
	}
	return items
}

// ObjectsIn returns the objects among ItemsIn.
func ObjectsIn(body any) (list []map[string]any) {
	for _, item := range ItemsIn(body) {
		if object, ok := item.(map[string]any); ok {
			list = append(list, object)
		}
	}
	return list
}
