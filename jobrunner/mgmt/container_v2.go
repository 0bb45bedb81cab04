package mgmt

import (
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// containerBodyV2 has the container settings in the body of a template, a pod or an endpoint.
type containerBodyV2 struct {
	Image *string `json:"image"`
	commandBodyV2
	Disk     *int64             `json:"disk"`
	Env      *map[string]string `json:"env"`
	Ports    *[]string          `json:"ports"`
	Registry reference          `json:"registry"`
}

// sourceBodyV2 has the template and the container settings in the body of a pod or an endpoint.
type sourceBodyV2 struct {
	FromTemplate *string `json:"templateId"`
	containerBodyV2
}

// check requires an image, from the body or from a template.
func (b *sourceBodyV2) check(u contract.Use) []string {
	if u == contract.Create && b.Image == nil && b.FromTemplate == nil {
		return []string{"missing property 'image'"}
	}
	return nil
}

// commandBodyV2 is the start command in a body, as one string or as lists.
type commandBodyV2 struct {
	ArgsText       *string   `json:"args"`
	EntrypointList *[]string `json:"entrypoint"`
	CmdList        *[]string `json:"cmd"`
}

// setCommand sets the start command. Args are stored as sent. A list that the body omits stays
// unchanged.
func (b commandBodyV2) setCommand(c *store.Container) error {
	if b.ArgsText != nil {
		c.SetArgs(*b.ArgsText)
	}
	if b.EntrypointList == nil && b.CmdList == nil {
		return nil
	}
	before, _ := c.Command() // args that can't be split are one word
	command := before
	setIfPresent(&command.Entrypoint, b.EntrypointList)
	setIfPresent(&command.Cmd, b.CmdList)
	switch {
	case b.ArgsText == nil:
		c.SetArgs(command.JSON())
	case !command.Equal(before):
		return store.Refusal("args and entrypoint or cmd differ: expected one of them, or the same start command in both")
	}
	return nil
}

func (b containerBodyV2) apply(c *store.Container) error {
	copyFields(c, b)
	return b.setCommand(c)
}

func (b containerBodyV2) isSet() bool { return b != containerBodyV2{} }

// containerV2 has the container settings in an answer.
type containerV2 struct {
	Image      string            `json:"image"`
	Args       string            `json:"args"`
	Entrypoint []string          `json:"entrypoint"`
	Cmd        []string          `json:"cmd"`
	Disk       int64             `json:"disk"`
	Env        map[string]string `json:"env"`
	Ports      []string          `json:"ports"`
	Registry   *string           `json:"registry"` // null if there is no registry auth
}

func newContainerV2(c store.Container) (w containerV2) {
	copyFields(&w, c)
	command, _ := c.Command() // args that can't be split are one word
	w.Args, w.Entrypoint, w.Cmd = c.StoredArgs(), nonNilList(command.Entrypoint), nonNilList(command.Cmd)
	return w
}
