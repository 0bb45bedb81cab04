package api

import (
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
)

// Command is the start command of a container. A request has either Args or lists, and a
// nil member isn't sent. An answer has all three.
type Command struct {
	Args       *string   `json:"args,omitempty"` // see startcmd
	Entrypoint *[]string `json:"entrypoint,omitempty"`
	Cmd        *[]string `json:"cmd,omitempty"`
}

// Meaning returns the words of the command. Lists win over Args. The error says why Args
// can't be split.
func (c Command) Meaning() (startcmd.Command, error) {
	if c.Entrypoint == nil && c.Cmd == nil {
		return startcmd.Parse(deref(c.Args))
	}
	return startcmd.Command{Entrypoint: deref(c.Entrypoint), Cmd: deref(c.Cmd)}, nil
}

// fromAnswer returns the command of an answer with all its members. A deployment may know
// Args only, and API v1 lists only.
func (c Command) fromAnswer() Command {
	if len(deref(c.Entrypoint))+len(deref(c.Cmd)) == 0 {
		c.Entrypoint, c.Cmd = nil, nil
	}
	meaning, _ := c.Meaning() // what can't be split is one word
	if deref(c.Args) == "" {
		c.Args = new(meaning.String())
	}
	return Command{c.Args, &meaning.Entrypoint, &meaning.Cmd}
}

// filled returns the list, which isn't null in JSON.
func filled(list *[]string) *[]string {
	if list != nil && *list == nil {
		return &[]string{}
	}
	return list
}

// forCreate leaves out empty members, which a create doesn't send.
func (c Command) forCreate() Command {
	if deref(c.Args) == "" {
		c.Args = nil
	}
	for _, list := range []**[]string{&c.Entrypoint, &c.Cmd} {
		if len(deref(*list)) == 0 {
			*list = nil
		}
	}
	return c
}

// forUpdate returns the members of an update, which mean something else than before.
func (c Command) forUpdate(before Command) Command {
	had, err := before.Meaning()
	unknown := err != nil || before == Command{}
	if c.Args != nil && !unknown {
		if meaning, err := c.Meaning(); err == nil && meaning.Equal(had) {
			c.Args = nil
		}
	}
	for list, had := range map[**[]string][]string{&c.Entrypoint: had.Entrypoint, &c.Cmd: had.Cmd} {
		switch {
		case *list == nil:
		case !unknown && slices.Equal(**list, had):
			*list = nil
		default:
			*list = filled(*list)
		}
	}
	return c
}

// v1 returns the lists of API v1, which hold what Args mean, too. A nil list isn't sent.
func (c Command) v1() (entrypoint, cmd *[]string, err error) {
	if c.Args != nil {
		var meaning startcmd.Command
		meaning, err = startcmd.Parse(*c.Args)
		c.Entrypoint, c.Cmd = &meaning.Entrypoint, &meaning.Cmd
	}
	return filled(c.Entrypoint), filled(c.Cmd), err
}
