package api

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// Texts that programs write are redacted on arrival if the context has a redact.Set, because
// Terraform stores and shows them. Other callers get them unchanged.

const maxReason = 2000 // characters

// redactTexts redacts texts in place.
func redactTexts(secrets *redact.Set, reasons ...*string) {
	for _, text := range reasons {
		if secrets != nil && text != nil && *text != "" {
			*text = secrets.Text(*text, maxReason)
		}
	}
}

// LearnEndpoint adds the environment of an endpoint to the context's redact.Set, because its
// workers may print it.
func (c *Client) LearnEndpoint(ctx context.Context, id string) error {
	if redact.FromContext(ctx) == nil {
		return nil
	}
	_, err := c.Endpoints.Get(ctx, id)
	return err
}

// redactLog redacts the lines of a log in place.
func redactLog(ctx context.Context, lines []LogLine) {
	secrets := redact.FromContext(ctx)
	for i := range lines {
		if l := &lines[i]; secrets != nil {
			l.Time, l.Source, l.Text = secrets.Line(l.Time), secrets.Line(l.Source), secrets.Line(l.Text)
		}
	}
}

// redacted redacts the error of a job. It ignores a failure to read the endpoint, because a key
// that may run jobs need not have access to it.
func (j *Jobs) redacted(ctx context.Context, endpointID string, job Job, err error) (Job, error) {
	if secrets := redact.FromContext(ctx); secrets != nil && job.Error != "" {
		_ = j.learn(ctx, endpointID)
		job.Error = secrets.Lines(job.Error)
	}
	return job, err
}
