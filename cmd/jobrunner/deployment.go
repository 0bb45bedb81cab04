package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// deployment says which deployment a client's command speaks to. The variables are
// those of the Terraform provider, which serve prints.
type deployment struct {
	BaseURL    string `name:"base-url" env:"GPUCLOUD_BASE_URL" default:"http://127.0.0.1:8420" placeholder:"URL" help:"Address of the deployment, before /v2."`
	QueueURL   string `name:"queue-url" env:"GPUCLOUD_QUEUE_URL" placeholder:"URL" help:"Address of its job API, before /v2. Default: the base URL."`
	APIVersion string `name:"api-version" env:"GPUCLOUD_API_VERSION" enum:"v1,v2" default:"v2" help:"Version of the management API that finds endpoints by name (v1, v2)."`
	Data       string `placeholder:"DIR" help:"Data folder of the jobrunner of this machine, which has its key. Default: the default of serve."`
	JSON       bool   `name:"json" help:"Print JSON, a line for each object."`
}

// client uses the key of GPUCLOUD_API_KEY, or the one in the data folder of a
// jobrunner of this machine: it is sent to no other machine.
func (d *deployment) client() (*api.Client, error) {
	s := api.Settings{BaseURL: d.BaseURL, QueueURL: d.QueueURL, Version: api.Version(d.APIVersion), APIKey: os.Getenv(keyVariable), KeySource: keyVariable, UserAgent: "jobrunner/" + version}
	if s.APIKey == "" && isLocal(d.BaseURL) && (d.QueueURL == "" || isLocal(d.QueueURL)) {
		if dir, err := dataDir(d.Data); err == nil {
			path := filepath.Join(dir, keyFile)
			content, _ := os.ReadFile(path) // without a key the client says what to do
			s.APIKey, s.KeySource = strings.TrimSpace(string(content)), path
		}
	}
	if s.APIKey == "" {
		return nil, fmt.Errorf("no API key for %s: set %s, which serve and dev print at their start, or --data to the data folder of a jobrunner of this machine", d.BaseURL, keyVariable)
	}
	return api.New(s)
}

func isLocal(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}
