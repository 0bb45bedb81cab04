// Package jobrun is shared by the ephemeral resource and the action that run a job: the
// attributes of the job, their checks, and the run itself.
package jobrun

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/value"
)

// CostsWarning is a sentence for the description of everything that runs a job.
const CostsWarning = "A job costs what its worker costs while the worker starts, runs and is idle."

// Model is the part of a model that describes a job.
type Model struct {
	EndpointID, Input, Timeout, Webhook types.String
	Policy, S3Config                    types.Object
}

// policy has the limits that the deployment applies to the job.
type policy struct {
	ExecutionTimeout, TTL types.Int64
	LowPriority           types.Bool
}

// s3Config is the object storage for the worker.
type s3Config struct{ AccessID, AccessSecret, BucketName, EndpointURL types.String }

const (
	defaultTimeout = 10 * time.Minute
	maxDuration    = 7 * 24 * time.Hour // service description, Limits
	minTTL         = 10 * time.Second
)

func (m *Model) Validate(c diagnostics.Check) {
	kit.ValidID(c, "endpoint_id", m.EndpointID)
	if v := m.Input; !v.IsNull() && !v.IsUnknown() && !isObject(v.ValueString()) {
		c.Error("input", "Invalid input", "Invalid input: expected a JSON object, such as jsonencode({ prompt = \"…\" }).")
	}
	if _, err := ParseTimeout(m.Timeout); err != nil {
		c.Error("timeout", "Invalid timeout", "%s", err)
	}
	if p := value.As[policy](m.Policy); p != nil {
		checkBounds(c, "policy.execution_timeout", p.ExecutionTimeout, 5*time.Second)
		checkBounds(c, "policy.ttl", p.TTL, minTTL)
	}
	checkURL(c, "webhook", m.Webhook)
	if storage := value.As[s3Config](m.S3Config); storage != nil {
		checkURL(c, "s3_config.endpoint_url", storage.EndpointURL)
	}
}

// checkURL rejects invalid URLs. The error doesn't contain the value: the URL of a webhook may
// contain a token.
func checkURL(c diagnostics.Check, attribute string, v types.String) {
	if u, err := url.Parse(v.ValueString()); value.IsSet(v) && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		c.Error(attribute, "Invalid "+attribute, "Invalid %s: expected an http or https URL with a host.", attribute)
	}
}

func checkBounds(c diagnostics.Check, attribute string, v types.Int64, low time.Duration) {
	if ms := v.ValueInt64(); value.IsSet(v) && (ms < low.Milliseconds() || ms > maxDuration.Milliseconds()) {
		c.Error(attribute, "Invalid "+attribute, "Invalid %s: expected %d to %d milliseconds (10 minutes are 600000), got %d.", attribute, low.Milliseconds(), maxDuration.Milliseconds(), ms)
	}
}

func isObject(text string) bool {
	return json.Valid([]byte(text)) && bytes.HasPrefix(bytes.TrimSpace([]byte(text)), []byte("{"))
}

// ParseTimeout parses a timeout. The default is ten minutes.
func ParseTimeout(text types.String) (time.Duration, error) {
	if text.IsNull() || text.IsUnknown() {
		return defaultTimeout, nil
	}
	timeout, err := time.ParseDuration(text.ValueString())
	if err != nil || timeout < time.Second || timeout > maxDuration {
		return 0, fmt.Errorf("expected a duration from 1s to %s in hours, minutes and seconds, such as 90s or 1h (days aren't a unit), got %q", maxDuration, text.ValueString())
	}
	return timeout, nil
}

// Run submits the job, which Validate has accepted, and waits until it ends.
func (m *Model) Run(ctx context.Context, c *api.Client, progress func(api.Job)) (api.Job, error) {
	timeout, _ := ParseTimeout(m.Timeout) // can't fail: validated
	policy := cmp.Or(value.As[api.JobPolicy](m.Policy), &api.JobPolicy{})
	if policy.TTL == nil {
		policy.TTL = new(min(max(timeout+time.Minute, minTTL), maxDuration).Milliseconds())
	}
	submission := api.Submission{Input: json.RawMessage(m.Input.ValueString()), Policy: policy, Webhook: m.Webhook.ValueString(), S3Config: value.As[api.S3Config](m.S3Config)}
	return c.Jobs.RunToEnd(ctx, m.EndpointID.ValueString(), submission, timeout, progress)
}

// EndpointIDDescription describes the id of an endpoint that takes jobs.
const EndpointIDDescription = "Id of an endpoint of type `QUEUE`."

// Attributes returns the arguments of a job. They fit into the schema of an action, too. secretNote is
// appended to the descriptions of secrets, for a schema without sensitive attributes. If it is empty,
// the attributes are sensitive.
func Attributes(secretNote string) map[string]schema.Attribute {
	secret := func(text string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Sensitive: secretNote == "", MarkdownDescription: text + secretNote}
	}
	return map[string]schema.Attribute{
		"endpoint_id": schema.StringAttribute{Required: true, MarkdownDescription: EndpointIDDescription},
		"input":       schema.StringAttribute{Required: true, MarkdownDescription: "Input of the job, a JSON object: use `jsonencode()`."},
		"timeout":     schema.StringAttribute{Optional: true, MarkdownDescription: "How long to wait for the job, worker starts included; default `10m`. Then the job is cancelled."},
		"policy": schema.SingleNestedAttribute{Optional: true, Validators: rule.SomeAttribute, MarkdownDescription: "Limits that the deployment applies to the job.", Attributes: map[string]schema.Attribute{
			"execution_timeout": schema.Int64Attribute{Optional: true, MarkdownDescription: "Longest execution in milliseconds, 5000 to 604800000; default: the endpoint's."},
			"ttl":               schema.Int64Attribute{Optional: true, MarkdownDescription: "Milliseconds until the job is deleted, whatever its state, 10000 to 604800000. Default: `timeout` plus one minute."},
			"low_priority":      schema.BoolAttribute{Optional: true, MarkdownDescription: "If true, the job waits for a running worker and starts none. Defaults to false."},
		}},
		"webhook": secret("URL that is called when the job has ended."),
		"s3_config": schema.SingleNestedAttribute{Optional: true, Validators: rule.SomeAttribute, MarkdownDescription: "Object storage for the handler.", Attributes: map[string]schema.Attribute{
			"access_id":     schema.StringAttribute{Optional: true, MarkdownDescription: "Id of the access key."},
			"access_secret": secret("The access key itself."),
			"bucket_name":   schema.StringAttribute{Optional: true, MarkdownDescription: "Name of the bucket."},
			"endpoint_url":  schema.StringAttribute{Optional: true, MarkdownDescription: "URL of a storage that is compatible with S3."},
		}},
	}
}
