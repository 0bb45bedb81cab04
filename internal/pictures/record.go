//go:build linux

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pty"
)

// Size of the terminal.
const (
	columns = 92
	rows    = 26
)

// typed are the commands of the cast. The jobrunner runs already, as in the guide in a
// terminal of its own, and the folder is initialized.
var typed = []string{
	"cat handler.py",
	"terraform apply -auto-approve",
	`jobrunner job run hello --input '{"name": "Ada"}'`,
	"terraform plan",
}

// Pace of the cast: people read it.
const (
	perCharacter = 35 * time.Millisecond
	beforeTyping = 900 * time.Millisecond
	longestPause = 700 * time.Millisecond
)

// record runs the commands on a terminal, and returns the cast.
func (s *session) record(ctx context.Context) ([]byte, error) {
	initialize := exec.CommandContext(ctx, s.cli.Path, "init") //nolint:gosec // Terraform or OpenTofu
	initialize.Dir, initialize.Env = s.dir, s.env
	if out, err := initialize.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", initialize, err, out)
	}
	var c cast
	c.print("\x1b[90m# in another terminal: jobrunner serve --ephemeral --config jobrunner.yaml\x1b[0m\r\n", 0)
	for _, command := range typed {
		c.prompt(command)
		cmd := exec.CommandContext(ctx, "bash", "-c", strings.ReplaceAll(command, "terraform ", s.cli.Name+" ")) //nolint:gosec // the commands above
		cmd.Dir, cmd.Env = s.dir, s.env
		if err := s.follow(cmd, &c); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", command, err, c.text())
		}
	}
	c.prompt("")
	return c.svg("A terminal: Terraform creates an endpoint on a jobrunner, a job runs on it, and the next plan has no changes."), nil
}

// follow adds what a command prints, when it prints it.
func (s *session) follow(cmd *exec.Cmd, c *cast) error {
	terminal, err := pty.Start(cmd, columns, rows)
	if err != nil {
		return err
	}
	defer terminal.Close()
	last := time.Now()
	for buffer := make([]byte, 4096); ; {
		n, err := terminal.Read(buffer)
		if n > 0 {
			c.print(strings.ReplaceAll(string(buffer[:n]), s.url, "http://127.0.0.1:8420"), min(time.Since(last), longestPause))
			last = time.Now()
		}
		if err != nil { // EIO: nobody has the other end open
			return cmd.Wait()
		}
	}
}
