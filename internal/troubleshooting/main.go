// Command troubleshooting writes docs/guides/troubleshooting.md: each error text that the
// source has, below its cause in table.yaml.
package main

import (
	"fmt"
	"os"
	"strings"
)

//go:generate go run . ../..

const pagePath = "docs/guides/troubleshooting.md"

func main() {
	page, problems, err := build(os.Args[1])
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%s", strings.Join(problems, "\n"))
	}
	if err == nil {
		err = os.WriteFile(os.Args[1]+"/"+pagePath, []byte(page), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// build returns the page of a clone, and what does not fit together.
func build(root string) (page string, problems []string, err error) {
	texts, err := collect(root)
	if err != nil {
		return "", nil, err
	}
	sections, err := readTable()
	if err != nil {
		return "", nil, err
	}
	problems = assign(sections, texts)
	return write(sections), problems, nil
}
