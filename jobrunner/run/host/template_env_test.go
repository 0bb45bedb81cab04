package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// With any kind of rule, a template's variables can't run other code. The error names the variable and
// the fix.
func TestTemplateRunsNoCode(t *testing.T) {
	refused := strings.Fields(`BASH_ENV ENV BASH_FUNC_x%% SHELLOPTS PS4 NODE_OPTIONS NODE_PATH npm_config_script_shell PYTHONWARNINGS BROWSER LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
		PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT pythonpath PERL5OPT PERL5LIB PERLLIB PERL5DB RUBYOPT RUBYLIB GEM_PATH BUNDLE_GEMFILE GIT_SSH_COMMAND
		GIT_EXEC_PATH GIT_CONFIG_COUNT JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH GCONV_PATH DYLD_INSERT_LIBRARIES PATH HOME XDG_CONFIG_HOME ZDOTDIR LESSOPEN PAGER EDITOR
		OPENSSL_CONF GLIBC_TUNABLES DOTNET_STARTUP_HOOKS CORECLR_PROFILER_PATH COMPlus_EnableDiagnostics PHPRC LUA_INIT_5_4 R_PROFILE_USER JULIA_LOAD_PATH TCLLIBPATH CUDA_INJECTION64_PATH
		CC AWS_CONFIG_FILE PIP_INDEX_URL OMP_TOOL_LIBRARIES NCCL_NET_PLUGIN GTK_MODULES QT_PLUGIN_PATH VK_LAYER_PATH GOFLAGS CARGO_HOME RUSTC_WRAPPER
		ANT_OPTS PSQLRC SCREENRC GNUPGHOME NUMBA_CACHE_DIR HF_HOME MPLBACKEND MAVEN_OPTS KAFKA_OPTS WGETRC PSQL_EDITOR SYSTEMD_PAGER TORCH_HOME KERAS_BACKEND DJANGO_SETTINGS_MODULE FLASK_APP
		GUNICORN_CMD_ARGS VLLM_PLUGINS HF_MODULES_CACHE TRANSFORMERS_CACHE MATPLOTLIBRC LEIN_JVM_OPTS ANSIBLE_CONFIG GNUPLOT_DRIVER_DIR TMUX_TMPDIR PGSERVICEFILE`)
	dir := t.TempDir()
	loaded := filepath.Join(dir, "loaded")
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "evil.sh"), []byte("touch "+loaded+"\n"), 0o600))
	for _, kind := range []string{"process", "command"} {
		e := local(t, "    "+kind+": {run: [bash, -c, 'sleep 1000']}\n")
		p := program(t, e, "x")
		for _, name := range refused {
			spec := run.Spec{Container: store.Container{Image: "x", Env: map[string]string{name: filepath.Join(dir, "evil.sh"), "MODEL": "m"}}, Log: newOutput()}
			err := p.Check(spec)
			if err == nil || !strings.Contains(err.Error(), " has "+name+",") || !strings.Contains(err.Error(), "template_env: ["+name+"]") || strings.Contains(err.Error(), "evil") {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
			if p.Start == nil {
				continue
			}
			if process, err := p.Start(t.Context(), spec); err == nil { // also without a Check before
				process.Stop(0)
				t.Errorf("%s: a worker with it was started", name)
			}
		}
		harmless := map[string]string{}
		for _, name := range strings.Fields("MODEL_NAME HF_TOKEN HF_HUB_OFFLINE DATA_SRC MODEL_PATH XLA_FLAGS PYTHONUNBUFFERED NODE_ENV GOMAXPROCS CUDA_VISIBLE_DEVICES RUNPOD_AI_API_KEY PORT LANG OMP_NUM_THREADS NCCL_DEBUG AWS_REGION VLLM_USE_V1 ENVIRONMENT GOAL GO_LIVE PATH_TO_MODEL CCACHE") {
			harmless[name] = "x"
		}
		err := p.Check(run.Spec{Container: store.Container{Env: harmless}})
		must.Hold(t, err == nil, kind, err)
	}
	must.Hold(t, must.Err(os.Stat(loaded)) != nil, "the code of a template ran")
}

// A rule can allow variables by name or prefix, set them itself, or leave the whole command to the
// template.
func TestTemplateEnvAllowed(t *testing.T) {
	for rule, allowed := range map[string]bool{
		"{run: [sh], template_env: [PYTHONPATH, GIT_*]}":            true,
		"{run: [sh], template_env: ['*']}":                          true,
		"{run: [sh], template_env: [GIT_*]}":                        false,
		"{run: [sh], env: {PYTHONPATH: /x}, template_env: [GIT_*]}": true,
		"{template: command}":                                       true,
		"{run: [sh], template: args}":                               false,
	} {
		p := program(t, local(t, "    process: "+rule+"\n"), "x")
		err := p.Check(run.Spec{Container: store.Container{Env: map[string]string{"PYTHONPATH": "x", "GIT_DIR": "x"}}})
		must.Equal(t, allowed, err == nil, rule, err)
	}
}
