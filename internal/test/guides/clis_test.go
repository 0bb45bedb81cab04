package guides

import (
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

// The first endpoint, the secrets guide and the module's tests work with every other installed CLI.
func TestOtherCommandLines(t *testing.T) {
	if testing.Short() {
		t.Skip("a short run uses only the default CLI")
	}
	python.Need(t)
	bin := t.TempDir()
	must.Succeed(t, gobuild.Programs(t.Context(), bin, root, root+"/cmd/jobrunner"))
	clis := must.Do(tfcli.All(t.Context()))(t)
	for _, cli := range clis[1:] {
		t.Run(strings.ReplaceAll(cli.String(), " ", "-"), func(t *testing.T) {
			for _, guide := range guides[:2] {
				s := newSession(t, bin, cli)
				s.must("make install")
				for _, b := range readBlocks(t, guide) {
					s.follow(b)
				}
			}
			s := newSession(t, bin, cli)
			s.must("make install && cd examples/module && terraform init")
			s.serve("jobrunner serve --ephemeral --config tests/jobrunner.yaml")
			must.Equal(t, compare([]string{"Success! 5 passed, 0 failed."}, s.must("terraform test")), "")
		})
	}
}
