package api_test

import (
	"net/http"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// An object is gone where the API says so of the object and its list does not
// say otherwise, whoever answers in the API's form.
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
				mux.HandleFunc("GET /v2/templates", answer(200, `{"templates":[]}`)) // so much is the API's
				mux.HandleFunc("GET /v2/network-volumes", c.list)
				mux.HandleFunc("GET /v2/network-volumes/a", c.object)
				mux.HandleFunc("DELETE /v2/network-volumes/a", c.del)
				return pipe(t, mux, api.Settings{SharedReads: true})
			}
			if got, err := client().NetworkVolumes.Get(t.Context(), "a"); api.IsNotFound(err) != c.read || err == nil {
				t.Errorf("read %+v, %v", got, err)
			}
			if err := client().NetworkVolumes.Delete(t.Context(), "a"); (err == nil) != c.deleted {
				t.Errorf("deleted: %v", err)
			}
		})
	}
}
