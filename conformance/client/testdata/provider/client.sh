#!/bin/sh
# Terraform, with the provider, as a client: $1 is the scenario. $TERRAFORM is
# the program; a CLI configuration that overrides the provider has to be set.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$here/provider.tf" .
case $1 in
shrink)
  cp "$here/volume.tf" .
  "$TERRAFORM" apply -no-color -input=false -auto-approve
  "$TERRAFORM" apply -no-color -input=false -auto-approve -var size=10
  ;;
works)
  cp "$here/template.tf" "$here/volume.tf" .
  "$TERRAFORM" apply -no-color -input=false -auto-approve
  "$TERRAFORM" apply -no-color -input=false -auto-approve -var size=30
  "$TERRAFORM" destroy -no-color -input=false -auto-approve -var size=30
  ;;
*)
  cp "$here/template.tf" .
  "$TERRAFORM" apply -no-color -input=false -auto-approve
  ;;
esac
