//go:build unix

package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/python"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

func TestHandlers(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text   string
		mode   os.FileMode
		perJob bool
		output string // for the input "hello"; "" if not run
		fault  string
	}{
		"plain.py":     {"import sys, json\n# import runpod later\nprint(json.dumps(json.load(sys.stdin).upper()))\n", 0o600, true, `"HELLO"`, ""},
		"sdk.py":       {"import json\nimport runpod\n", 0o600, false, "", ""},
		"from.py":      {"try:\n    from runpod import serverless\nexcept ImportError: pass\n", 0o600, false, "", ""},
		"list.py":      {"import os as o, runpod as r\n", 0o600, false, "", ""},
		"row.py":       {"import json; import runpod\n", 0o600, false, "", ""},
		"try.py":       {"try: import runpod\nexcept ImportError: pass\n", 0o600, false, "", ""},
		"mark.py":      {"\ufeffimport runpod\n", 0o600, false, "", ""},
		"todo.py":      {"# later: import runpod\nu = 'x: import runpod'\nprint(1)\n", 0o600, true, "1", ""},
		"other.py":     {"import runpodlike, my.runpod\n", 0o600, true, "", ""},
		"script.sh":    {"cat\n", 0o600, true, `"hello"`, ""},
		"tool":         {"#!/bin/sh\npwd >&2; cat\n", 0o700, true, `"hello"`, ""},
		"with space":   {"#!/bin/sh\ncat\n", 0o700, true, `"hello"`, ""},
		"handler.js":   {"", 0o600, false, "", "chmod +x"},
		"nosuch/x.py":  {"", 0, false, "", "doesn't exist"},
		"folder/":      {"", 0, false, "", "is not a regular file"},
		"notes.txt":    {"", 0o600, false, "", "chmod +x"},
		"interpr.uses": {"#!/usr/bin/env python3\nprint(1)\n", 0o700, true, "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if c.mode != 0 {
				must.Succeed(t, os.WriteFile(file, []byte(c.text), c.mode))
			} else if strings.HasSuffix(name, "/") {
				must.Succeed(t, os.Mkdir(file, 0o700))
			}
			h, err := NewHandler("dev/handler", file)
			if c.fault != "" {
				must.Fail(t, err, c.fault)
				return
			}
			must.Require(t, err == nil && h.PerJob == c.perJob, h, err)
			e := must.Do(New(t.Context(), Config{Handlers: []Handler{h}}))(t)
			defer func() { _ = e.Close() }()
			p := program(t, e, "dev/handler:7")
			must.Hold(t, (p.Handle != nil) == c.perJob && (p.Start != nil) != c.perJob, p)
			if c.output == "" {
				return
			}
			j := newJob(`"hello"`)
			j.Spec = &run.Spec{Log: j.log}
			output, err := p.Handle(t.Context(), j.Job)
			must.Hold(t, err == nil && string(output) == c.output, "output", string(output), err)
			must.Hold(t, name != "tool" || strings.TrimSpace(j.log.String()) == dir, "it runs in", j.log)
		})
	}
}

// The documentation's example is valid, and its rules that need only Python run.
func TestDocumentationExample(t *testing.T) {
	python.Need(t)
	const file = "../../../examples/jobrunner.yaml"
	s := must.Do(readFile(file))(t)
	e := &Executor{file: file, rules: s.Rules}
	j := newJob(`{"text": "hello world"}`)
	output, err := program(t, e, "example/upper:1").Handle(t.Context(), j.Job)
	want := `{"text": "HELLO! WORLD!"}`
	must.Hold(t, err == nil && string(output) == want && slices.Equal(j.chunks, []string{`"HELLO!"`, `"WORLD!"`, want}), "output", string(output), "chunks", j.chunks, err)
	_, err = program(t, e, "example/upper").Handle(t.Context(), newJob(`{}`).Job)
	must.Hold(t, err != nil && err.Error() == "the input has no text: send {\"text\": \"…\"}\n(exit status 1)", err)
	for _, image := range []string{"example/handler", "example/protocol", "example/web"} {
		p := program(t, e, image)
		must.Hold(t, p.Start != nil, image, "isn't a process")
	}
}
