// Command clients uses generated clients and body types to call the operations that a file lists.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"

	"clients/v1"
	"clients/v2"
)

// script is the content of the file. The test writes it.
type script struct {
	URL, Key string
	Steps    []step
}

type step struct {
	Version, Operation string
	IDs                []string
	Body               json.RawMessage
	ResponseMedia      string `json:"Media"`
	Status             int
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var calls script
	if err := json.Unmarshal(text, &calls); err != nil {
		return err
	}
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+calls.Key)
		return nil
	}
	clientV1, err := v1.NewClientWithResponses(calls.URL+"/v1", v1.WithRequestEditorFn(authorize))
	if err != nil {
		return err
	}
	clientV2, err := v2.NewClientWithResponses(calls.URL, v2.WithRequestEditorFn(authorize))
	if err != nil {
		return err
	}
	var problems []error
	for _, s := range calls.Steps {
		var client any = clientV1
		if s.Version == "v2" {
			client = clientV2
		}
		if err := s.call(reflect.ValueOf(client)); err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", s.Version, s.Operation, err))
		}
	}
	fmt.Println(len(calls.Steps)-len(problems), "operations passed")
	return errors.Join(append(problems, callTyped(clientV2))...)
}

func (s step) call(client reflect.Value) error {
	name := strings.ToUpper(s.Operation[:1]) + s.Operation[1:]
	stream := s.ResponseMedia == "text/event-stream" // the response doesn't end
	if !stream {
		name += "WithResponse"
	}
	method := client.MethodByName(name)
	if !method.IsValid() {
		return fmt.Errorf("the client has no method %s", name)
	}
	args := []reflect.Value{reflect.ValueOf(context.Background())}
	ids := s.IDs
	for i := 1; i < method.Type().NumIn()-1; i++ {
		switch t := method.Type().In(i); {
		case t.Kind() == reflect.String:
			args, ids = append(args, reflect.ValueOf(ids[0]).Convert(t)), ids[1:]
		case t.Kind() == reflect.Pointer:
			args = append(args, reflect.New(t.Elem())) // parameters
		default:
			body := reflect.New(t)
			if err := json.Unmarshal(s.Body, body.Interface()); err != nil {
				return err
			}
			args = append(args, body.Elem())
		}
	}
	out := method.Call(args)
	if err, _ := out[1].Interface().(error); err != nil {
		return err
	}
	if stream {
		r := out[0].Interface().(*http.Response)
		if err := r.Body.Close(); err != nil {
			return err
		}
		return s.check(r.StatusCode, nil)
	}
	answer := out[0].Elem()
	if err := s.check(out[0].MethodByName("StatusCode").Call(nil)[0].Interface().(int), answer.FieldByName("Body").Bytes()); err != nil {
		return err
	}
	if decoded := answer.FieldByName(fmt.Sprintf("JSON%d", s.Status)); s.ResponseMedia == "application/json" && (!decoded.IsValid() || decoded.IsNil()) {
		return fmt.Errorf("the answer is not decoded: %s", answer.FieldByName("Body").Bytes())
	}
	return nil
}

func (s step) check(status int, body []byte) error {
	if status != s.Status {
		return fmt.Errorf("expected the status %d, got %d: %s", s.Status, status, body)
	}
	return nil
}

// callTyped calls operations with typed arguments and results, like a user of the client.
func callTyped(client *v2.ClientWithResponses) error {
	size := int64(10)
	created, err := client.CreateNetworkVolumeWithResponse(context.Background(), v2.NetworkVolumeCreate{Name: "typed", Size: size, DataCenter: "EU-RO-1"})
	if err != nil {
		return err
	}
	if created.JSON201 == nil || created.JSON201.Size != size || created.JSON201.Name != "typed" {
		return fmt.Errorf("expected a volume of %d GB, got %s", size, created.Body)
	}
	rejected, err := client.CreateNetworkVolumeWithResponse(context.Background(), v2.NetworkVolumeCreate{Name: "typed", Size: 1, DataCenter: "EU-RO-1"})
	if err != nil {
		return err
	}
	if rejected.ApplicationproblemJSON422 == nil || rejected.ApplicationproblemJSON422.Status != http.StatusUnprocessableEntity {
		return fmt.Errorf("expected a refusal of 1 GB, got %s", rejected.Body)
	}
	return nil
}
