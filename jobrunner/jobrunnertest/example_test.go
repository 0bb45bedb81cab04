package jobrunnertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/jobrunnertest"
)

func upper(_ context.Context, job jobrunnertest.Job) (any, error) {
	var input struct{ Text string }
	if err := job.Decode(&input); err != nil {
		return nil, err
	}
	return strings.ToUpper(input.Text), nil
}

// A test starts a deployment whose workers run a function, and sends it a job.
func Example() {
	run(func(t testing.TB) { // in a file of yours: func TestUpper(t *testing.T)
		j := jobrunnertest.Start(t, jobrunnertest.Handle("team/upper", upper))
		endpoint := j.Endpoint("team/upper:1")

		result := j.Run(endpoint, map[string]string{"text": "hello"})
		fmt.Println(result.Status, string(result.Output))
	})
	// Output: COMPLETED "HELLO"
}

// Advance moves the deployment's clock past the job's time-out, so the test doesn't wait for it.
func ExampleJobrunner_Advance() {
	run(func(t testing.TB) {
		j := jobrunnertest.Start(t, jobrunnertest.Handle("team/slow", func(ctx context.Context, job jobrunnertest.Job) (any, error) {
			return nil, job.Sleep(ctx, 24*time.Hour)
		}))
		endpoint := j.Endpoint("team/slow")
		job := j.Submit(endpoint, nil)
		j.WaitRunning(endpoint, job)
		j.Advance(10 * time.Minute)
		fmt.Println(j.Wait(endpoint, job).Status)
	})
	// Output: TIMED_OUT
}

// Workers of a GPU endpoint get simulated GPUs.
func ExampleSimulateGPUs() {
	run(func(t testing.TB) {
		j := jobrunnertest.Start(t, jobrunnertest.SimulateGPUs("h200x8"),
			jobrunnertest.Handle("team/train", func(_ context.Context, job jobrunnertest.Job) (any, error) { return len(job.GPUs), nil }))
		endpoint := j.Create("serverless", map[string]any{
			"name": "train", "image": "team/train:1", "workers": map[string]any{"max": 1},
			"gpu": map[string]any{"pools": []string{"HOPPER_141"}, "count": 4},
		})
		fmt.Println(string(j.Run(endpoint, nil).Output))
	})
	// Output: 4
}
