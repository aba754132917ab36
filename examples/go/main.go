// SPDX-License-Identifier: Apache-2.0

// Attention of a real layer as an engine runs it: the whole prompt at once, then its last token again as a decode step over
// the cache. Asked for batch-invariant results, both give the last token the same bits; and the first token, which sees
// itself only, gets exactly its V.
//
//	cd examples/go && go run . ../../tests/data/smollm2/layer09.safetensors
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"flashattn"
)

const (
	tokens  = 505
	heads   = 9
	headsKV = 3
	dim     = 64
)

// file is a .safetensors file: the length of a JSON text in eight bytes, that text, and the data it gives offsets into.
type file struct {
	header map[string]struct {
		Offsets [2]int `json:"data_offsets"`
	}
	data []byte
}

func openFile(path string) (*file, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(bytes) < 8 || binary.LittleEndian.Uint64(bytes) > uint64(len(bytes)-8) {
		return nil, fmt.Errorf("%s is too short", path)
	}
	size := binary.LittleEndian.Uint64(bytes)
	f := &file{data: bytes[8+size:]}
	return f, json.Unmarshal(bytes[8:8+size], &f.header)
}

func (f *file) tensor(name string, count int) ([]flashattn.Float16, error) {
	offsets := f.header[name].Offsets
	if offsets[1]-offsets[0] != 2*count || offsets[1] > len(f.data) {
		return nil, fmt.Errorf("tensor %s is not %d elements of f16", name, count)
	}
	values := make([]flashattn.Float16, count)
	for i := range values {
		values[i] = flashattn.Float16(binary.LittleEndian.Uint16(f.data[offsets[0]+2*i:]))
	}
	return values, nil
}

func equal(a, b []flashattn.Float16) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func run(path string) error {
	f, err := openFile(path)
	if err != nil {
		return err
	}
	q, err := f.tensor("q", tokens*heads*dim)
	if err != nil {
		return err
	}
	k, err := f.tensor("k", tokens*headsKV*dim)
	if err != nil {
		return err
	}
	v, err := f.tensor("v", tokens*headsKV*dim)
	if err != nil {
		return err
	}
	keys, values := flashattn.Host(k, 1, tokens, headsKV, dim), flashattn.Host(v, 1, tokens, headsKV, dim)
	o := make([]flashattn.Float16, len(q))
	prefill := &flashattn.Call{Q: flashattn.Host(q, 1, tokens, heads, dim), K: keys, V: values,
		O: flashattn.Host(o, 1, tokens, heads, dim)}
	problem := flashattn.ProblemOf(prefill)
	problem.Causal = true
	problem.Flags |= flashattn.FlagBatchInvariant

	handle, err := flashattn.NewHandle(flashattn.Options{Backend: flashattn.CPU})
	if err != nil {
		return err
	}
	defer handle.Close()
	plan, err := handle.Plan(problem)
	if err != nil {
		return err
	}
	defer plan.Close()
	workspace, err := plan.NewWorkspace()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := plan.Forward(prefill, workspace); err != nil {
		return err
	}
	took := time.Since(begin)
	for h := 0; h < heads; h++ {
		kv := h / (heads / headsKV)
		if !equal(o[h*dim:(h+1)*dim], v[kv*dim:(kv+1)*dim]) {
			return fmt.Errorf("the first token must get its own V")
		}
	}

	// The last token alone, over the same cache.
	decoded := make([]flashattn.Float16, heads*dim)
	decode := &flashattn.Call{Q: flashattn.Host(q[(tokens-1)*heads*dim:], 1, 1, heads, dim), K: keys, V: values,
		O: flashattn.Host(decoded, 1, 1, heads, dim)}
	if err := plan.Forward(decode, workspace); err != nil {
		return err
	}
	if !equal(decoded, o[(tokens-1)*heads*dim:]) {
		return fmt.Errorf("prefill and decode must give the same bits")
	}
	info, err := plan.Info()
	if err != nil {
		return err
	}
	fmt.Printf("%d tokens, %d heads over %d, %s: %.1f ms; first token and decode step as they must be\n", tokens, heads,
		headsKV, info.Kernel, took.Seconds()*1e3)
	return nil
}

func main() {
	path := "../../tests/data/smollm2/layer09.safetensors"
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	if err := run(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
