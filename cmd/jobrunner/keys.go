package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
)

// keys are the keys beside the deployment's own. What these commands change
// counts at once in a deployment that runs on the same data folder.
type keys struct {
	Add    addKey    `cmd:"" help:"Make a key and print it: it can't be shown again."`
	List   listKeys  `cmd:"" help:"List the keys by their names."`
	Remove removeKey `cmd:"" help:"Take a key back: it opens nothing from now on."`
}

// folder is where the keys are kept.
type folder struct {
	Data string `placeholder:"DIR" help:"Data folder of the deployment. Default: that of serve."`
}

func (f folder) keys() (*apikey.File, error) {
	dir, err := dataDir(f.Data)
	if err != nil {
		return nil, err
	}
	return apikey.At(dir), nil
}

type addKey struct {
	folder   `embed:""`
	Name     string   `arg:"" help:"Owner of the key. Rate limits count for each owner apart."`
	Endpoint []string `placeholder:"ID" sep:"none" help:"Endpoint whose job API the key is for; may be repeated. Without one it is for everything, the management API too."`
}

func (c *addKey) Run() error {
	file, err := c.keys()
	if err != nil {
		return err
	}
	key, err := file.Add(c.Name, c.Endpoint)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, key)
	fmt.Fprintf(stderr, "This is the key of %s. Keep it now: only its hash is kept here.\n", c.Name)
	return nil
}

type listKeys struct {
	folder `embed:""`
}

func (c *listKeys) Run() error {
	file, err := c.keys()
	if err != nil {
		return err
	}
	all, err := file.List()
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "NAME\tCREATED\tENDPOINTS")
	for _, key := range all {
		endpoints := "all"
		if len(key.Endpoints) > 0 {
			endpoints = strings.Join(key.Endpoints, " ")
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", key.Name, key.Created.Format(time.RFC3339), endpoints)
	}
	return out.Flush()
}

type removeKey struct {
	folder `embed:""`
	Name   string `arg:"" help:"Name of the key."`
}

func (c *removeKey) Run() error {
	file, err := c.keys()
	if err != nil {
		return err
	}
	return file.Remove(c.Name)
}
