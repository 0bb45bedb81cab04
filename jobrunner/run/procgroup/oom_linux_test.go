package procgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The counters of control groups v1 and v2 are found, also in a container. A missing counter is -1.
func TestOOMKills(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  oomKills
	}{
		"nothing": {nil, oomKills{-1, -1}},
		"version 2": {map[string]string{
			"proc/7/cgroup": "0::/user.slice/job\n", "proc/vmstat": "nr_free_pages 1\noom_kill 4\n",
			"sys/fs/cgroup/user.slice/job/memory.events": "low 0\noom 3\noom_kill 2\noom_group_kill 0\n",
		}, oomKills{2, 4}},
		"version 2 in a container": {map[string]string{
			"proc/7/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom_kill 5\n",
		}, oomKills{5, -1}},
		"version 1": {map[string]string{
			"proc/7/cgroup": "4:memory:/docker/abc\n3:cpuset:/\n", "proc/vmstat": "oom_kill 1\n",
			"sys/fs/cgroup/memory/docker/abc/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
		}, oomKills{1, 1}},
		"version 1 in a container": {map[string]string{
			"proc/7/cgroup": "4:memory:/docker/abc\n0::/\n", "sys/fs/cgroup/memory/memory.oom_control": "oom_kill 3\n",
		}, oomKills{3, -1}},
		"nonsense": {map[string]string{"proc/7/cgroup": "4\n:\n", "proc/vmstat": "oom_kill many\n"}, oomKills{-1, -1}},
	} {
		root := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(root, file)
			must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
		}
		must.Equal(t, oomKillsUnder(root, 7), c.want, name)
	}
}

func TestKilledText(t *testing.T) {
	const (
		fromKernel     = "SIGKILL: the kernel ended it, out of memory (its memory limit or the machine's)"
		probablyKernel = "SIGKILL, probably from the kernel: it killed processes for lack of memory meanwhile"
		fromOthers     = "SIGKILL, neither from the jobrunner nor for lack of memory"
		fromUnknown    = "SIGKILL, not from the jobrunner: often because the machine is out of memory"
	)
	for _, c := range []struct {
		before, after oomKills
		want          string
	}{
		{oomKills{0, 0}, oomKills{1, 1}, fromKernel},
		{oomKills{3, -1}, oomKills{4, -1}, fromKernel},
		{oomKills{0, 0}, oomKills{0, 1}, probablyKernel},
		{oomKills{-1, 7}, oomKills{-1, 8}, probablyKernel},
		{oomKills{0, 7}, oomKills{0, 7}, fromOthers},
		{oomKills{-1, -1}, oomKills{-1, -1}, fromUnknown},
		{oomKills{-1, -1}, oomKills{2, 3}, fromUnknown}, // the counters before are unknown
	} {
		must.Equal(t, killedText(c.before, c.after), c.want, c.before, "then", c.after)
	}
}
