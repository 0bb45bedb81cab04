package api

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const fuzzedKey = "planted-k3y/of+the=<client>&"

// Any successful answer is either decoded, or the error says that it isn't an answer of the API.
func FuzzAnswer(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, v1 bool, text string) {
		version := V2
		if v1 {
			version = V1
		}
		c := must.Do(New(Settings{BaseURL: "http://deployment", APIKey: fuzzedKey, Version: version, Transport: answering(strings.ReplaceAll(text, "$KEY", fuzzedKey))}))(t)
		_, templates := c.Templates.Get(t.Context(), "a")
		_, volumes := c.NetworkVolumes.Get(t.Context(), "a")
		_, endpoints := c.Endpoints.Get(t.Context(), "a")
		_, auths := c.RegistryAuths.List(t.Context())
		_, jobs := c.Jobs.Status(t.Context(), "a", "b")
		for _, err := range []error{templates, volumes, endpoints, auths, jobs} {
			must.Hold(t, err == nil || !strings.Contains(err.Error(), fuzzedKey), text, "the key is in", err)
		}
	},
		fuzz.Seed{false, `{"id":"a","name":"t","image":"i","args":"a 'b","disk":50,"env":{"A":"1"},"ports":["80/http"],"registry":{"id":"r"},"mounts":{"persistent":{"size":1,"path":"/w"}},"category":"CPU"}`},
		fuzz.Seed{true, `{"id":"a","name":"t","imageName":"i","dockerStartCmd":["x"],"env":{"A":"$KEY"},"containerDiskInGb":5,"volumeInGb":20,"volumeMountPath":"/w"}`},
		fuzz.Seed{false, `{"registries":[{"id":"a","name":"$KEY"}],"networkVolumes":[{"id":"a"}]}`}, fuzz.Seed{true, `[{"id":"a","name":"r"}]`},
		fuzz.Seed{false, `{"id":"a","name":"e","type":"QUEUE","gpu":{"pools":["ADA_24"],"count":1},"workers":{"min":0,"max":3},"scaling":{"type":"QUEUE_DELAY","queueDelay":4},"networkVolumes":[{"id":"v"}],"templateId":null}`},
		fuzz.Seed{false, `{"id":"b","status":"COMPLETED","output":{"a":[1]},"delayTime":1,"executionTime":2}`},
	)
}

// answering is a transport that answers each request with a text.
type answering string

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// Joining a split command gives a text that splits into the same words.
func FuzzArgs(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, args string) {
		command, err := startcmd.Parse(args)
		if err != nil {
			return
		}
		again := must.Do(startcmd.Parse(command.String()))(t)
		must.Hold(t, command.Equal(again), args, command, "which is joined to", command, "and split into", again)
	}, fuzz.Seed{`a 'b c' "d\"e" \ f`}, fuzz.Seed{"--x=\"$HOME\" '' `y`"}, fuzz.Seed{"a\\\nb\tc"})
}
