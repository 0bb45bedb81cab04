package mgmt_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/mgmt"
)

const (
	delegations = "/v2/registries/delegations"
	ecrImage    = "arn:aws:ecr:us-east-2:418399314813:repository/team/image"
)

func TestDelegations(t *testing.T) {
	d := deploy(t)
	must.Equal(t, d.mustSend(200, "GET", delegations, "").text, `{"delegations":[]}`+"\n", "the list of delegations")
	notBefore := time.Now().Add(-time.Second)
	answer := d.mustSend(201, "POST", delegations, `{"resource":"`+ecrImage+`","name":"mine"}`)
	id := answer.get("id").(string)
	d.expectMembers(answer, map[string]string{
		"name": `"mine"`, "delegatorUserId": `"default"`, "awsUser": `"418399314813"`, "repository": `"team/image"`, "tag": `"latest"`,
		"awsRegion": `"us-east-2"`, "dockerRegistryUri": `"418399314813.dkr.ecr.us-east-2.amazonaws.com"`,
	})
	createdAt, err := time.Parse(time.RFC3339, answer.get("createdAt").(string))
	must.Hold(t, err == nil && !createdAt.Before(notBefore) && time.Until(createdAt) <= time.Second,
		"created at", answer.get("createdAt"))
	// Neither the name nor the repository has to be unique.
	second := d.create(delegations, `{"resource":"`+ecrImage+`","name":"mine"}`)
	list := d.mustSend(200, "GET", delegations, "")
	must.Hold(t, reflect.DeepEqual(list.get("delegations.0"), answer.body) && list.get("delegations.1.id") == second &&
		len(list.get("delegations").([]any)) == 2, "listed", list.text)
	d.mustSend(204, "DELETE", delegations+"/"+id, "")
	d.expectRefusal(404, "not found", "DELETE", delegations+"/"+id, "")
	list = d.mustSend(200, "GET", delegations, "")
	must.Hold(t, list.get("delegations.0.id") == second && !strings.Contains(list.text, id), "listed", list.text)
}

// A delegation without a name shows null, whether the body omits, empties or nulls the name.
func TestDelegationsWithoutName(t *testing.T) {
	d := deploy(t)
	for _, name := range []string{``, `,"name":null`, `,"name":""`} {
		answer := d.mustSend(201, "POST", delegations, `{"resource":"`+ecrImage+`"`+name+`}`)
		must.Hold(t, answer.has("name") && answer.get("name") == nil, "with", name, "in the body, the name must be null in", answer.text)
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
		answer := d.mustSend(201, "POST", delegations, map[string]string{"resource": c.resource})
		registry, _ := answer.get("dockerRegistryUri").(string)
		must.Equal(t, []any{answer.get("awsRegion"), answer.get("repository"), answer.get("tag"), registry}, []any{c.region, c.repository, c.tag, c.registry}, "the parts of", c.resource)
		must.Equal(t, answer.has("dockerRegistryUri"), c.registry != "", c.resource, answer.text)
	}
}

func TestInvalidDelegations(t *testing.T) {
	d := deploy(t)
	const prefix = "arn:aws:ecr:us-east-2:418399314813:repository/"
	for _, resource := range []string{
		"", "x", "team/image", "418399314813.dkr.ecr.us-east-2.amazonaws.com/team/image", " " + ecrImage, ecrImage + "\n",
		"arn:aws:s3:us-east-2:418399314813:repository/team/image", "arn:gcp:ecr:us-east-2:418399314813:repository/team/image",
		"arn:aws:ecr::418399314813:repository/team/image", "arn:aws:ecr:us:418399314813:repository/team/image",
		"arn:aws:ecr:us-east-2:41839931481:repository/team/image", "arn:aws:ecr:us-east-2:4183993148130:repository/team/image",
		"arn:aws:ecr:us-east-2:418399314813:image/team/image", "arn:aws:ecr:us-east-2:418399314813:repository",
		prefix, prefix + "a", prefix + strings.Repeat("a", 257), prefix + "Team", prefix + "a//b", prefix + "/a", prefix + "a/", prefix + "*", prefix + "a b",
		prefix + "ab:", prefix + "ab:.x", prefix + "ab:" + strings.Repeat("a", 129), prefix + "ab@sha256:00",
	} {
		d.expectRefusal(422, `"errors":["$`, "POST", delegations, map[string]string{"resource": resource})
	}
	for _, body := range []string{``, `{`, `{"resource":"` + ecrImage + `"`} {
		d.expectRefusal(400, `"detail":`, "POST", delegations, body)
	}
	must.Equal(t, d.mustSend(200, "GET", delegations, "").text, `{"delegations":[]}`+"\n", "the delegations after a rejected body")
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", delegations, "GET, HEAD, POST"}, {"PATCH", delegations, "GET, HEAD, POST"}, {"GET", delegations + "/x", "DELETE"},
	} {
		got := d.send(c.method, c.path, "{}")
		must.Hold(t, got.status == 405 && got.header.Get("Allow") == c.allow, c.method, c.path, got.status, "allowed is", got.header.Get("Allow"))
	}
	// A delegation's id doesn't find a registry auth, and vice versa.
	auth, delegation := d.create("/v2/registries", `{"name":"r","username":"u","password":"p"}`), d.create(delegations, `{"resource":"`+ecrImage+`"}`)
	d.expectRefusal(404, "not found", "DELETE", delegations+"/"+auth, "")
	d.expectRefusal(404, "not found", "DELETE", "/v2/registries/"+delegation, "")
	d.expectRefusal(404, "not found", "GET", "/v2/registries/"+delegation, "")
	d.expectRefusal(400, "does not exist", "POST", "/v2/templates", `{"name":"t","image":"i","registry":"`+delegation+`"}`)
}

// A delegation names its key's owner. Every unrestricted key sees and revokes all; a restricted key does neither.
func TestDelegationsAndKeys(t *testing.T) {
	file := apikey.FileIn(t.TempDir())
	keys := map[string]string{}
	for name, endpoints := range map[string][]string{"colleague": nil, "scoped": {"an-endpoint"}} {
		keys[name] = must.Do(file.Add(apikey.Key{Name: name, Endpoints: endpoints}))(t)
	}
	d := deploy(t, func(c *mgmt.Config) { c.Keys = must.Do(c.Keys.With(file, time.Now, nil))(t) })
	sendAs := func(name, method, path, body string) reply {
		return d.sendWith(method, path, body, http.Header{"Authorization": {"Bearer " + keys[name]}})
	}
	answer := sendAs("colleague", "POST", delegations, `{"resource":"`+ecrImage+`"}`)
	must.Require(t, answer.status == 201 && answer.get("delegatorUserId") == "colleague", answer.status, answer.text)
	path := delegations + "/" + answer.get("id").(string)
	for _, c := range []struct{ method, path, body string }{{"GET", delegations, ""}, {"POST", delegations, `{"resource":"` + ecrImage + `"}`}, {"DELETE", path, ""}} {
		got := sendAs("scoped", c.method, c.path, c.body)
		must.Hold(t, got.status == 403 && got.header.Get("Content-Type") == "application/problem+json", c.method, c.path, got.status, got.text)
	}
	list := d.mustSend(200, "GET", delegations, "")
	must.Hold(t, len(list.get("delegations").([]any)) == 1 && list.get("delegations.0.delegatorUserId") == "colleague", "listed", list.text)
	d.mustSend(204, "DELETE", path, "")
}
