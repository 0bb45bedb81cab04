package procgroup

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// Limits for reading the pipes after a group's end. A child that survived may hold them
// open.
const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20 // the capacity of a pipe
)

// output copies a command's output to its writer.
type output struct {
	from  *os.File
	to    io.Writer
	ended atomic.Bool // the group is gone
}

func (o *output) copy() {
	defer o.from.Close()
	buffer := make([]byte, 32<<10)
	for late := 0; late < lingerBytes; {
		ended := o.ended.Load()
		if ended {
			_ = o.from.SetReadDeadline(time.Now().Add(lingerTime))
		}
		n, err := o.from.Read(buffer)
		if ended {
			late += n
		}
		if n > 0 {
			if _, err := o.to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil && (ended || !errors.Is(err, os.ErrDeadlineExceeded)) { // otherwise the deadline passed before the read
			return
		}
	}
}

// expectEnd marks the group as gone.
func (o *output) expectEnd() {
	o.ended.Store(true)
	_ = o.from.SetReadDeadline(time.Now().Add(lingerTime))
}
