//go:build !release

package release

// options are those of the script build.
var options = []string{"--quick"}
