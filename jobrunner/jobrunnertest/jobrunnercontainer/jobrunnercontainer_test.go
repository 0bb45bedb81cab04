package jobrunnercontainer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest/jobrunnercontainer"
)

// image returns the jobrunner's image from JOBRUNNER_IMAGE. Without the variable, it skips the test.
func image(t *testing.T) string {
	t.Helper()
	name := os.Getenv("JOBRUNNER_IMAGE")
	if name == "" {
		t.Skip("JOBRUNNER_IMAGE is not set: make image builds the jobrunner's image")
	}
	return name
}

// A container serves requests with its own key and runs a job.
func TestRun(t *testing.T) {
	config := filepath.Join(t.TempDir(), "rules.yaml") // the jobrunner doesn't start if it can't read the file
	if err := os.WriteFile(config, []byte("engine: none\nrules: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := jobrunnercontainer.Run(t.Context(), image(t),
		jobrunnercontainer.WithConfig(config), jobrunnercontainer.WithSimulatedGPUs("l4x2"), jobrunnercontainer.WithFlags("--limits=off"))
	if c != nil {
		testcontainers.CleanupContainer(t, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	env, err := c.Environ(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.URL(t.Context())
	if err != nil || !strings.HasPrefix(env[0], "GPUCLOUD_BASE_URL="+url) {
		t.Fatalf("the URL is %s, %v; the first variable of %q lacks it", url, err, env)
	}
	if _, err := post(t.Context(), url+"/v2/serverless", "another key", `{}`); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("expected 401 for another key, got %v", err)
	}
	created, err := post(t.Context(), url+"/v2/serverless", c.Key, `{"name": "e", "image": "builtin/echo", "gpu": {"pools": ["ADA_24"]}, "workers": {"max": 1}}`)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := post(t.Context(), fmt.Sprintf("%s/v2/%s/runsync", url, created["id"]), c.Key, `{"input": {"a": 1}}`)
	if err != nil || answer["status"] != "COMPLETED" {
		t.Errorf("the job is %v, %v; want COMPLETED", answer, err)
	}
}

// An invalid flag is an error.
func TestRunFails(t *testing.T) {
	c, err := jobrunnercontainer.Run(t.Context(), image(t), jobrunnercontainer.WithFlags("--clock=nosuch"))
	if c != nil {
		testcontainers.CleanupContainer(t, c)
	}
	if err == nil {
		t.Error("a jobrunner with an invalid flag started")
	}
}

func post(ctx context.Context, url, key, body string) (answer map[string]any, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	if err != nil {
		return nil, err
	}
	return answer, json.Unmarshal(text, &answer)
}
