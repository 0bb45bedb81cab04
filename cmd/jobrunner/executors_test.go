package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfiguration(t *testing.T) {
	home := t.TempDir()
	data := filepath.Join(home, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(data, "jobrunner.yaml")
	if err := os.WriteFile(file, []byte("engine: none\nrules:\n  - image: a/b\n    process: {run: [go, version]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, environment(home), "--data="+data)
	if text := strings.Join(p.greeted, "\n"); !strings.Contains(text, "Images: "+file+": 1 × process\nImages: containers: off\n") {
		t.Errorf("greeted:\n%s", text)
	}
	for _, c := range []struct {
		env  []string
		args []string
	}{
		{environment(home), []string{"--config=" + filepath.Join(home, "flawed.yaml")}},
		{environment(home, "GPUCLOUD_JOBRUNNER_CONFIG="+filepath.Join(home, "flawed.yaml")), nil},
	} {
		if err := os.WriteFile(filepath.Join(home, "flawed.yaml"), []byte("rules:\n  - image: a/b\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, append([]string{"serve", "--listen=127.0.0.1:0", "--ephemeral"}, c.args...)...)
		cmd.Env = c.env
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), filepath.Join(home, "flawed.yaml")+":2: the rule for a/b needs one of") {
			t.Errorf("%v %s", err, out)
		}
	}
}
