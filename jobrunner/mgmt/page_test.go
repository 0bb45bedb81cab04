package mgmt_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/billing"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// walk follows the pages of a list and returns the ids and the sizes of the pages.
func (d *deployment) walk(path, member, query string, afterPage func(page int)) (ids []string, sizes []int) {
	d.Helper()
	cursor := ""
	for {
		page := d.mustSend(200, "GET", path+"?"+query+cursor, "")
		objects, isList := page.get(member).([]any)
		must.Require(d, isList, "the page has no list", member, page.text)
		for _, o := range objects {
			ids = append(ids, o.(map[string]any)["id"].(string))
		}
		sizes = append(sizes, len(objects))
		next, more := page.get("pagination.nextCursor"), page.get("pagination.hasNextPage").(bool)
		must.Require(d, more == (next != nil), "hasNextPage and nextCursor must agree:", page.text)
		if !more {
			return ids, sizes
		}
		cursor = "&cursor=" + url.QueryEscape(next.(string))
		if afterPage != nil {
			afterPage(len(sizes))
		}
	}
}

// A page ends before its objects have more than 16 MiB.
func TestPageOfLargeObjects(t *testing.T) {
	d := deploy(t)
	for n := range 17 {
		d.create("/v2/templates", fmt.Sprintf(`{"name":"t%d","image":"i","env":{"A":"%s"}}`, n, strings.Repeat("x", 1000_000)))
	}
	_, sizes := d.walk("/v2/templates", "templates", "", nil)
	must.Equal(t, sizes, []int{16, 1}, "the sizes of the pages")
}

// pagedLists are paged lists, each with a body that creates an object. Releases and builds have pages too.
var pagedLists = []struct{ path, member, body string }{
	{"/v2/global-volumes", "globalVolumes", `{"name":"NAME"}`},
	{"/v2/templates", "templates", `{"name":"NAME","image":"i"}`},
	{"/v2/serverless", "endpoints", `{"name":"NAME","image":"i"}`},
	{"/v2/pods", "pods", `{"name":"NAME","image":"i","cpu":{"id":"cpu3g","vcpuCount":2}}`},
}

func TestPages(t *testing.T) {
	for _, c := range pagedLists {
		t.Run(c.member, func(t *testing.T) {
			d := deploy(t)
			create := func(name string) string {
				return d.send("POST", c.path, strings.Replace(c.body, "NAME", name, 1)).get("id").(string)
			}
			ids, sizes := d.walk(c.path, c.member, "", nil)
			must.Hold(t, len(ids) == 0 && slices.Equal(sizes, []int{0}), "want no ids in one page of 0, got", ids, "in pages of", sizes)
			var newestFirst []string
			for n := range 7 {
				newestFirst = slices.Insert(newestFirst, 0, create(fmt.Sprint("n", n)))
			}
			for query, want := range map[string][]int{
				"": {7}, "limit=1000": {7}, "limit=7": {7}, "limit=6": {6, 1}, "limit=3": {3, 3, 1}, "limit=1": {1, 1, 1, 1, 1, 1, 1}, "x=1&limit=4": {4, 3},
			} {
				ids, sizes := d.walk(c.path, c.member, query, nil)
				must.Hold(t, slices.Equal(ids, newestFirst) && slices.Equal(sizes, want), "the query", query, "got", ids, "in pages of", sizes, "want", newestFirst, "in pages of", want)
			}
			// Between two pages, an object is created, and the last object of the first page and a later one are deleted.
			ids, _ = d.walk(c.path, c.member, "limit=2", func(page int) {
				if page == 1 {
					create("later")
					d.mustSend(204, "DELETE", c.path+"/"+newestFirst[1], "")
					d.mustSend(204, "DELETE", c.path+"/"+newestFirst[4], "")
				}
			})
			must.Equal(t, ids, slices.Concat(newestFirst[:4], newestFirst[5:]), "the ids of the pages if objects change meanwhile")
		})
	}
}

func TestPageParameters(t *testing.T) {
	d := deploy(t)
	cursors := map[string]string{}
	for _, c := range pagedLists {
		for _, name := range []string{"a", "b", "c"} {
			d.send("POST", c.path, strings.Replace(c.body, "NAME", name, 1))
		}
		cursors[c.path] = d.mustSend(200, "GET", c.path+"?limit=1", "").get("pagination.nextCursor").(string)
	}
	endpoint := d.mustSend(200, "GET", "/v2/serverless?limit=1", "").get("endpoints.0.id").(string)
	releases := "/v2/serverless/" + endpoint + "/releases"
	for _, image := range []string{"x", "y"} {
		d.mustSend(200, "PATCH", "/v2/serverless/"+endpoint, `{"image":"`+image+`"}`)
	}
	cursors[releases] = d.mustSend(200, "GET", releases+"?limit=1", "").get("pagination.nextCursor").(string)
	ids, sizes := d.walk(releases, "releases", "limit=1", nil)
	must.Hold(t, len(ids) >= 2 && len(sizes) == len(ids) && ids[0] > ids[1], "releases", ids, "in pages of", sizes)
	for path, ownCursor := range cursors {
		for _, limit := range []string{"0", "-1", "1001", "x", "1.5", "99999999999999999999"} {
			d.expectRefusal(422, "want an integer from 1 to 1000", "GET", path+"?limit="+limit, "")
		}
		for _, cursor := range []string{"", "x", "AAAA", "%00", strings.Repeat("A", 22), strings.Repeat("A", 9000), ownCursor + "A", ownCursor[:len(ownCursor)-1], strings.ToUpper(ownCursor) + "="} {
			d.expectRefusal(422, "want nextCursor of a page of this list", "GET", path+"?cursor="+url.QueryEscape(cursor), "")
		}
		for otherPath, cursor := range cursors {
			if otherPath != path {
				d.expectRefusal(422, "want nextCursor of a page of this list", "GET", path+"?cursor="+cursor, "")
			}
		}
		for _, query := range []string{"cursor=%zz", "limit=1;cursor=" + ownCursor} {
			d.expectRefusal(422, "the query is malformed", "GET", path+"?"+query, "")
		}
		d.mustSend(200, "GET", path+"?limit=1000&cursor="+ownCursor, "")
	}
	d.expectRefusal(422, "want nextCursor", "GET", "/v2/pods?includeClusterPods=true&cursor="+cursors["/v2/pods"], "")
	d.expectRefusal(422, "want nextCursor", "GET", "/v2/serverless/unknown/releases?cursor="+cursors[releases], "")
	for _, path := range []string{"/v2/network-volumes", "/v2/registries", "/v2/registries/delegations", "/v2/clusters", "/v2/account/secrets"} { // without pages
		list := d.mustSend(200, "GET", path+"?limit=0&cursor=x", "")
		must.Hold(t, list.get("pagination") == nil, "the list", path, "must have no pages:", list.text)
	}
}

// A request for more than 100,000 billing records is refused. A group's record has the sum of its resources' disks.
func TestBillingRecordLimit(t *testing.T) {
	d := deploy(t, func(c *mgmt.Config) {
		must.Succeed(t, c.DB.Write(t.Context(), func(tx *sqldb.Tx) error {
			for i := range 12 {
				must.Succeed(t, billing.StartVolume(tx, time.UnixMilli(0), billing.Resource{Kind: billing.Pod, ID: fmt.Sprint(i), Owner: fmt.Sprint(i), Disk: 10}))
			}
			return nil
		}))
	})
	const year = "bucketSize=hour&startTime=2021-01-01T00:00:00Z&endTime=2022-01-01T00:00:00Z"
	d.expectRefusal(400, "more than 100000 records", "GET", "/v1/billing/pods?grouping=podId&"+year, "")
	d.expectRefusal(400, "or set podId", "GET", "/v2/billing/pods?"+year, "")
	d.expectMembers(d.mustSend(200, "GET", "/v1/billing/pods?"+year, ""), map[string]string{"0.diskSpaceBilledGb": "120"})
}
