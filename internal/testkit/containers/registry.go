package containers

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Registry is a private registry on loopback, without TLS.
type Registry struct{ Address string } // host:port

// Username and Password are the credentials of the registry.
const (
	Username = "robot"
	Password = "planted-registry-password"
)

const passwordHash = "$2y$05$C8QL237urgLosIvbYUY5Ru.RjORvq7288FYyZ0s9hxEyWTCZWKBfa"

const registryConfig = `version: 0.1
log: {accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %[1]s/data}}
http: {addr: %[2]q}
auth: {htpasswd: {realm: test, path: %[1]s/htpasswd}}
`

const runRegistry = `docker-registry serve config.yml >log 2>&1 </dev/null &
read -r _
kill $!
wait
rm -rf "$PWD"`

// StartRegistry returns the registry of this test binary, which the first call starts.
func StartRegistry(t testing.TB) *Registry {
	t.Helper()
	return startOrSkip(t, registry)
}

func startRegistry() (*Registry, error) {
	if err := requirePrograms("docker-registry", "docker-registry"); err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	r := &Registry{Address: "127.0.0.1:" + ports[0]}
	dir, err := launch("registry", runRegistry, func(dir string) map[string]string {
		return map[string]string{"htpasswd": Username + ":" + passwordHash + "\n", "config.yml": fmt.Sprintf(registryConfig, dir, r.Address)}
	})
	if err != nil {
		return nil, err
	}
	err = await(func() error {
		answer, err := http.Get("http://" + r.Address + "/v2/") //nolint:noctx // on loopback
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}, filepath.Join(dir, "log"))
	if err != nil {
		return nil, fmt.Errorf("docker-registry: %w", err)
	}
	return r, nil
}

// Push copies an image of the engine to the registry and returns its name there.
func (r *Registry) Push(t testing.TB, e *Engine, image, name string) (pushed string) {
	t.Helper()
	pushed = r.Address + "/" + name
	dir := t.TempDir()
	login := base64.StdEncoding.EncodeToString([]byte(Username + ":" + Password))
	must.Succeed(t, writeFile(dir, "config.json", fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, r.Address, login), 0o600))
	e.Output(t, "tag", image, pushed)
	if e.Name == "podman" {
		e.Output(t, "push", "--quiet", "--authfile", filepath.Join(dir, "config.json"), pushed)
	} else {
		e.Output(t, "--config", dir, "push", "--quiet", pushed)
	}
	e.Output(t, "rmi", pushed)
	return pushed
}
