package store_test

import (
	"reflect"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// Created and revoked delegations survive a restart.
func TestDelegationsOutliveARestart(t *testing.T) {
	dir := t.TempDir()
	s, shut := open(t, dir)
	ctx := t.Context()
	image := store.ECRImage{Partition: "aws", Region: "us-east-2", Account: "418399314813", Repository: "team/image", Tag: "latest"}
	var created []store.Delegation
	for _, name := range []string{"a", "a", ""} { // names need not be unique
		created = append(created, must.Do(s.CreateDelegation(ctx, store.Delegation{Head: store.Head{Name: name}, Owner: "default", ECRImage: image}))(t))
	}
	must.Succeed(t, s.DeleteDelegation(ctx, created[1].ID))
	shut()
	s, _ = open(t, dir)
	all := must.Do(store.List[store.Delegation](ctx, s))(t)
	must.Hold(t, reflect.DeepEqual(all, []store.Delegation{created[0], created[2]}), "made", created, "read", all)
	expectNotFound(t, s.DeleteDelegation(ctx, created[1].ID))
	expectNotFound(t, s.DeleteRegistryAuth(ctx, created[0].ID))
	expectNotFound(t, s.DeleteTemplate(ctx, created[0].ID))
	must.Succeed(t, s.DeleteDelegation(ctx, created[0].ID))
}
