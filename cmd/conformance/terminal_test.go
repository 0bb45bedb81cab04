//go:build linux

package main_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/pty"
)

var colourCode = regexp.MustCompile(`\x1b\[[0-9;]+m`)

// Progress and colours need a terminal. They are off in CI and if the environment disables them.
func TestTerminal(t *testing.T) {
	url := serve(t, nil)
	for name, c := range map[string]struct {
		env                []string
		progress, coloured bool
	}{
		"terminal":   {nil, true, true},
		"NO_COLOR":   {[]string{"NO_COLOR=1"}, true, false},
		"empty":      {[]string{"NO_COLOR="}, true, true},
		"dumb":       {[]string{"TERM=dumb"}, false, false},
		"in CI":      {[]string{"CI=true"}, false, false},
		"no console": {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{
				{"run", "--base-url=" + url, "--select=VER-38"},
				{"client", "--select=works", "--", "true"},
				{"sweep", "--ledger=" + tempFile(t, `{"n":1,"kind":"template","id":"t","method":"DELETE","url":"`+url+`/v2/templates/t","case":"T-01"}`+"\n")},
			} {
				cmd := command(t, args...)
				cmd.Env = append(cmd.Env, c.env...)
				run := pty.Output
				if name == "no console" {
					run = (*exec.Cmd).CombinedOutput
				}
				out, err := run(cmd) // conformance client fails, because true sends no request
				must.Require(t, cmd.ProcessState != nil, err)
				output := string(out)
				must.Require(t, strings.Contains(output, map[string]string{"run": "conformant", "client": "the client sent no request", "sweep": "1 of 1 objects deleted"}[args[0]]), args, "prints", output)
				must.Equal(t, strings.Contains(output, "\r\x1b[K"), c.progress, args, "shows progress", output)
				must.Equal(t, colourCode.MatchString(output), c.coloured && args[0] != "sweep", args, "is coloured", output)
			}
		})
	}
}
