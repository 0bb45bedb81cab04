package report_test

import (
	"os"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/report"
)

// hostile is an answer of a target that attacks the readers of a report.
const hostile = "</script></style>]]>\"'`<script>document.title='owned'</script><img src=\"http://127.0.0.2/x\" onerror=\"document.title='owned'\">{{.}}\x01\x1b[31m\u2028|*_[a](http://127.0.0.2)\n```\n# no"

// sample is a report with every verdict and every level, of a hostile target.
func sample() *report.Report {
	file, err := os.Open("testdata/sample.json")
	if err != nil {
		panic(err)
	}
	defer file.Close()
	r, err := report.Read(file)
	if err != nil {
		panic(err)
	}
	return r
}

// written returns a report in a form.
func written(name string, r *report.Report) string {
	for _, f := range report.Forms {
		if f.Name == name {
			var b strings.Builder
			if err := f.Write(&b, r); err != nil {
				return "can't be written: " + err.Error()
			}
			return b.String()
		}
	}
	return "the form " + name + " doesn't exist"
}
