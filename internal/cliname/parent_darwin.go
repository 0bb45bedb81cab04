package cliname

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func parentExecutable() (executable, error) {
	path, _, _, err := parentProcess()
	return executable{path: path, open: path}, err
}

func parentArguments() (arguments []string, err error) {
	_, count, rest, err := parentProcess()
	rest = bytes.TrimLeft(rest, "\x00")
	for ; count > 0 && len(rest) > 0; count-- {
		var argument []byte
		argument, rest, _ = bytes.Cut(rest, []byte{0})
		arguments = append(arguments, string(argument))
	}
	return arguments, err
}

// parentProcess asks for the arguments of the parent: their number in four bytes, then the
// path of the executable, ended by zero bytes, then the arguments, each ended by one.
func parentProcess() (path string, count uint32, rest []byte, err error) {
	raw, err := unix.SysctlRaw("kern.procargs2", os.Getppid())
	if err != nil {
		return "", 0, nil, err
	}
	if len(raw) < 4 {
		return "", 0, nil, errors.New("the system names no executable of the parent process")
	}
	start, rest, _ := bytes.Cut(raw[4:], []byte{0})
	return string(start), binary.LittleEndian.Uint32(raw), rest, nil
}
