package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

var ctx = context.Background()

// runRole runs the client that the first argument names, and returns its exit code.
func runRole(args []string) int {
	switch args[0] {
	case "sample":
		s := sample{fault: args[1], base: os.Getenv("GPUCLOUD_BASE_URL"), key: os.Getenv("GPUCLOUD_API_KEY"), endpoint: os.Getenv("GPUCLOUD_ENDPOINT_ID")}
		return s.run()
	case "reader":
		sample{base: args[1], key: os.Getenv("GPUCLOUD_API_KEY")}.do(http.MethodGet, "", nil)
		return 0
	case "jobs":
		return jobsClient()
	}
	return 1
}

// sample is a client that is correct except for one fault.
type sample struct {
	fault, base, key, endpoint string
}

type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func (s sample) has(fault string) bool { return s.fault == fault }

// run creates a template, tries to shrink a volume in the scenario shrink, and otherwise runs a job.
func (s sample) run() int {
	if s.has("prints the key") {
		fmt.Println("using", s.key)
	}
	if s.has("prints the key encoded") {
		fmt.Fprintln(os.Stderr, base64.StdEncoding.EncodeToString([]byte(s.key)))
	}
	version := os.Getenv("GPUCLOUD_API_VERSION")
	if version == "v1" && !s.has("doesn't warn of the retirement") {
		fmt.Fprintln(os.Stderr, "version 1 was retired on 15 November 2026")
	}
	templates := "/" + version + "/templates"
	if a := s.create(templates, map[string]any{"name": "sample", "image": "sample"}); a.status/100 != 2 {
		return s.printError("the template", a)
	}
	if os.Getenv("CONFORMANCE_SCENARIO") == "shrink" {
		return s.shrink()
	}
	return s.job()
}

// printError prints an error without the key, and returns the exit code.
func (s sample) printError(subject string, a answer) int {
	switch {
	case s.has("prints the server's error"):
		fmt.Fprintln(os.Stderr, subject, a.text)
	case s.has("doesn't mention the taken name"):
		fmt.Fprintln(os.Stderr, subject, "failed")
	default:
		fmt.Fprintln(os.Stderr, subject, a.status, strings.ReplaceAll(a.text, s.key, "***"))
	}
	return 1
}

func (s sample) create(path string, body map[string]any) answer {
	for try := 0; try < 4 && s.has("repeats refused reads") && s.do(http.MethodGet, path, nil).status == 403; try++ {
		continue // as if 403 were 429
	}
	a := s.do(http.MethodPost, path, body)
	lost := a.status == 0 || a.status >= 500
	switch {
	case lost && s.has("lists and repeats although the object exists"):
		s.do(http.MethodGet, path, nil)
		return s.do(http.MethodPost, path, body)
	case lost && s.has("deletes the object and repeats"):
		templates, _ := s.do(http.MethodGet, path, nil).body["templates"].([]any)
		for _, t := range templates {
			s.do(http.MethodDelete, path+"/"+fmt.Sprint(t.(map[string]any)["id"]), nil)
		}
		return s.do(http.MethodPost, path, body)
	case lost && s.has("lists and repeats if the object is missing"):
		if found := s.do(http.MethodGet, path, nil); strings.Contains(found.text, fmt.Sprint(body["name"])) {
			return found
		}
		return s.do(http.MethodPost, path, body)
	case lost && s.has("repeats creations"),
		a.status == 400 && s.has("repeats 400"), a.status == 403 && s.has("repeats 403"), a.status == 401 && s.has("repeats 401"):
		return s.do(http.MethodPost, path, body)
	}
	return a
}

func (s sample) shrink() int {
	const path = "/v2/network-volumes"
	volume := s.do(http.MethodGet, path+"/"+os.Getenv("CONFORMANCE_VOLUME_ID"), nil)
	smaller := map[string]any{"size": 10}
	switch {
	case s.has("requests a shrink"):
		return s.printError("the volume", s.do(http.MethodPatch, path+"/"+fmt.Sprint(volume.body["id"]), smaller))
	case s.has("replaces a volume with a smaller one"):
		s.do(http.MethodDelete, path+"/"+fmt.Sprint(volume.body["id"]), nil)
		volume.body["size"] = 10
		s.do(http.MethodPost, path, volume.body)
		return 0
	case s.has("creates a smaller volume and deletes the old one"):
		s.do(http.MethodPost, path, map[string]any{"name": volume.body["name"], "dataCenter": volume.body["dataCenter"], "size": 10})
		s.do(http.MethodDelete, path+"/"+fmt.Sprint(volume.body["id"]), nil)
		return 0
	case s.has("fails for another reason"):
		return 1
	}
	fmt.Fprintln(os.Stderr, "a volume can't shrink")
	return 1
}

func (s sample) job() int {
	called := make(chan bool, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s.has("rejects its webhook") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		called <- true
	}))
	defer hook.Close()
	submitted := s.do(http.MethodPost, "/v2/"+s.endpoint+"/run", map[string]any{"input": map[string]any{"a": 1}, "webhook": hook.URL})
	if submitted.status/100 != 2 {
		return s.printError("the job", submitted)
	}
	polls := 0
	for {
		a := s.do(http.MethodGet, "/v2/"+s.endpoint+"/status/"+fmt.Sprint(submitted.body["id"]), nil)
		state := a.body["status"]
		switch {
		case a.status == 404 && s.has("polls an expired job"), state == "CANCELLED" && s.has("polls a cancelled job"):
			if polls++; polls == 8 {
				return 1 // a client with this fault would never stop
			}
		case a.status == 404 && s.has("treats an expired job as completed"), state == "CANCELLED" && s.has("treats a cancelled job as completed"):
			return 0
		case a.status != 200:
			return s.printError("the job", a)
		case state == "COMPLETED":
			<-called
			return 0
		case state == "CANCELLED":
			fmt.Fprintln(os.Stderr, "the job was cancelled")
			return 1
		}
	}
}

// do sends a request, and retries it after 429.
func (s sample) do(method, path string, body map[string]any) answer {
	backoff := 60 * time.Millisecond
	for {
		a := s.send(method, path, body)
		seconds, _ := strconv.Atoi(a.header.Get("Retry-After"))
		retryAfter := time.Duration(seconds) * time.Second
		switch {
		case a.status != 429 || s.has("gives up at 429"):
			return a
		case s.has("does not wait"):
			continue
		case retryAfter > 0 && !s.has("ignores Retry-After"):
			time.Sleep(retryAfter) // in real time, by which the suite judges
		default:
			time.Sleep(backoff) // the suite judges this back-off
			backoff *= 2
		}
	}
}

func (s sample) send(method, path string, body map[string]any) answer {
	var content io.Reader
	if body != nil {
		if s.has("sends the key in the body") {
			body["env"] = map[string]any{"KEY": s.key}
		}
		text, err := json.Marshal(body)
		if err != nil {
			return answer{text: err.Error()}
		}
		content = bytes.NewReader(text)
	}
	if s.has("sends the key in the address") {
		path += "?api_key=" + s.key
	}
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, content)
	if err != nil {
		return answer{text: err.Error()}
	}
	if s.has("sends the key in another header") {
		r.Header.Set("X-Api-Key", s.key)
	}
	switch {
	case s.has("sends a bare key"):
		r.Header.Set("Authorization", s.key)
	case s.has("sends no key for jobs") && strings.Contains(path, s.endpoint):
	default:
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{text: err.Error()}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{text: err.Error()}
	}
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(text), body: map[string]any{}}
	_ = json.Unmarshal(text, &a.body) // a list has no members
	return a
}

// jobsClient runs a job with the provider's own client and waits for its end.
func jobsClient() int {
	c, err := api.New(api.Settings{BaseURL: os.Getenv("GPUCLOUD_BASE_URL"), APIKey: os.Getenv("GPUCLOUD_API_KEY"), KeySource: "GPUCLOUD_API_KEY", Version: api.V2})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	endpoint := os.Getenv("GPUCLOUD_ENDPOINT_ID")
	job, err := c.Jobs.Run(ctx, endpoint, api.Submission{Input: json.RawMessage(`{"a":1}`)})
	for err == nil && !job.Finished() {
		job, err = c.Jobs.Status(ctx, endpoint, job.ID)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(job.Status)
	return 0
}
