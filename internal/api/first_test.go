package api_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// What an earlier run left under a unique name is taken over, also when the
// plan listed it while an object of another kind was being made.
func TestLeftoverListedDuringAnotherWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const left = `{"id":"left","name":"t","image":"i","category":"NVIDIA"}`
		listed := make(chan struct{})
		deployment := http.NewServeMux()
		deployment.HandleFunc("GET /v2/templates", func(w http.ResponseWriter, r *http.Request) {
			<-listed
			answer(200, `{"templates":[`+left+`]}`)(w, r)
		})
		deployment.HandleFunc("GET /v2/templates/left", answer(200, left))
		deployment.HandleFunc("POST /v2/templates", answer(400, `{"title":"Bad Request","status":400,"detail":"the name is taken"}`))
		deployment.HandleFunc("POST /v2/registries", answer(201, `{"id":"r","name":"r"}`))
		c := pipe(t, deployment, api.Settings{SharedReads: true})

		want := api.Template{Name: "t", Image: "i", Category: "NVIDIA"}
		twins := make(chan []api.Twin)
		go func() { twins <- c.Templates.Twins(t.Context(), want) }()
		synctest.Wait()
		if _, err := c.RegistryAuths.Create(t.Context(), api.RegistryAuth{Name: "r", Username: "u", Password: "p"}); err != nil {
			t.Fatal(err)
		}
		close(listed)
		if got := <-twins; len(got) != 1 || got[0].ID != "left" {
			t.Fatalf("the plan finds %+v", got)
		}
		got, err := c.Templates.Create(t.Context(), want)
		if err != nil || got.ID != "left" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// A run that has not listed a kind before it wrote it knows of no leftover,
// and does not say that someone else made what has the name.
func TestNameTakenInARunThatNeverListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const old = `{"id":"old","name":"t","image":"i","category":"NVIDIA"}`
		deployment := http.NewServeMux()
		deployment.HandleFunc("GET /v2/templates", answer(200, `{"templates":[`+old+`]}`))
		deployment.HandleFunc("GET /v2/templates/old", answer(200, old))
		deployment.HandleFunc("DELETE /v2/templates/other", answer(204, ``))
		deployment.HandleFunc("POST /v2/templates", answer(400, `{"title":"Bad Request","status":400,"detail":"the name is taken"}`))
		c := pipe(t, deployment, api.Settings{SharedReads: true})
		if err := c.Templates.Delete(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		_, err := c.Templates.Create(t.Context(), api.Template{Name: "t", Image: "i", Category: "NVIDIA"})
		if err == nil || !strings.Contains(err.Error(), "is not known: old") || strings.Contains(err.Error(), "someone else") {
			t.Errorf("got %v", err)
		}
	})
}
