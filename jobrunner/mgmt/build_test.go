package mgmt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// A jobrunner without a catalog file has no builds.
func TestNoBuilds(t *testing.T) {
	d := deploy(t)
	builds := "/v2/serverless/" + d.create("/v2/serverless", `{"name":"e","image":"i"}`) + "/builds"
	must.Equal(t, d.mustSend(200, "GET", builds, "").text, `{"builds":[],"pagination":{"nextCursor":null,"hasNextPage":false}}`+"\n", "listed")
	d.expectRefusal(404, "has no build", "GET", builds+"/x", "")
	d.expectRefusal(404, "not found", "GET", "/v2/serverless/x/builds", "")
	d.expectRefusal(404, "not found", "GET", "/v2/serverless/x/builds/x", "")
	for _, limit := range []string{"0", "101", "x"} {
		d.expectRefusal(422, "want an integer from 1 to 100", "GET", builds+"?limit="+limit, "")
	}
}

func TestBuildsOfCatalogFile(t *testing.T) {
	var file strings.Builder
	file.WriteString("builds:\n  - {endpoint: e, id: failed, status: TEST_FAILED, branch: main, commit_hash: abc, commit_message: \"fix: it\", commit_date: 2026-11-01T10:00:00Z, " +
		"image_name: r/i:1, started_at: 2026-11-01T11:00:00+01:00, completed_at: 2026-11-01T12:00:00Z, error: exit 1}\n")
	for n := range 104 {
		fmt.Fprintf(&file, "  - {endpoint: e, id: b%d, status: COMPLETED}\n", n)
	}
	file.WriteString("  - {endpoint: other, id: theirs, status: PENDING}\n")
	d, _, _, _ := withCatalog(t, file.String())
	builds := "/v2/serverless/" + d.create("/v2/serverless", `{"name":"e","image":"i"}`) + "/builds"
	d.expectMembers(d.mustSend(200, "GET", builds+"/failed", ""), map[string]string{
		"status": `"TEST_FAILED"`, "branch": `"main"`, "commitHash": `"abc"`, "commitMessage": `"fix: it"`, "commitDate": `"2026-11-01T10:00:00Z"`,
		"imageName": `"r/i:1"`, "startedAt": `"2026-11-01T11:00:00+01:00"`, "completedAt": `"2026-11-01T12:00:00Z"`, "error": `"exit 1"`,
	})
	d.expectMembers(d.mustSend(200, "GET", builds+"/b7", ""), map[string]string{"status": `"COMPLETED"`, "branch": "", "commitDate": "", "error": ""})
	d.expectRefusal(404, "has no build", "GET", builds+"/theirs", "")
	for query, want := range map[string][]int{"": {100, 5}, "limit=100": {100, 5}, "limit=35": {35, 35, 35}, "limit=52": {52, 52, 1}} {
		ids, sizes := d.walk(builds, "builds", query, nil)
		must.Hold(t, slices.Equal(sizes, want) && len(ids) == 105 && ids[0] == "failed" && ids[104] == "b103" && len(slices.Compact(ids)) == 105, query, "pages of", sizes, ids)
	}
}
