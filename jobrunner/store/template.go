package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Template configures containers of pods or of serverless workers. Its name is unique.
type Template struct {
	Head
	Container
	Volume              LocalVolume `json:"volume"`
	Public              bool        `json:"public,omitempty"`
	Serverless          bool        `json:"serverless,omitempty"` // false: for pods
	Category            string      `json:"category"`
	Readme              string      `json:"readme,omitempty"` // API v1 only
	StartSSH            bool        `json:"startSsh,omitempty"`
	StartJupyter        bool        `json:"startJupyter,omitempty"`
	AllowedCUDAVersions []string    `json:"allowedCudaVersions,omitempty"` // empty: any
}

// LocalVolume is storage on the machine that survives a restart of its pod.
type LocalVolume struct {
	Size int64  `json:"size"` // GB; 0: no volume, but Path is kept
	Path string `json:"path"`
}

func (t *Template) kind() kind     { return templates }
func (t *Template) refs() []string { return []string{t.Registry} }

func (tx *Tx) Template(id string) (t Template, err error) {
	err = load(tx.tx, &t, id)
	return t, err
}

// BoundTemplates returns the ids of the templates that endpoints use, which API v1 calls bound.
func (s *Store) BoundTemplates(ctx context.Context) (map[string]bool, error) {
	bound := map[string]bool{}
	err := s.db.Read(ctx, func(r *sqldb.Reader) error {
		ids, err := column(r, "SELECT DISTINCT t.id FROM refs r JOIN objects t ON t.id = r.target JOIN objects o ON o.id = r.owner WHERE t.kind = ? AND o.kind = ?",
			templates.key, endpoints.key)
		for _, id := range ids {
			bound[id] = true
		}
		return err
	})
	return bound, err
}

func (t *Template) beforeInsert(tx *Tx) error { return tx.checkRegistry(t.Container) }

// UpdateTemplate changes a template and its linked endpoints. change may run more than once.
func (s *Store) UpdateTemplate(ctx context.Context, id string, change func(t *Template) error) (t Template, err error) {
	if IsOfficial(id) {
		return t, errOfficial
	}
	return update(ctx, s, id, func(tx *Tx, t *Template) error {
		if err := change(t); err != nil {
			return err
		}
		if err := tx.checkRegistry(t.Container); err != nil {
			return err
		}
		return tx.updateLinked(*t)
	})
}

// updateLinked applies a template's change to the endpoints that are linked to it.
func (tx *Tx) updateLinked(t Template) error {
	ids, err := tx.referrers(endpoints, t.ID)
	if err != nil {
		return err
	}
	if len(ids) > 0 && !t.Serverless {
		return refusef("template %q must stay a serverless template: endpoint %q is linked to it", t.ID, ids[0])
	}
	return tx.updateReferrers(t.ID, func(e *Endpoint) { e.Link(t) })
}

// beforeDelete rejects the deletion if an endpoint, a pod or a cluster refers to the template.
func (t *Template) beforeDelete(tx *Tx) error {
	const madeFrom = "%s %q was made from it; delete that first"
	for kind, text := range map[kind]string{endpoints: "%s %q is linked to it; delete that first, or give it another template", pods: madeFrom, clusters: madeFrom} {
		referrers, err := tx.referrers(kind, t.ID)
		if err != nil {
			return err
		}
		if len(referrers) > 0 {
			return refusef("template %q is in use: "+text, t.ID, kind.label, referrers[0])
		}
	}
	return nil
}

// officialTemplates are built in. Anybody can use them, but nobody can change them.
var officialTemplates = []Template{
	newOfficialTemplate("official-echo", "Echo worker", "builtin/echo", func(t *Template) { t.Serverless = true }),
	newOfficialTemplate("official-conformance", "Worker that does what its input says", "builtin/conformance", func(t *Template) { t.Serverless = true }),
	newOfficialTemplate("official-pod", "Pod that writes to its log", "builtin/echo", func(t *Template) { t.Ports = []string{"8080/http"} }),
}

func newOfficialTemplate(id, name, image string, set func(*Template)) Template {
	t := Template{Head: Head{ID: id, Name: name}, Public: true, Category: "CPU"}
	t.Image, t.Disk = image, 5
	set(&t)
	return t
}

func OfficialTemplates() []Template {
	out := make([]Template, len(officialTemplates))
	for i, t := range officialTemplates {
		t.Container = t.clone()
		out[i] = t
	}
	return out
}

var errOfficial = fmt.Errorf("%w among your templates: this one comes with the deployment, and can't be changed or deleted; create your own instead", ErrNotFound)

func IsOfficial(id string) bool { return officialIndex(id) >= 0 }

func officialIndex(id string) int {
	return slices.IndexFunc(officialTemplates, func(t Template) bool { return t.ID == id })
}

// Container configures a container. Templates, endpoints and pods have one. An endpoint has
// its own, a copy of its template's, or one that follows later changes of the template.
type Container struct {
	Image      string            `json:"image"`
	Entrypoint []string          `json:"entrypoint,omitempty"` // only in objects that older versions stored; now part of Args
	Args       string            `json:"args,omitempty"`       // see startcmd; empty: the image's command
	Disk       int64             `json:"disk"`                 // GB
	Env        map[string]string `json:"env,omitempty"`
	Ports      []string          `json:"ports,omitempty"`    // "<1..65535>/<http|tcp>"
	Registry   string            `json:"registry,omitempty"` // id of a registry auth, "" for none
}

func (c Container) clone() Container {
	c.Entrypoint, c.Env, c.Ports = slices.Clone(c.Entrypoint), maps.Clone(c.Env), slices.Clone(c.Ports)
	return c
}

// Command returns the start command. The error says why Args can't be split into words.
func (c Container) Command() (startcmd.Command, error) {
	command, err := startcmd.Parse(c.Args)
	if len(c.Entrypoint) > 0 {
		command.Entrypoint = c.Entrypoint
	}
	return command, err
}

func (c *Container) SetArgs(args string) { c.Entrypoint, c.Args = nil, args }

// StoredArgs returns the whole start command as one string.
func (c Container) StoredArgs() string {
	if len(c.Entrypoint) == 0 {
		return c.Args
	}
	command, _ := c.Command() // Args that can't be split are one word
	return command.JSON()
}

// comparableArgs returns equal texts for equivalent start commands.
func (c Container) comparableArgs() string {
	command, err := c.Command()
	if err != nil {
		return c.StoredArgs()
	}
	return command.String()
}

func (tx *Tx) checkRegistry(c Container) error {
	if c.Registry == "" {
		return nil
	}
	return tx.require(registryAuths, c.Registry)
}
