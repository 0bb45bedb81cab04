package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"
)

// config is .goreleaser.yaml.
type config struct {
	all    map[string]any
	builds []build
}

type build struct {
	ID      string   `yaml:"id"`
	Main    string   `yaml:"main"`
	Targets []string `yaml:"targets"` // such as linux_amd64
}

func readConfig(path string) (c config, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	var part struct {
		Builds []build `yaml:"builds"`
	}
	if err = yaml.Unmarshal(text, &c.all); err == nil {
		err = yaml.Unmarshal(text, &part)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	c.builds = part.Builds
	return c, nil
}

// programs are the packages that are released, by platform.
func (c config) programs() map[string][]string {
	programs := map[string][]string{}
	for _, b := range c.builds {
		for _, target := range b.Targets {
			programs[target] = append(programs[target], b.Main)
		}
	}
	return programs
}

// write writes the configuration of a release for certain platforms alone.
func (c config) write(path string, platforms []string) error {
	for _, platform := range platforms {
		if c.programs()[platform] == nil {
			return fmt.Errorf("invalid platform %q: expected one of .goreleaser.yaml", platform)
		}
	}
	for _, b := range c.all["builds"].([]any) {
		b := b.(map[string]any)
		b["targets"] = slices.DeleteFunc(slices.Clone(b["targets"].([]any)), func(target any) bool {
			return !slices.Contains(platforms, target.(string))
		})
	}
	text, err := yaml.Marshal(c.all)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // nothing secret
}
