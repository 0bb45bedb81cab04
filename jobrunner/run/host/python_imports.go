package host

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// pythonImport finds the imports of a Python file: of "from a import b, c" the module and
// the names, of "import a, b" the modules.
var pythonImport = regexp.MustCompile(`(?m)^(?:[^#'"\n]*[;:])?[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(?:\(([^)]*)\)|([\w., \t]*))|import[ \t]+([\w., \t]+))`)

// maxModules bounds the files of a handler that are looked through.
const maxModules = 200

// importsSDK tells whether a Python file is a worker: it, or a file of its own folder and
// below that it imports, imports the public SDK.
func importsSDK(file string, text []byte) bool {
	folder := filepath.Dir(file)
	seen := map[string]bool{file: true}
	for queue := []string{file}; len(queue) > 0; queue = queue[1:] {
		from := folder
		if queue[0] != file {
			from = filepath.Dir(queue[0])
			if text, _ = os.ReadFile(queue[0]); len(text) > maxHandler { // what can't be read imports nothing
				continue
			}
		}
		for _, module := range importedModules(text) {
			if module == "runpod" || strings.HasPrefix(module, "runpod.") {
				return true
			}
			base := folder
			if name := strings.TrimLeft(module, "."); name != module { // relative to the file, a folder up for each further dot
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

// importedModules are the names that a file imports; of "from a import b" also a.b, which
// may be a module.
func importedModules(text []byte) (modules []string) {
	for _, m := range pythonImport.FindAllStringSubmatch(string(text), -1) {
		modules = append(modules, listed(m[4])...)
		if m[1] == "" {
			continue
		}
		modules = append(modules, m[1])
		for _, name := range listed(m[2] + m[3]) {
			modules = append(modules, strings.TrimSuffix(m[1], ".")+"."+name)
		}
	}
	return modules
}

// listed are the names of a list, each without its "as".
func listed(list string) (names []string) {
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
