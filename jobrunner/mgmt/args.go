package mgmt

import (
	"slices"

	"github.com/kballard/go-shellquote"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// splitArgs splits a container's args into words, as version 1 shows them. Args
// that a shell can't parse are one word.
func splitArgs(args string) []string {
	split, err := shellquote.Split(args)
	if err != nil {
		return []string{args}
	}
	return nonNilList(split)
}

// setArgs joins words to args. Args that version 2 wrote and that mean the same
// stay as they are.
func setArgs(c *store.Container, words *[]string) {
	if words != nil && !slices.Equal(*words, splitArgs(c.Args)) {
		c.Args = shellquote.Join(*words...)
	}
}
