// SPDX-License-Identifier: Apache-2.0

package flashattn

import (
	"bufio"
	"encoding/hex"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// A case of bindings/golden/golden.txt; the format is in bindings/golden/README.md.
type goldenCase struct {
	name    string
	problem map[string]string
	call    map[string]int64
	buffers map[string]*goldenBuffer
	status  Status
	err     string
	want    map[string]goldenWant
}

type goldenBuffer struct {
	kind  string
	count int
	words []uint64 // the bytes, aligned for every element type
}

type goldenWant struct {
	tolerance float64
	values    []float32
}

func (b *goldenBuffer) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&b.words[0])), len(b.words)*8)[:b.count*sizeOf[b.kind]]
}

func elements[T any](b *goldenBuffer) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&b.words[0])), b.count)
}

var sizeOf = map[string]int{"f32": 4, "f16": 2, "bf16": 2, "u8": 1, "i32": 4, "i64": 8}

func readGolden(t *testing.T) []*goldenCase {
	file, err := os.Open("../golden/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	readHex := func(to []byte) {
		for len(to) > 0 && lines.Scan() {
			n, err := hex.Decode(to, lines.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			to = to[n:]
		}
	}
	integer := func(text string) int64 {
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	var cases []*goldenCase
	var c *goldenCase
	if !lines.Scan() || lines.Text() != "flashattn golden 1" {
		t.Fatal("no golden file")
	}
	for lines.Scan() {
		line := lines.Text()
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "case":
			c = &goldenCase{name: words[1], problem: map[string]string{}, call: map[string]int64{},
				buffers: map[string]*goldenBuffer{}, want: map[string]goldenWant{}}
			cases = append(cases, c)
		case "problem":
			c.problem[words[1]] = words[2]
		case "call":
			c.call[words[1]] = integer(words[2])
		case "buffer", "fill":
			b := &goldenBuffer{kind: words[2], count: int(integer(words[3]))}
			b.words = make([]uint64, b.count*sizeOf[b.kind]/8+1)
			if words[0] == "buffer" {
				readHex(b.bytes())
			} else {
				for i := range b.bytes() {
					b.bytes()[i] = [2]byte{0xe5, 0x7f}[i%2]
				}
			}
			c.buffers[words[1]] = b
		case "status":
			c.status = Status(integer(words[1]))
		case "error":
			c.err = line[len("error "):]
		case "want":
			tolerance, err := strconv.ParseFloat(words[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			b := &goldenBuffer{kind: "f32", count: c.buffers[words[1]].count}
			b.words = make([]uint64, b.count/2+1)
			readHex(b.bytes())
			c.want[words[1]] = goldenWant{tolerance, elements[float32](b)}
		case "end":
		default:
			t.Fatalf("golden.txt: what is %q?", line)
		}
	}
	return cases
}

func (c *goldenCase) number(field string) int64 {
	value, _ := strconv.ParseInt(c.problem[field], 10, 64)
	return value
}

func (c *goldenCase) real(field string) float32 {
	value, _ := strconv.ParseFloat(c.problem[field], 32)
	return float32(value)
}

// asAddress is a wrong case's tensor: what the binding would refuse must reach the library.
func (c *goldenCase) tensor(name string, shape [4]int, asAddress bool) Tensor {
	b := c.buffers[name]
	if b == nil && name == "lse" {
		return Tensor{}
	}
	if b == nil { // a NULL pointer
		return At(F32, 0, shape[0], shape[1], shape[2], shape[3])
	}
	var t Tensor
	switch b.kind {
	case "f32":
		t = Host(elements[float32](b), shape[0], shape[1], shape[2], shape[3])
	case "f16":
		t = Host(elements[Float16](b), shape[0], shape[1], shape[2], shape[3])
	case "bf16":
		t = Host(elements[BFloat16](b), shape[0], shape[1], shape[2], shape[3])
	}
	if asAddress {
		t = At(t.dtype, uintptr(unsafe.Pointer(&b.words[0])), shape[0], shape[1], shape[2], shape[3])
	}
	return t.Strided(int(c.call[name+".stride_batch"]), int(c.call[name+".stride_seq"]), int(c.call[name+".stride_head"]))
}

func (c *goldenCase) ints(name string) Ints {
	b := c.buffers[name]
	switch {
	case b == nil:
		return Ints{}
	case b.kind == "i64":
		return Int64(elements[int64](b))
	}
	return Int32(elements[int32](b))
}

func (c *goldenCase) build() *Call {
	at := c.status != 0
	heads, dim, dimV := int(c.number("num_heads_q")), int(c.number("head_dim")), int(c.number("head_dim_v"))
	q := [4]int{int(c.call["batch"]), int(c.call["seqlen_q"]), heads, dim}
	if c.buffers["cu_seqlens_q"] != nil {
		q[0], q[1] = 1, int(c.call["total_q"])
	}
	k := [4]int{int(c.call["batch"]), int(c.call["seqlen_kv"]), int(c.number("num_heads_kv")), dim}
	if c.buffers["cu_seqlens_kv"] != nil {
		k[0], k[1] = 1, int(c.call["total_kv"])
	}
	if c.call["num_pages"] != 0 {
		k[0], k[1] = int(c.call["num_pages"]), int(c.number("page_size"))
	}
	v, o, lse := k, q, q
	v[3], o[3], lse[3] = dimV, dimV, 1
	call := &Call{
		Q: c.tensor("q", q, at), K: c.tensor("k", k, at), V: c.tensor("v", v, at), O: c.tensor("o", o, at),
		LSE:        c.tensor("lse", lse, at),
		CuSeqlensQ: c.ints("cu_seqlens_q"), CuSeqlensKV: c.ints("cu_seqlens_kv"),
		MaxSeqlenQ: int32(c.call["seqlen_q"]), MaxSeqlenKV: int32(c.call["seqlen_kv"]),
		SeqUsedQ: c.ints("seqused_q"), SeqUsedKV: c.ints("seqused_kv"),
		DiagOffset: int32(c.call["diag_offset"]), DiagOffsets: c.ints("diag_offsets"),
		PageTable: c.ints("page_table"), PageTableWidth: int32(c.call["page_table_width"]),
		PageTableStride: c.call["page_table_stride"],
		PageIndptr:      c.ints("page_indptr"), PageIndices: c.ints("page_indices"),
	}
	perHead := func(name string) PerHead {
		b := c.buffers[name]
		if b == nil {
			return PerHead{}
		}
		return BatchHeads(elements[float32](b), int(c.call[name+".stride_batch"]), int(c.call[name+".stride_head"]))
	}
	call.AlibiSlopes, call.Sinks = perHead("alibi_slopes"), perHead("sinks")
	if b := c.buffers["bias"]; b != nil {
		strides := [4]int{int(c.call["bias.stride_batch"]), int(c.call["bias.stride_head"]),
			int(c.call["bias.stride_q"]), int(c.call["bias.stride_kv"])}
		switch b.kind {
		case "u8":
			call.Bias = HostBias(elements[uint8](b), strides)
		case "f16":
			call.Bias = HostBias(elements[Float16](b), strides)
		default:
			call.Bias = HostBias(elements[float32](b), strides)
		}
	}
	return call
}

func (c *goldenCase) wantedProblem() Problem {
	n := func(field string) int32 { return int32(c.number(field)) }
	return Problem{
		Op: n("op"), DTypeQ: DType(n("dtype_q")), DTypeKV: DType(n("dtype_kv")), DTypeO: DType(n("dtype_o")),
		DTypeBias: DType(n("dtype_bias")), LayoutQ: n("layout_q"), LayoutKV: n("layout_kv"),
		NumHeadsQ: n("num_heads_q"), NumHeadsKV: n("num_heads_kv"), HeadDim: n("head_dim"), HeadDimV: n("head_dim_v"),
		MaxBatch: n("max_batch"), MaxSeqlenQ: n("max_seqlen_q"), MaxSeqlenKV: n("max_seqlen_kv"),
		PageSize: n("page_size"), MaxTotalQ: c.number("max_total_q"), MaxTotalKV: c.number("max_total_kv"),
		MaxPages: c.number("max_pages"), Features: uint64(c.number("features")), Flags: uint64(c.number("flags")),
		SoftmaxScale: c.real("softmax_scale"), Softcap: c.real("softcap"), Causal: n("causal") != 0,
		WindowLeft: n("window_left"), WindowRight: n("window_right"), NumSplits: n("num_splits"),
		Kernel: c.problem["kernel"],
	}
}

func widen(kind string, element []byte) float64 {
	bits := uint32(element[0]) | uint32(element[1])<<8
	switch kind {
	case "f32":
		return float64(math.Float32frombits(bits | uint32(element[2])<<16 | uint32(element[3])<<24))
	case "bf16":
		return float64(math.Float32frombits(bits << 16))
	}
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	value := math.Ldexp(fraction+1024, exponent-25)
	if exponent == 0 {
		value = math.Ldexp(fraction, -24)
	}
	if bits>>15 != 0 {
		value = -value
	}
	return value
}

func untouched(bytes []byte) bool {
	for i, b := range bytes {
		if b != [2]byte{0xe5, 0x7f}[i%2] {
			return false
		}
	}
	return true
}

func (c *goldenCase) compare(t *testing.T, name string) {
	b := c.buffers[name]
	size := sizeOf[b.kind]
	for i, wanted := range c.want[name].values {
		element := b.bytes()[i*size : (i+1)*size]
		if math.IsNaN(float64(wanted)) {
			if !untouched(element) {
				t.Fatalf("%s[%d] was written", name, i)
			}
			continue
		}
		is := widen(b.kind, element)
		good := math.Abs(is-float64(wanted)) <= c.want[name].tolerance
		if math.IsInf(float64(wanted), 0) {
			good = is == float64(wanted)
		}
		if !good {
			t.Fatalf("%s[%d] is %g, must be %g", name, i, is, wanted)
		}
	}
}

func TestGolden(t *testing.T) {
	handle := cpu(t)
	results, errors := 0, 0
	for _, c := range readGolden(t) {
		c := c
		t.Run(c.name, func(t *testing.T) {
			call := c.build()
			wanted := c.wantedProblem()
			if c.status != 0 {
				errors++
				err := handle.Attention(&wanted, call)
				if err == nil {
					t.Fatal("accepted")
				}
				if e := err.(*Error); e.Status != c.status || !strings.Contains(e.Text, c.err) {
					t.Fatalf("%d %q, must be %d with %q", e.Status, e.Text, c.status, c.err)
				}
				if !untouched(c.buffers["o"].bytes()) || !untouched(c.buffers["lse"].bytes()) {
					t.Fatal("outputs were written")
				}
				runtime.KeepAlive(c)
				return
			}
			results++
			// What the binding derives from the tensors is what the file says, but for what only a caller knows.
			problem := ProblemOf(call)
			problem.SoftmaxScale, problem.Softcap, problem.Causal = wanted.SoftmaxScale, wanted.Softcap, wanted.Causal
			problem.MaxBatch, problem.MaxSeqlenQ, problem.MaxSeqlenKV = wanted.MaxBatch, wanted.MaxSeqlenQ, wanted.MaxSeqlenKV
			problem.NumSplits = wanted.NumSplits
			problem.Flags |= wanted.Flags & FlagBatchInvariant
			if wanted.Features&FeatureWindow != 0 {
				problem.SetWindow(wanted.WindowLeft, wanted.WindowRight)
			}
			if problem != wanted {
				t.Fatalf("derived %+v, must be %+v", problem, wanted)
			}
			if err := handle.Attention(&problem, call); err != nil {
				t.Fatal(err)
			}
			c.compare(t, "o")
			if c.buffers["lse"] != nil {
				c.compare(t, "lse")
			}
		})
	}
	if results < 30 || errors < 14 {
		t.Fatalf("%d results, %d errors", results, errors)
	}
}
