// Command licences writes docs/reference/licences.md, the list of the released programs'
// modules and their licences. With -texts it writes the notices that each archive contains. A
// module with no known licence, or with a forbidden one, is an error.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// root is the path of the repository from this module.
const root = ".."

const document = "docs/reference/licences.md"

func main() {
	texts := flag.String("texts", "", "write the licence texts of all modules to this `file` instead of "+document)
	flag.Parse()
	modules, err := releasedModules()
	if err == nil {
		var text []byte
		if *texts == "" {
			text, err = table(modules)
		} else {
			text, err = notices(modules)
		}
		if err == nil {
			err = write(filepath.Join(root, cmp.Or(*texts, document)), text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // a public file
}

// table returns the document, without versions, so that only a change of a licence changes it.
func table(modules []*module) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`# Licences

gpucloud is released under the [Apache License 2.0](https://github.com/gpucloud/terraform-provider-gpucloud/blob/main/LICENSE). The released programs also contain Go's standard library (BSD-3-Clause) and the modules below, some only on certain platforms. Each archive has the licence texts in THIRD_PARTY_LICENSES.txt.

`)
	b.WriteString("All licences are permissive except MPL-2.0, which requires that changed files are published; these modules are used unchanged.\n")
	byLicence := map[string][]string{}
	for _, m := range modules {
		id, _, err := m.licence()
		if err != nil {
			return nil, err
		}
		byLicence[id] = append(byLicence[id], fmt.Sprintf("- `%s` (%s)\n", m.Path, strings.Join(m.programs, ", ")))
	}
	for _, id := range slices.Sorted(maps.Keys(byLicence)) {
		fmt.Fprintf(&b, "\n## %s\n\n%s", id, strings.Join(byLicence[id], ""))
	}
	return b.Bytes(), nil
}

// notices returns the licence texts that must accompany the programs.
func notices(modules []*module) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("The programs of this archive contain the modules below, under these licences.\n")
	for _, m := range modules {
		id, files, err := m.licence()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n%s\n%s %s (%s)\n", strings.Repeat("=", 80), m.Path, m.Version, id)
		for _, f := range files {
			fmt.Fprintf(&b, "\n--- %s\n\n%s\n", f.name, bytes.TrimSpace(f.text))
		}
	}
	return b.Bytes(), nil
}
