package httpclient

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func TestShapeErrors(t *testing.T) {
	type object struct {
		ID    string
		Size  int64
		Price json.Number
		Ratio float64
		On    *bool
		Tags  []string
		Env   map[string]string
		Inner struct{ Ports []struct{ Public *int64 } }
	}
	for text, want := range map[string]string{
		`[]`:                              "$ is an array, not an object",
		` "x"`:                            "$ is a string, not an object",
		`{"id":7}`:                        "$.id is a number, not a string",
		`{"name":"n", "id": {"a":[1,2]}}`: "$.id is an object, not a string",
		`{"size":"10"}`:                   "$.size is a string, not a whole number",
		`{"size":1.5}`:                    "$.size is 1.5, not a whole number",
		`{"size":99999999999999999999}`:   "$.size is 99999999999999999999, which is out of range",
		`{"ratio":1e999}`:                 "$.ratio is 1e999, which is out of range",
		`{"price":true}`:                  "$.price is a boolean, not a number",
		`{"price":"x"}`:                   "$ has a string where a number is expected",
		`{"on":"yes"}`:                    "$.on is a string, not a boolean",
		`{"tags":["a",["b"]]}`:            "$.tags[1] is an array, not a string",
		`{"tags":"a"}`:                    "$.tags is a string, not an array",
		`{"env":{"A":"1","B.C":2}}`:       `$.env["B.C"] is a number, not a string`,
		`{"env":[]}`:                      "$.env is an array, not an object",
		`{"other":{"id":7},"inner":{"ports":[{},{"public":1},{"public":"2"}]}}`: "$.inner.ports[2].public is a string, not a whole number",
	} {
		err := Decode([]byte(text), new(object))
		must.Hold(t, err != nil && err.Error() == want, text, err, want)
	}
	deep := strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000)
	err := Decode([]byte(`{"a":`+deep+`,"id":7}`), new(object))
	must.Hold(t, err != nil && err.Error() == "$.id is a number, not a string", "deep", err)
	must.Succeed(t, Decode([]byte(`{"id":null,"unheardOf":[{"x":1}]}`), new(object)))
}
