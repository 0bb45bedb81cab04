package guides

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/ghrunner"
)

// runWorkflow runs the job `module` of a GitHub workflow on another machine, which has the
// programs of the session.
func (s *session) runWorkflow(name string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	typed := filepath.Join(s.t.TempDir(), "workflow.yml")
	actions, err := ghrunner.OwnActions(root)
	if err == nil {
		err = os.WriteFile(typed, []byte(strings.ReplaceAll(string(text), "run: terraform ", "run: "+s.cli.Name+" ")), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	env := slices.DeleteFunc(slices.Clone(s.env), func(v string) bool {
		return strings.HasPrefix(v, "GPUCLOUD_") || strings.HasPrefix(v, "TF_VAR_")
	})
	r := &ghrunner.Runner{Workspace: s.dir, Env: env, Actions: actions, Uses: func(name string, _ map[string]string) error {
		if name != "actions/checkout" && name != "hashicorp/setup-terraform" { // the machine has both
			return errors.New("unknown action " + name)
		}
		return nil
	}}
	if err := r.RunJob(s.t, typed, "module"); err != nil {
		s.t.Errorf("%s: %s", name, err)
	}
}
