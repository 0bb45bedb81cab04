package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

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
