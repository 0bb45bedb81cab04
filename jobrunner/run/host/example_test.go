//go:build unix

package host

import (
	"slices"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
)

// The documentation's example is valid, and its rules that need only Python run.
func TestDocumentationExample(t *testing.T) {
	python.Need(t)
	const file = "../../../examples/jobrunner.yaml"
	s, err := readFile(file)
	must.Succeed(t, err)
	e := &Executor{file: file, rules: s.Rules}
	j := newJob(`{"text": "hello world"}`)
	output, err := program(t, e, "example/upper:1").Handle(t.Context(), j.Job)
	want := `{"text": "HELLO! WORLD!"}`
	must.Hold(t, err == nil && string(output) == want && slices.Equal(j.chunks, []string{`"HELLO!"`, `"WORLD!"`, want}), "output", string(output), "chunks", j.chunks, err)
	if _, err = program(t, e, "example/upper").Handle(t.Context(), newJob(`{}`).Job); err == nil || err.Error() != "the input has no text: send {\"text\": \"…\"}\n(exit status 1)" {
		t.Errorf("%v", err)
	}
	for _, image := range []string{"example/handler", "example/protocol", "example/web"} {
		p := program(t, e, image)
		must.Hold(t, p.Start != nil, image, "isn't a process")
	}
}
