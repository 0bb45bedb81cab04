package contract

// Form is a syntax of strings.
type Form struct {
	Pattern string // regular expression
	Words   string // description in errors and documents
}

var (
	Port = Form{
		`^([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])/(http|tcp)$`,
		"<port>/<http|tcp> with a port from 1 to 65535, such as 8000/http",
	}
	Argument     = Form{`^[^\x00]*$`, "text without NUL"}
	AbsolutePath = Form{`^/[^\x00]*$`, "an absolute path, such as /workspace"}
	CUDAVersion  = Form{`^\d+\.\d+$`, "a CUDA version as major.minor, such as 12.8"}
	ID           = Form{`^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$`, "an id"}
	GPUTypeID    = Form{`^\s*[^-\s]`, "the id of a GPU type"}
	SSHKey       = Form{`^(ssh|ecdsa|sk)-[^\s]+ [^\s]+([ \t][^\n\r]*)?$`, "a public key as <type> <base64-key> [comment], as in ~/.ssh/id_ed25519.pub"}
	SecretName   = Form{`^[a-zA-Z_][a-zA-Z0-9_.\-/]*$`, "letters, digits, _, ., - and /, and a letter or _ first"}
	ReservedName = Form{`^[Rr][Uu][Nn][Pp][Oo][Dd]`, "it must not begin with RUNPOD, in upper or lower case"}
	Visible      = Form{"[^\\t-\\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]", "a character that is not white space"}
	// ECRRepository is an ARN. AWS has no tag in one; here one may follow the repository, as
	// in an image reference. The groups are partition, region, account, repository and tag.
	ECRRepository = Form{
		`^arn:(aws(?:-[a-z]+)*):ecr:([a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}):([0-9]{12}):` +
			`repository/([a-z0-9]+(?:(?:[._/-]|__)[a-z0-9]+)*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?$`,
		"the ARN of an ECR repository, such as arn:aws:ecr:us-east-2:123456789012:repository/team/image",
	}
)
