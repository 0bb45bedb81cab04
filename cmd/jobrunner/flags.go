package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/cli/flagfile"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

const engineVariable = "GPUCLOUD_ENGINE"

// databaseFlags name the database of a deployment.
type databaseFlags struct {
	Engine     string `placeholder:"URL" env:"GPUCLOUD_ENGINE" help:"PostgreSQL database of the state instead of the folder, like postgres://user@host:5432/name; several jobrunners may share it."`
	EngineFile string `placeholder:"FILE" env:"GPUCLOUD_ENGINE_FILE" help:"File with the URL of --engine, which hides a password from the list of processes."`
}

// databaseURL returns the URL of the database, from --engine, its variable or --engine-file, or "".
// PostgreSQL's own settings complete it, such as PGPASSWORD, PGPASSFILE and ~/.pgpass.
func (s *databaseFlags) databaseURL() (string, error) {
	if s.EngineFile == "" {
		return s.Engine, nil
	}
	if s.Engine != "" {
		return "", usageErrorf("--engine and --engine-file (or GPUCLOUD_ENGINE and GPUCLOUD_ENGINE_FILE) exclude each other: choose one")
	}
	text, err := flagfile.Read(s.EngineFile)
	if err != nil {
		return "", usageErrorf("reading --engine-file: %s", err)
	}
	dbURL := strings.TrimSpace(string(text))
	if dbURL == "" || strings.ContainsAny(dbURL, "\r\n") {
		return "", usageErrorf("invalid --engine-file %s: expected one line such as postgres://user:password@host:5432/name", s.EngineFile)
	}
	return dbURL, nil
}

// warnOfPassword warns about a password in --engine, which every user of this machine can read.
func (s *databaseFlags) warnOfPassword(log *slog.Logger) {
	u, err := url.Parse(s.Engine)
	if err != nil || s.Engine == "" || s.Engine == os.Getenv(engineVariable) {
		return
	}
	if _, hasPassword := u.User.Password(); hasPassword || u.Query().Has("password") {
		log.Warn("every user of this machine can read the password in --engine in the list of processes: put the URL into a file for --engine-file, or the password into PGPASSWORD or ~/.pgpass")
	}
}

func (s *serve) checkNode(dbURL string) error {
	if s.EngineConnections < sqldb.MinConnections {
		return usageErrorf("invalid --engine-connections: expected at least %d, got %d", sqldb.MinConnections, s.EngineConnections)
	}
	if s.NodeURL == "" {
		return nil
	}
	u, err := url.Parse(s.NodeURL)
	if err == nil {
		_, err = strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery+u.Fragment != "" || u.User != nil {
		return usageErrorf("invalid --node-url: expected a URL with a host and without a path, such as http://10.0.0.5:8420")
	}
	if dbURL == "" {
		return usageErrorf("--node-url (or GPUCLOUD_NODE_URL) needs --engine or --engine-file: other jobrunners reach this one only if they share its database")
	}
	return nil
}

// deploymentFlags say which deployment a client command uses. The Terraform provider reads the same
// environment variables.
type deploymentFlags struct {
	BaseURL    string `name:"base-url" env:"GPUCLOUD_BASE_URL" default:"http://127.0.0.1:8420" placeholder:"URL" help:"Address of the deployment, before /v2."`
	QueueURL   string `name:"queue-url" env:"GPUCLOUD_QUEUE_URL" placeholder:"URL" help:"Address of its job API, before /v2. Default: the base URL."`
	APIVersion string `name:"api-version" env:"GPUCLOUD_API_VERSION" enum:"v1,v2" default:"v2" help:"Version of the management API that finds endpoints by name (v1, v2)."`
	Data       string `placeholder:"DIR" help:"Data folder of this machine's jobrunner, for its key. Default: the default of serve."`
	JSON       bool   `name:"json" help:"Print JSON, a line for each object."`
}

// client returns a client with the key of GPUCLOUD_API_KEY or, for a deployment on this machine, with
// the key in the data folder, which is sent to no other machine.
func (d *deploymentFlags) client() (*api.Client, error) {
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
	s.Log = reportSilence(stderr, d.BaseURL)
	client, err := api.New(s)
	if invalid, ok := errors.AsType[*api.SettingError](err); ok {
		err = fmt.Errorf("GPUCLOUD_%s %s", strings.ToUpper(invalid.Setting), invalid.Problem)
	}
	return client, err
}

// silenceLimit is longer than the deployment holds a request, and than the pause of a client that polls.
const silenceLimit = 20 * time.Second

// reportSilence returns a log that reports on w when the deployment hasn't answered for silenceLimit.
func reportSilence(w io.Writer, url string) httpclient.Log {
	timer := time.AfterFunc(silenceLimit, func() { fmt.Fprintf(w, "%s has not answered for %s; still waiting\n", url, silenceLimit) })
	return func(_ context.Context, _ bool, _ string, fields map[string]any) {
		if status, ok := fields["status"].(int); ok && status < http.StatusInternalServerError {
			timer.Reset(silenceLimit)
		}
	}
}

// storedKey returns the key in the data folder and its file, or "" if the default folder doesn't exist.
func (d *deploymentFlags) storedKey() (key, path string, err error) {
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
	_, statErr := os.Stat(dir)
	switch {
	case statErr != nil && d.Data == "":
		return "", "", nil
	case statErr != nil:
		return "", "", fmt.Errorf("no API key for %s: --data %s: %w; set it to the data folder of a jobrunner of this machine, or set %s", d.BaseURL, d.Data, statErr, keyVariable)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", "", fmt.Errorf("no API key for %s: %w; set %s, or read the file as the user that runs the jobrunner", d.BaseURL, err, keyVariable)
	}
	return "", "", fmt.Errorf("no API key for %s: the data folder %s has none, because its jobrunner was started with --api-key-file or %s: set %s to that key",
		d.BaseURL, dir, keyVariable, keyVariable)
}

func isLocal(address string) bool {
	u, err := url.Parse(address)
	return err == nil && isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
