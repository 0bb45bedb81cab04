// Package release checks the files of a release or of `make snapshot`, in the folder -dist.
package release

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

const root = "../../.."

var distFolder = flag.String("dist", "", "`folder` of the archives that make snapshot built")

// dist is the output of goreleaser.
type dist struct {
	dir, version, commit string
	archives             map[string]archive // by name
}

type archive struct{ program, system, arch string }

// Published files have the names, contents and checksums that the registry expects, and work.
func TestDist(t *testing.T) {
	if *distFolder == "" {
		t.Skip("only make snapshot runs this test")
	}
	d := readDist(t, *distFolder)
	t.Run("archives", d.checkArchives)
	t.Run("checksums", d.checkChecksums)
	t.Run("signature", d.checkSignature)
	t.Run("programs", d.checkPrograms)
	t.Run("init", d.checkInit)
}

func readDist(t *testing.T, dir string) dist {
	dir = must.Do(filepath.Abs(dir))(t)
	var about struct{ Version, Commit string }
	readJSON(t, filepath.Join(dir, "metadata.json"), &about)
	d := dist{dir: dir, version: about.Version, commit: about.Commit, archives: map[string]archive{}}
	name := regexp.MustCompile(`^(terraform-provider-gpucloud|jobrunner|conformance)_` + regexp.QuoteMeta(d.version) + `_([a-z]+)_([a-z0-9]+)\.(?:zip|tar\.gz)$`)
	for _, f := range must.Do(os.ReadDir(dir))(t) {
		if found := name.FindStringSubmatch(f.Name()); found != nil {
			d.archives[f.Name()] = archive{found[1], found[2], found[3]}
		} else if regexp.MustCompile(`\.(zip|gz)$`).MatchString(f.Name()) {
			t.Errorf("unexpected archive %s", f.Name())
		}
	}
	return d
}

// checkArchives compares the archives with .goreleaser.yaml. Each has its program and the licences.
func (d dist) checkArchives(t *testing.T) {
	var config struct {
		Builds []struct {
			ID      string
			Targets []string
		}
	}
	must.Succeed(t, yaml.Unmarshal(must.ReadFile(t, filepath.Join(root, ".goreleaser.yaml")), &config))
	var want []string // of this platform, and of each other one that has an archive
	platforms := map[string]bool{runtime.GOOS + "_" + runtime.GOARCH: true}
	for _, a := range d.archives {
		platforms[a.system+"_"+a.arch] = true
	}
	for _, b := range config.Builds {
		for _, target := range b.Targets {
			name, kind := b.ID, ".tar.gz"
			if b.ID == "provider" {
				name = "terraform-provider-gpucloud"
			}
			if b.ID == "provider" || strings.HasPrefix(target, "windows_") {
				kind = ".zip"
			}
			if platforms[target] {
				want = append(want, name+"_"+d.version+"_"+target+kind)
			}
		}
	}
	slices.Sort(want)
	must.Equal(t, slices.Sorted(maps.Keys(d.archives)), want, "archives")
	for name, a := range d.archives {
		program := a.program
		if a.program == "terraform-provider-gpucloud" {
			program += "_v" + d.version
		}
		if a.system == "windows" {
			program += ".exe"
		}
		got, want := slices.Sorted(maps.Keys(d.unpack(t, name))), []string{"LICENSE", "THIRD_PARTY_LICENSES.txt", program}
		must.Hold(t, slices.Equal(got, want), name, "contains", got, "want", want)
	}
}

// checkChecksums verifies the checksum file, which covers every archive and the manifest.
func (d dist) checkChecksums(t *testing.T) {
	manifest := "terraform-provider-gpucloud_" + d.version + "_manifest.json"
	var about struct {
		Version  int
		Metadata struct {
			ProtocolVersions []string `json:"protocol_versions"`
		}
	}
	readJSON(t, filepath.Join(root, "terraform-registry-manifest.json"), &about)
	must.Hold(t, about.Version == 1 && slices.Equal(about.Metadata.ProtocolVersions, []string{"6.0"}), "expected version 1 and protocol 6.0 (as in provider.Serve) in the manifest and got", about)
	sums := map[string]string{}
	for line := range strings.Lines(d.read(t, "terraform-provider-gpucloud_"+d.version+"_SHA256SUMS")) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	for _, name := range append(slices.Collect(maps.Keys(d.archives)), manifest) {
		path := filepath.Join(d.dir, name)
		if name == manifest { // published under this name
			path = filepath.Join(root, "terraform-registry-manifest.json")
		}
		text := must.ReadFile(t, path)
		must.Equal(t, sums[name], fmt.Sprintf("%x", sha256.Sum256(text)), "checksum of", name)
	}
}

// checkSignature verifies the signature of the snapshot's temporary key.
func (d dist) checkSignature(t *testing.T) {
	sums := filepath.Join(d.dir, "terraform-provider-gpucloud_"+d.version+"_SHA256SUMS")
	if _, err := exec.LookPath("gpg"); err != nil {
		t.Skip("no signature was made: gpg is not installed")
	}
	home := must.Do(os.MkdirTemp("", "gpg-"))(t)
	gpg := func(args ...string) error {
		return exec.Command("gpg", append([]string{"--homedir", home, "--batch", "--quiet"}, args...)...).Run()
	}
	defer func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		_ = os.RemoveAll(home)
	}()
	must.Succeed(t, gpg("--import", filepath.Join(d.dir, "..", "snapshot-key.asc")))
	must.Succeed(t, gpg("--verify", sums+".sig", sums))
	must.Hold(t, gpg("--verify", sums+".sig", filepath.Join(d.dir, "metadata.json")) != nil, "the signature is valid for another file")
}

// checkPrograms runs the programs of this platform, and checks how all were built.
func (d dist) checkPrograms(t *testing.T) {
	for name, a := range d.archives {
		dir := t.TempDir()
		for file, text := range d.unpack(t, name) {
			if !strings.HasPrefix(file, a.program) {
				continue
			}
			path := filepath.Join(dir, file)
			must.Succeed(t, os.WriteFile(path, text, 0o700)) //nolint:gosec // an executable file
			d.checkBuild(t, name, a, path)
			if a.system != runtime.GOOS || a.arch != runtime.GOARCH {
				continue
			}
			want := fmt.Sprintf("%s %s (commit %.7s", a.program, d.version, d.commit)
			out := must.Do(exec.CommandContext(t.Context(), path, "--version").CombinedOutput())(t)
			must.Hold(t, strings.HasPrefix(string(out), want), name, "prints with --version", string(out), "expected", want, "…")
		}
	}
}

func (d dist) checkBuild(t *testing.T, name string, a archive, path string) {
	info := must.Do(buildinfo.ReadFile(path))(t)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	must.Hold(t, settings["GOOS"] == a.system && settings["GOARCH"] == a.arch && settings["-trimpath"] == "true", name, "was built with", settings)
	must.Hold(t, a.program == "jobrunner" || settings["CGO_ENABLED"] == "0", name, "was built with cgo")
	must.Hold(t, a.program != "jobrunner" || os.Getenv("CC_"+strings.ToUpper(a.arch)) == "" || a.system != "linux" || settings["CGO_ENABLED"] == "1",
		name, "was built without cgo, and so without GPUs")
}

// checkInit installs the provider from a mirror of the published archives.
func (d dist) checkInit(t *testing.T) {
	cli := must.Do(tfcli.Find(t.Context()))(t)
	mirror, work := t.TempDir(), t.TempDir()
	folder := filepath.Join(mirror, "registry.terraform.io", "gpucloud", "gpucloud")
	must.Succeed(t, os.MkdirAll(folder, 0o755))
	for name, a := range d.archives {
		if a.program == "terraform-provider-gpucloud" {
			write(t, filepath.Join(folder, name), d.read(t, name))
		}
	}
	write(t, filepath.Join(work, "rc"), fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror))
	write(t, filepath.Join(work, "main.tf"), fmt.Sprintf("terraform {\n  required_providers {\n    gpucloud = {\n      source  = \"registry.terraform.io/gpucloud/gpucloud\"\n      version = %q\n    }\n  }\n}\n", d.version))
	for _, args := range [][]string{{"init"}, {"providers", "schema", "-json"}} {
		cmd := exec.CommandContext(t.Context(), cli, args...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "TF_CLI_CONFIG_FILE="+filepath.Join(work, "rc"))
		out, err := cmd.CombinedOutput()
		must.Require(t, err == nil && strings.Contains(string(out), "gpucloud/gpucloud"), "terraform", args, "ended with", err, "and printed", string(out), "expected gpucloud/gpucloud in it")
	}
}

func (d dist) read(t *testing.T, name string) string {
	t.Helper()
	return string(must.ReadFile(t, filepath.Join(d.dir, name)))
}

func (d dist) unpack(t *testing.T, name string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	text := d.read(t, name)
	if strings.HasSuffix(name, ".zip") {
		for _, f := range must.Do(zip.NewReader(strings.NewReader(text), int64(len(text))))(t).File {
			files[f.Name] = must.Do(io.ReadAll(must.Do(f.Open())(t)))(t)
		}
		return files
	}
	z := must.Do(gzip.NewReader(strings.NewReader(text)))(t)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		must.Succeed(t, err)
		files[h.Name] = must.Do(io.ReadAll(r))(t)
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	must.Succeed(t, json.Unmarshal(must.ReadFile(t, path), into))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
}
