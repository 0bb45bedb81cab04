// Package flagfile reads the files that users name in flags.
package flagfile

import (
	"fmt"
	"io"
	"os"
)

// maxSize is the maximum size of a file.
const maxSize = 64 << 20

// Read reads a file or a pipe. It returns an error if the content is larger than 64 MiB, such as that of
// /dev/zero, which never ends.
func Read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s is larger than %d MiB: choose another file", name, maxSize>>20)
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}
