package planrule

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// parentArguments reads the arguments of the parent: their count in four bytes, then the path of the
// executable, padded with zero bytes, then the arguments, each with a trailing zero byte.
func parentArguments() (arguments []string, err error) {
	raw, err := unix.SysctlRaw("kern.procargs2", os.Getppid())
	if err != nil {
		return nil, err
	}
	if len(raw) < 4 {
		return nil, errors.New("the system returned too few bytes of the parent's arguments")
	}
	_, rest, _ := bytes.Cut(raw[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for count := binary.LittleEndian.Uint32(raw); count > 0 && len(rest) > 0; count-- {
		var argument []byte
		argument, rest, _ = bytes.Cut(rest, []byte{0})
		arguments = append(arguments, string(argument))
	}
	return arguments, nil
}
