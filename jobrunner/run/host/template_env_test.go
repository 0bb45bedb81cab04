//go:build unix

package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// With local rules, a template's variables can't run other code. The error names the variable and the fix.
func TestTemplateRunsNoCode(t *testing.T) {
	dangerous := strings.Fields(`BASH_ENV ENV BASH_FUNC_x%% SHELLOPTS PS4 NODE_OPTIONS NODE_PATH npm_config_script_shell PYTHONWARNINGS BROWSER LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
		PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT pythonpath PERL5OPT PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB GEM_PATH BUNDLE_GEMFILE GIT_SSH_COMMAND
		GIT_EXEC_PATH GIT_CONFIG_COUNT JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH GCONV_PATH DYLD_INSERT_LIBRARIES PATH HOME XDG_CONFIG_HOME ZDOTDIR LESSOPEN PAGER EDITOR
		OPENSSL_CONF GLIBC_TUNABLES DOTNET_STARTUP_HOOKS CORECLR_PROFILER_PATH COMPlus_EnableDiagnostics PHPRC LUA_INIT_5_4 R_PROFILE_USER JULIA_LOAD_PATH TCLLIBPATH CUDA_INJECTION64_PATH
		CC AWS_CONFIG_FILE PIP_INDEX_URL OMP_TOOL_LIBRARIES NCCL_NET_PLUGIN GTK_MODULES QT_PLUGIN_PATH VK_LAYER_PATH GOFLAGS CARGO_HOME RUSTC_WRAPPER
		ANT_OPTS PSQLRC SCREENRC GNUPGHOME NUMBA_CACHE_DIR HF_HOME MPLBACKEND MAVEN_OPTS KAFKA_OPTS WGETRC PSQL_EDITOR SYSTEMD_PAGER TORCH_HOME KERAS_BACKEND DJANGO_SETTINGS_MODULE FLASK_APP
		GUNICORN_CMD_ARGS VLLM_PLUGINS HF_MODULES_CACHE TRANSFORMERS_CACHE MATPLOTLIBRC LEIN_JVM_OPTS ANSIBLE_CONFIG GNUPLOT_DRIVER_DIR TMUX_TMPDIR PGSERVICEFILE`)
	dir := t.TempDir()
	marker := filepath.Join(dir, "loaded")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "evil.sh"), []byte("touch "+marker+"\n"), 0o600))
	for _, kind := range []string{"process", "command"} {
		p := program(t, newExecutor(t, "    "+kind+": {run: [bash, -c, 'sleep 1000']}\n"), "x")
		for _, name := range dangerous {
			spec := run.Spec{Container: store.Container{Image: "x", Env: map[string]string{name: filepath.Join(dir, "evil.sh"), "MODEL": "m"}}, Log: new(livelog.Log)}
			err := p.Check(spec)
			must.Hold(t, err != nil && strings.Contains(err.Error(), " has "+name+",") &&
				strings.Contains(err.Error(), "template_env: ["+name+"]") && !strings.Contains(err.Error(), "evil"), "the check of a", kind, "with", name, "returns", err)
			if p.Start == nil {
				continue
			}
			if process, err := p.Start(t.Context(), spec); err == nil { // also without a Check before
				process.Stop(0)
				t.Errorf("%s: a worker with it was started", name)
			}
		}
		harmless := map[string]string{}
		for _, name := range strings.Fields("MODEL_NAME JUPYTER_PASSWORD HF_TOKEN HF_HUB_OFFLINE DATA_SRC MODEL_PATH XLA_FLAGS PYTHONUNBUFFERED NODE_ENV GOMAXPROCS CUDA_VISIBLE_DEVICES RUNPOD_AI_API_KEY PORT LANG OMP_NUM_THREADS NCCL_DEBUG AWS_REGION VLLM_USE_V1 ENVIRONMENT GOAL GO_LIVE PATH_TO_MODEL CCACHE") {
			harmless[name] = "x"
		}
		must.Equal(t, p.Check(run.Spec{Container: store.Container{Env: harmless}}), nil, kind)
	}
	must.Hold(t, must.Err(os.Stat(marker)) != nil, "the code of a template ran")
}

// A rule can allow variables by name or prefix, set them, or leave the whole command to the template.
func TestTemplateEnvAllowed(t *testing.T) {
	for rule, allowed := range map[string]bool{
		"{run: [sh], template_env: [PYTHONPATH, GIT_*]}":            true,
		"{run: [sh], template_env: ['*']}":                          true,
		"{run: [sh], template_env: [GIT_*]}":                        false,
		"{run: [sh], env: {PYTHONPATH: /x}, template_env: [GIT_*]}": true,
		"{template: command}":                                       true,
		"{run: [sh], template: args}":                               false,
	} {
		p := program(t, newExecutor(t, "    process: "+rule+"\n"), "x")
		err := p.Check(run.Spec{Container: store.Container{Env: map[string]string{"PYTHONPATH": "x", "GIT_DIR": "x"}}})
		must.Equal(t, allowed, err == nil, rule, err)
	}
}

// Lines after the previous run's last line are passed on, without the times that engines insert.
func TestLinesAfterAMark(t *testing.T) {
	const engineLog = "2026-06-01T12:00:00.000000001Z one\n" + "2026-06-01T12:00:00.000000002Z two\n" +
		"2026-06-01T12:00:00.000000003Z thr2026-06-01T12:00:00.000000004Z ee\n" +
		"Error: the engine says this\n" +
		"2026-06-01T12:00:00.000000005Z 2026-06-01T11:00:00.000000000Z is the program's own\n" +
		"2026-06-01T12:00:00.000000006Z \n" +
		"2026-06-01T12:00:00.000000007Z cut off"
	for since, want := range map[string][]string{
		"":                               {"one", "two", "three", "2026-06-01T11:00:00.000000000Z is the program's own", "", "cut off"},
		"2026-06-01T12:00:00.000000002Z": {"three", "2026-06-01T11:00:00.000000000Z is the program's own", "", "cut off"},
	} {
		log := new(livelog.Log)
		sinceTime, _ := time.Parse(time.RFC3339Nano, since) // zero for ""
		last := must.Do(run.CopyLines(iotest.OneByteReader(strings.NewReader(engineLog)), sinceTime, lineJoiner{log}))(t)
		got := log.String()
		must.Hold(t, got == strings.Join(want, "\n")+"\n" && last.Nanosecond() == 7, "the lines since", since, "are", got, "the last one is of", last)
	}
}

// A pod joins the engine's default network, its rule's network, or a network shared with other pods. It has a name
// only in the shared network, and no published ports in the host's network.
func TestNetworkOfAPod(t *testing.T) {
	const name = "--network-alias id.runpod.internal"
	for _, c := range []struct{ network, ruleNetwork, folderID, want, lacks string }{
		{"", "", "d", "--label gpucloud.deployment=d --env-file", "--network"},
		{"", "", "", "--label gpucloud.run=r --env-file", "gpucloud.deployment"},
		{"", "", "d", "--publish 127.0.0.1:4001:22 --publish 127.0.0.1:4002:8080 --gpus \"device=GPU-a\" --mount type=bind,source=/v,target=/w x a", "--add-host"},
		{"gpucloud-global", "", "d", "--network gpucloud-global " + name + " --publish 127.0.0.1:4001:22", "--add-host"},
		{"gpucloud-global", "mine", "d", "--network mine --publish 127.0.0.1:4001:22", name},
		{"gpucloud-global", "host", "d", "--network host --gpus", "--publish"},
	} {
		s := run.Spec{
			ID: "id", Container: store.Container{Image: "x", Args: "a"}, Devices: []gpu.Device{{UUID: "GPU-a"}}, Mounts: []run.Mount{{Dir: "/v", Path: "/w"}},
			Pod: &run.Pod{
				Run: 7, Network: c.network, FolderID: c.folderID, Ports: []store.PodPort{{Private: 22, Public: 4001, Protocol: "tcp"}, {Private: 8080, Public: 4002, Protocol: "http"}, {Private: 1}},
			},
		}
		dir := t.TempDir()
		args, _, err := containerSpec{&containerSettings{Network: scalar{Value: c.ruleNetwork}}, s, "n", "r", false, "linux"}.args(dir)
		line := strings.ReplaceAll(strings.Join(args, " "), dir+"/", "")
		if err != nil || !strings.Contains(line, c.want) || strings.Contains(line, c.lacks) || !strings.Contains(line, "--label gpucloud.pod=id --label gpucloud.pod.run=7 ") || strings.Contains(line, "gpucloud.worker") {
			t.Errorf("%+v:\n%s %v", c, line, err)
		}
	}
}
