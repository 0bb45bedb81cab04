//go:build unix

package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// work is an operation that clients repeat.
type work struct {
	name, words string
	handler     string // echo, stream or http
	sizes       []int
	clients     []int
	// prepare returns a function that performs the operation once.
	prepare func(c *client, size int) (once func(*client) error, err error)
}

var (
	sizes   = []int{1 << 10, 64 << 10, 1 << 20}
	clients = []int{1, 8, 64}
)

var works = []work{
	{"runsync", "`POST /runsync` of an echo job", "echo", sizes, clients, runSync("echo")},
	{"run", "`POST /run` of an echo job, while workers run the jobs", "echo", sizes, clients, run},
	{"status", "`GET /status` of a finished job", "echo", sizes, clients, status},
	{"stream", "`POST /run` of a job with 1,000 chunks, and `GET /stream` until all are read", "stream", sizes[:1], clients, stream},
	{"http", "`POST /runsync` of an echo job, with workers that use the worker protocol", "http", sizes, clients, runSync("http")},
}

// submission returns a submission of a size in bytes.
func submission(size int) []byte {
	const envelope = `{"input": {"text": ""}}`
	return []byte(`{"input": {"text": "` + strings.Repeat("x", size-len(envelope)) + `"}}`)
}

var isCompleted = []byte(`"status":"COMPLETED"`)

func expectCompleted(text []byte, err error) error {
	if err == nil && !bytes.Contains(text, isCompleted) {
		err = fmt.Errorf("the job is not COMPLETED: %.200s", text)
	}
	return err
}

func expectRunning(text []byte, err error) error {
	if err == nil && !bytes.Contains(text, []byte(`"status":"IN_`)) {
		err = fmt.Errorf("the job ended before all its chunks were read: %.200s", text)
	}
	return err
}

func runSync(handler string) func(*client, int) (func(*client) error, error) {
	return func(c *client, size int) (func(*client) error, error) {
		path, body := "/v2/"+c.endpoints[handler]+"/runsync", submission(size)
		return func(c *client) error { return expectCompleted(c.ask(http.MethodPost, path, body)) }, nil
	}
}

func run(c *client, size int) (func(*client) error, error) {
	path, body := "/v2/"+c.endpoints["echo"]+"/run", submission(size)
	return func(c *client) error {
		_, err := c.ask(http.MethodPost, path, body)
		return err
	}, nil
}

func status(c *client, size int) (func(*client) error, error) {
	text, err := c.ask(http.MethodPost, "/v2/"+c.endpoints["echo"]+"/runsync", submission(size))
	var job struct{ ID string }
	if err == nil {
		err = json.Unmarshal(text, &job)
	}
	path := "/v2/" + c.endpoints["echo"] + "/status/" + job.ID
	return func(c *client) error { return expectCompleted(c.ask(http.MethodGet, path, nil)) }, err
}

const chunks = 1000

func stream(c *client, _ int) (func(*client) error, error) {
	at, body := "/v2/"+c.endpoints["stream"], fmt.Appendf(nil, `{"input": {"op": "stream", "n": %d}}`, chunks)
	return func(c *client) error {
		text, err := c.ask(http.MethodPost, at+"/run", body)
		var job struct{ ID string }
		if err == nil {
			err = json.Unmarshal(text, &job)
		}
		for read := 0; err == nil && read < chunks; {
			if text, err = c.ask(http.MethodGet, at+"/stream/"+job.ID, nil); err == nil {
				n := bytes.Count(text, []byte(`"output"`))
				if read += n; n == 0 { // no chunk arrived while the server held the request
					err = expectRunning(c.ask(http.MethodGet, at+"/status/"+job.ID, nil))
				}
			}
		}
		return err
	}, nil
}
