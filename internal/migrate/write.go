package migrate

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const Usage = `Usage: terraform show -json | terraform-provider-gpucloud migrate [-import] > migrate.tf

Reads the output of "terraform show -json" or "terraform state pull". Writes a moved block for
each resource of another provider that has a counterpart in this one, or an import block if a
moved block isn't possible. Sends nothing and writes no secret.

  -import  write import and removed blocks for all resources: for Terraform before 1.8, and
           for "terraform plan -generate-config-out=FILE", which writes the configuration

Examples:
  terraform show -json | terraform-provider-gpucloud migrate > migrate.tf
  terraform state pull | terraform-provider-gpucloud migrate -import > migrate.tf

Exit status: 0 on success, 1 if the state can't be migrated, 2 if an argument is invalid.
`

var ErrUsage = errors.New("invalid arguments")

func Main(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("migrate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	imports := flags.Bool("import", false, "")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		_, err := io.WriteString(out, Usage)
		return err
	}
	if err != nil || flags.NArg() > 0 {
		return fmt.Errorf("%w: %q\n\n%s", ErrUsage, strings.Join(args, " "), Usage)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("the state could not be read: %w", err)
	}
	blocks, err := Blocks(text, *imports)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, blocks)
	return err
}

// Blocks returns the migration blocks for a state document: moved or, with imports, import blocks.
func Blocks(document []byte, imports bool) (string, error) {
	instances, err := readDocument(document)
	if err != nil {
		return "", err
	}
	resources := map[string][]instance{} // by path
	for _, i := range instances {
		path := i.path(i.typeName)
		resources[path] = append(resources[path], i)
	}
	w := &writer{imports: imports, removed: map[string]bool{}}
	for _, path := range slices.Sorted(maps.Keys(resources)) {
		w.writeResource(resources[path])
	}
	if w.text.Len() == 0 {
		w.comment("The state has no resource that this provider can take over.")
	}
	return strings.TrimPrefix(w.text.String(), "\n"), nil
}

type writer struct {
	text         strings.Builder
	imports      bool
	removed      map[string]bool // by address in the configuration, without keys
	afterComment bool            // the previous line is a comment
}

// alternatives are replacements for types of the official provider that can't be moved.
var alternatives = map[string]string{
	"runpod_pod_action":      "the actions gpucloud_pod_start, gpucloud_pod_stop and gpucloud_pod_restart, or desired_state of gpucloud_pod",
	"runpod_endpoint_job":    "the action gpucloud_job_run, or the ephemeral resource gpucloud_job",
	"runpod_endpoint_worker": "the data source gpucloud_endpoint_workers",
	"runpod_global_volume":   "gpucloud_global_volume, with an import block",
	"runpod_machine":         "a tool of RunPod, because the management API has no machines",
}

// explainNoCounterpart explains that a resource isn't taken over, unless its provider is unrelated.
func (w *writer) explainNoCounterpart(address string, i instance) {
	if !slices.ContainsFunc(Origins, func(o Origin) bool { return o.matches(i.provider, o.Type) }) {
		return
	}
	if replacement, ok := alternatives[i.typeName]; ok {
		w.comment("%s can't be moved: use %s.", address, replacement)
	} else {
		w.comment("%s has no counterpart: it stays with the old provider. Keep that provider, or run terraform state rm to leave the object unmanaged.", address)
	}
	w.afterComment = false // the next block is about another resource
}

// explainTainted explains how to keep objects that the first plan would replace.
func (w *writer) explainTainted(instances []instance) {
	for _, i := range instances {
		if i.tainted {
			w.comment("%s is tainted: the first apply deletes the object and creates another one. To keep it, run before the plan:", i.address(i.typeName))
			w.comment("terraform untaint '%s'", strings.ReplaceAll(i.address(i.typeName), "'", `'\''`))
		}
	}
}

// explainDeposed explains what happens to objects that a failed replacement left behind.
func (w *writer) explainDeposed(address string, instances []instance) {
	for _, i := range instances {
		if !i.deposed {
			continue
		}
		object := "a deposed object"
		if id, _ := i.values["id"].(string); id != "" {
			object = "the deposed object " + quote(id)
		}
		if w.imports {
			w.comment("%s has %s, which is forgotten and not deleted. Delete it by hand, or import it.", address, object)
		} else {
			w.comment("%s has %s, which the first apply deletes. To keep it, use the blocks of migrate -import.", address, object)
		}
	}
	w.afterComment = false
}

// forget writes a removed block, once for each address in the configuration.
func (w *writer) forget(configured string) {
	if !w.removed[configured] {
		w.removed[configured] = true
		w.block("removed", "from = "+configured, "lifecycle {", "  destroy = false", "}")
	}
}

func (w *writer) writeResource(instances []instance) {
	first := instances[0]
	old := first.path(first.typeName)
	all := instances
	instances = slices.DeleteFunc(slices.Clone(all), func(i instance) bool { return i.deposed })
	hasCounterpart := slices.ContainsFunc(Origins, func(o Origin) bool { return o.matches(first.provider, first.typeName) })
	if len(instances) < len(all) && hasCounterpart {
		w.explainDeposed(old, all)
		if w.imports {
			w.forget(withoutKeys(old))
		}
	}
	if len(instances) == 0 {
		return
	}
	var moved bool
	var states []*State // one per instance, even without a valid id
	for _, i := range instances {
		state, err := newState(i.provider, i.typeName, i.values)
		if state == nil {
			w.explainNoCounterpart(old, i)
			return
		}
		moved = moved || err == nil
		states = append(states, state)
	}
	typeName := "gpucloud_" + states[0].Kind
	// A removed block can't name an instance: it would also forget moved ones.
	configured := withoutKeys(old)
	forgotten := w.imports || !moved && configured == old
	switch {
	case moved && !w.imports:
		w.explainTainted(instances)
		w.block("moved", "from = "+old, "to   = "+first.path(typeName))
	case forgotten:
		w.forget(configured)
	}
	for n, i := range instances {
		state, id := states[n], states[n].ID
		invalid := state.checkID() != nil
		if invalid {
			id = state.Text("name")
			w.comment("The state has no valid id of %s.", i.address(i.typeName))
			if !forgotten {
				w.comment("Before the plan: terraform state rm '%s'", strings.ReplaceAll(i.address(i.typeName), "'", `'\''`))
			}
		}
		switch {
		case id == "":
			w.comment("It has no name either: import it by the id that the API's list shows.")
			w.afterComment = false
		case w.imports || invalid:
			w.block("import", "to = "+i.address(typeName), "id = "+quote(id))
		}
	}
}

func (w *writer) comment(format string, args ...any) {
	if !w.afterComment {
		w.text.WriteString("\n")
	}
	fmt.Fprintf(&w.text, "# "+format+"\n", args...)
	w.afterComment = true
}

func (w *writer) block(name string, lines ...string) {
	if !w.afterComment {
		w.text.WriteString("\n")
	}
	fmt.Fprintf(&w.text, "%s {\n  %s\n}\n", name, strings.Join(lines, "\n  "))
	w.afterComment = false
}
