package main_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// If the output goes to systemd's journal, serve prints the file of its new key, not the key.
func TestNoKeyInTheJournal(t *testing.T) {
	t.Parallel()
	for journal, shown := range map[string]bool{"": true, "JOURNAL_STREAM=8:1": false} {
		dir := filepath.Join(t.TempDir(), "state")
		env := environment(t.TempDir())
		if journal != "" {
			env = append(env, journal)
		}
		p := serve(t, env, "--data="+dir)
		key := must.ReadFile(t, filepath.Join(dir, "api-key"))
		greeting := strings.Join(p.greeted, "\n")
		if strings.Contains(greeting, strings.TrimSpace(string(key))) != shown || !shown && p.greetingValue("GPUCLOUD_API_KEY") != `"$(cat `+filepath.Join(dir, "api-key")+`)"` {
			t.Errorf("%q: the greeting is\n%s", journal, greeting)
		}
	}
}
