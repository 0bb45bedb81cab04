package planrule_test

import (
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
)

// Notes reach the other processes of the same parent, for one deployment, until
// they are deleted.
func TestNotesAreShared(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache) // Linux
	t.Setenv("HOME", cache)           // elsewhere
	one, another, elsewhere := planrule.OpenNotes("http://a"), planrule.OpenNotes("http://a"), planrule.OpenNotes("http://b")
	load := func(n *planrule.Notes) string {
		var v string
		found, sure := n.Load("template/t", &v)
		if found != sure {
			t.Error("a note of this walk is in doubt")
		}
		return v
	}
	for _, value := range []string{"first", "second"} {
		if err := one.Store("template/t", value); err != nil {
			t.Fatal(err)
		}
		if load(one) != value || load(another) != value || load(elsewhere) != "" {
			t.Errorf("%s: noted %q, %q in another process, %q for another deployment", value, load(one), load(another), load(elsewhere))
		}
	}
	if err := one.Delete("template/t"); err != nil || load(one) != "" || load(another) != "" {
		t.Errorf("deleted: %v, %q, %q", err, load(one), load(another))
	}
	if err := one.Delete("template/t"); err != nil {
		t.Errorf("deleted twice: %v", err)
	}
}

// Without a place to share, a process has its own notes.
func TestNotesWithoutACache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	n := planrule.OpenNotes("http://a")
	var v string
	if err := n.Store("k", "v"); err != nil {
		t.Error(err)
	}
	if found, sure := n.Load("k", &v); !found || !sure || v != "v" {
		t.Errorf("noted %q", v)
	}
	if err := n.Delete("k"); err != nil {
		t.Error(err)
	}
	if found, _ := n.Load("k", &v); found {
		t.Error("deleted, and found")
	}
}

// What was noted before this configuration, by a process that has ended or by
// this one, is in doubt: terraform test plans many times.
func TestNotesOfAnEarlierPlan(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	if err := planrule.OpenNotes("http://a").Store("k", "v"); err != nil {
		t.Fatal(err)
	}
	var v string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) { // the times of files are coarse
		if found, sure := planrule.OpenNotes("http://a").Load("k", &v); found && !sure {
			return
		}
	}
	t.Errorf("it is not in doubt: %q", v)
}
