package mgmt_test

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
)

const (
	delegations = "/v2/registries/delegations"
	ecrImage    = "arn:aws:ecr:us-east-2:418399314813:repository/team/image"
)

func TestDelegations(t *testing.T) {
	d := deploy(t)
	if list := d.ok(200, "GET", delegations, ""); list.text != `{"delegations":[]}`+"\n" {
		t.Errorf("listed %s", list.text)
	}
	before := time.Now().Add(-time.Second)
	made := d.ok(201, "POST", delegations, `{"resource":"`+ecrImage+`","name":"mine"}`)
	id := made.at("id").(string)
	d.wants(made, map[string]string{
		"name": `"mine"`, "delegatorUserId": `"default"`, "awsUser": `"418399314813"`, "repository": `"team/image"`, "tag": `"latest"`,
		"awsRegion": `"us-east-2"`, "dockerRegistryUri": `"418399314813.dkr.ecr.us-east-2.amazonaws.com"`,
	})
	created, err := time.Parse(time.RFC3339, made.at("createdAt").(string))
	if err != nil || created.Before(before) || time.Until(created) > time.Second {
		t.Errorf("created at %v", made.at("createdAt"))
	}
	// Neither the name nor the repository has to be unique.
	again := d.create(delegations, `{"resource":"`+ecrImage+`","name":"mine"}`)
	list := d.ok(200, "GET", delegations, "")
	if !reflect.DeepEqual(list.at("delegations.0"), made.body) || list.at("delegations.1.id") != again || len(list.at("delegations").([]any)) != 2 {
		t.Errorf("listed %s", list.text)
	}
	d.ok(204, "DELETE", delegations+"/"+id, "")
	d.refused(404, "not found", "DELETE", delegations+"/"+id, "")
	if list := d.ok(200, "GET", delegations, ""); list.at("delegations.0.id") != again || strings.Contains(list.text, id) {
		t.Errorf("listed %s", list.text)
	}
}

// Without a name, which a body leaves out, empties or nulls, a delegation shows null.
func TestDelegationsWithoutName(t *testing.T) {
	d := deploy(t)
	for _, name := range []string{``, `,"name":null`, `,"name":""`} {
		made := d.ok(201, "POST", delegations, `{"resource":"`+ecrImage+`"`+name+`}`)
		if !made.has("name") || made.at("name") != nil {
			t.Errorf("%s: %s", name, made.text)
		}
	}
}

// The parts of an ARN are shown, whatever the partition, region and repository.
func TestDelegationResources(t *testing.T) {
	d := deploy(t)
	longest := strings.Repeat("a", 256)
	for _, c := range []struct{ resource, region, repository, tag, registry string }{
		{"arn:aws:ecr:eu-west-1:000000000001:repository/ab", "eu-west-1", "ab", "latest", "000000000001.dkr.ecr.eu-west-1.amazonaws.com"},
		{"arn:aws:ecr:ap-southeast-12:000000000001:repository/a-b_c.d/e__f/g:v1.2_3-X", "ap-southeast-12", "a-b_c.d/e__f/g", "v1.2_3-X", "000000000001.dkr.ecr.ap-southeast-12.amazonaws.com"},
		{"arn:aws:ecr:us-east-2:000000000001:repository/ab:" + longest[:128], "us-east-2", "ab", longest[:128], "000000000001.dkr.ecr.us-east-2.amazonaws.com"},
		{"arn:aws:ecr:us-east-2:000000000001:repository/" + longest, "us-east-2", longest, "latest", "000000000001.dkr.ecr.us-east-2.amazonaws.com"},
		{"arn:aws-cn:ecr:cn-north-1:000000000001:repository/ab", "cn-north-1", "ab", "latest", "000000000001.dkr.ecr.cn-north-1.amazonaws.com.cn"},
		{"arn:aws-us-gov:ecr:us-gov-west-1:000000000001:repository/ab", "us-gov-west-1", "ab", "latest", "000000000001.dkr.ecr.us-gov-west-1.amazonaws.com"},
		{"arn:aws-iso-z:ecr:us-iso-east-1:000000000001:repository/ab", "us-iso-east-1", "ab", "latest", ""},
	} {
		made := d.ok(201, "POST", delegations, map[string]string{"resource": c.resource})
		registry, _ := made.at("dockerRegistryUri").(string)
		if got := []any{made.at("awsRegion"), made.at("repository"), made.at("tag"), registry}; !slices.Equal(got, []any{c.region, c.repository, c.tag, c.registry}) {
			t.Errorf("%s became %q", c.resource, got)
		}
		if made.has("dockerRegistryUri") != (c.registry != "") {
			t.Errorf("%s: %s", c.resource, made.text)
		}
	}
}

func TestDelegationRefusals(t *testing.T) {
	d := deploy(t)
	const start = "arn:aws:ecr:us-east-2:418399314813:repository/"
	for _, resource := range []string{
		"", "x", "team/image", "418399314813.dkr.ecr.us-east-2.amazonaws.com/team/image", " " + ecrImage, ecrImage + "\n",
		"arn:aws:s3:us-east-2:418399314813:repository/team/image", "arn:gcp:ecr:us-east-2:418399314813:repository/team/image",
		"arn:aws:ecr::418399314813:repository/team/image", "arn:aws:ecr:us:418399314813:repository/team/image",
		"arn:aws:ecr:us-east-2:41839931481:repository/team/image", "arn:aws:ecr:us-east-2:4183993148130:repository/team/image",
		"arn:aws:ecr:us-east-2:418399314813:image/team/image", "arn:aws:ecr:us-east-2:418399314813:repository",
		start, start + "a", start + strings.Repeat("a", 257), start + "Team", start + "a//b", start + "/a", start + "a/", start + "*", start + "a b",
		start + "ab:", start + "ab:.x", start + "ab:" + strings.Repeat("a", 129), start + "ab@sha256:00",
	} {
		d.refused(422, `"errors":["$`, "POST", delegations, map[string]string{"resource": resource})
	}
	for body, fault := range map[string]string{
		`{}`:                                `"$: missing property 'resource'"`,
		`{"name":"x"}`:                      `"$: missing property 'resource'"`,
		`{"resource":null}`:                 `"$.resource: got null, want string"`,
		`{"resource":1}`:                    `"$.resource: got number, want string"`,
		`{"resource":["` + ecrImage + `"]}`: `"$.resource: got array, want string"`,
		`{"resource":"` + ecrImage + `","name":1}`:                  `"$.name: got number, want string"`,
		`{"resource":"` + ecrImage + `","tag":"v1"}`:                `"$: additional properties 'tag' not allowed"`,
		`{"resource":"` + ecrImage + `","delegatorUserId":"other"}`: `"$: additional properties 'delegatorUserId' not allowed"`,
	} {
		d.refused(422, fault, "POST", delegations, body)
	}
	for _, body := range []string{``, `{`, `{"resource":"` + ecrImage + `"`} {
		d.refused(400, `"detail":`, "POST", delegations, body)
	}
	if list := d.ok(200, "GET", delegations, ""); list.text != `{"delegations":[]}`+"\n" {
		t.Errorf("a refused body made %s", list.text)
	}
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", delegations, "GET, HEAD, POST"}, {"PATCH", delegations, "GET, HEAD, POST"}, {"GET", delegations + "/x", "DELETE"},
	} {
		if got := d.send(c.method, c.path, "{}"); got.status != 405 || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, allowed is %q", c.method, c.path, got.status, got.header.Get("Allow"))
		}
	}
	// A delegation is no registry auth, nor the other way round.
	auth, one := d.create("/v2/registries", `{"name":"r","username":"u","password":"p"}`), d.create(delegations, `{"resource":"`+ecrImage+`"}`)
	d.refused(404, "not found", "DELETE", delegations+"/"+auth, "")
	d.refused(404, "not found", "DELETE", "/v2/registries/"+one, "")
	d.refused(404, "not found", "GET", "/v2/registries/"+one, "")
	d.refused(400, "does not exist", "POST", "/v2/templates", `{"name":"t","image":"i","registry":"`+one+`"}`)
}

// A delegation names the owner of the key that made it. Every full key sees and
// revokes all of them; one for certain endpoints does neither.
func TestDelegationsAndKeys(t *testing.T) {
	file := apikey.At(t.TempDir())
	keys := map[string]string{}
	for name, endpoints := range map[string][]string{"colleague": nil, "scoped": {"an-endpoint"}} {
		key, err := file.Add(name, endpoints)
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = key
	}
	d := deploy(t, func(c *mgmt.Config) {
		all, err := c.Keys.With(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Keys = all
	})
	as := func(name, method, path, body string) reply {
		return d.sendWith(method, path, body, http.Header{"Authorization": {"Bearer " + keys[name]}})
	}
	made := as("colleague", "POST", delegations, `{"resource":"`+ecrImage+`"}`)
	if made.status != 201 || made.at("delegatorUserId") != "colleague" {
		t.Fatalf("%d %s", made.status, made.text)
	}
	one := delegations + "/" + made.at("id").(string)
	for _, c := range []struct{ method, path, body string }{{"GET", delegations, ""}, {"POST", delegations, `{"resource":"` + ecrImage + `"}`}, {"DELETE", one, ""}} {
		if got := as("scoped", c.method, c.path, c.body); got.status != 403 || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %s", c.method, c.path, got.status, got.text)
		}
	}
	if list := d.ok(200, "GET", delegations, ""); len(list.at("delegations").([]any)) != 1 || list.at("delegations.0.delegatorUserId") != "colleague" {
		t.Errorf("listed %s", list.text)
	}
	d.ok(204, "DELETE", one, "")
}

// Whatever is made and revoked in whatever order, the list is what a list in memory
// would be.
func TestDelegationsAreAModel(t *testing.T) {
	d := deploy(t)
	var model []any
	rapid.Check(t, func(r *rapid.T) {
		for _, one := range model { // of the case before
			d.ok(204, "DELETE", delegations+"/"+one.(map[string]any)["id"].(string), "")
		}
		model = nil
		revoked := "nothing"
		r.Repeat(map[string]func(*rapid.T){
			"make": func(r *rapid.T) {
				name, repository := rapid.SampledFrom([]string{"", "a", "ä ö", "a"}).Draw(r, "name"), rapid.StringMatching(`[a-z]{2,9}(/[a-z0-9]{1,9})?`).Draw(r, "repository")
				made := d.ok(201, "POST", delegations, map[string]string{"name": name, "resource": "arn:aws:ecr:us-east-2:418399314813:repository/" + repository})
				if shown, _ := made.at("name").(string); shown != name || made.at("repository") != repository {
					r.Errorf("%q %q became %s", name, repository, made.text)
				}
				model = append(model, made.body)
			},
			"refuse": func(*rapid.T) { d.refused(422, "errors", "POST", delegations, `{"resource":"x"}`) },
			"revoke": func(r *rapid.T) {
				if len(model) == 0 {
					return
				}
				i := rapid.IntRange(0, len(model)-1).Draw(r, "which")
				revoked = model[i].(map[string]any)["id"].(string)
				d.ok(204, "DELETE", delegations+"/"+revoked, "")
				model = slices.Delete(model, i, i+1)
			},
			"revoke again": func(*rapid.T) {
				d.refused(404, revoked, "DELETE", delegations+"/"+revoked, "")
			},
			"": func(r *rapid.T) {
				all, _ := d.ok(200, "GET", delegations, "").at("delegations").([]any)
				if len(all) != len(model) || len(model) > 0 && !reflect.DeepEqual(all, model) {
					r.Fatalf("listed %v, want %v", all, model)
				}
			},
		})
	})
}
