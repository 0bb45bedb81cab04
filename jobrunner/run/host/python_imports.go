package host

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// pythonImport matches the imports of a Python file. Its groups are the module and the names
// of "from a import b, c", or the modules of "import a, b". A byte order mark may precede the first.
var pythonImport = regexp.MustCompile(`(?m)^\x{FEFF}?(?:[^#'"\n]*[;:])?[ \t]*(?:from[ \t]+([\w\pL.]+)[ \t]+import[ \t]*(?:\(([^)]*)\)|([\w\pL., \t]*))|import[ \t]+([\w\pL., \t]+))`)

// maxModules limits the files of a handler that are read.
const maxModules = 200

// importsSDK reports whether a Python file imports the public SDK, directly or through files
// in or below its folder. Python resolves a symbolic link to its program first.
func importsSDK(file string, text []byte) bool {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	folder := filepath.Dir(file)
	seen := map[string]bool{file: true}
	for queue := []string{file}; len(queue) > 0; queue = queue[1:] {
		from := folder
		if queue[0] != file {
			from = filepath.Dir(queue[0])
			if text, _ = os.ReadFile(queue[0]); len(text) > maxHandler { // an unreadable file imports nothing
				continue
			}
		}
		for _, module := range importedModules(text) {
			if module == "runpod" || strings.HasPrefix(module, "runpod.") {
				return true
			}
			base := folder
			if name := strings.TrimLeft(module, "."); name != module { // relative import: each further dot is a folder up
				base = filepath.Join(from, strings.Repeat("../", len(module)-len(name)-1))
				module = name
			}
			path := filepath.Join(base, strings.ReplaceAll(module, ".", "/"))
			for _, candidate := range []string{path + ".py", filepath.Join(path, "__init__.py")} {
				if !seen[candidate] && len(seen) < maxModules && isFile(candidate) {
					seen[candidate] = true
					queue = append(queue, candidate)
				}
			}
		}
	}
	return false
}

// importedModules returns the modules that a file imports. "from a import b" also yields
// a.b, which may be a module.
func importedModules(text []byte) (modules []string) {
	for _, m := range pythonImport.FindAllStringSubmatch(string(text), -1) {
		modules = append(modules, splitNames(m[4])...)
		if m[1] == "" {
			continue
		}
		modules = append(modules, m[1])
		for _, name := range splitNames(m[2] + m[3]) {
			modules = append(modules, strings.TrimSuffix(m[1], ".")+"."+name)
		}
	}
	return modules
}

// splitNames splits a list of names and drops each "as".
func splitNames(list string) (names []string) {
	for part := range strings.SplitSeq(list, ",") {
		if fields := strings.Fields(part); len(fields) > 0 {
			names = append(names, fields[0])
		}
	}
	return names
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
