package procgroup

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// Once a group is gone, what is left in its pipes is read. A process that got
// away may hold them open: so long, and for so many bytes, is it listened to.
const (
	lingerTime    = time.Second
	lingeringMost = 1 << 20 // as much as a pipe holds
)

// output is the way of what a command writes to who takes it.
type output struct {
	from *os.File
	to   io.Writer
	over atomic.Bool // the group is gone
}

func (o *output) copy() {
	defer o.from.Close()
	buffer := make([]byte, 32<<10)
	for late := 0; late < lingeringMost; {
		over := o.over.Load()
		if over {
			_ = o.from.SetReadDeadline(time.Now().Add(lingerTime))
		}
		n, err := o.from.Read(buffer)
		if over {
			late += n
		}
		if n > 0 {
			if _, err := o.to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil && (over || !errors.Is(err, os.ErrDeadlineExceeded)) { // else the deadline passed before the read began
			return
		}
	}
}

// expectEnd says that the group is gone.
func (o *output) expectEnd() {
	o.over.Store(true)
	_ = o.from.SetReadDeadline(time.Now().Add(lingerTime))
}
