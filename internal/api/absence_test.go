package api_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// An object is absent if a 404 in the API's form says so and its list doesn't contain it.
func TestAbsence(t *testing.T) {
	gone := answer(404, `{"title":"Not Found","status":404,"detail":"none"}`)
	mine, others := `{"networkVolumes":[{"id":"a","name":"n","size":10}]}`, `{"networkVolumes":[{"id":"b","name":"n","size":10,"dataCenter":"d","type":"t"}]}`
	for name, c := range map[string]struct {
		list, object, del http.HandlerFunc
		read, deleted     bool // absent
	}{
		"the list lacks it":                {answer(200, others), gone, gone, true, true},
		"the list has it":                  {answer(200, mine), gone, gone, false, false},
		"the key may not list":             {answer(403, `{"title":"Forbidden","status":403}`), gone, gone, true, true},
		"there is no list":                 {gone, gone, gone, false, false},
		"the list is a web page":           {answer(200, "<html>"), gone, gone, false, false},
		"a proxy answers":                  {answer(200, others), answer(404, "<html>"), answer(404, "<html>"), false, false},
		"a page answers the deletion":      {answer(200, others), gone, answer(200, "<html>done"), true, false},
		"the deletion is answered by JSON": {answer(200, others), gone, answer(200, "{}"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := func() *api.Client {
				mux := http.NewServeMux()
				mux.HandleFunc("GET /v2/templates", answer(200, `{"templates":[]}`)) // this list is the API's
				mux.HandleFunc("GET /v2/network-volumes", c.list)
				mux.HandleFunc("GET /v2/network-volumes/a", c.object)
				mux.HandleFunc("DELETE /v2/network-volumes/a", c.del)
				return pipe(t, mux, api.Settings{SharedReads: true})
			}
			if got, err := client().NetworkVolumes.Get(t.Context(), "a"); api.IsNotFound(err) != c.read || err == nil {
				t.Errorf("read %+v, %v", got, err)
			}
			err := client().NetworkVolumes.Delete(t.Context(), "a")
			must.Hold(t, (err == nil) == c.deleted, "deleted", err)
		})
	}
}

// If the objects of a kind can be read only in its list, an answer that isn't a list doesn't mean
// that they are absent.
func TestAbsenceFromAList(t *testing.T) {
	gone := answer(404, `{"title":"Not Found","status":404,"detail":"none"}`, "X-Request-Id", "r-1")
	for name, c := range map[string]struct {
		list, del http.HandlerFunc
		absent    bool
	}{
		"the list lacks it":              {answer(200, `{"delegations":[]}`), gone, true},
		"404 in the API's own form":      {gone, gone, false},
		"null":                           {answer(200, `{"delegations":null}`), gone, false},
		"no list":                        {answer(200, `{}`), gone, false},
		"an object":                      {answer(200, `{"delegations":{}}`), gone, false},
		"an array":                       {answer(200, `[]`), gone, false},
		"an accepted deletion, and null": {answer(200, `{"delegations":null}`), answer(202, ``), false},
		"an accepted deletion, and 404":  {gone, answer(202, ``), false},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				client := func() *api.Client {
					mux := http.NewServeMux()
					mux.HandleFunc("GET /v2/templates", answer(200, `{"templates":[]}`)) // this list is the API's
					mux.HandleFunc("GET /v2/registries/delegations", c.list)
					mux.HandleFunc("DELETE /v2/registries/delegations/a", c.del)
					return pipe(t, mux, api.Settings{SharedReads: shared})
				}
				if got, err := client().Delegations.Get(t.Context(), "a"); api.IsNotFound(err) != c.absent || err == nil {
					t.Errorf("read %+v, %v", got, err)
				}
				if !shared && !strings.HasPrefix(name, "an accepted deletion") {
					return // such a client believes a 404 about the object
				}
				err := client().Delegations.Delete(t.Context(), "a")
				must.Hold(t, (err == nil) == c.absent, "deleted", err)
			})
		}
	}
}

// An answer that isn't a list of pods doesn't mean that a cluster has none.
func TestMissingPodsOfACluster(t *testing.T) {
	for _, list := range []http.HandlerFunc{answer(404, `{"title":"Not Found","status":404}`), answer(200, `{"pods":null}`), answer(200, `{}`)} {
		client, _ := deploy(t, api.V2, list)
		if pods, err := client.Clusters.Pods(t.Context(), "a"); err == nil || api.IsNotFound(err) {
			t.Errorf("got %v, %v", pods, err)
		}
	}
}

// After an accepted deletion, the list may contain the object longer than a read by id.
func TestListThatLagsBehindADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := 0
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v2/network-volumes", func(w http.ResponseWriter, r *http.Request) {
			body := `{"networkVolumes":[{"id":"a"}]}`
			if lists++; lists > 3 {
				body = `{"networkVolumes":[]}`
			}
			answer(200, body)(w, r)
		})
		mux.HandleFunc("GET /v2/network-volumes/a", answer(404, `{"title":"Not Found","status":404}`))
		mux.HandleFunc("DELETE /v2/network-volumes/a", answer(202, ``))
		err := pipe(t, mux, api.Settings{SharedReads: true}).NetworkVolumes.Delete(t.Context(), "a")
		must.Hold(t, err == nil && lists == 4, err, "after", lists, "lists")
	})
}
