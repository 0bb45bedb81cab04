package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// deployment selects the deployment of a client command. It reads the same variables as the
// Terraform provider, which serve prints.
type deployment struct {
	BaseURL    string `name:"base-url" env:"GPUCLOUD_BASE_URL" default:"http://127.0.0.1:8420" placeholder:"URL" help:"Address of the deployment, before /v2."`
	QueueURL   string `name:"queue-url" env:"GPUCLOUD_QUEUE_URL" placeholder:"URL" help:"Address of its job API, before /v2. Default: the base URL."`
	APIVersion string `name:"api-version" env:"GPUCLOUD_API_VERSION" enum:"v1,v2" default:"v2" help:"Version of the management API that finds endpoints by name (v1, v2)."`
	Data       string `placeholder:"DIR" help:"Data folder of this machine's jobrunner, for its key. Default: the default of serve."`
	JSON       bool   `name:"json" help:"Print JSON, a line for each object."`
}

// client uses the key of GPUCLOUD_API_KEY. For a deployment on this machine it otherwise uses the
// key in the data folder, which is sent to no other machine.
func (d *deployment) client() (*api.Client, error) {
	s := api.Settings{BaseURL: d.BaseURL, QueueURL: d.QueueURL, Version: api.Version(d.APIVersion), APIKey: os.Getenv(keyVariable), KeySource: keyVariable, UserAgent: "jobrunner/" + version}
	if s.APIKey == "" && isLocal(d.BaseURL) && (d.QueueURL == "" || isLocal(d.QueueURL)) {
		var err error
		if s.APIKey, s.KeySource, err = d.storedKey(); err != nil {
			return nil, err
		}
	}
	if s.APIKey == "" {
		return nil, fmt.Errorf("no API key for %s: set %s, which serve and dev print at their start, or --data to the data folder of a jobrunner of this machine", d.BaseURL, keyVariable)
	}
	return api.New(s)
}

// storedKey returns the key in the data folder and its file. If the default folder doesn't exist,
// it returns "".
func (d *deployment) storedKey() (key, path string, err error) {
	dir, err := dataDir(d.Data)
	if err != nil {
		if d.Data == "" {
			err = nil
		}
		return "", "", err
	}
	path = filepath.Join(dir, keyFile)
	content, err := os.ReadFile(path)
	if key = strings.TrimSpace(string(content)); key != "" {
		return key, path, nil
	}
	_, absent := os.Stat(dir)
	switch {
	case absent != nil && d.Data == "":
		return "", "", nil
	case absent != nil:
		return "", "", fmt.Errorf("no API key for %s: --data %s: %w; set it to the data folder of a jobrunner of this machine, or set %s", d.BaseURL, d.Data, absent, keyVariable)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", "", fmt.Errorf("no API key for %s: %w; set %s, or read the file as the user that runs the jobrunner", d.BaseURL, err, keyVariable)
	}
	return "", "", fmt.Errorf("no API key for %s: the data folder %s has none, because its jobrunner was started with --api-key-file or %s: set %s to that key",
		d.BaseURL, dir, keyVariable, keyVariable)
}

func isLocal(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}
