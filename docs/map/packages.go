package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/fleetpace/fleetpace/"

// pkg is a package of the repository.
type pkg struct {
	name    string // its folder
	imports []string
	lines   int // of Go without tests, and of Lua
}

// list finds the packages that users get: those that are not internal, without examples,
// docs and the explorer of the scripts, and what they import of ours.
func list(root string) (map[string]*pkg, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles,Dir", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]*pkg{}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir  string
			Imports, GoFiles []string
		}
		if err := packages.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		found := &pkg{name: strings.TrimPrefix(p.ImportPath, module)}
		for _, path := range p.Imports {
			if name, ok := strings.CutPrefix(path, module); ok {
				found.imports = append(found.imports, name)
			}
		}
		scripts, err := filepath.Glob(filepath.Join(p.Dir, "*.lua"))
		if err != nil {
			return nil, err
		}
		for _, file := range append(scripts, inDir(p.Dir, p.GoFiles)...) {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			found.lines += bytes.Count(text, []byte("\n"))
		}
		all[found.name] = found
	}
	shown := map[string]*pkg{}
	for name := range all {
		if !strings.HasPrefix(name, "internal/") && !strings.HasPrefix(name, "examples/") && !strings.HasPrefix(name, "docs") && name != "lua/explore" {
			show(name, all, shown)
		}
	}
	for name, p := range shown {
		if p.lines < 20 && len(p.imports) == 0 { // a folder of tests or of files
			delete(shown, name)
		}
	}
	return shown, nil
}

func inDir(dir string, names []string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// show adds a package and all that it imports.
func show(name string, all, shown map[string]*pkg) {
	if shown[name] != nil {
		return
	}
	shown[name] = all[name]
	for _, imported := range all[name].imports {
		show(imported, all, shown)
	}
}

// direct are the imports of a package that none of its other imports implies.
func direct(p *pkg, all map[string]*pkg) []string {
	var names []string
	for _, name := range p.imports {
		implied := slices.ContainsFunc(p.imports, func(other string) bool { return other != name && reaches(other, name, all) })
		if !implied {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// reaches reports whether a package imports another one, or one that does.
func reaches(from, to string, all map[string]*pkg) bool {
	return slices.ContainsFunc(all[from].imports, func(name string) bool { return name == to || reaches(name, to, all) })
}
