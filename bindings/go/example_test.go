// SPDX-License-Identifier: Apache-2.0

package flashattn_test

import (
	"fmt"

	"flashattn"
)

// Causal attention of 4 query heads over 2 KV heads, 128 rows, head dimension 64.
func Example() {
	q, k, v := make([]float32, 128*4*64), make([]float32, 128*2*64), make([]float32, 128*2*64)
	o := make([]float32, 128*4*64)
	for i := range v {
		v[i] = 1.5
	}
	handle, err := flashattn.NewHandle(flashattn.Options{Backend: flashattn.CPU})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer handle.Close()
	call := &flashattn.Call{Q: flashattn.Host(q, 1, 128, 4, 64), K: flashattn.Host(k, 1, 128, 2, 64),
		V: flashattn.Host(v, 1, 128, 2, 64), O: flashattn.Host(o, 1, 128, 4, 64)}
	problem := flashattn.ProblemOf(call)
	problem.Causal = true
	if err := handle.Attention(&problem, call); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o[0])
	// Output: 1.5
}
