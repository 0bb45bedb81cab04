package catalog

import (
	"slices"
	"time"
)

// Build is a build of an endpoint's image by the operator, listed in a catalog file.
type Build struct {
	ID, Status, CommitHash, CommitMessage, Branch, ImageName, Error string
	CommitDate, StartedAt, CompletedAt                              *time.Time
}

// BuildStatuses are the states of a build.
var BuildStatuses = []string{"PENDING", "BUILDING", "UPLOADING", "TESTING", "COMPLETED", "FAILED", "CANCELLED", "TEST_FAILED"}

// BuildsOf returns the builds of the endpoints with a name, the newest first.
func (c *Catalog) BuildsOf(endpoint string) []Build {
	return slices.Concat(c.builds[endpoint], c.builds[every])
}

type fileBuild struct {
	Endpoint      text  `yaml:"endpoint"` // name of the endpoint, or *
	ID            text  `yaml:"id"`
	Status        text  `yaml:"status"`
	CommitHash    text  `yaml:"commit_hash"`
	CommitMessage text  `yaml:"commit_message"`
	Branch        text  `yaml:"branch"`
	CommitDate    *text `yaml:"commit_date"`
	ImageName     text  `yaml:"image_name"`
	StartedAt     *text `yaml:"started_at"`
	CompletedAt   *text `yaml:"completed_at"`
	Error         text  `yaml:"error"`
}

// builds reads the file's builds. Their order is that of the lists.
func (f *file) builds(c *Catalog) error {
	seen := map[string]int{}
	for _, entry := range f.Builds {
		e := entry.value
		if e.Endpoint.Missing() {
			return f.errorf(entry.line, "this build has no endpoint: expected the name of an endpoint")
		}
		if err := f.checkID(e.ID, entry.line, "build", idForm, seen); err != nil {
			return err
		}
		if !slices.Contains(BuildStatuses, e.Status.Value) {
			return f.unknown(e.Status, "status of a build", BuildStatuses)
		}
		b := Build{
			ID: e.ID.Value, Status: e.Status.Value, CommitHash: e.CommitHash.Value, CommitMessage: e.CommitMessage.Value,
			Branch: e.Branch.Value, ImageName: e.ImageName.Value, Error: e.Error.Value,
		}
		for field, text := range map[**time.Time]*text{&b.CommitDate: e.CommitDate, &b.StartedAt: e.StartedAt, &b.CompletedAt: e.CompletedAt} {
			if text == nil {
				continue
			}
			at, err := time.Parse(time.RFC3339, text.Value)
			if err != nil {
				return f.errorf(text.Line, "invalid time %q: expected one such as 2026-11-24T13:00:00Z", text.Value)
			}
			*field = &at
		}
		if c.builds == nil {
			c.builds = map[string][]Build{}
		}
		c.builds[e.Endpoint.Value] = append(c.builds[e.Endpoint.Value], b)
	}
	return nil
}
