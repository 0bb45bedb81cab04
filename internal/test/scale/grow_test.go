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
)

// grow makes n of each object of which the state has the first, at the
// deployment and in the state, without n applies: the POST of the first is
// repeated with another name.
func (tf *terraform) grow(d *deployment, n int) {
	tf.t.Helper()
	path := filepath.Join(tf.dir, "terraform.tfstate")
	text, err := os.ReadFile(path)
	if err != nil {
		tf.t.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(text, &state); err != nil {
		tf.t.Fatal(err)
	}
	for _, r := range state["resources"].([]any) {
		r := r.(map[string]any)
		instances := r["instances"].([]any)
		first, err := json.Marshal(instances[0])
		if err != nil {
			tf.t.Fatal(err)
		}
		var told struct {
			Index      *int `json:"index_key"`
			Attributes struct{ ID, Name string }
		}
		if err := json.Unmarshal(first, &told); err != nil {
			tf.t.Fatal(err)
		}
		if told.Index == nil {
			continue
		}
		for i := len(instances); i < n; i++ {
			name := strings.TrimSuffix(told.Attributes.Name, "0") + fmt.Sprint(i)
			id := d.repeat(tf.t, told.Attributes.Name, name)
			var instance map[string]any
			changed := strings.NewReplacer(told.Attributes.ID, id, `"`+told.Attributes.Name+`"`, `"`+name+`"`).Replace(string(first))
			if err := json.Unmarshal([]byte(changed), &instance); err != nil {
				tf.t.Fatal(err)
			}
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

// repeat makes an object like the one of a name, and returns its id.
func (d *deployment) repeat(t testing.TB, like, name string) string {
	t.Helper()
	d.mu.Lock()
	was, ok := d.posted[like]
	d.mu.Unlock()
	if !ok {
		t.Fatalf("nothing was made with the name %s", like)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, was.path, strings.NewReader(strings.Replace(was.body, `"`+like+`"`, `"`+name+`"`, 1)))
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.behind.ServeHTTP(w, r)
	var made struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || made.ID == "" {
		t.Fatalf("POST %s: %d %s", was.path, w.Code, w.Body)
	}
	return made.ID
}
