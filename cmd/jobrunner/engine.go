package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

const engineVariable = "GPUCLOUD_ENGINE"

// engineFlags name the database of a deployment.
type engineFlags struct {
	Engine     string `placeholder:"URL" env:"GPUCLOUD_ENGINE" help:"PostgreSQL database of the state instead of the folder, like postgres://user@host:5432/name; several jobrunners may share it."`
	EngineFile string `placeholder:"FILE" env:"GPUCLOUD_ENGINE_FILE" help:"File with the URL of --engine, which hides a password from the list of processes."`
}

// engineURL returns the URL of the database, from --engine, its variable or --engine-file, or "".
// PostgreSQL's own settings complete it, such as PGPASSWORD, PGPASSFILE and ~/.pgpass.
func (s *engineFlags) engineURL() (string, error) {
	if s.EngineFile == "" {
		return s.Engine, nil
	}
	if s.Engine != "" {
		return "", usageErrorf("--engine and --engine-file exclude each other: choose one")
	}
	text, err := os.ReadFile(s.EngineFile)
	if err != nil {
		return "", fmt.Errorf("reading --engine-file: %w", err)
	}
	engine := strings.TrimSpace(string(text))
	if engine == "" || strings.ContainsAny(engine, "\r\n") {
		return "", usageErrorf("invalid --engine-file %s: expected one line such as postgres://user:password@host:5432/name", s.EngineFile)
	}
	return engine, nil
}

// warnOfPassword warns about a password in --engine, which every user of this machine can read.
func (s *engineFlags) warnOfPassword(log *slog.Logger) {
	if s.Engine == "" || s.Engine == os.Getenv(engineVariable) {
		return
	}
	u, err := url.Parse(s.Engine)
	if err != nil {
		return
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		log.Warn("every user of this machine can read the password in --engine in the list of processes: put the URL into a file for --engine-file, or the password into PGPASSWORD or ~/.pgpass")
	}
}

// checkNode validates --node-url and --engine-connections.
func (s *serve) checkNode() error {
	if s.EngineConnections < sqldb.MinConnections {
		return usageErrorf("invalid --engine-connections: expected at least %d, got %d", sqldb.MinConnections, s.EngineConnections)
	}
	if s.NodeURL == "" {
		return nil
	}
	u, err := url.Parse(s.NodeURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return usageErrorf("invalid --node-url: expected a URL without a path, such as http://10.0.0.5:8420")
	}
	return nil
}
