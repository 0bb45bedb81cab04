package main

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/clitest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The limit includes the jobs of a state in memory. Otherwise a full queue would be marked again every few requests.
func TestHeapLimit(t *testing.T) {
	must.Equal(t, heapLimit(64<<20, 512<<20, 0), 576<<20+baseHeap)
}

// A listener on both families has the first address of either.
func TestRemoteURL(t *testing.T) {
	all := &net.TCPAddr{IP: net.IPv6unspecified, Port: 1}
	must.Equal(t, remoteURL(":1", all), cmp.Or(remoteURL("0.0.0.0:1", all), remoteURL("[::]:1", all)))
}

// A client command says once per outage that the deployment doesn't answer.
func TestSilentDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var printed strings.Builder
		log := reportSilence(&printed, "http://d")
		for _, status := range []any{200, nil, 503, nil, 200, nil, nil} {
			time.Sleep(15 * time.Second)
			log(t.Context(), false, "request", map[string]any{"status": status})
		}
		must.Equal(t, printed.String(), strings.Repeat("http://d has not answered for 20s; still waiting\n", 2))
	})
}

// Each command has a help, and accepts each of its examples.
func TestHelp(t *testing.T) { clitest.Check(t, newParser) }

// docs/reference/jobrunner.md lists all exit statuses. Other tests cause each of them.
func TestExitStatusesAreDocumented(t *testing.T) {
	text := must.ReadFile(t, "../../docs/reference/jobrunner.md")
	_, section, _ := strings.Cut(string(text), "## Exit statuses\n")
	must.Equal(t, exitUsage, exitNotStarted, "a usage error and a rejected job have the same exit status")
	for _, status := range []int{0, exitFailed, exitUsage, exitTimedOut, exitNoResult} {
		must.Hold(t, strings.Contains(section, fmt.Sprintf("\n| %d | ", status)), "docs/reference/jobrunner.md has no exit status", status)
	}
	must.Equal(t, strings.Count(section, "\n| "), 6, "rows of the table of exit statuses in docs/reference/jobrunner.md, with the header", section)
}

// Starts in a new folder at the same moment get the same key, the one in the file.
func TestFirstStartsShareTheKey(t *testing.T) {
	t.Setenv(keyVariable, "")
	dir := filepath.Join(t.TempDir(), "data")
	var keys [16]string
	var starts sync.WaitGroup
	for i := range keys {
		starts.Go(func() { keys[i], _, _ = apiKey("", dir) })
	}
	starts.Wait()
	file := strings.TrimSpace(string(must.Do(os.ReadFile(filepath.Join(dir, keyFile)))(t)))
	must.Equal(t, strings.Join(keys[:], " "), strings.TrimSpace(strings.Repeat(file+" ", len(keys))))
}
