package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// work runs an echo worker with one slot that uses the worker protocol, under this program or a jobrunner.
func work() error {
	takeURL := strings.ReplaceAll(os.Getenv("RUNPOD_WEBHOOK_GET_JOB"), "$ID", os.Getenv("RUNPOD_POD_ID")) + "&job_in_progress=0"
	doneURL := strings.ReplaceAll(os.Getenv("RUNPOD_WEBHOOK_POST_OUTPUT"), "$RUNPOD_POD_ID", os.Getenv("RUNPOD_POD_ID"))
	for {
		text, status, err := ask(http.MethodGet, takeURL, nil)
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			continue // no job arrived while the server held the request
		}
		var job struct {
			ID    string
			Input json.RawMessage
		}
		if err := json.Unmarshal(text, &job); err != nil {
			return fmt.Errorf("job-take answered %.100q: %w", text, err)
		}
		result := append(append([]byte(`{"output": `), job.Input...), '}')
		if _, status, err = ask(http.MethodPost, strings.ReplaceAll(doneURL, "$ID", job.ID)+"&isStream=false", result); err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("job-done answered %d", status)
		}
	}
}

func ask(method, url string, body []byte) (text []byte, status int, err error) {
	r, err := http.NewRequest(method, url, bytes.NewReader(body)) //nolint:noctx // for the life of the process
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Authorization", os.Getenv("RUNPOD_AI_API_KEY"))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, 0, err
	}
	text, err = io.ReadAll(answer.Body)
	if e := answer.Body.Close(); err == nil {
		err = e
	}
	return text, answer.StatusCode, err
}
