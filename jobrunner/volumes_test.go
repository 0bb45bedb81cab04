package jobrunner_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// blockingPrograms run jobs that use their volume until they are released.
type blockingPrograms struct {
	folder chan string // of each job
	end    chan struct{}
}

func (h blockingPrograms) Program(string) (run.Program, error) {
	return run.Program{Handle: func(_ context.Context, job run.Job) ([]byte, error) {
		dir := job.Spec.Mounts[0].Dir
		h.folder <- dir
		<-h.end
		return []byte("{}"), os.WriteFile(filepath.Join(dir, "result"), nil, 0o600)
	}}, nil
}

func (d *deployment) createObject(path, body string) string {
	d.t.Helper()
	_, _, text := d.do("POST", path, body)
	var response struct{ ID string }
	must.Require(d.t, json.Unmarshal([]byte(text), &response) == nil && response.ID != "", "POST", path, text)
	return response.ID
}

func (d *deployment) createVolume() string {
	return d.createObject("/v2/network-volumes", `{"name":"v","size":10,"dataCenter":"EU-RO-1"}`)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func awaitGone(t *testing.T, path string) {
	t.Helper()
	waitFor(t, func() (bool, any) { return !exists(path), path + " exists" })
}

// The folder of a deleted volume is removed once no job uses it.
func TestDeletedVolumeIsRemovedOnceFree(t *testing.T) {
	for _, dir := range []string{t.TempDir(), ""} {
		programs := blockingPrograms{make(chan string, 1), make(chan struct{})}
		d := deployWith(t, jobrunner.Config{DataDir: dir, Programs: programs, NoJobLimits: true})
		volume := d.createVolume()
		endpoint := d.createObject("/v2/serverless", `{"name":"e","type":"QUEUE","image":"x","workers":{"min":0,"max":1},"networkVolumes":["`+volume+`"]}`)
		d.do("POST", "/v2/"+endpoint+"/run", `{"input":{}}`)
		folder := <-programs.folder
		d.must(204, "DELETE", "/v2/network-volumes/"+volume, "")
		time.Sleep(50 * time.Millisecond)
		must.Hold(t, exists(folder), "the folder was removed while a job used it")
		var deletion sync.WaitGroup
		deletion.Go(func() { d.do("DELETE", "/v2/serverless/"+endpoint, "") })
		waitFor(t, func() (bool, any) {
			status, _, text := d.do("GET", "/v2/serverless/"+endpoint, "")
			return status == 404, text
		})
		d.createObject("/v2/serverless", `{"name":"another","image":"x","workers":{"min":0}}`) // doesn't wait for the deleted endpoint's worker
		close(programs.end)
		deletion.Wait()
		awaitGone(t, folder)
		must.Hold(t, !strings.Contains(d.log.String(), "can't be created"), "the log has an error about the volume in use:", d.log)
	}
}

// The folder of a volume that was deleted at another node is removed soon.
func TestVolumeDeletedElsewhere(t *testing.T) {
	dir := t.TempDir()
	d := deployWith(t, jobrunner.Config{DataDir: dir, AdminClock: true})
	deleted, present := d.createVolume(), d.createVolume()
	folderOf := func(name string) string { return filepath.Join(dir, "volumes", name) }
	must.Succeed(t, os.MkdirAll(folderOf(deleted), 0o700))
	d.must(204, "DELETE", "/v2/network-volumes/"+deleted, "")
	awaitGone(t, folderOf(deleted))
	for _, name := range []string{deleted, present, "strange"} { // as if another node had deleted the first volume
		must.Succeed(t, os.MkdirAll(filepath.Join(folderOf(name), "sub"), 0o700))
	}
	d.advance(time.Minute)
	awaitGone(t, folderOf(deleted))
	for _, name := range []string{present, "strange"} {
		must.Hold(t, exists(folderOf(name)), name, "is gone")
	}
}

// A start removes the folders of deleted volumes, but of a symbolic link only the link, and no other folder.
func TestFoldersOfVolumesAtStart(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	kept := filepath.Join(outside, "kept")
	must.Succeed(t, os.WriteFile(kept, nil, 0o600))
	volumes := filepath.Join(dir, "volumes")
	var present, deleted, linked string
	t.Run("before", func(t *testing.T) { // the deployment ends with this subtest
		d := deploy(t, dir)
		present, deleted, linked = d.createVolume(), d.createVolume(), d.createVolume()
		for _, id := range []string{deleted, linked} {
			d.must(204, "DELETE", "/v2/network-volumes/"+id, "")
		}
	})
	for _, name := range []string{present, deleted, "strange"} { // as if the deletion had been cut short
		must.Succeed(t, os.MkdirAll(filepath.Join(volumes, name, "sub"), 0o700))
	}
	for _, link := range []string{filepath.Join(volumes, linked), filepath.Join(volumes, deleted, "link")} {
		must.Succeed(t, os.Symlink(outside, link))
	}
	d := deploy(t, dir)
	awaitGone(t, filepath.Join(volumes, deleted))
	awaitGone(t, filepath.Join(volumes, linked))
	for _, path := range []string{filepath.Join(volumes, present), filepath.Join(volumes, "strange"), kept} {
		must.Hold(t, exists(path), path, "is gone")
	}
	log := d.log.String()
	must.Hold(t, strings.Count(log, "belongs to no network volume") == 1 && strings.Contains(log, "strange"), "want one warning about the folder strange in the log:", log)
}

// A start fails if the folders of volumes can't be read, because the folders of deleted volumes would stay.
func TestUnreadableFoldersOfVolumes(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "volumes"), nil, 0o600))
	must.ErrorContains(t, must.Err(jobrunner.New(t.Context(), jobrunner.Config{DataDir: dir, APIKey: "k"})), "the folders of network volumes can't be read")
}
