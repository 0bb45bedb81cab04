package resources_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfdrive"
	"github.com/gpucloud/terraform-provider-gpucloud/provider"
)

// TestResponseAboutAnotherObjectChangesNoState puts a gateway before the deployment that
// answers requests about one object with another one.
func TestResponseAboutAnotherObjectChangesNoState(t *testing.T) {
	acctest.EachVersion(t, func(t *testing.T, d *acctest.Deployment, v api.Version) {
		target, err := url.Parse(d.URL)
		must.Succeed(t, err)
		var mine, others string
		proxy := httputil.NewSingleHostReverseProxy(target)
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch path, isMine := strings.CutSuffix(r.URL.Path, "/"+mine); {
			case isMine:
				r.URL.Path = path + "/" + others
			case r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") == 2: // so that objects are read by id
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"title":"Forbidden","status":403,"message":"no lists"}`)
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		defer gateway.Close()
		block := d.Settings(v)
		block["base_url"], block["queue_url"] = gateway.URL, d.URL
		direct, through := drive(t, d, v), tfdrive.Start(t, provider.New("test")(), block)
		template, _ := serverlessTemplate(t, d, direct, nil)
		for kind, config := range everyKind(d, template.Get("id").(string)) {
			state := apply(t, direct, kind, tfdrive.State{}, config, "create")
			other := apply(t, direct.Walk(), kind, tfdrive.State{}, with(config, map[string]any{"name": d.Name("other")}), "create")
			mine, others = state.Get("id").(string), other.Get("id").(string)
			read, diags := through.Walk().Read(state)
			if err := diags.Err(); err == nil || !strings.Contains(err.Error(), `"`+others+`", not `+mine) || !read.Value.Equal(state.Value) {
				t.Errorf("%s: the read is %s, %v", kind, read.Value, err)
			}
			if kind == "gpucloud_registry_auth" {
				continue // the type has no update
			}
			after, diags := through.Apply(direct.Walk().Plan(kind, state, with(config, map[string]any{"name": d.Name("renamed")})))
			if err := diags.Err(); err == nil || after.Get("id") != mine || after.Get("name") != state.Get("name") {
				t.Errorf("%s: the update is %s, %v", kind, after.Value, err)
			}
		}
	})
}
