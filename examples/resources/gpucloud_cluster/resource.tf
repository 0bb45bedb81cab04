resource "gpucloud_cluster" "training" {
  name  = "training"
  type  = "TRAINING"
  image = "registry.example.com/train:7"
  args  = "torchrun --nnodes=2 train.py"
  ports = ["22/tcp"]

  compute = {
    gpu_type_id       = "NVIDIA H100 80GB HBM3"
    gpu_count_per_pod = 8
    pod_count         = 2
  }
}
