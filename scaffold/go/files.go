package main

// fs.*: the files of a sandbox. A relative path begins at its home; an absolute one is one of this machine.

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"syscall"
	"time"
)

type fileArgs struct {
	SandboxID  string  `json:"sandboxId"`
	Path       string  `json:"path"`
	Depth      int     `json:"depth"`
	Size       *int64  `json:"size"`
	Mode       *uint32 `json:"mode"`
	Whole      bool    `json:"whole"`
	ModifiedAt string  `json:"modifiedAt"`
	From       string  `json:"from"`
	To         string  `json:"to"`
}

// withFile is a method of a path: f gets it absolute.
func withFile(f func(*Call, *fileArgs, string) (any, error)) func(*Call) (any, error) {
	return func(c *Call) (any, error) {
		p := fileArgs{Depth: 1}
		if err := c.Args(&p); err != nil {
			return nil, err
		}
		b, err := boxOf(p.SandboxID)
		if err != nil {
			return nil, err
		}
		if c.Method == "fs.rename" {
			return nil, os.Rename(place(b, p.From), place(b, p.To))
		}
		if p.Path == "" {
			return nil, fault("E1001", "an empty path is no path")
		}
		return f(c, &p, place(b, p.Path))
	}
}

func place(b *Box, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return b.path("home", path)
}

func nameOf(id uint32, find func(string) (string, error)) string {
	number := strconv.FormatUint(uint64(id), 10)
	if name, err := find(number); err == nil {
		return name
	}
	return number
}

func describe(path string) (Object, error) {
	at, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	st := at.Sys().(*syscall.Stat_t)
	out := Object{
		"path": path, "name": filepath.Base(path), "type": "other", "size": at.Size(), "mode": st.Mode & 0o7777,
		"modifiedAt": rfc3339(at.ModTime()),
		"owner": nameOf(st.Uid, func(n string) (string, error) {
			u, err := user.LookupId(n)
			if err != nil {
				return "", err
			}
			return u.Username, nil
		}),
		"group": nameOf(st.Gid, func(n string) (string, error) {
			g, err := user.LookupGroupId(n)
			if err != nil {
				return "", err
			}
			return g.Name, nil
		}),
	}
	switch {
	case at.IsDir():
		out["type"] = "dir"
	case at.Mode().IsRegular():
		out["type"] = "file"
	case at.Mode()&fs.ModeSymlink != 0:
		out["type"] = "symlink"
		out["target"], _ = os.Readlink(path)
	}
	return out, nil
}

func read(c *Call, p *fileArgs, path string) (any, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	part, size := make([]byte, 256*1024), 0
	for {
		n, err := file.Read(part)
		if err == io.EOF {
			return Object{"size": size}, nil
		}
		if err == nil {
			err = c.Send("fs.output", "", part[:n])
		}
		if err != nil {
			return nil, err
		}
		size += n
	}
}

// write goes into a file beside it, which takes its place when all is there: nobody ever sees a half.
func write(c *Call, p *fileArgs, path string) (any, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	target, mode := path, os.FileMode(0o644)
	if former, err := os.Stat(path); err == nil {
		if former.IsDir() {
			return nil, fault("E6005", "'%s' is a folder", path)
		}
		mode = former.Mode().Perm()
		if target, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
	}
	if p.Mode != nil {
		mode = os.FileMode(*p.Mode & 0o777)
	}
	file, err := os.CreateTemp(filepath.Dir(target), ".new-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name()) // fails when it has taken its place
	defer file.Close()
	size := int64(0)
	err = c.Body(func(data []byte) error {
		n, err := file.Write(data)
		size += int64(n)
		return err
	})
	if err == nil && p.Size != nil && *p.Size != size {
		err = fault("E1001", "%d bytes were announced, %d came", *p.Size, size)
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	if at, bad := time.Parse(time.RFC3339Nano, p.ModifiedAt); err == nil && bad == nil {
		err = os.Chtimes(file.Name(), time.Now(), at)
	}
	if err == nil {
		err = os.Rename(file.Name(), target)
	}
	return Object{"path": path, "size": size}, err
}

func below(folder string, depth int, found *[]string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		*found = append(*found, path)
		if depth > 1 && e.IsDir() {
			_ = below(path, depth-1, found)
		}
	}
	return nil
}

func listFolder(c *Call, p *fileArgs, path string) (any, error) {
	var found []string
	if err := below(path, p.Depth, &found); err != nil {
		return nil, err
	}
	sort.Strings(found)
	files := []Object{}
	for _, path := range found {
		if about, err := describe(path); err == nil {
			files = append(files, about)
		}
	}
	return Object{"files": files}, nil
}

func makeDir(c *Call, p *fileArgs, path string) (any, error) {
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		return Object{"created": false}, nil
	}
	return Object{"created": true}, os.MkdirAll(path, 0o755)
}

var fileMethods = methods{
	"fs.read":     withFile(read),
	"fs.write":    withFile(write),
	"fs.stat":     withFile(func(c *Call, p *fileArgs, path string) (any, error) { return describe(path) }),
	"fs.list":     withFile(listFolder),
	"fs.make_dir": withFile(makeDir),
	"fs.rename":   withFile(nil),
	"fs.remove": withFile(func(c *Call, p *fileArgs, path string) (any, error) {
		err := os.RemoveAll(path)
		if errors.Is(err, syscall.ENOTDIR) {
			err = nil // what is not there is removed already
		}
		return nil, err
	}),
}
