package env_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/env"
)

// What a process that died had made is taken down by the next one, the newest
// first, and only that; a line that the crash cut short does no harm.
func TestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	var mu sync.Mutex
	var asked []string
	status, reads := map[string]int{"/v2/c": 404, "/v1/d": 400}, map[string]int{"/v2/c": 404}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.Path)
		if r.Header.Get("Authorization") != "Bearer the-key" {
			w.WriteHeader(401)
		}
		if s := status[r.URL.Path]; s != 0 && r.Method == http.MethodDelete {
			w.WriteHeader(s)
		}
		if s := reads[r.URL.Path]; s != 0 && r.Method == http.MethodGet {
			w.WriteHeader(s)
		}
	}))
	defer target.Close()
	first, err := env.OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, what := range []string{"/v2/a", "/v2/b", "/v2/c", "/v1/d"} {
		m, err := first.Add(env.Object{Kind: "thing", ID: what, Method: "DELETE", URL: target.URL + what, Case: "X-01"})
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := first.Remove(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"n":9,"kind":"thi`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}

	again, err := env.OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	e := env.New(&env.Target{Key: "the-key"}, env.NewReal(1))
	e.Ledger = again
	// Version 1 answers 400 for what is not there: here the read finds it.
	err = e.DeleteCreated(context.Background(), "")
	if err == nil || !strings.Contains(err.Error(), "thing /v1/d is left, made by X-01") {
		t.Errorf("the end is %v", err)
	}
	if got := strings.Join(asked, ", "); got != "DELETE /v1/d, GET /v1/d, DELETE /v2/c, GET /v2/c, DELETE /v2/a, DELETE /v1/d, GET /v1/d" {
		t.Errorf("asked %s", got)
	}
	if left := again.Remaining(""); len(left) != 1 || left[0].ID != "/v1/d" {
		t.Errorf("left is %v", left)
	}
}
