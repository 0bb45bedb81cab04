package cliname

import (
	"bytes"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func parentExecutable() (executable, error) {
	// The answer is the number of arguments in four bytes, then the path of
	// the executable, ended by a zero byte.
	raw, err := unix.SysctlRaw("kern.procargs2", os.Getppid())
	if err != nil {
		return executable{}, err
	}
	if len(raw) < 4 {
		return executable{}, errors.New("the system names no executable of the parent process")
	}
	path, _, _ := bytes.Cut(raw[4:], []byte{0})
	return executable{path: string(path), open: string(path)}, nil
}
