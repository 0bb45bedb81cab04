// Command changelog prints the section of CHANGELOG.md of a version: the text of its
// release.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	version := flag.String("version", "", "version to print, such as 1.2.3")
	flag.Parse()
	text, err := os.ReadFile("CHANGELOG.md")
	if err == nil {
		var releases []release
		if releases, err = parse(string(text)); err == nil {
			var section string
			if section, err = find(releases, *version); err == nil {
				fmt.Print(section)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "changelog:", err)
		os.Exit(1)
	}
}
