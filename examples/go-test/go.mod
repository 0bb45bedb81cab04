module example.com/you/shout

go 1.26.0

require github.com/gpucloud/terraform-provider-gpucloud v0.0.0

// Remove this line in a module of your own.
replace github.com/gpucloud/terraform-provider-gpucloud => ../..
