package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
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
		} else if err != nil {
			t.Fatal(err)
		}
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
