package cliname

import (
	"fmt"
	"os"
)

func parentExecutable() (executable, error) {
	link := fmt.Sprintf("/proc/%d/exe", os.Getppid())
	path, err := os.Readlink(link)
	// The link itself stays readable after an upgrade has replaced the file.
	return executable{path: path, open: link}, err
}
