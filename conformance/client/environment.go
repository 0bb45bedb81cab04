package client

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// environment returns this process's environment with the variables of the deployment and
// with the directories of the scenario. Settings of other deployments are removed.
func (w *workspace) environment(deployment map[string]string) []string {
	// The client must not contact other services, and its output must have no colours.
	env := map[string]string{"CHECKPOINT_DISABLE": "1", "NO_COLOR": "1"}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "GPUCLOUD_") {
			env[name] = value
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		env[name] = strings.TrimPrefix(env[name]+",127.0.0.1", ",")
	}
	if w.root != "" {
		w.redirectHome(env)
	}
	maps.Copy(env, deployment)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// redirectHome replaces the user's directories with the scenario's.
func (w *workspace) redirectHome(env map[string]string) {
	for _, name := range []string{"OLDPWD", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"} {
		delete(env, name)
	}
	env["PWD"], env["HOME"], env["TMPDIR"] = w.dir, w.home, w.temp
	if runtime.GOOS == "windows" {
		env["USERPROFILE"], env["TMP"], env["TEMP"] = w.home, w.temp, w.temp
	}
	if w.terraformData != "" {
		env["TF_DATA_DIR"] = w.terraformData
	}
}

// programPath returns the path of the command's program. A relative path refers to the
// workspace if the file was copied, and otherwise to the user's own file.
func (w *workspace) programPath(name, userDir string) string {
	if !strings.ContainsRune(filepath.ToSlash(name), '/') || filepath.IsAbs(name) {
		return name
	}
	if _, err := os.Stat(filepath.Join(w.dir, name)); err == nil {
		return name
	}
	return filepath.Join(userDir, name)
}
