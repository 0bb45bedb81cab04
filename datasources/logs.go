package datasources

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
)

// logConfig is shared by the logs of workers and pods.
type logConfig struct {
	Source, Since types.String
	Tail, Seconds types.Int64
}

type logLines struct {
	Entries []logEntry
	Lines   []string
}

type logEntry struct {
	TS, Source string
	Line       types.String // may be empty
}

// Limits when reading a log.
const (
	defaultTail    = 100
	maxTail        = 5000 // v2 document: tail
	defaultSeconds = 10
	maxSeconds     = 60
)

var logAttributes = map[string]schema.Attribute{
	"source":  filter("Only lines of this source: `container` or `system`.", rule.OneOf("container", "system")),
	"tail":    filterInteger("Maximum number of lines, 1 to 5000; default 100. Without `since` the last lines, with it the first lines.", rule.Between(1, maxTail)),
	"since":   filter("Only lines from this time on, as RFC 3339.", rfc3339),
	"seconds": filterInteger("Maximum reading time in seconds, 1 to 60; default 10. The existing lines are read first; reading ends early after a second without a new line.", rule.Between(1, maxSeconds)),
	"entries": objects("The lines, the oldest first.", map[string]schema.Attribute{
		"ts": text("When the line was written, as RFC 3339."), "source": text("`container` or `system`."), "line": text("The line."),
	}),
	"lines": texts("The texts of the lines."),
}

const logsInState = " The state contains the lines. Values of environment variables are masked, but other secrets in the log aren't. API v2 only."

func (l *logConfig) query() api.LogQuery {
	return api.LogQuery{
		Source: l.Source.ValueString(), Since: l.Since.ValueString(), Tail: orDefault(l.Tail, defaultTail),
		MaxTime: time.Duration(orDefault(l.Seconds, defaultSeconds)) * time.Second,
	}
}

func orDefault(v types.Int64, value int64) int64 {
	if v.IsNull() {
		return value
	}
	return v.ValueInt64()
}

func newLogLines(lines []api.LogLine, err error) (logLines, error) {
	entries := convert(lines, func(l api.LogLine) logEntry { return logEntry{l.Time, l.Source, types.StringValue(l.Text)} })
	return logLines{entries, convert(lines, func(l api.LogLine) string { return l.Text })}, err
}

type workerLogs struct {
	EndpointID, WorkerID types.String
	logConfig
}

var WorkerLogs = &kit.DataSource[workerLogs, logLines]{
	Name:    "worker_logs",
	Title:   "log of the worker",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The log of an endpoint's worker." + logsInState,
		Attributes: merge(logAttributes, map[string]schema.Attribute{
			"endpoint_id": endpointIDAttribute,
			"worker_id":   requiredID("Id of a worker from `gpucloud_endpoint_workers`, or of a worker that ended recently."),
		}),
	},
	Read: func(ctx context.Context, c *api.Client, m *workerLogs) (logLines, error) {
		return newLogLines(c.WorkerLog(ctx, m.EndpointID.ValueString(), m.WorkerID.ValueString(), m.query()))
	},
}

type podLogs struct {
	PodID types.String
	logConfig
}

var PodLogs = &kit.DataSource[podLogs, logLines]{
	Name:    "pod_logs",
	Title:   "log of the pod",
	Version: api.V2,
	Schema: schema.Schema{
		MarkdownDescription: "The log of a pod." + logsInState,
		Attributes:          merge(logAttributes, map[string]schema.Attribute{"pod_id": requiredID("Id of the pod.")}),
	},
	Read: func(ctx context.Context, c *api.Client, m *podLogs) (logLines, error) {
		return newLogLines(c.PodLog(ctx, m.PodID.ValueString(), m.query()))
	},
}
