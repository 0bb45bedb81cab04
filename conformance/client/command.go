package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// commandResult is the exit status and the output of a command.
type commandResult struct {
	code     int // exit code; -1 if a signal ended the command
	timedOut bool
	output   string   // stdout and stderr, the beginning and the end of each, without escape codes
	leakedIn []string // outputs that contain a secret
}

type command struct {
	args    []string
	dir     string
	env     []string // NAME=value
	secrets []string // searched for in its output
}

// graceTime is how long a command's process group may take to exit after SIGTERM, and how
// long its output may stay open after its exit. A grandchild in another process group would
// keep the output open forever.
const graceTime = 2 * time.Second

// run runs the command until it exits. If the context ends, the process group gets SIGTERM,
// so that it can release locks and stop containers, and SIGKILL after graceTime. The error
// is about a command that can't be started.
func (c command) run(ctx context.Context) (commandResult, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...) //nolint:gosec // the user's own command is what is judged
	stdout, stderr := &outputCapture{secrets: c.secrets}, &outputCapture{secrets: c.secrets}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.dir, c.env, stdout, stderr, graceTime
	setProcessGroup(cmd)
	err := cmd.Run()
	result := commandResult{code: cmd.ProcessState.ExitCode(), timedOut: errors.Is(ctx.Err(), context.DeadlineExceeded)}
	if cmd.ProcessState == nil {
		return result, startError(err)
	}
	killRemaining(cmd)
	result.output = plainText(stdout.text() + stderr.text())
	if stdout.foundSecret {
		result.leakedIn = append(result.leakedIn, "its standard output")
	}
	if stderr.foundSecret {
		result.leakedIn = append(result.leakedIn, "its standard error")
	}
	return result, nil
}

func startError(err error) error { return fmt.Errorf("can't run the client's command: %w", err) }

// keptBytes is how many bytes of the beginning of an output are kept, and how many of its end.
const keptBytes = 64 << 10

// outputCapture keeps the beginning and the end of an output, and searches the whole output for secrets.
type outputCapture struct {
	secrets     []string
	foundSecret bool
	head, tail  []byte
	pending     []byte // may contain the beginning of a secret
	truncated   bool
}

func (c *outputCapture) Write(p []byte) (int, error) {
	c.findSecrets(p)
	n := len(p)
	fits := min(n, keptBytes-len(c.head))
	c.head, p = append(c.head, p[:fits]...), p[fits:]
	c.tail = append(c.tail, p...)
	if excess := len(c.tail) - keptBytes; excess > 0 {
		c.tail, c.truncated = append(c.tail[:0], c.tail[excess:]...), true
	}
	return n, nil
}

// findSecrets also finds secrets that span several writes.
func (c *outputCapture) findSecrets(p []byte) {
	c.pending = append(c.pending, p...)
	longest := 0
	for _, s := range c.secrets {
		c.foundSecret = c.foundSecret || bytes.Contains(c.pending, []byte(s))
		longest = max(longest, len(s))
	}
	if excess := len(c.pending) - longest + 1; excess > 0 {
		c.pending = append(c.pending[:0], c.pending[excess:]...)
	}
}

func (c *outputCapture) text() string {
	if c.truncated {
		return string(c.head) + "\n…\n" + string(c.tail)
	}
	return string(c.head) + string(c.tail)
}

// escapes matches the escape sequences of ECMA-48: colours, cursor movements, titles and
// links. Many clients write them even if the output isn't a terminal.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])?`)

// plainText removes escape sequences. Lines that would be overwritten become lines of their own.
func plainText(output string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(escapes.ReplaceAllString(output, ""))
}

// Limits of lastLines.
const (
	maxLines = 15
	maxBytes = 2000 // of all lines together
)

// lastLines returns the last lines of an output, without empty lines.
func lastLines(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			lines = append(lines, line)
		}
	}
	cut := len(lines) > maxLines
	text := strings.Join(lines[max(0, len(lines)-maxLines):], "\n")
	if len(text) > maxBytes {
		text, cut = strings.ToValidUTF8(text[len(text)-maxBytes:], ""), true
	}
	if cut {
		text = "…\n" + text
	}
	return text
}
