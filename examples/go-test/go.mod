// To run the example: go mod tidy && go test
module example.com/you/shout

go 1.26.0

require github.com/gpucloud/terraform-provider-gpucloud v0.0.0

// In a module of your own, omit this line. go get github.com/gpucloud/terraform-provider-gpucloud@main
// writes the require line.
replace github.com/gpucloud/terraform-provider-gpucloud => ../..
