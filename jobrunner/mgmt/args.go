package mgmt

import (
	"slices"

	"github.com/kballard/go-shellquote"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// words are a container's args as version 1 shows them. Args that a shell
// could not read are one word.
func words(args string) []string {
	split, err := shellquote.Split(args)
	if err != nil {
		return []string{args}
	}
	return list(split)
}

// setWords makes args of words, and leaves args as version 2 wrote them where
// they mean the same.
func setWords(c *store.Container, sent *[]string) {
	if sent != nil && !slices.Equal(*sent, words(c.Args)) {
		c.Args = shellquote.Join(*sent...)
	}
}
