package resources_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
)

// If an answer has null in place of a value, the next plan doesn't replace the object.
func TestNullInAnAnswerReplacesNothing(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		null, members := "", map[string]bool{}
		d.Intercept(t, func(w http.ResponseWriter, r *http.Request, _ []byte, forward http.Handler) {
			answer := httptest.NewRecorder()
			forward.ServeHTTP(answer, r)
			var object any
			if r.Method == http.MethodGet && json.Unmarshal(answer.Body.Bytes(), &object) == nil {
				setNull(object, null, members)
				answer.Body.Reset()
				must.Succeed(t, json.NewEncoder(answer.Body).Encode(object))
			}
			w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
			w.WriteHeader(answer.Code)
			_, _ = answer.Body.WriteTo(w)
		})
		p := drive(t, d, v)
		template, _ := serverlessTemplate(t, d, p, nil)
		for typeName, c := range minimal {
			if v == api.V1 && c.v1 == "" {
				continue
			}
			config := with(c.config, map[string]any{"name": d.Name("n")})
			if typeName == endpointType {
				config["template_id"] = template.Get("id")
			}
			if typeName == "gpucloud_registry_delegation" {
				delete(config, "name")
			}
			state := apply(t, p, typeName, tfdrive.State{}, config, "create")
			clear(members)
			refresh(t, p, state)
			for null = range members {
				read, diags := p.Reconfigure().Read(state)
				if diags.Err() != nil { // the client rejects the answer
					continue
				}
				planned := p.Plan(typeName, read, config)
				if typeName == volumeType && planned.Action != "replace" {
					planned = p.Plan(typeName, importState(t, p, typeName, state.Get("id").(string)), config)
				}
				must.Hold(t, planned.Action != "replace" && planned.Action != "create", v, typeName, null, "plans to", planned.Action, planned.Replace)
			}
			null = ""
		}
	})
}

// setNull sets a member of an object, or of the objects in lists, to null, and collects all members.
func setNull(value any, null string, members map[string]bool) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			setNull(element, null, members)
		}
	case map[string]any:
		if value["id"] == nil { // the member that has the list
			for _, list := range value {
				setNull(list, null, members)
			}
			return
		}
		for name := range value {
			if name != "id" {
				members[name] = true
			}
		}
		if null != "" && value[null] != nil {
			value[null] = nil
		}
	}
}
