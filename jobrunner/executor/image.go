package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// fetch gets the image, unless it is here and that will do. What is written
// meanwhile goes to the worker's log.
func (e *containerEngine) fetch(ctx context.Context, folder string, settings *containerSettings, s worker.Spec) error {
	if settings.Pull.value != pullAlways {
		if _, err := e.cli(ctx, "image", "inspect", "--format", "{{.Id}}", s.Image); err == nil {
			return nil
		}
	}
	args, env, err := e.pull(folder, s)
	if err != nil {
		return err
	}
	if _, err := e.cliWith(ctx, env, s.Log, args...); err != nil {
		return fmt.Errorf("the image %s can't be fetched: %w", s.Image, err)
	}
	return nil
}

// pull are the arguments that fetch an image, and the environment where they
// need some. A login is in a file of the folder, for this command alone: it is
// neither in the arguments nor in the user's own configuration.
func (e *containerEngine) pull(folder string, s worker.Spec) (args, env []string, err error) {
	args = []string{"pull", "--quiet", s.Image}
	if s.Login == nil {
		return args, nil, nil
	}
	type auth struct {
		Auth []byte `json:"auth"` // base64 in JSON
	}
	config, err := json.Marshal(map[string]any{
		"auths": map[string]auth{e.registryOf(s.Image): {[]byte(s.Login.Username + ":" + s.Login.Password)}},
	})
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(folder, "config.json")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, nil, fmt.Errorf("the login to the registry of %s: %w", s.Image, err)
	}
	if e.podman {
		return []string{"pull", "--quiet", "--authfile", path, s.Image}, nil, nil
	}
	if e.mu.Lock(); e.host != "" {
		env = []string{"DOCKER_HOST=" + e.host}
	}
	e.mu.Unlock()
	return append([]string{"--config", folder}, args...), env, nil
}

// registryOf is under which name a login to an image's registry is looked for.
// Without one in the image it is docker's own.
func (e *containerEngine) registryOf(image string) string {
	first, _, more := strings.Cut(image, "/")
	switch {
	case more && (strings.ContainsAny(first, ".:") || first == "localhost") && first != "docker.io" && first != "index.docker.io":
		return first
	case e.podman:
		return "docker.io"
	}
	return "https://index.docker.io/v1/"
}
