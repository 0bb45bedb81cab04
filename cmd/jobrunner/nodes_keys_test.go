//go:build unix

package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// Each node accepts a new key and rejects a removed one. The keys of a node's data folder move to
// the database, and a removed key stays removed even if it is still in a folder.
func TestKeysOfNodes(t *testing.T) {
	acctest.LeaveToCI(t, "apikey.TestTableTakesOver and TestAddedKeyIsAcceptedAtOnce test its parts")
	t.Parallel()
	c := startNodes(t, 1)
	engine := strings.TrimPrefix(c.args[1], "--engine=")
	dir := t.TempDir()
	old := must.Do(apikey.At(dir).Add(apikey.Key{Name: "old", Management: apikey.Read}))(t)
	added := strings.TrimSpace(mustPrint(t, c.env, "keys", "add", "ci", "--engine", engine))
	c.dirs, c.all = append(c.dirs, dir), append(c.all, nil)
	c.start(1)
	// A new key is accepted at once, also by a node that has just rejected it.
	expect := func(key string, want int) {
		t.Helper()
		for i := range c.all {
			for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
				got := c.node(i).status(key, "/v2/templates")
				if got == want {
					break
				}
				if want == 200 && got != 401 || time.Now().After(deadline) {
					t.Errorf("node %d returns %d, want %d", i, got, want)
					break
				}
			}
		}
	}
	expect(old, 200)
	expect(added, 200)
	must.Contain(t, mustFail(t, c.env, "keys", "add", "lost", "--data", dir), "are in the deployment's database")
	must.Contain(t, mustFail(t, c.env, "keys", "add", "old", "--engine", engine), "exists already")
	must.Contain(t, mustPrint(t, append(c.env, "GPUCLOUD_ENGINE="+engine), "keys", "list"), "old ", "ci ")
	mustPrint(t, c.env, "keys", "remove", "old", "--engine", engine)
	expect(old, 401)
	expect(added, 200)
	c.node(1).interrupt()
	c.start(1) // its folder still has the key
	expect(old, 401)
	c.node(1).interrupt()
	must.Contain(t, mustFail(t, c.env, "serve", "--listen=127.0.0.1:0", "--data", dir), "are in the deployment's database")
	var stored string
	err := c.query(&stored, "SELECT string_agg(content || sha256, '') FROM api_keys")
	must.Hold(t, err == nil && !strings.Contains(stored, added) && !strings.Contains(stored, old), "the database has", stored, err)
	// If its owner removes keys.json.moved, the folder's keys are valid again.
	must.Succeed(t, os.Remove(filepath.Join(dir, "keys.json.moved")))
	must.Equal(t, serve(t, c.env, "--data="+dir).status(old, "/v2/templates"), 200, "a request with the folder's key returns")
}
