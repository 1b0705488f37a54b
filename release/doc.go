// Package release builds what a release consists of, and tries it. The script build makes it, and
// set writes the version of a release into the command, the clients and the chart. The tests
// install each package into a clean place and let it do its main job: make test-release. Without
// the tag release, they build and try only what takes seconds.
package release
