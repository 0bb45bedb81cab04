package kubernetes

import (
	"context"
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// volumeLabel is a claim's label with the volume's name.
const volumeLabel = "gpucloud/volume"

func claimName(volume string) string { return "gpucloud-" + volume }

// storage returns the size of a claim, which can't be 0.
func storage(size int64) resource.Quantity {
	return *resource.NewScaledQuantity(max(1, size), resource.Giga)
}

// ensureClaim creates the PersistentVolumeClaim of a volume, or resizes an existing claim that is too small.
func (c *Cluster) ensureClaim(ctx context.Context, m run.Mount) error {
	access := core.ReadWriteOnce
	if strings.HasPrefix(m.Name, run.NetworkVolumePrefix) {
		access = core.PersistentVolumeAccessMode(c.VolumeAccess.Value)
	}
	claim := &core.PersistentVolumeClaim{
		ObjectMeta: meta.ObjectMeta{Name: claimName(m.Name), Namespace: c.namespace, Labels: map[string]string{managedBy: manager, volumeLabel: m.Name}},
		Spec: core.PersistentVolumeClaimSpec{
			AccessModes: []core.PersistentVolumeAccessMode{access},
			Resources:   core.VolumeResourceRequirements{Requests: core.ResourceList{core.ResourceStorage: storage(m.Size)}},
		},
	}
	if c.StorageClass.Value != "" {
		claim.Spec.StorageClassName = &c.StorageClass.Value
	}
	_, err := c.client.core.PersistentVolumeClaims(c.namespace).Create(ctx, claim, meta.CreateOptions{})
	if kerrors.IsAlreadyExists(err) {
		exists, err := c.resize(ctx, m.Name, m.Size)
		if err == nil && !exists { // it was being deleted, and is gone now
			return c.ensureClaim(ctx, m)
		}
		return err
	}
	if err != nil {
		return fmt.Errorf("creating the claim of the volume %s: %w", m.Name, err)
	}
	return nil
}

// ResizeVolume grows a volume's claim to a size. It is a no-op if the claim doesn't exist or is
// at least that large: volumes never shrink.
func (c *Cluster) ResizeVolume(ctx context.Context, name string, size int64) error {
	_, err := c.resize(ctx, name, size) // the first mount creates it
	return err
}

func (c *Cluster) resize(ctx context.Context, name string, size int64) (exists bool, err error) {
	api := c.client.core.PersistentVolumeClaims(c.namespace)
	claim, err := api.Get(ctx, claimName(name), meta.GetOptions{})
	switch {
	case kerrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("the claim of the volume %s: %w", name, err)
	case claim.DeletionTimestamp != nil:
		return true, fmt.Errorf("the claim of an earlier volume %s is still being deleted", name)
	}
	want, current := storage(size), claim.Spec.Resources.Requests[core.ResourceStorage]
	if want.Cmp(current) <= 0 {
		return true, nil
	}
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":%q}}}}`, want.String())
	if _, err := api.Patch(ctx, claim.Name, types.MergePatchType, patch, meta.PatchOptions{}); err != nil {
		return true, fmt.Errorf("the claim of the volume %s can't grow from %s to %s: %w", name, current.String(), want.String(), err)
	}
	return true, nil
}

// RemoveVolume deletes a volume's claim and its data. It is a no-op if the claim doesn't exist.
func (c *Cluster) RemoveVolume(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	err := c.client.core.PersistentVolumeClaims(c.namespace).Delete(ctx, claimName(name), meta.DeleteOptions{})
	if err != nil && !kerrors.IsNotFound(err) {
		return fmt.Errorf("the claim of the volume %s: %w", name, err)
	}
	return nil
}

func mount(spec *core.PodSpec, container *core.Container, mounts []run.Mount) {
	for i, m := range mounts {
		name := fmt.Sprintf("volume-%d", i)
		spec.Volumes = append(spec.Volumes, core.Volume{Name: name, VolumeSource: core.VolumeSource{
			PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: claimName(m.Name)},
		}})
		container.VolumeMounts = append(container.VolumeMounts, core.VolumeMount{Name: name, MountPath: m.Path})
	}
}
