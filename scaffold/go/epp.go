package main

// The plugin's end of EPP/1: JSON-RPC 2.0, one message a line, on stdin and stdout. Nothing here knows a backend.
//
// Each request runs in a goroutine of its own. What its function returns is the answer: a result, or a Fault with a code of the
// protocol, or any error by what it means. Nothing else may write to stdout; stderr is the log.

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"unicode/utf8"
)

const (
	window = 1 << 20 // bytes of a stream that may be on their way before the host has taken any
	chunk  = 48 * 1024
)

// Object is a JSON object.
type Object map[string]any

// A Fault is an error with a code of the protocol.
type Fault struct{ Code, Message string }

func (f *Fault) Error() string { return f.Message }

func fault(code, format string, args ...any) error {
	return &Fault{code, fmt.Sprintf(format, args...)}
}

func faultOf(err error) *Fault {
	var f *Fault
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, fs.ErrNotExist):
		return &Fault{"E3002", err.Error()}
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Fault{"E4003", err.Error()}
	}
	return &Fault{"E6005", err.Error()}
}

// Bytes as a message has them.
type Bytes struct {
	Text   *string `json:"text"`
	Base64 *string `json:"base64"`
}

func (b *Bytes) get() []byte {
	if b.Text != nil {
		return []byte(*b.Text)
	}
	if b.Base64 == nil {
		return nil
	}
	data, _ := base64.StdEncoding.DecodeString(*b.Base64)
	return data
}

// piece is what the host sent for a call; data nil: the end.
type piece struct {
	id   json.Number
	data []byte
	end  bool
}

// A Call is one request.
type Call struct {
	ID        json.Number
	Method    string
	Params    json.RawMessage
	Cancelled chan struct{} // closed when the host gives up
	room      int64
	pieces    []piece
}

// Everything that goroutines share.
var (
	mu     sync.Mutex
	change = sync.NewCond(&mu)
	calls  = map[json.Number]*Call{}
	flow   bool
	output sync.Mutex
)

func send(message Object) {
	message["jsonrpc"] = "2.0"
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1) // the host has gone
	}
}

func answer(id json.Number, result any) {
	if result == nil {
		result = Object{}
	}
	send(Object{"id": id, "result": result})
}

// Notify sends an event of this stream, before the answer.
func (c *Call) Notify(method string, members Object) {
	params := Object{"stream": c.ID}
	for name, value := range members {
		params[name] = value
	}
	send(Object{"method": method, "params": params})
}

func (c *Call) isCancelled() bool {
	select {
	case <-c.Cancelled:
		return true
	default:
		return false
	}
}

func (c *Call) check() error {
	if c.isCancelled() {
		return fault("E5002", "cancelled")
	}
	return nil
}

// Send passes on bytes of this stream; it waits while the host does not take them.
func (c *Call) Send(method, channel string, data []byte) error {
	for len(data) > 0 {
		n := len(data)
		if n > chunk {
			n = chunk
		}
		mu.Lock()
		for flow && c.room <= 0 && !c.isCancelled() {
			change.Wait()
		}
		if flow && int64(n) > c.room {
			n = int(c.room)
		}
		if err := c.check(); err != nil {
			mu.Unlock()
			return err
		}
		c.room -= int64(n)
		mu.Unlock()
		members := Object{}
		if channel != "" {
			members["channel"] = channel
		}
		if utf8.Valid(data[:n]) {
			members["text"] = string(data[:n])
		} else {
			members["base64"] = data[:n]
		}
		c.Notify(method, members)
		data = data[n:]
	}
	return nil
}

// Body gives the bytes that the host sends with this request to f. Each piece is acknowledged when it was used.
func (c *Call) Body(f func([]byte) error) error {
	for {
		mu.Lock()
		for len(c.pieces) == 0 && !c.isCancelled() {
			change.Wait()
		}
		if err := c.check(); err != nil {
			mu.Unlock()
			return err
		}
		p := c.pieces[0]
		c.pieces = c.pieces[1:]
		mu.Unlock()
		if p.end {
			answer(p.id, nil)
			return nil
		}
		err := f(p.data)
		answer(p.id, nil)
		if err != nil {
			return err
		}
	}
}

// Args reads the parameters into a struct: one that it has no field for cannot be honoured, so it is an error, never ignored.
func (c *Call) Args(into any) error {
	var names map[string]json.RawMessage
	if err := json.Unmarshal(c.Params, &names); err != nil {
		return fault("E1001", "%v", err)
	}
	for name, value := range names {
		one, _ := json.Marshal(Object{name: value})
		if err := strict(one, into); err != nil {
			return fault("E8004", "this provider has no '%s' here", name)
		}
	}
	return nil
}

func (c *Call) run(f func(*Call) (any, error)) {
	result, err := f(c)
	mu.Lock()
	delete(calls, c.ID)
	left := c.pieces
	mu.Unlock()
	if c.isCancelled() {
		err = fault("E5002", "cancelled")
	}
	if err != nil {
		f := faultOf(err)
		send(Object{"id": c.ID, "error": Object{"code": -32000, "message": f.Message, "data": Object{"code": f.Code}}})
	} else {
		answer(c.ID, result)
	}
	for _, p := range left {
		answer(p.id, nil) // what came and is not needed any more
	}
}

type message struct {
	ID     json.Number     `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

type streamParams struct {
	Stream json.Number `json:"stream"`
	Count  int64       `json:"bytes"`
	Bytes
}

// takeStream deals with what names a call by its stream. True when it will be answered later.
func takeStream(m message) bool {
	var p streamParams
	_ = json.Unmarshal(m.Params, &p)
	mu.Lock()
	defer mu.Unlock()
	defer change.Broadcast()
	c := calls[p.Stream]
	switch {
	case c == nil:
		return false
	case m.Method == "cancel" && !c.isCancelled():
		close(c.Cancelled)
	case m.Method == "stream.window":
		c.room += p.Count
	case m.Method == "stream.write":
		c.pieces = append(c.pieces, piece{m.ID, p.get(), false})
		return true
	case m.Method == "stream.end":
		c.pieces = append(c.pieces, piece{m.ID, nil, true})
		return true
	}
	return false
}

// take deals with one message of the host; false: the last one.
func take(m message, features Object, methods map[string]func(*Call) (any, error)) bool {
	f, known := methods[m.Method]
	switch {
	case m.Method == "initialize":
		var p struct {
			Flow bool `json:"flow"`
		}
		_ = json.Unmarshal(m.Params, &p)
		flow = p.Flow
		answer(m.ID, Object{"protocol": "epp/1", "features": features, "flow": true})
	case m.Method == "shutdown":
		answer(m.ID, nil)
		return false
	case m.Method == "cancel", m.Method == "stream.window":
		takeStream(m)
	case m.Method == "stream.write", m.Method == "stream.end":
		if !takeStream(m) {
			answer(m.ID, nil) // of a call that has ended: nobody needs the bytes
		}
	case known:
		c := &Call{ID: m.ID, Method: m.Method, Params: m.Params, Cancelled: make(chan struct{}), room: window}
		mu.Lock()
		calls[m.ID] = c
		mu.Unlock()
		go c.run(f)
	case m.ID != "":
		send(Object{"id": m.ID, "error": Object{"code": -32601, "message": "no method '" + m.Method + "'"}})
	}
	return true
}

// serve returns when the host has gone.
func serve(features Object, methods map[string]func(*Call) (any, error)) {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			fmt.Fprintln(os.Stderr, "not a message:", err)
			continue
		}
		if !take(m, features, methods) {
			return
		}
	}
}
