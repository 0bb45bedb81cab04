// Package shout sends jobs to an endpoint.
package shout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Client sends jobs to one endpoint.
type Client struct{ BaseURL, Key, Endpoint string }

// Shout returns the text in upper case, as the endpoint converts it.
func (c Client) Shout(ctx context.Context, text string) (string, error) {
	body, err := json.Marshal(map[string]any{"input": map[string]string{"text": text}})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.BaseURL+"/v2/"+c.Endpoint+"/runsync", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+c.Key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var job struct {
		Status, Error string
		Output        struct{ Text string }
	}
	if err := json.NewDecoder(response.Body).Decode(&job); err != nil {
		return "", err
	}
	if job.Status != "COMPLETED" {
		return "", fmt.Errorf("the job is %s: %s", job.Status, job.Error)
	}
	return job.Output.Text, nil
}
