package jobrunner

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/metrics"
)

// A panic in a handler is an answer of 500 in JSON, and a line in the log.
func TestPanicIsAnAnswer(t *testing.T) {
	var log bytes.Buffer
	server := httptest.NewServer(observe(slog.New(slog.NewTextHandler(&log, nil)), metrics.New(metrics.Config{}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("planted")
	})))
	resp, err := http.Get(server.URL + "/v2/ep/run")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	server.Close()
	var decoded map[string]string
	if err := json.Unmarshal(body, &decoded); err != nil || resp.StatusCode != 500 || decoded["error"] == "" || strings.Contains(string(body), "planted") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	if !strings.Contains(log.String(), "planted") || !strings.Contains(log.String(), resp.Header.Get("X-Request-Id")) {
		t.Errorf("the log says %s", &log)
	}
}
