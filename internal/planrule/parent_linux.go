package planrule

import (
	"fmt"
	"os"
	"strings"
)

func parentArguments() ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", os.Getppid()))
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00"), err
}
