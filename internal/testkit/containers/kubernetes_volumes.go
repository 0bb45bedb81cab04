package containers

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// StorageClass is the class of claims for which the cluster has volumes.
const StorageClass = "folders"

// claim has the relevant members of a PersistentVolumeClaim.
type claim struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp *string
	}
	Spec struct {
		VolumeName  string
		AccessModes []string
		Resources   struct{ Requests struct{ Storage string } }
	}
}

// ProvisionVolumes binds claims to folders, and releases deleted ones, until the test ends. It
// replaces the controllers, which the cluster doesn't have.
func (k *Kubernetes) ProvisionVolumes(t testing.TB) {
	t.Helper()
	class := `{"metadata": {"name": "` + StorageClass + `"}, "provisioner": "example.org/folders", "allowVolumeExpansion": true}`
	must.Succeed(t, k.request(http.MethodPost, "/apis/storage.k8s.io/v1/storageclasses", "", class, nil))
	stop, done := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		for reported := ""; ; {
			if err := k.bindClaims(); err != nil && err.Error() != reported { // not fatal: a claim may have changed meanwhile
				reported = err.Error()
				t.Log("binding claims:", err)
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
}

func (k *Kubernetes) claimsPath() string {
	return "/api/v1/namespaces/" + k.Namespace + "/persistentvolumeclaims"
}

func (k *Kubernetes) bindClaims() error {
	var list struct{ Items []claim }
	if err := k.request(http.MethodGet, k.claimsPath(), "", "", &list); err != nil {
		return err
	}
	var problems []error
	for _, c := range list.Items {
		path := k.claimsPath() + "/" + c.Metadata.Name
		switch {
		case c.Metadata.DeletionTimestamp != nil:
			problems = append(problems, k.request(http.MethodPatch, path, "merge-patch", `{"metadata": {"finalizers": null}}`, nil))
		case c.Spec.VolumeName == "":
			problems = append(problems, k.bind(c, path))
		}
	}
	return errors.Join(problems...)
}

func (k *Kubernetes) bind(c claim, path string) error {
	name := "folder-" + c.Metadata.UID
	dir := k.folder(c)
	size, access := c.Spec.Resources.Requests.Storage, c.Spec.AccessModes[0]
	volume := fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"capacity": {"storage": %q}, "accessModes": [%q], "storageClassName": %q, "hostPath": {"path": %q},
		"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": %q, "name": %q, "uid": %q}}}`,
		name, size, access, StorageClass, dir, k.Namespace, c.Metadata.Name, c.Metadata.UID)
	bound := fmt.Sprintf(`{"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": %q}}`, name)
	status := fmt.Sprintf(`{"status": {"phase": "Bound", "accessModes": [%q], "capacity": {"storage": %q}}}`, access, size)
	return errors.Join(
		os.MkdirAll(dir, 0o755),
		k.request(http.MethodPost, "/api/v1/persistentvolumes", "", volume, nil),
		k.request(http.MethodPatch, "/api/v1/persistentvolumes/"+name+"/status", "merge-patch", `{"status": {"phase": "Bound"}}`, nil),
		k.request(http.MethodPatch, path, "merge-patch", bound, nil),
		k.request(http.MethodPatch, path+"/status", "merge-patch", status, nil))
}

func (k *Kubernetes) folder(c claim) string {
	return filepath.Join(k.dir, "volumes", c.Metadata.Name, c.Metadata.UID)
}

// ClaimFolder returns the folder that a claim is bound to, or "" if there is no such claim.
func (k *Kubernetes) ClaimFolder(t testing.TB, name string) string {
	t.Helper()
	if c := k.findClaim(t, name); c != nil {
		return k.folder(*c)
	}
	return ""
}

// ClaimSize returns the size that a claim requests, or "" if there is no such claim.
func (k *Kubernetes) ClaimSize(t testing.TB, name string) string {
	t.Helper()
	if c := k.findClaim(t, name); c != nil {
		return c.Spec.Resources.Requests.Storage
	}
	return ""
}

func (k *Kubernetes) findClaim(t testing.TB, name string) *claim {
	t.Helper()
	var list struct{ Items []claim }
	k.Get(t, k.claimsPath()+"?fieldSelector=metadata.name%3D"+name, &list)
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}
