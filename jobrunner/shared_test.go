package jobrunner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

// Two deployments on one database are one: what is made at one is there at the
// other, and what one leaves undone the other does.
func TestTwoOnOneDatabase(t *testing.T) {
	c := jobrunner.Config{Engine: pgtest.Start(t)}
	b := deployWith(t, c)
	var endpoint, job string
	t.Run("while both are there", func(t *testing.T) {
		a := deployWith(t, c)
		e, err := a.client(api.V2).Endpoints.Create(t.Context(), echo("shared"))
		if err != nil {
			t.Fatal(err)
		}
		endpoint = e.ID
		done, err := b.client(api.V1).Jobs.RunSync(t.Context(), e.ID, api.Submission{Input: json.RawMessage(`{"n":1}`)}, 0)
		if err != nil || done.Status != "COMPLETED" {
			t.Errorf("submitted at the other one: %+v, %v", done, err)
		}
		for _, d := range []*deployment{a, b} {
			if h, err := d.client(api.V2).Jobs.Health(t.Context(), e.ID); err != nil || h.Jobs.Completed != 1 {
				t.Errorf("health is %+v, %v", h, err)
			}
		}
		_, err = b.client(api.V2).Templates.Create(t.Context(), api.Template{Name: "one", Image: "i", Disk: 5, Category: "CPU", Serverless: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.client(api.V2).Templates.Create(t.Context(), api.Template{Name: "one", Image: "i", Disk: 5, Category: "CPU", Serverless: true})
		if err == nil || !strings.Contains(err.Error(), "unique") {
			t.Errorf("a name that the other one has given: %v", err)
		}
	})
	// The one that made the endpoint is gone.
	client := b.client(api.V2)
	submitted, err := client.Jobs.Run(t.Context(), endpoint, api.Submission{Input: json.RawMessage(`{"n":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	for job = submitted.ID; ; {
		got, err := client.Jobs.Status(t.Context(), endpoint, job)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status == "COMPLETED" {
			break
		}
	}
	if log := b.log.String(); strings.Contains(log, "ERROR") || strings.Contains(log, pgtest.Password) {
		t.Error(log)
	}
}
