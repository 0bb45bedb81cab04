package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// pull pulls the image if it's missing or always has to be pulled. The log gets the engine's progress.
func (e *containerEngine) pull(ctx context.Context, folder string, s run.Spec) error {
	if !s.PullAlways {
		if _, err := e.runCLI(ctx, "image", "inspect", "--format", "{{.Id}}", s.Image); err == nil {
			return nil
		}
	}
	args, env, err := e.pullArgs(folder, s)
	if err != nil {
		return err
	}
	if _, err := e.runCLIWith(ctx, env, s.Log, args...); err != nil {
		return fmt.Errorf("the image %s can't be fetched: %w", s.Image, explain(s, err))
	}
	return nil
}

// pullFailures explains why an image can't be pulled, by an error's text. The first match applies.
var pullFailures = []struct {
	texts     []string // of the error, in lower case
	anonymous string   // explanation without a login
	loggedIn  string
}{
	{[]string{"unauthorized", "authentication required", "no basic auth credentials", "invalid username/password", "incorrect username or password", "status: 401"}, loginRequired, loginRefused},
	{[]string{"manifest unknown", "name unknown", "repository name not known", "no such image"}, noSuchImage, noSuchImage},
	// Docker's own registry doesn't distinguish a missing image from a private one.
	{[]string{"denied", "forbidden", "status: 403"}, "the registry %s has no such image, or wants a login: check its name, or add a registry auth to the template, endpoint or pod", loginRefused},
	{[]string{"not found"}, noSuchImage, noSuchImage},
	{[]string{
		"connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host", "context deadline exceeded", "server misbehaving",
		"temporary failure in name resolution", "request canceled while waiting for connection",
	}, unreachable, unreachable},
}

const (
	loginRequired = "it has no registry auth, and the registry %s wants a login: add a registry auth to the template, endpoint or pod"
	loginRefused  = "the registry %s refused the login of the registry auth: check its username and password, and that it may read the image"
	noSuchImage   = "the registry %s has no such image: check its name and tag"
	unreachable   = "the registry %s can't be reached from this machine"
)

// explain adds an explanation to an engine's error, if pullFailures has one.
func explain(s run.Spec, err error) error {
	text := strings.ToLower(err.Error())
	for _, f := range pullFailures {
		if !slices.ContainsFunc(f.texts, func(part string) bool { return strings.Contains(text, part) }) {
			continue
		}
		explanation := f.loggedIn
		if s.Login == nil {
			explanation = f.anonymous
		}
		return fmt.Errorf(explanation+" (%w)", run.Registry(s.Image), err)
	}
	return err
}

// pullArgs returns the arguments that pull an image, and additional variables. A login is in
// a file of the folder, so it's neither in the arguments nor in the user's configuration.
func (e *containerEngine) pullArgs(folder string, s run.Spec) (args, env []string, err error) {
	args = []string{"pull", "--quiet", s.Image}
	if s.Login == nil {
		return args, nil, nil
	}
	config, err := run.DockerConfig(e.registryOf(s.Image), *s.Login)
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

// registryOf returns the key of an image's registry in a file of logins.
func (e *containerEngine) registryOf(image string) string {
	if registry := run.Registry(image); registry != run.DockerRegistry || e.podman {
		return registry
	}
	return "https://index.docker.io/v1/"
}
