package mgmt

import (
	"slices"

	"github.com/kballard/go-shellquote"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// splitArgs are a container's args as version 1 shows them. Args that a shell
// could not read are one word.
func splitArgs(args string) []string {
	split, err := shellquote.Split(args)
	if err != nil {
		return []string{args}
	}
	return list(split)
}

// setArgs makes args of words, and leaves args as version 2 wrote them where
// they mean the same.
func setArgs(c *store.Container, sent *[]string) {
	if sent != nil && !slices.Equal(*sent, splitArgs(c.Args)) {
		c.Args = shellquote.Join(*sent...)
	}
}
