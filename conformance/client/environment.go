package client

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// environment is this process's, with what the scripted deployment is reached
// by, and with the scenario's own directories. Settings of another deployment
// are removed.
func (w *workspace) environment(deployment map[string]string) []string {
	env := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "GPUCLOUD_") {
			env[name] = value
		}
	}
	// A client that is judged asks nobody else, and its output is read by a program.
	for name, value := range map[string]string{"CHECKPOINT_DISABLE": "1", "NO_COLOR": "1"} {
		if _, set := env[name]; !set {
			env[name] = value
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		env[name] = strings.TrimPrefix(env[name]+",127.0.0.1", ",")
	}
	if w.root != "" {
		w.own(env)
	}
	maps.Copy(env, deployment)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// own puts the scenario's directories in the place of the user's.
func (w *workspace) own(env map[string]string) {
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

// program is the command's program as the workspace runs it: a relative path
// leads to the copy where it is in the copy, and else to the user's own file.
func (w *workspace) program(name, userDir string) string {
	if !strings.ContainsRune(filepath.ToSlash(name), '/') || filepath.IsAbs(name) {
		return name
	}
	if _, err := os.Stat(filepath.Join(w.dir, name)); err == nil {
		return name
	}
	return filepath.Join(userDir, name)
}
