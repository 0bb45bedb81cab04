package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

type settings struct {
	root              string // folder of the module
	source            string // package of the program
	name              string
	version, revision string
	created           time.Time
	platforms         []string
}

func (s settings) tag() string { return s.name + ":" + s.version }

type platformImage struct {
	platform v1.Platform
	image    v1.Image
}

func (s settings) build(ctx context.Context) (all []platformImage, err error) {
	base, err := layer(systemFiles())
	if err != nil {
		return nil, err
	}
	for _, name := range s.platforms {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS != "linux" || platform.Architecture == "" || platform.Variant != "" {
			return nil, fmt.Errorf("invalid platform %q: expected for example linux/amd64", name)
		}
		text, err := s.compile(ctx, platform.Architecture)
		if err != nil {
			return nil, err
		}
		programLayer, err := layer([]file{{path: program[1:], mode: 0o755, text: text}})
		if err != nil {
			return nil, err
		}
		image, err := s.image(*platform, base, programLayer)
		if err != nil {
			return nil, err
		}
		all = append(all, platformImage{*platform, image})
	}
	return all, nil
}

// compile builds the static program, without paths of this machine or version control data.
func (s settings) compile(ctx context.Context, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "gpucloud-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	out := filepath.Join(dir, "jobrunner")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid= -X main.version="+s.version, "-o", out, s.source) //nolint:gosec // a package of this module
	c.Dir = s.root
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0")
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s for %s: %w: %s", s.source, arch, err, text)
	}
	return os.ReadFile(out)
}

func (s settings) image(platform v1.Platform, layers ...v1.Layer) (v1.Image, error) {
	image, err := mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), layers...)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: s.created}
	for i := range config.History {
		config.History[i] = v1.History{Created: v1.Time{Time: s.created}, CreatedBy: "make image"}
	}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		WorkingDir:   home,
		Env:          []string{"PATH=" + filepath.Dir(program), "HOME=" + home},
		Entrypoint:   []string{program},
		Cmd:          []string{"serve", "--listen=:8420", "--allow-remote", "--data=" + home},
		ExposedPorts: map[string]struct{}{"8420/tcp": {}},
		Volumes:      map[string]struct{}{home: {}},
		StopSignal:   "SIGTERM",
		Labels:       s.labels(),
	}
	return mutate.ConfigFile(image, config)
}

func (s settings) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       "jobrunner",
		"org.opencontainers.image.description": "A serverless GPU cloud in miniature: both management APIs and the job API.",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     s.version,
		"org.opencontainers.image.created":     s.created.Format(time.RFC3339),
	}
	if s.revision != "" {
		labels["org.opencontainers.image.revision"] = s.revision
	}
	return labels
}

func imageIndex(images []platformImage) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: b.image, Descriptor: v1.Descriptor{Platform: &b.platform}})
	}
	return index
}

// archiveName returns the file name of a platform, such as jobrunner-linux-amd64.tar.
func archiveName(p v1.Platform) string {
	return "jobrunner-" + strings.ReplaceAll(p.String(), "/", "-") + ".tar"
}
