//go:build linux

package scale_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// kill9 kills the children of the process that run a program.
func (p *process) kill9(program string) {
	p.t.Helper()
	files := must.Do(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid)))(p.t)
	killed := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			pid := must.Do(strconv.Atoi(field))(p.t)
			exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if err != nil || filepath.Base(exe) != program {
				continue
			}
			must.Succeed(p.t, syscall.Kill(pid, syscall.SIGKILL))
			killed++
		}
	}
	must.Require(p.t, killed != 0, "terraform", p.args, "has no child that runs", program)
}

// A provider that is killed before its POSTs are answered leaves objects that no state has. The
// next plan names them with their import commands and adopts none, because they may belong to
// another configuration. After the imports, the next apply creates nothing twice.
func TestKilledProvider(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		tf := newWorkspace(t, d, ourProvider, v)
		tf.configure(baseTemplate)
		tf.apply()
		tf.configure(configOf(2))

		g := newGate()
		d.setFaults(g.hold("after"))
		p := tf.start("apply", "-auto-approve")
		g.await(8, p)
		p.kill9("terraform-provider-gpucloud")
		out, err := p.waitForExit()
		must.Require(t, err != nil, "the apply succeeded although its provider was killed:", out)
		g.open()
		d.setFaults()
		created := d.ids(t, v)
		stateIDs := tf.ids()
		must.Require(t, len(created) == 9 && len(stateIDs) == 1, "the state has", lines(stateIDs), "and the deployment", lines(created))

		_, warnings, _ := strings.Cut(unwrap(tf.run("plan")), "Plan: ")
		for _, object := range created {
			kind, id, _ := strings.Cut(object, " ")
			command := tf.importCommand(kind, id)
			must.Hold(t, object == tf.ids()[0] || strings.Contains(warnings, command), "the plan doesn't print", command, "in", warnings)
		}
		for object, name := range d.names(t, v) {
			kind, id, _ := strings.Cut(object, " ")
			if letter, i, ok := strings.Cut(name, "-"); ok {
				tf.run("import", fmt.Sprintf("%s.%s[%s]", kind, letter, i), id)
			}
		}
		tf.apply()
		// The apply recreates the auths, because no API returns their passwords.
		now, withoutAuths := d.ids(t, v), func(ids []string) []string {
			return slices.DeleteFunc(slices.Clone(ids), func(o string) bool { return strings.HasPrefix(o, "gpucloud_registry_auth ") })
		}
		stateIDs = tf.ids()
		must.Hold(t, len(now) == len(created) && slices.Equal(withoutAuths(now), withoutAuths(created)) && slices.Equal(stateIDs, now),
			"the deployment had", lines(created), "after the next apply", lines(now), "and the state has", lines(stateIDs))
		tf.expectEmptyPlan()
	})
}
