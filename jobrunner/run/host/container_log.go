package host

import (
	"bytes"
	"regexp"
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run/procgroup"
)

// follow passes on the container's lines after a mark until the engine's command ends, and
// returns the mark of the last line. A mark is a line's time.
func (c *container) follow(log run.Output, mark string) string {
	args := []string{c.engine.path, "logs", "--follow", "--timestamps"}
	if mark != "" {
		args = append(args, "--since", mark)
	}
	lines := &markedLines{since: mark, last: mark, log: log, pieces: c.engine.podman}
	group, err := procgroup.Start(procgroup.Command{
		Path: c.engine.path, Args: append(args, c.name), Env: c.engine.environment(), Output: lines, Register: c.engine.register,
	})
	if err != nil {
		return mark
	}
	<-group.Done()
	lines.flush()
	return lines.last
}

// markedLines reads lines that begin with their mark, and passes on the lines after since.
type markedLines struct {
	since, last string
	log         run.Output
	partial     []byte
	pieces      bool // there may be further times within a line
}

func (m *markedLines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if m.partial = append(m.partial, line...); !whole {
			return n, nil
		}
		m.flush()
		b = rest
	}
}

// flush passes on the partial line.
func (m *markedLines) flush() {
	if len(m.partial) == 0 {
		return
	}
	mark, text, _ := strings.Cut(string(m.partial), " ")
	m.partial = m.partial[:0]
	at, err := time.Parse(time.RFC3339Nano, mark)
	if err != nil { // the engine wrote the line
		return
	}
	if since, err := time.Parse(time.RFC3339Nano, m.since); err == nil && !at.After(since) {
		return
	}
	m.last = mark
	if m.pieces {
		text = joinPieces(text, mark, at)
	}
	m.log.WriteLine(text, mark)
}

// joinPieces removes the times that Podman writes before each piece of a line if a program
// writes the line in pieces. These aren't before the time of the line; times that the
// program itself writes are.
func joinPieces(text, mark string, at time.Time) string {
	return pieceMark.ReplaceAllStringFunc(text, func(found string) string {
		if t, err := time.Parse(time.RFC3339Nano, strings.TrimSuffix(found, " ")); err != nil || t.Before(at) || len(found) != len(mark)+1 {
			return found
		}
		return ""
	})
}

var pieceMark = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d) `)
