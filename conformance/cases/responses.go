package cases

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

//go:embed responses.txt
var responsesTable string

// responses has the fields of each line of responses.txt. No path matches a comment.
var responses = func() (rows [][]string) {
	for line := range strings.Lines(responsesTable) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}()

var responseCases = []suite.Case{
	{ID: "VER-84", Level: suite.Should, Source: "Versioning, 11; v2 document", Statement: "Version 2's responses have the members and types its document requires.",
		Needs: suite.V2, Requests: 1, Watch: judgeResponse, Run: func(c *suite.C) { c.V2("GET", "/catalog/gpus", nil).Is(200) }},
	{ID: "VER-84-every", Needs: podNeeds, Allow: suite.Create | suite.Spend, Requests: 60, Run: func(c *suite.C) {
		o := newRealObjects(c, v2API)
		o.ids["pod"], o.ids["cluster"] = newRunningPod(c), newCluster(c)
		for _, op := range operationsOf(v2API) {
			if op.effect == effectRead && !strings.HasSuffix(op.path, "/logs") {
				op.send(c, o.ids[op.kind], nil)
			}
		}
	}},
}

// membersAt returns the members of the first row that matches a path, with those of the rows that it names.
func membersAt(path string) (members []string) {
	i := slices.IndexFunc(responses, func(row []string) bool { return pathMatches(row[0], path) })
	if i < 0 {
		return nil
	}
	for _, member := range responses[i][1:] {
		if name, row, ok := strings.Cut(member, ":/"); ok {
			for _, inner := range membersAt("/" + row) {
				members = append(members, name+"."+inner)
			}
		} else {
			members = append(members, member)
		}
	}
	return members
}

// judgeResponse judges the members of a successful response of version 2. A create returns what a read of the object does.
func judgeResponse(w *suite.WatchedExchange) string {
	body, err := w.JSON()
	path := map[string]string{"GET": w.Path, "PATCH": w.Path, "POST": w.Path + "/id"}[w.Request.Method]
	if w.API != string(v2API) || w.Exchange.Status/100 != 2 || err != nil {
		return ""
	}
	for _, member := range membersAt(path) {
		name, kind, _ := strings.Cut(member, ":")
		if shown := otherType(body, strings.Split(name, "."), kind); shown != "" {
			return fmt.Sprintf("%d in which %s is %.100s; its type should be %s", w.Exchange.Status, name, shown, strings.Replace(kind, "?", " or null", 1))
		}
	}
	return ""
}

// otherType returns the JSON of a member that isn't of a type, "missing" if it doesn't exist, or else "". Members of a null aren't required.
func otherType(value any, path []string, kind string) (shown string) {
	if len(path) == 0 {
		if !isOfType(value, kind) {
			shown = suite.JSONText(value)
		}
		return shown
	}
	switch x := value.(type) {
	case []any:
		for _, element := range x {
			shown = cmp.Or(shown, otherType(element, path[1:], kind))
		}
	case suite.M:
		member, exists := x[path[0]]
		if !exists {
			return "missing"
		}
		return otherType(member, path[1:], kind)
	}
	return shown
}

// isOfType reports whether a value has a type of responses.txt.
func isOfType(value any, kind string) bool {
	if kind == "any" {
		return true
	}
	kind, nullable := strings.CutSuffix(kind, "?")
	switch x := value.(type) {
	case nil:
		return nullable
	case string:
		_, err := parseRFC3339(x)
		return kind == "string" || kind == "time" && err == nil || slices.Contains(strings.Split(kind, "|"), x)
	case json.Number:
		return kind == "number" || kind == "integer" && decimal(x).IsInt()
	case bool:
		return kind == "boolean"
	case []any:
		return kind == "array"
	}
	return kind == "object"
}
