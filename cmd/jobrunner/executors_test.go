package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestConfiguration(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	data := filepath.Join(home, "data")
	must.Succeed(t, os.Mkdir(data, 0o700))
	file := filepath.Join(data, "jobrunner.yaml")
	put(t, file, "engine: none\nrules:\n  - image: a/b\n    process: {run: [go, version]}\n")
	p := serve(t, environment(home), "--data="+data)
	must.Contain(t, strings.Join(p.greeted, "\n"), "Images: "+file+": 1 × process\nImages: containers: off\n")
	flawed := filepath.Join(home, "flawed.yaml")
	put(t, flawed, "rules:\n  - image: a/b\n")
	for _, text := range []string{
		mustFail(t, environment(home), "serve", "--listen=127.0.0.1:0", "--ephemeral", "--config="+flawed),
		mustFail(t, environment(home, "GPUCLOUD_JOBRUNNER_CONFIG="+flawed), "serve", "--listen=127.0.0.1:0", "--ephemeral"),
	} {
		must.Contain(t, text, flawed+":2: the rule for a/b needs one of")
	}
}
