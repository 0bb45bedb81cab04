package jobrunner_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/node"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// recordedAt is when testdata/folder was recorded, in ms, by a version without pods, clusters, SSH keys and billing.
const recordedAt = 1795375012000

// olderFolder returns a copy of testdata/folder, as if its jobrunner had just stopped.
func olderFolder(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	keys := must.ReadFile(t, "testdata/folder/keys.json")
	state := must.ReadFile(t, "testdata/folder/jobrunner.sql")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "keys.json"), keys, 0o600))
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{Dir: dir}))(t)
	err := db.Migrate(t.Context(), "recorded", []string{string(state)})
	shift := time.Now().UnixMilli() - recordedAt
	err = errors.Join(err, db.Write(t.Context(), func(tx *sqldb.Tx) error {
		if _, err := tx.Exec("DELETE FROM meta WHERE component = 'recorded'"); err != nil {
			return err
		}
		for _, column := range []string{"submitted", "turn", "queued", "expires", "gone", "started", "deadline", "finished"} {
			if _, err := tx.Exec("UPDATE jobs SET "+column+" = "+column+" + ? WHERE "+column+" > 0", shift); err != nil {
				return err
			}
		}
		return must.Err(tx.Exec("UPDATE jobs SET gone = gone + 3600000")) // a result of runsync is kept for a minute, and a test may take longer
	}))
	must.Succeed(t, errors.Join(err, db.Close()))
	return dir
}

// A data folder with the first released version of the engine's tables opens with its
// objects, keys and jobs in each state. Newer features work in it, also after a restart.
func TestOlderFolder(t *testing.T) {
	dir, earlier := olderFolder(t), ""
	for _, start := range []string{"first", "second"} {
		t.Run(start, func(t *testing.T) {
			d := deploy(t, dir)
			for path, want := range map[string]string{
				"/v2/registries/d6cookjgg7s6": `"name":"registry"`, "/v2/templates/dvuna3kc1lv4": `"env":{"A":"1"}`,
				"/v1/templates/dvuna3kc1lv4": `"dockerEntrypoint":["/e"],"dockerStartCmd":["a","b"]`, "/v2/templates": `"args":"{\"entrypoint\":[\"/e\"],\"cmd\":[\"a\",\"b\"]}","entrypoint":["/e"],"cmd":["a","b"]`,
				"/v2/network-volumes/srjz6z82ty3o": `"size":20`, "/v2/serverless/053b5d64r844": `"max":2`, "/v2/serverless/lsan9xkf6qmz": `"name":"stopped"`,
				"/v2/lsan9xkf6qmz/status/01a204b0-95bf-7bbc-a83d-308c8db948f4-q1":      `"CANCELLED"`,
				"/v2/053b5d64r844/status/sync-01a204b0-955e-7458-a387-daccd7281c2a-q1": `"output":{"n":1}`,
				"/v2/053b5d64r844/health": `"completed":1`,
			} {
				text := d.must(200, "GET", path, "").text
				must.Hold(t, strings.Contains(regexp.MustCompile(`\s`).ReplaceAllString(text, ""), want), path, "is answered with", text, "want", want)
			}
			status, _, _ := d.send("FTREOZP6Q2DDAOU7P43GHQDWL6", "GET", "/v2/templates", "")
			must.Hold(t, status == 200, "a key of the folder:", status)

			d.must(200, "PATCH", "/v2/serverless/lsan9xkf6qmz", `{"workers":{"max":1}}`)
			d.awaitCompleted("lsan9xkf6qmz", "01a204b0-9599-73b2-b420-b6aaa10f98d0-q1") // it was queued
			pod, _ := d.must(201, "POST", "/v2/pods", `{"name":"p","image":"builtin/echo",`+onCPU+`,"mounts":{"network":[{"volumeId":"srjz6z82ty3o","path":"/v"}]}}`).member("id").(string)
			d.awaitPod(pod, "RUNNING")
			if earlier != "" { // with a database of its own, a node runs all pods
				d.awaitPod(earlier, "RUNNING")
				d.must(200, "POST", "/v2/pods/"+earlier+"/action", `{"action":"restart"}`)
				d.awaitPod(earlier, "RUNNING")
			}
			earlier = pod
			d.must(201, "POST", "/v2/clusters", `{"name":"c","type":"TRAINING","image":"builtin/echo","compute":{"gpuTypeId":"NVIDIA L4","gpuCountPerPod":1,"podCount":2}}`)
			d.must(200, "PUT", "/v2/account/ssh-keys", `{"keys":[]}`)
			billed := d.must(200, "GET", "/v2/billing/network-volumes?lastN=2&networkVolumeId=srjz6z82ty3o", "")
			must.Hold(t, billed.member("metadata.totals") != nil, "billing", billed.text)
		})
		must.Succeed(t, os.Truncate(filepath.Join(dir, node.FolderIDFile), 0)) // as a power failure may do
	}
}

// A data folder of a version that was never released is rejected.
func TestUnreleasedFolder(t *testing.T) {
	dir := olderFolder(t)
	db := must.Do(sqldb.Open(t.Context(), sqldb.Config{Dir: dir}))(t)
	err := db.Write(t.Context(), func(tx *sqldb.Tx) error {
		return must.Err(tx.Exec("UPDATE meta SET version = 8 WHERE component = 'engine'"))
	})
	err = errors.Join(err, db.Close())
	must.Succeed(t, err)
	j, err := jobrunner.New(t.Context(), jobrunner.Config{DataDir: dir, APIKey: "k"})
	if err == nil {
		_ = j.Close()
	}
	must.ErrorContains(t, err, "version 8, which was never released; this program opens version 9")
}
