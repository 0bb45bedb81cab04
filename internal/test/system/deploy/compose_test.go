package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb/pgtest"
)

func loadCompose(t *testing.T, env types.Mapping) (*types.Project, error) {
	t.Helper()
	folder := must.Do(filepath.Abs(filepath.Join(root, "deploy/compose")))(t)
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: folder, Environment: env,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(folder, "compose.yaml")}},
	})
}

// Compose accepts the file, which contains no password. Without an image, the error names make image.
func TestComposeFile(t *testing.T) {
	must.ErrorContains(t, must.Err(loadCompose(t, nil)), "make image")
	p := must.Do(loadCompose(t, types.Mapping{"JOBRUNNER_IMAGE": "localhost/gpucloud/jobrunner:1"}))(t)
	for name, service := range p.Services {
		for variable, value := range service.Environment {
			must.Hold(t, !strings.Contains(variable, "PASSWORD") || strings.HasSuffix(variable, "_FILE"), name, "has the password in the variable", variable, value)
		}
		for _, port := range service.Ports {
			must.Equal(t, port.HostIP, "127.0.0.1", "address of the port", port, "of", name)
		}
	}
	for name, secret := range p.Secrets {
		must.Equal(t, secret.File, filepath.Join(p.WorkingDir, "secrets", name), "file of the secret", name)
	}
}

// The jobrunner serves with the command, the variables and the secrets of the file.
func TestComposeServes(t *testing.T) {
	p := must.Do(loadCompose(t, types.Mapping{"JOBRUNNER_IMAGE": "localhost/gpucloud/jobrunner:1"}))(t)
	service, dir, data := p.Services["jobrunner"], t.TempDir(), t.TempDir()
	contents := map[string]string{"engine": pgtest.Start(t), "api-key": "at-least-twenty-characters"}
	for _, secret := range service.Secrets {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, secret.Source), []byte(contents[secret.Source]+"\n"), 0o600))
	}
	var env []string
	for name, value := range service.Environment {
		env = append(env, name+"="+strings.ReplaceAll(*value, "/run/secrets", dir))
	}
	args := slices.Clone(service.Command)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "/var/lib/jobrunner", data)
	}
	must.Hold(t, len(service.Volumes) == 1 && service.Volumes[0].Target == "/var/lib/jobrunner" && !slices.Equal(args, service.Command),
		"expected the data folder of the command to be the only volume and got", service.Command, service.Volumes)
	j := start(t, env, args)
	j.key = contents["api-key"]
	j.checkJob()
	j.stop()
}
