package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Collection has the operations of a kind of managed object in one API version. T is the kind's
// neutral type. Errors of the API are *Error. IsNotFound reports whether an error means that the
// object doesn't exist.
//
// With Settings.SharedReads, List and Get may return what this client has read before, unless
// it has written since.
type Collection[T any] struct {
	*deployment
	kind     string     // for messages: "network volume"
	path     string     // of the list, relative to the base address
	member   string     // member of a list's answer that holds the objects; "" if the answer is an array
	query    url.Values // of every read
	required []string   // members of every object; if a list's element lacks one, the object is read by id: see complete

	uniqueNames bool
	namesFold   bool // case is ignored when names are compared
	writeOnly   bool // answers return only a part of what a create sends
	decode      func(json.RawMessage) (T, error)
	// create and update make request bodies. An update without members isn't sent. errMustReplace
	// rejects an update that needs a new object.
	create func(want T) (any, error)
	update func(have, want T) (patch, error)
	// alreadyApplied reports whether the object already has the changes of an update whose
	// repetition failed: an earlier try succeeded and its answer was lost.
	alreadyApplied func(got, want T) bool
	// fixedMembersEqual compares the members that an update can't change. normalize removes differences
	// that the server may cause by reordering or omitting.
	fixedMembersEqual func(got, want T) bool
	normalize         func(got, want T) (T, T)
	// untrusted returns the texts of an object that come from programs or from the deployment,
	// and may contain secrets.
	untrusted func(*T) []*string
	// listOnly marks a kind whose objects can't be read by id.
	listOnly bool

	cache     *listCache
	creates   createTracker[T]
	idsFlight singleflight.Group // of currentIDs
}

func (*Collection[T]) id(object T) string { return head(object).ID }

func (r *Collection[T]) sameName(a, b T) bool {
	return head(a).Name == head(b).Name || r.namesFold && strings.EqualFold(head(a).Name, head(b).Name)
}

// head returns the fields ID and Name of an object. The name may be optional.
func head(object any) NamedObject {
	v := reflect.ValueOf(object)
	head := NamedObject{ID: v.FieldByName("ID").String()}
	if name := reflect.Indirect(v.FieldByName("Name")); name.IsValid() {
		head.Name = name.String()
	}
	return head
}

func (r *Collection[T]) List(ctx context.Context) ([]T, error) {
	elements, err := r.sharedList(ctx, false)
	if err != nil {
		return nil, err
	}
	return decodeElements(elements, r.decoder(ctx, nil))
}

func (r *Collection[T]) Get(ctx context.Context, id string) (T, error) { return r.get(ctx, id, nil) }

// Refresh is Get for a known object: required members that the answer lacks keep prior's values.
func (r *Collection[T]) Refresh(ctx context.Context, prior T) (T, error) {
	return r.get(ctx, r.id(prior), &prior)
}

func (r *Collection[T]) get(ctx context.Context, id string, prior *T) (got T, err error) {
	if err := checkID(r.kind, id); err != nil {
		return got, err
	}
	e, err := r.read(ctx, id)
	if err != nil {
		return got, err
	}
	return r.decodePresent(ctx, e, prior)
}

// decoder returns a function that decodes objects, adds their secrets to the context's
// redact.Set, and redacts untrusted texts. prior completes the objects; it may be nil.
func (r *Collection[T]) decoder(ctx context.Context, prior *T) func(json.RawMessage) (T, error) {
	return func(raw json.RawMessage) (T, error) {
		got, err := r.decode(r.complete(raw, prior))
		secrets := redact.FromContext(ctx)
		secrets.AddJSON(raw)
		if err == nil && r.untrusted != nil {
			redactTexts(secrets, r.untrusted(&got)...)
		}
		return got, err
	}
}

// complete adds the required members that an answer lacks, as a create of prior would send them. Without
// these members, the next plan would update or replace an unchanged object.
func (r *Collection[T]) complete(raw json.RawMessage, prior *T) json.RawMessage {
	if prior == nil {
		return raw
	}
	got, lacking := patch{}, missingMembers(raw, r.required)
	if len(lacking) == 0 {
		return raw
	}
	body, err := r.create(*prior)
	if err != nil || json.Unmarshal(raw, &got) != nil {
		return raw
	}
	sent, _ := members(body) // can't fail: a body can be encoded
	for _, member := range lacking {
		if v, ok := sent[member]; ok && member != "templateId" { // if it is absent, API v2 has removed the link
			got[member] = v
		}
	}
	completed, _ := json.Marshal(got)
	return completed
}

// decodePresent decodes an object. If the object is deleted, it returns an error.
func (r *Collection[T]) decodePresent(ctx context.Context, e element, prior *T) (T, error) {
	got, err := decodeElement(e, r.decoder(ctx, prior))
	if err == nil && e.terminated {
		return got, r.notFound(e.id)
	}
	return got, err
}

// GetFresh is Get without the cache, because another process may have written.
func (r *Collection[T]) GetFresh(ctx context.Context, id string) (got T, err error) {
	e, err := r.fetch(ctx, id, false)
	if err != nil {
		return got, err
	}
	return r.decodePresent(ctx, e, nil)
}

// Update sends the differences between have and want. have carries the id. Without differences it
// only reads.
func (r *Collection[T]) Update(ctx context.Context, have, want T) (got T, err error) {
	ctx, _ = redact.NewContext(ctx)
	changes, err := r.update(have, want)
	if err != nil {
		return got, err
	}
	if len(changes) == 0 {
		return r.Refresh(ctx, have)
	}
	c, err := r.callByID(http.MethodPatch, r.id(have))
	if err != nil {
		return got, err
	}
	c.Body = changes
	defer r.cache.beginWrite()()
	got, _, err = r.sendForObject(ctx, c, r.id(have), want)
	if e, ok := errors.AsType[*Error](err); ok && r.alreadyApplied != nil && e.Status == http.StatusBadRequest && e.Tries > 1 {
		if current, readErr := r.GetFresh(ctx, r.id(have)); readErr == nil && r.alreadyApplied(current, want) {
			return current, nil
		}
	}
	return got, err
}

// Delete succeeds if the object is already gone.
func (r *Collection[T]) Delete(ctx context.Context, id string) error {
	c, err := r.callByID(http.MethodDelete, id)
	if err != nil {
		return err
	}
	defer r.cache.beginWrite()()
	response, err := r.Do(ctx, c, nil)
	err = r.confirmAbsence(ctx, id, false, err)
	switch {
	case err == nil:
		err = r.confirmDeletion(ctx, id, response)
	case IsNotFound(err):
		err = nil
	case r.settings.Version == V1 && statusOf(err) == http.StatusBadRequest: // v1 answers the deletion of an unknown id so
		if _, readErr := r.fetch(ctx, id, false); IsNotFound(readErr) {
			err = nil
		}
	}
	if err == nil {
		r.RecentCreates.Found(c.URL)
		r.creates.markHandled(id)
	}
	return err
}

// confirmDeletion reads an object after its deletion, unless the answer confirms it. An
// accepted deletion may take a while.
func (r *Collection[T]) confirmDeletion(ctx context.Context, id string, response *httpclient.Response) error {
	if err := r.checkSubject(id, response); err != nil || response.StatusCode == http.StatusNoContent {
		return err
	}
	pauses := lookupPauses
	if response.StatusCode == http.StatusAccepted {
		pauses = append(slices.Clone(pauses), 4*time.Second, 8*time.Second, 16*time.Second)
	}
	var readErr error
	for _, pause := range pauses {
		if readErr = httpclient.Sleep(ctx, pause); readErr == nil {
			_, readErr = r.GetFresh(ctx, id)
		}
		if IsNotFound(readErr) {
			return nil
		}
		// The list may still have an object that a read by id doesn't find.
		if e, ok := errors.AsType[*Error](readErr); readErr != nil && (!ok || e.Status != http.StatusNotFound || e.List) {
			break
		}
	}
	if readErr != nil {
		return fmt.Errorf("could not confirm that the %s was deleted: %w", r.kind, readErr)
	}
	return response.Failure(fmt.Sprintf("the %s is still there", r.kind))
}

// checkSubject returns an error if an answer is about another object. An answer without an id
// is accepted.
func (r *Collection[T]) checkSubject(id string, response *httpclient.Response) error {
	var head struct{ ID string }
	if json.Unmarshal(response.Body, &head) == nil && head.ID != "" && head.ID != id {
		return response.UnreadableError(otherObject(r.kind, head.ID, id))
	}
	return nil
}

// fetch reads an object by its id. unlisted means that this run's list lacks the id.
func (r *Collection[T]) fetch(ctx context.Context, id string, unlisted bool) (element, error) {
	c, err := r.callByID(http.MethodGet, id)
	if err != nil {
		return element{}, err
	}
	if r.listOnly {
		return r.fetchFromList(ctx, id)
	}
	c.Query = r.query
	answer := objectAnswer[T]{kind: r.kind, want: id, decode: r.decode}
	if _, err := r.Do(ctx, c, &answer); err != nil {
		return element{}, r.confirmAbsence(ctx, id, unlisted, err)
	}
	return answer.element, nil
}

// fetchFromList finds an object in a new list. A recently created object may take a while to
// appear.
func (r *Collection[T]) fetchFromList(ctx context.Context, id string) (element, error) {
	for _, pause := range lookupPauses {
		if err := httpclient.Sleep(ctx, pause); err != nil {
			return element{}, err
		}
		elements, err := r.fetchList(ctx)
		if err != nil {
			return element{}, err
		}
		if i := slices.IndexFunc(elements, func(e element) bool { return e.id == id }); i >= 0 {
			r.RecentCreates.Found(id)
			return elements[i], nil
		}
		if !r.RecentCreates.Has(id) {
			break
		}
	}
	return element{}, r.notFound(id)
}

// notFound returns an error like a 404, for an object that the list lacks or an answer describes as
// deleted.
func (r *Collection[T]) notFound(id string) error {
	return &Error{
		Method: http.MethodGet, URL: r.settings.BaseURL + r.path + "/" + id, Status: http.StatusNotFound, Title: "Not Found",
		Detail: fmt.Sprintf("the %s does not exist or was deleted", r.kind),
	}
}

// confirmAbsence checks the error of a read or deletion. A 404 proves that the object is gone only if it has
// the API's form and the kind's list lacks the id: a gateway may use the same form. If the key may not list, the
// 404 is accepted.
func (r *Collection[T]) confirmAbsence(ctx context.Context, id string, unlisted bool, err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status == 0 || e.OtherServer == "" && e.Status != http.StatusNotFound {
		return err
	}
	if err := r.ensureVerified(ctx, e.URL); err != nil {
		return err
	}
	if !IsNotFound(err) || unlisted || !r.settings.SharedReads {
		return err
	}
	elements, listErr := r.fetchList(ctx)
	unproven := *e
	listFailure, ok := errors.AsType[*Error](listErr)
	switch {
	case ok && listFailure.Status == http.StatusForbidden && listFailure.OtherServer == "":
		return err
	case ok:
		unproven = *listFailure
		unproven.OtherServer = cmp.Or(listFailure.OtherServer, "another server's, because the list of "+r.kind+"s can't be read there")
	case listErr != nil:
		return listErr
	case slices.ContainsFunc(elements, func(other element) bool { return other.id == id && !other.terminated }):
		unproven.OtherServer = "something between the provider and the API, whose list still has it"
	default:
		return err
	}
	return &unproven
}

func (r *Collection[T]) callByID(method, id string) (httpclient.Call, error) {
	return httpclient.Call{Method: method, URL: r.settings.BaseURL + r.path + "/" + id}, cmp.Or(r.unsupported(), checkID(r.kind, id))
}

// sendForObject sends a call whose answer is one object: the one with the id, or a new one if
// id is "". want completes the answer.
func (r *Collection[T]) sendForObject(ctx context.Context, c httpclient.Call, id string, want T) (T, *httpclient.Response, error) {
	answer := objectAnswer[T]{kind: r.kind, want: id, decode: r.decoder(ctx, &want)}
	response, err := r.Do(ctx, c, &answer)
	return answer.object, response, err
}

// unsupported returns an error if the client's version lacks the kind. A plan rejects a create;
// reads, lists and imports get this error.
func (r *Collection[T]) unsupported() error {
	if version := r.settings.Version; !strings.HasPrefix(r.path, "/"+string(version)+"/") {
		return fmt.Errorf("management API %s has no %ss: set api_version or GPUCLOUD_API_VERSION to v2", version, r.kind)
	}
	return nil
}
