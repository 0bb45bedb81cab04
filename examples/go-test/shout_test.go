package shout_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"example.com/you/shout"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest"
)

// worker replaces the workers' image.
func worker(_ context.Context, job jobrunnertest.Job) (any, error) {
	var input struct{ Text string }
	if err := job.Decode(&input); err != nil {
		return nil, err
	}
	if input.Text == "" {
		return nil, errors.New("nothing to shout")
	}
	return map[string]string{"text": strings.ToUpper(input.Text)}, nil
}

func TestShout(t *testing.T) {
	t.Parallel()
	j := jobrunnertest.Start(t, jobrunnertest.Handle("registry.example.com/you/shout", worker))
	client := shout.Client{BaseURL: j.URL, Key: j.Key, Endpoint: j.Endpoint("registry.example.com/you/shout:1")}

	if text, err := client.Shout(t.Context(), "hello"); err != nil || text != "HELLO" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := client.Shout(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "nothing to shout") {
		t.Errorf("expected the worker's error, got %v", err)
	}
}
