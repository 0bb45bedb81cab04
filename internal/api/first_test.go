package api_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// An older object isn't mistaken for the result of a lost create, even if the plan listed it
// during the create of another kind, or if the run listed nothing before it wrote the kind.
func TestEqualObjectThatWasThere(t *testing.T) {
	const old = `{"id":"old","name":"t","image":"i","category":"NVIDIA"}`
	want := api.Template{Name: "t", Image: "i", Category: "NVIDIA"}
	deployment := func(beforeList func()) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v2/templates", func(w http.ResponseWriter, r *http.Request) {
			beforeList()
			answer(200, `{"templates":[`+old+`]}`)(w, r)
		})
		mux.HandleFunc("GET /v2/registries", answer(200, `{"registries":[]}`))
		mux.HandleFunc("GET /v2/templates/old", answer(200, old))
		mux.HandleFunc("DELETE /v2/templates/other", answer(204, ``))
		mux.HandleFunc("POST /v2/templates", answer(502, ``))
		mux.HandleFunc("POST /v2/registries", answer(201, `{"id":"r","name":"r"}`))
		return mux
	}
	isNotTakenOver := func(t *testing.T, c *api.Client) {
		t.Helper()
		got, err := c.Templates.Create(t.Context(), want)
		if unsettled, ok := errors.AsType[*api.UnresolvedCreateError](err); !ok || !slices.Equal(unsettled.Candidates, []string{"old"}) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		listed := make(chan struct{})
		c := pipe(t, deployment(func() { <-listed }), api.Settings{SharedReads: true})
		matches := make(chan []api.ExistingMatch)
		go func() { matches <- c.Templates.ExistingMatches(t.Context(), want) }()
		synctest.Wait()
		must.Do(c.RegistryAuths.Create(t.Context(), api.RegistryAuth{Name: "r", Username: "u", Password: "p"}))(t)
		close(listed)
		got := <-matches
		must.Hold(t, len(got) == 1 && got[0].ID == "old", "the plan finds", got)
		isNotTakenOver(t, c)
	})
	synctest.Test(t, func(t *testing.T) {
		c := pipe(t, deployment(func() {}), api.Settings{SharedReads: true})
		must.Succeed(t, c.Templates.Delete(t.Context(), "other"))
		isNotTakenOver(t, c)
	})
}
