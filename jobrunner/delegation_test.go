package jobrunner_test

import (
	"encoding/json"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
)

// After a restart a jobrunner lists its delegations, except the revoked ones.
func TestDelegationsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	const path = "/v2/registries/delegations"
	create := func(t *testing.T, d *deployment, body string) (id string) {
		t.Helper()
		status, _, text := d.do("POST", path, body)
		var created struct{ ID string }
		if err := json.Unmarshal([]byte(text), &created); err != nil || status != 201 {
			t.Fatalf("%d %s", status, text)
		}
		return created.ID
	}
	var kept, revoked, list string
	t.Run("before", func(t *testing.T) {
		d := deployWith(t, jobrunner.Config{DataDir: dir})
		kept = create(t, d, `{"resource":"arn:aws:ecr:us-east-2:418399314813:repository/team/image","name":"kept"}`)
		revoked = create(t, d, `{"resource":"arn:aws:ecr:us-east-2:418399314813:repository/team/image:v1"}`)
		if status, _, text := d.do("DELETE", path+"/"+revoked, ""); status != 204 {
			t.Fatalf("%d %s", status, text)
		}
		_, _, list = d.do("GET", path, "")
	})
	t.Run("after", func(t *testing.T) {
		d := deployWith(t, jobrunner.Config{DataDir: dir})
		if status, _, text := d.do("GET", path, ""); status != 200 || text != list {
			t.Errorf("listed\n%s and after the restart, %d\n%s", list, status, text)
		}
		for id, want := range map[string]int{kept: 204, revoked: 404} {
			if status, _, text := d.do("DELETE", path+"/"+id, ""); status != want {
				t.Errorf("%d %s, want %d", status, text, want)
			}
		}
	})
}
