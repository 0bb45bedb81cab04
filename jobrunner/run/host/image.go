package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

// fetch gets the image, unless it is here and that will do. What is written
// meanwhile goes to the worker's log.
func (e *containerEngine) fetch(ctx context.Context, folder string, settings *containerSettings, s worker.Spec) error {
	if settings.Pull.Value != pullAlways {
		if _, err := e.cli(ctx, "image", "inspect", "--format", "{{.Id}}", s.Image); err == nil {
			return nil
		}
	}
	args, env, err := e.pull(folder, s)
	if err != nil {
		return err
	}
	if _, err := e.cliWith(ctx, env, s.Log, args...); err != nil {
		return fmt.Errorf("the image %s can't be fetched: %w", s.Image, explain(s, err))
	}
	return nil
}

// pullFailures are what engines and registries say of an image that can't be
// fetched, in lower case, and what that means of a registry: with a login and
// without one. The first that fits counts.
var pullFailures = []struct {
	says      []string
	anonymous string
	loggedIn  string
}{
	{[]string{"unauthorized", "authentication required", "no basic auth credentials", "invalid username/password", "incorrect username or password", "status: 401"}, wantsLogin, refusedLogin},
	{[]string{"manifest unknown", "name unknown", "repository name not known", "no such image"}, noSuchImage, noSuchImage},
	// Docker's own registry says the same of what is not there and of what is
	// another's.
	{[]string{"denied", "forbidden", "status: 403"}, "the registry %s has no such image, or wants a login: check its name, or add a registry auth to the template or endpoint", refusedLogin},
	{[]string{"not found"}, noSuchImage, noSuchImage},
	{[]string{
		"connection refused", "no such host", "i/o timeout", "network is unreachable", "no route to host", "context deadline exceeded", "server misbehaving",
		"temporary failure in name resolution", "request canceled while waiting for connection",
	}, notReached, notReached},
}

const (
	wantsLogin   = "its endpoint has no registry auth, and the registry %s wants a login: add a registry auth to the template or endpoint"
	refusedLogin = "the registry %s refused the login of the endpoint's registry auth: check its username and password, and that it may read the image"
	noSuchImage  = "the registry %s has no such image: check its name and tag"
	notReached   = "the registry %s can't be reached from this machine"
)

// explain says what an engine's failure to fetch an image means, where that is
// known, and then what the engine said.
func explain(s worker.Spec, err error) error {
	said := strings.ToLower(err.Error())
	for _, f := range pullFailures {
		if !slices.ContainsFunc(f.says, func(part string) bool { return strings.Contains(said, part) }) {
			continue
		}
		means := f.loggedIn
		if s.Login == nil {
			means = f.anonymous
		}
		return fmt.Errorf(means+" (%w)", registryHost(s.Image), err)
	}
	return err
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
func (e *containerEngine) registryOf(image string) string {
	if registry := registryHost(image); registry != dockerRegistry || e.podman {
		return registry
	}
	return "https://index.docker.io/v1/"
}

// dockerRegistry is that of an image without one in its name.
const dockerRegistry = "docker.io"

func registryHost(image string) string {
	first, _, more := strings.Cut(image, "/")
	if more && (strings.ContainsAny(first, ".:") || first == "localhost") && first != "index.docker.io" {
		return first
	}
	return dockerRegistry
}
