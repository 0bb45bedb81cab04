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
)

// kill9 kills the children of the process that run a program.
func (p *process) kill9(program string) {
	p.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	killed := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				p.t.Fatal(err)
			}
			exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
			if err != nil || filepath.Base(exe) != program {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				p.t.Fatal(err)
			}
			killed++
		}
	}
	if killed == 0 {
		p.t.Fatalf("terraform %s runs no %s", p.args, program)
	}
}

// A provider that is killed before its POSTs are answered leaves objects that
// no state has. The next plan names them with their import, after which the
// next apply goes on; it takes over none by itself, as they may be another
// configuration's. Nothing is made twice.
func TestKilledProvider(t *testing.T) {
	eachVersion(t, func(t *testing.T, v api.Version) {
		d := deploy(t)
		tf := workspace(t, d, ours, v)
		tf.configure(base)
		tf.apply()
		tf.configure(count(2))

		g := newGate()
		d.fail(g.hold("after"))
		p := tf.start("apply", "-auto-approve")
		g.await(8, p)
		p.kill9("terraform-provider-gpucloud")
		if out, err := p.end(patience); err == nil {
			t.Fatalf("the apply went well:\n%s", out)
		}
		g.open()
		d.fail()
		made := d.ids(t, v)
		if kept := tf.ids(); len(made) != 9 || len(kept) != 1 {
			t.Fatalf("the state has%s\nand the deployment%s", lines(kept), lines(made))
		}

		_, said, _ := strings.Cut(unwrapped(tf.run("plan")), "Plan: ")
		for _, object := range made {
			kind, id, _ := strings.Cut(object, " ")
			command := tf.importCommand(kind, id)
			if object != tf.ids()[0] && !strings.Contains(said, command) {
				t.Errorf("the plan does not say %q:\n%s", command, said)
			}
		}
		for object, name := range d.names(t, v) {
			kind, id, _ := strings.Cut(object, " ")
			if letter, i, ok := strings.Cut(name, "-"); ok {
				tf.run("import", fmt.Sprintf("%s.%s[%s]", kind, letter, i), id)
			}
		}
		tf.apply()
		// The auths are made again, as no API tells which password they hold.
		now, others := d.ids(t, v), func(ids []string) []string {
			return slices.DeleteFunc(slices.Clone(ids), func(o string) bool { return strings.HasPrefix(o, "gpucloud_registry_auth ") })
		}
		if kept := tf.ids(); len(now) != len(made) || !slices.Equal(others(now), others(made)) || !slices.Equal(kept, now) {
			t.Errorf("there were%s\nthe next apply left%s\nand the state has%s", lines(made), lines(now), lines(kept))
		}
		tf.settled()
	})
}
