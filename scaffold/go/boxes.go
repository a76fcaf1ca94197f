package main

// sandbox.*: a sandbox is a folder of this machine, known by what lies in it, so that any run of this program finds it.

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

const defaultLifeMs = 3600 * 1000

var (
	root   = filepath.Join(os.TempDir(), fmt.Sprintf("abx-@NAME@-%d", os.Getuid()))
	isWord = regexp.MustCompile(`^[a-z0-9]{1,64}$`).MatchString
)

func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

func randomHex() string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(b[:])
}

func readJSON(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// writeJSON: all of it is there or nothing, whoever looks.
func writeJSON(file string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	fresh := fmt.Sprintf("%s.%d.new", file, os.Getpid())
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}

// killMarked sends KILL to the groups of these processes, then to all that have this mark in their environment, until there is none.
func killMarked(mark string, groups ...int) {
	for _, pid := range groups {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	for quiet := 0; quiet < 2; quiet++ { // twice: one that is just becoming another program shows no environment
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
			if bytes.Contains(append([]byte{0}, env...), []byte("\x00"+mark+"\x00")) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				quiet = -1
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// A Box is a sandbox: root/ID holds box.json (what is known of it), home (what is in it) and jobs (its processes).
type Box struct {
	ID    string
	about *about
}

type about struct {
	Name     string            `json:"name,omitempty"`
	Created  time.Time         `json:"created"`
	Expires  *time.Time        `json:"expires,omitempty"`
	Metadata map[string]string `json:"metadata"`
	Env      map[string]string `json:"env"`
}

func openBox(id string) *Box {
	b := &Box{ID: id}
	var a about
	if readJSON(b.path("box.json"), &a) == nil {
		b.about = &a
	}
	return b
}

// boxOf is the living sandbox that a call names.
func boxOf(id string) (*Box, error) {
	if isWord(id) {
		if b := openBox(id); b.lives() {
			return b, nil
		}
	}
	return nil, fault("E3001", "there is no sandbox '%s'", id)
}

func (b *Box) path(parts ...string) string {
	return filepath.Join(append([]string{root, b.ID}, parts...)...)
}

// lives: one whose life is over is removed by whoever looks at it.
func (b *Box) lives() bool {
	if b.about != nil && b.about.Expires != nil && b.about.Expires.Before(time.Now()) {
		b.remove()
	}
	return b.about != nil
}

// remove: first it is not there any more, then what runs in it is ended, then its files go.
func (b *Box) remove() {
	b.about = nil
	gone := filepath.Join(root, ".gone-"+b.ID)
	if os.Rename(b.path(), gone) != nil {
		return // another was faster
	}
	var groups []int
	files, _ := filepath.Glob(gone + "/jobs/*.json")
	for _, file := range files {
		var j job
		_, err := os.Stat(file[:len(file)-len("json")] + "exit")
		if err != nil && readJSON(file, &j) == nil {
			groups = append(groups, j.Pid)
		}
	}
	killMarked("ABX_SANDBOX="+b.ID, groups...)
	_ = os.RemoveAll(gone)
}

func (b *Box) setLife(ms int64) error {
	b.about.Expires = nil
	if ms > 0 {
		at := time.Now().Add(time.Duration(ms) * time.Millisecond)
		b.about.Expires = &at
	}
	return writeJSON(b.path("box.json"), b.about)
}

func rfc3339(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func (b *Box) describe() Object {
	out := Object{"id": b.ID, "state": "running", "createdAt": rfc3339(b.about.Created), "metadata": b.about.Metadata}
	if b.about.Name != "" {
		out["name"] = b.about.Name
	}
	if b.about.Expires != nil {
		out["expiresAt"] = rfc3339(*b.about.Expires)
	}
	return out
}

// --- the methods

type boxArgs struct {
	SandboxID string `json:"sandboxId"`
	TimeoutMs *int64 `json:"timeoutMs"`
}

// withBox is a method of a sandbox that has no other parameters than boxArgs.
func withBox(f func(*Box, *boxArgs) (any, error)) func(*Call) (any, error) {
	return func(c *Call) (any, error) {
		var p boxArgs
		if err := c.Args(&p); err != nil {
			return nil, err
		}
		b, err := boxOf(p.SandboxID)
		if err != nil {
			return nil, err
		}
		return f(b, &p)
	}
}

func create(c *Call) (any, error) {
	life := int64(defaultLifeMs)
	p := struct {
		ID             string            `json:"id"`
		Name           string            `json:"name"`
		Metadata       map[string]string `json:"metadata"`
		Env            map[string]string `json:"env"`
		TimeoutMs      *int64            `json:"timeoutMs"`
		IdempotencyKey string            `json:"idempotencyKey"`
	}{ID: randomHex(), TimeoutMs: &life, Metadata: map[string]string{}}
	if err := c.Args(&p); err != nil {
		return nil, err
	}
	b := &Box{ID: p.ID, about: &about{Name: p.Name, Created: time.Now(), Metadata: p.Metadata, Env: p.Env}}
	for _, dir := range []string{"home", "jobs"} {
		if err := os.MkdirAll(b.path(dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := b.setLife(*p.TimeoutMs); err != nil {
		return nil, err
	}
	return b.describe(), nil
}

// connect renews the life of a sandbox, never shortens it.
func connect(b *Box, p *boxArgs) (any, error) {
	if ms := p.TimeoutMs; ms != nil && b.about.Expires != nil {
		if *ms == 0 || time.Now().Add(time.Duration(*ms)*time.Millisecond).After(*b.about.Expires) {
			if err := b.setLife(*ms); err != nil {
				return nil, err
			}
		}
	}
	return b.describe(), nil
}

func list(c *Call) (any, error) {
	var p struct {
		Metadata map[string]string `json:"metadata"`
	}
	if err := c.Args(&p); err != nil {
		return nil, err
	}
	found := []Object{}
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if !isWord(e.Name()) {
			continue
		}
		b := openBox(e.Name())
		wanted := b.lives()
		for name, value := range p.Metadata {
			have, is := "", false
			if wanted {
				have, is = b.about.Metadata[name]
			}
			wanted = is && have == value
		}
		if wanted {
			found = append(found, b.describe())
		}
	}
	return Object{"sandboxes": found}, nil
}

func setTimeout(b *Box, p *boxArgs) (any, error) {
	if err := b.setLife(*p.TimeoutMs); err != nil || b.about.Expires == nil {
		return nil, err
	}
	return Object{"expiresAt": rfc3339(*b.about.Expires)}, nil
}

var boxMethods = methods{
	"sandbox.create":      create,
	"sandbox.info":        withBox(func(b *Box, p *boxArgs) (any, error) { return b.describe(), nil }),
	"sandbox.kill":        withBox(func(b *Box, p *boxArgs) (any, error) { b.remove(); return nil, nil }),
	"sandbox.connect":     withBox(connect),
	"sandbox.list":        list,
	"sandbox.set_timeout": withBox(setTimeout),
}
