// Package flagfile reads the files that users name in flags.
package flagfile

import (
	"fmt"
	"io"
	"os"
)

const maxSize = 64 << 20

// Read reads a file or a pipe of at most 64 MiB. The limit protects from endless files such as /dev/zero.
func Read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return ReadFrom(name, f)
}

// ReadFrom is Read for an open file, such as stdin.
func ReadFrom(name string, r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxSize:
		return nil, fmt.Errorf("%s is larger than %d MiB: choose another file", name, maxSize>>20)
	}
	return text, nil
}
