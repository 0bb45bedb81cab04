package api

import (
	"context"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/redact"
)

// What programs write is redacted here, where it arrives, if the context has a
// redact.Set: Terraform keeps and shows it. Other callers get it as it came.

const maxReason = 2000 // characters

// redactTexts redacts reasons in place.
func redactTexts(secrets *redact.Set, reasons ...*string) {
	for _, text := range reasons {
		if secrets != nil && text != nil && *text != "" {
			*text = secrets.Text(*text, maxReason)
		}
	}
}

// LearnEndpoint lets the context's redact.Set learn the environment of an endpoint,
// which its workers may repeat.
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

// redacted is a job whose error is redacted. Who may run jobs need not be allowed to
// read the endpoint: then its environment is not known.
func (j *Jobs) redacted(ctx context.Context, endpointID string, job Job, err error) (Job, error) {
	if secrets := redact.FromContext(ctx); secrets != nil && job.Error != "" {
		_ = j.learn(ctx, endpointID)
		job.Error = secrets.Lines(job.Error)
	}
	return job, err
}
