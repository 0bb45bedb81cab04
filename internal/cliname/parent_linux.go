package cliname

import (
	"fmt"
	"os"
	"strings"
)

func parentArguments() ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", os.Getppid()))
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), err
}

func parentExecutable() (executable, error) {
	link := fmt.Sprintf("/proc/%d/exe", os.Getppid())
	path, err := os.Readlink(link)
	// The link itself stays readable after an upgrade has replaced the file.
	return executable{path: path, open: link}, err
}
