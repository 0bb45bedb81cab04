# Keys that aren't in the configuration stay.
resource "gpucloud_ssh_keys" "team" {
  keys = [
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampleEx anne@example.com",
  ]
  keep_others = true
}
