package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/gobuild"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

const root = "../../../.."

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// testSettings returns settings with a small program that compiles fast.
func testSettings() settings {
	return settings{
		root: ".", source: "./testdata/small", name: "localhost/team/small", version: "1.2.3", revision: "abc",
		created: time.Unix(1700000000, 0).UTC(), platforms: []string{"linux/amd64", "linux/arm64"},
	}
}

// Builds in other folders, at other times and with other GOFLAGS have the same digest; another version has another.
func TestReproducible(t *testing.T) {
	digests := map[string]int{}
	for i, change := range []func(*settings){
		func(*settings) {},
		func(s *settings) {
			t.Setenv("TMPDIR", t.TempDir())
			t.Setenv("GOFLAGS", "-buildvcs=true -trimpath=false")
			s.root, _ = filepath.Abs(s.root)
		},
		func(s *settings) { s.version = "1.2.4" },
	} {
		s := testSettings()
		change(&s)
		images := must.Do(s.build(t.Context()))(t)
		digest := must.Do(imageIndex(images).Digest())(t)
		digests[digest.String()] |= 1 << i
	}
	must.Equal(t, slices.Sorted(maps.Values(digests)), []int{3, 4}, "for each digest, a bit for each build that has it;", digests)
}

// The layout is valid and contains what a static program needs: an unprivileged user,
// certificates and writable folders. The program doesn't contain the path of its source.
func TestImage(t *testing.T) {
	s := testSettings()
	images := must.Do(s.build(t.Context()))(t)
	dir := t.TempDir()
	must.Succeed(t, write(dir, s.tag(), imageIndex(images), images))
	written := must.Do(layout.ImageIndexFromPath(filepath.Join(dir, "oci")))(t)
	must.Succeed(t, validate.Index(written))
	layoutManifest, err := written.IndexManifest()
	must.Require(t, err == nil && len(layoutManifest.Manifests) == 1 &&
		layoutManifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] == "localhost/team/small:1.2.3", "expected one image, with its tag, and got", layoutManifest, err)
	index := must.Do(written.ImageIndex(layoutManifest.Manifests[0].Digest))(t)
	manifest, err := index.IndexManifest()
	must.Require(t, err == nil && len(manifest.Manifests) == 2, "expected an image for each of two platforms and got", manifest, err)
	moduleFolder := must.Do(filepath.Abs(root))(t)
	for _, m := range manifest.Manifests {
		image := must.Do(index.Image(m.Digest))(t)
		checkImage(t, m.Platform.Architecture, image, moduleFolder)
	}
}

func checkImage(t *testing.T, arch string, image v1.Image, moduleFolder string) {
	t.Helper()
	config := must.Do(image.ConfigFile())(t)
	if config.Architecture != arch || config.OS != "linux" || config.Config.User != "65532:65532" || config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" ||
		config.Config.Labels["org.opencontainers.image.revision"] != "abc" || !config.Created.Equal(time.Unix(1700000000, 0)) {
		t.Errorf("%s: unexpected configuration %+v", arch, config)
	}
	files := map[string]*tar.Header{}
	texts := map[string][]byte{}
	r := tar.NewReader(mutate.Extract(image))
	for {
		header, err := r.Next()
		if err == io.EOF { //nolint:errorlint // as archive/tar documents it
			break
		}
		must.Succeed(t, err)
		path := strings.TrimSuffix(header.Name, "/")
		files[path] = header
		texts[path] = must.Do(io.ReadAll(r))(t)
	}
	for path, want := range map[string]string{
		"tmp": "1777 0", home[1:]: "700 65532", program[1:]: "755 0", "etc/passwd": "644 0", "etc": "755 0",
	} {
		f := files[path]
		must.Hold(t, f != nil && fmt.Sprintf("%o %d", f.Mode, f.Uid) == want, arch, "has", path, "as", f, "expected mode and owner", want)
	}
	must.Hold(t, x509.NewCertPool().AppendCertsFromPEM(texts["etc/ssl/certs/ca-certificates.crt"]), arch, "has no certificate authorities")
	must.Hold(t, bytes.Contains(texts["etc/passwd"], []byte("\njobrunner:x:65532:65532:")), arch, "lacks the user jobrunner in", string(texts["etc/passwd"]))
	if f, err := elf.NewFile(bytes.NewReader(texts[program[1:]])); err != nil || f.Machine != machines[arch] {
		t.Errorf("%s: the program is built for another machine: %+v, %v", arch, f, err)
	} else if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("%s: the program isn't static: %q, %v", arch, libraries, err)
	}
	must.Hold(t, !bytes.Contains(texts[program[1:]], []byte(moduleFolder)), "the program for", arch, "contains its source folder", moduleFolder)
}

func TestPlatforms(t *testing.T) {
	for _, platform := range []string{"", "windows/amd64", "linux", "linux/arm/v7"} {
		s := testSettings()
		s.platforms = []string{platform}
		_, err := s.build(t.Context())
		must.Hold(t, err != nil && strings.Contains(err.Error(), "invalid platform"), "for", platform, "expected an error about an invalid platform and got", err)
	}
}

// The image of all platforms is pushed to a registry that requires a login.
func TestPush(t *testing.T) {
	registry := containers.StartRegistry(t)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	target := registry.Address + "/team/small:1"
	s := testSettings()
	images := must.Do(s.build(t.Context()))(t)
	index := imageIndex(images)
	must.ErrorContains(t, pushTo(t.Context(), target, index), "401 Unauthorized", "run docker login "+registry.Address)
	login := authn.FromConfig(authn.AuthConfig{Username: containers.Username, Password: containers.Password})
	encoded := must.Do(login.Authorization())(t)
	text := fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": %q}}}`, registry.Address, encoded.Username, encoded.Password)
	must.Succeed(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(text), 0o600))
	must.Succeed(t, pushTo(t.Context(), target, index))
	reference := must.Do(name.ParseReference(target))(t)
	stored := must.Do(remote.Index(reference, remote.WithAuth(login)))(t)
	want := must.Do(index.Digest())(t)
	must.Equal(t, must.Do(stored.Digest())(t), want, "digest in the registry")
}

// container is a running container of the image, with a read-only root and no capabilities.
type container struct {
	t        *testing.T
	engine   *containers.Engine
	id       string
	url, key string
}

// The image's jobrunner runs a job as an unprivileged user, exits with 0 after SIGTERM, and keeps the job on its volume.
func TestDocker(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling the jobrunner for the image takes a minute")
	}
	e := containers.Docker(t)
	s := testSettings()
	s.root, s.source, s.name, s.platforms = root, "./cmd/jobrunner", "localhost/team/jobrunner", []string{"linux/" + runtime.GOARCH}
	images := must.Do(s.build(t.Context()))(t)
	dir := t.TempDir()
	must.Succeed(t, write(dir, s.tag(), imageIndex(images), images))
	e.Output(t, "load", "--input", filepath.Join(dir, archiveName(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})))
	must.Equal(t, e.Output(t, "run", "--rm", "--network=none", s.tag(), "version"), "jobrunner 1.2.3", "version")
	t.Run("testcontainers", func(t *testing.T) { throughTestcontainers(t, e, s.tag()) })
	volume := e.Output(t, "volume", "create")
	t.Cleanup(func() { e.Output(t, "volume", "rm", volume) })

	c := start(t, e, s.tag(), volume)
	c.key = c.awaitLog(`GPUCLOUD_API_KEY=(\w+)`)
	var endpoint, job struct{ ID, Status string }
	c.call(http.MethodPost, "/v2/serverless", `{"name": "e", "image": "builtin/echo", "workers": {"max": 1}, "cpu": [{"id": "cpu3c", "vcpuCount": 2}]}`, &endpoint)
	c.call(http.MethodPost, "/v2/"+endpoint.ID+"/runsync", `{"input": {"a": 1}}`, &job)
	must.Require(t, job.Status == "COMPLETED", "expected a completed job and got", job)
	c.stop()

	next := start(t, e, s.tag(), volume)
	next.key = c.key
	next.call(http.MethodGet, "/v2/"+endpoint.ID+"/status/"+job.ID, "", &job)
	must.Equal(t, job.Status, "COMPLETED", "status after the next start of", job)
	log := next.awaitLog(`(?s)(.*Ctrl-C.*)`)
	must.Hold(t, !strings.Contains(log, "#code=") && !strings.Contains(log, c.key), "the log contains a sign-in code or the key:", log)
	next.stop()
}

// throughTestcontainers runs the tests of jobrunnercontainer with the image.
func throughTestcontainers(t *testing.T, e *containers.Engine, tag string) {
	t.Helper()
	e.Network(t) // skips the test without a container network
	const module = root + "/jobrunner/jobrunnertest/jobrunnercontainer"
	files, err := filepath.Glob(module + "/*")
	must.Require(t, err == nil && len(files) != 0, "expected files in", module, "and got", files, err)
	for _, file := range files { // so that go test's cached result depends on them
		must.ReadFile(t, file)
	}
	for _, v := range append(slices.Clone(e.Env), "TESTCONTAINERS_RYUK_DISABLED=true", "JOBRUNNER_IMAGE="+tag) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	out, err := gobuild.RunGo(t.Context(), module, "test", "-count=1", "-v", "./...")
	must.Hold(t, err == nil && strings.Contains(string(out), "--- PASS: TestRun ") && strings.Contains(string(out), "--- PASS: TestRunFails"), "expected that TestRun and TestRunFails pass and got", err, string(out))
}

func start(t *testing.T, e *containers.Engine, tag, volume string) *container {
	t.Helper()
	c := &container{t: t, engine: e}
	c.id = e.Output(t, "run", "--detach", "--network=host", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges",
		"--volume="+volume+":"+home, tag, "serve", "--listen=127.0.0.1:0", "--data="+home)
	t.Cleanup(func() { e.Output(t, "rm", "--force", c.id) })
	c.url = c.awaitLog(`GPUCLOUD_BASE_URL=(\S+)`)
	c.call(http.MethodGet, "/readyz", "", nil)
	return c
}

// awaitLog waits until the container's log matches a pattern, and returns the first group.
func (c *container) awaitLog(pattern string) string {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		log := c.engine.Output(c.t, "logs", c.id)
		if found := regexp.MustCompile(pattern).FindStringSubmatch(log); found != nil {
			return found[1]
		}
		must.Require(c.t, !time.Now().After(deadline), "the container printed no match of", pattern, "in", log)
	}
}

func (c *container) call(method, path, body string, into any) {
	c.t.Helper()
	req := must.Do(http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body)))(c.t)
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	resp := must.Do(http.DefaultClient.Do(req))(c.t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode < 300 && into != nil {
		err = json.Unmarshal(text, into)
	}
	must.Require(c.t, err == nil && resp.StatusCode < 300, method, path, "was answered with", resp.StatusCode, string(text), err)
}

// stop sends SIGTERM and expects exit status 0.
func (c *container) stop() {
	c.t.Helper()
	c.engine.Output(c.t, "stop", "--time=60", c.id)
	must.Equal(c.t, c.engine.Output(c.t, "inspect", "--format={{.State.ExitCode}} {{.State.OOMKilled}}", c.id), "0 false", "exit status of the container, and whether it ran out of memory")
}
