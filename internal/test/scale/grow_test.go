//go:build unix

package scale_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// grow creates objects until the state has n of each resource with count, without n applies: it
// repeats the POST of the first one with another name, and adds the copy to the state.
func (tf *terraform) grow(d *deployment, n int) {
	tf.t.Helper()
	path := filepath.Join(tf.dir, "terraform.tfstate")
	text, err := os.ReadFile(path)
	must.Succeed(tf.t, err)
	var state map[string]any
	must.Succeed(tf.t, json.Unmarshal(text, &state))
	for _, r := range state["resources"].([]any) {
		r := r.(map[string]any)
		instances := r["instances"].([]any)
		first := must.Do(json.Marshal(instances[0]))(tf.t)
		var recorded struct {
			Index      *int `json:"index_key"`
			Attributes struct{ ID, Name string }
		}
		must.Succeed(tf.t, json.Unmarshal(first, &recorded))
		if recorded.Index == nil {
			continue
		}
		for i := len(instances); i < n; i++ {
			name := strings.TrimSuffix(recorded.Attributes.Name, "0") + fmt.Sprint(i)
			id := d.repeat(tf.t, recorded.Attributes.Name, name)
			var instance map[string]any
			changed := strings.NewReplacer(recorded.Attributes.ID, id, `"`+recorded.Attributes.Name+`"`, `"`+name+`"`).Replace(string(first))
			must.Succeed(tf.t, json.Unmarshal([]byte(changed), &instance))
			instance["index_key"] = i
			instances = append(instances, instance)
		}
		r["instances"] = instances
	}
	if text, err = json.Marshal(state); err != nil {
		tf.t.Fatal(err)
	}
	tf.write("terraform.tfstate", string(text))
}

// repeat creates a copy of a named object under another name, and returns its id.
func (d *deployment) repeat(t testing.TB, like, name string) string {
	t.Helper()
	d.mu.Lock()
	was, ok := d.posted[like]
	d.mu.Unlock()
	if !ok {
		t.Fatalf("no object was created with the name %s", like)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, was.path, strings.NewReader(strings.Replace(was.body, `"`+like+`"`, `"`+name+`"`, 1)))
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	var created struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &created); err != nil || created.ID == "" {
		t.Fatalf("POST %s: %d %s", was.path, w.Code, w.Body)
	}
	return created.ID
}
