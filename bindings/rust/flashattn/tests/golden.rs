// SPDX-License-Identifier: Apache-2.0
//! The golden cases of bindings/golden through the safe interface.

mod golden_file;

use flashattn::{sys, BFloat16, Backend, Call, Element, Float16, Handle, Options, Problem, Tensor, TensorMut};
use golden_file::{Buffer, Case};
use std::collections::BTreeMap;

fn bits_to_f32(kind: &str, bytes: &[u8]) -> f32 {
    match kind {
        "f32" => f32::from_le_bytes(bytes.try_into().unwrap()),
        "bf16" => f32::from_bits(u32::from(u16::from_le_bytes(bytes.try_into().unwrap())) << 16),
        "f16" => {
            let half = u16::from_le_bytes(bytes.try_into().unwrap());
            let (exponent, fraction) = (i32::from(half >> 10 & 31), f32::from(half & 1023));
            let magnitude = match exponent {
                0 => fraction * (-24f32).exp2(),
                31 => f32::NAN,
                _ => (fraction + 1024.0) * ((exponent - 25) as f32).exp2(),
            };
            if half >> 15 != 0 {
                -magnitude
            } else {
                magnitude
            }
        }
        other => panic!("{} is no float", other),
    }
}

fn elements<T>(buffer: &Buffer) -> &[T] {
    // SAFETY: buffers are aligned to 8 bytes, and every bit pattern of the element types used here is a value.
    unsafe { std::slice::from_raw_parts(buffer.words.as_ptr() as *const T, buffer.count) }
}
fn elements_mut<T>(buffer: &mut Buffer) -> &mut [T] {
    // SAFETY: as above, and the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(buffer.words.as_mut_ptr() as *mut T, buffer.count) }
}

/// `$body` with `$T` as the element type that `$kind` names.
macro_rules! with_type {
    ($kind:expr, $T:ident, $body:expr) => {
        match $kind.as_str() {
            "f32" => {
                type $T = f32;
                $body
            }
            "f16" => {
                type $T = Float16;
                $body
            }
            "bf16" => {
                type $T = BFloat16;
                $body
            }
            other => panic!("{} is no element type", other),
        }
    };
}

struct Inputs<'a> {
    case: &'a Case,
    buffers: &'a BTreeMap<String, Buffer>,
}

fn shapes(c: &Case) -> ([usize; 4], [usize; 4]) {
    let call = |name| c.call_int(name) as usize;
    let problem = |name| c.problem_int(name) as usize;
    let ragged = |name| c.buffers.contains_key(name);
    let q = if ragged("cu_seqlens_q") { [1, call("total_q")] } else { [call("batch"), call("seqlen_q")] };
    let kv = if ragged("cu_seqlens_kv") {
        [1, call("total_kv")]
    } else if call("num_pages") != 0 {
        [call("num_pages"), problem("page_size")]
    } else {
        [call("batch"), call("seqlen_kv")]
    };
    let (heads_q, heads_kv, dim) = (problem("num_heads_q"), problem("num_heads_kv"), problem("head_dim"));
    ([q[0], q[1], heads_q, dim], [kv[0], kv[1], heads_kv, dim])
}

fn strides(c: &Case, name: &str) -> [usize; 3] {
    ["stride_batch", "stride_seq", "stride_head"].map(|field| c.call_int(&format!("{}.{}", name, field)) as usize)
}

fn run<Q: Element, KV: Element, O: Element>(
    handle: &Handle,
    inputs: &Inputs<'_>,
    o: &mut Buffer,
    lse: Option<&mut Buffer>,
) {
    let c = inputs.case;
    let (q_shape, k_shape) = shapes(c);
    let dim_v = c.problem_int("head_dim_v") as usize;
    let v_shape = [k_shape[0], k_shape[1], k_shape[2], dim_v];
    let o_shape = [q_shape[0], q_shape[1], q_shape[2], dim_v];
    let buffer = |name: &str| inputs.buffers.get(name);
    let ints = |name: &str| buffer(name).map(elements::<i32>);
    let q = Tensor::strided(elements::<Q>(&inputs.buffers["q"]), q_shape, strides(c, "q"));
    let k = Tensor::strided(elements::<KV>(&inputs.buffers["k"]), k_shape, strides(c, "k"));
    let v = Tensor::strided(elements::<KV>(&inputs.buffers["v"]), v_shape, strides(c, "v"));
    let mut call = Call::new(q, k, v, TensorMut::strided(elements_mut::<O>(o), o_shape, strides(c, "o")));
    if let Some(lse) = lse {
        let shape = [q_shape[0], q_shape[1], q_shape[2], 1];
        call = call.lse(TensorMut::strided(elements_mut::<f32>(lse), shape, strides(c, "lse")));
    }
    if let Some(starts) = buffer("cu_seqlens_q") {
        call = match starts.kind.as_str() {
            "i64" => call.cu_seqlens_q(elements::<i64>(starts)),
            _ => call.cu_seqlens_q(elements::<i32>(starts)),
        };
    }
    if let Some(starts) = buffer("cu_seqlens_kv") {
        call = match starts.kind.as_str() {
            "i64" => call.cu_seqlens_kv(elements::<i64>(starts)),
            _ => call.cu_seqlens_kv(elements::<i32>(starts)),
        };
    }
    if let Some(lengths) = ints("seqused_q") {
        call = call.seqused_q(lengths);
    }
    if let Some(lengths) = ints("seqused_kv") {
        call = call.seqused_kv(lengths);
    }
    if let Some(offsets) = ints("diag_offsets") {
        call = call.diag_offsets(offsets);
    }
    if let Some(table) = ints("page_table") {
        call = call.page_table(table, c.call_int("page_table_width") as i32, c.call_int("page_table_stride"));
    }
    if let Some(indptr) = ints("page_indptr") {
        call = call.page_csr(indptr, ints("page_indices").unwrap());
    }
    let per_head = |name: &str| {
        [format!("{}.stride_batch", name), format!("{}.stride_head", name)].map(|field| c.call_int(&field) as usize)
    };
    if let Some(slopes) = buffer("alibi_slopes") {
        call = call.alibi_slopes(elements::<f32>(slopes), per_head("alibi_slopes"));
    }
    if let Some(sinks) = buffer("sinks") {
        call = call.sinks(elements::<f32>(sinks), per_head("sinks"));
    }
    if let Some(bias) = buffer("bias") {
        let strides = ["batch", "head", "q", "kv"].map(|s| c.call_int(&format!("bias.stride_{}", s)) as usize);
        call = match bias.kind.as_str() {
            "u8" => call.bias(elements::<u8>(bias), strides),
            "f16" => call.bias(elements::<Float16>(bias), strides),
            _ => call.bias(elements::<f32>(bias), strides),
        };
    }
    call = call
        .diag_offset(c.call_int("diag_offset") as i32)
        .max_seqlens(c.call_int("seqlen_q") as i32, c.call_int("seqlen_kv") as i32);

    let number = |name| c.problem_int(name) as i32;
    let mut problem = Problem::of(&call)
        .causal(number("causal") != 0)
        .softcap(c.problem_float("softcap"))
        .softmax_scale(c.problem_float("softmax_scale"))
        .max_sizes(number("max_batch"), number("max_seqlen_q"), number("max_seqlen_kv"))
        .num_splits(number("num_splits"))
        .batch_invariant(c.problem_int("flags") as u64 & sys::FLASHATTN_FLAG_BATCH_INVARIANT != 0);
    if c.problem_int("features") as u64 & sys::FLASHATTN_FEATURE_WINDOW != 0 {
        problem = problem.window(number("window_left"), number("window_right"));
    }
    // What the binding derives from the tensors is what the file says.
    assert_eq!(as_text(problem.raw()), as_text(&golden_file::raw_problem(c)), "{}", c.name);
    let raw = golden_file::raw_call(c, &|name| {
        // The outputs are the caller's own buffers here.
        match name {
            "o" => call.raw().o.data as *const u8,
            "lse" => call.raw().lse.data as *const u8,
            _ => inputs.buffers.get(name).map_or(std::ptr::null(), |buffer| buffer.words.as_ptr() as *const u8),
        }
    });
    assert_eq!(as_text(call.raw()), as_text(&raw), "{}", c.name);
    handle.attention(&problem, &mut call).unwrap_or_else(|error| panic!("{}: {}", c.name, error));
}

fn as_text(value: &impl std::fmt::Debug) -> String {
    format!("{:?}", value)
}

fn compare(c: &Case, name: &str, buffer: &Buffer) {
    let (tolerance, wanted) = &c.want[name];
    let bytes = buffer.bytes();
    let size = bytes.len() / buffer.count;
    for (i, must) in wanted.iter().enumerate() {
        let element = &bytes[i * size..(i + 1) * size];
        if must.is_nan() {
            assert!(element.chunks(2).all(|two| two == [0xe5, 0x7f]), "{}: {}[{}] was written", c.name, name, i);
            continue;
        }
        let is = bits_to_f32(&buffer.kind, element);
        let good = if must.is_infinite() { is == *must } else { (is - must).abs() <= *tolerance };
        assert!(good, "{}: {}[{}] is {}, must be {}", c.name, name, i, is, must);
    }
}

#[test]
fn every_case_gives_its_results_or_its_error() {
    let handle = Handle::open(&Options::new().backend(Backend::Cpu)).unwrap();
    let (mut results, mut errors) = (0, 0);
    for mut c in golden_file::read() {
        if c.status != 0 {
            let raw = golden_file::raw_call(&c, &|name| {
                c.buffers.get(name).map_or(std::ptr::null(), |buffer| buffer.words.as_ptr() as *const u8)
            });
            let mut call = Call::empty();
            // SAFETY: the file's wrong calls are ones that the library refuses before it touches a tensor.
            unsafe { *call.raw_mut() = raw };
            let mut problem = Problem::of(&call);
            *problem.raw_mut() = golden_file::raw_problem(&c);
            let error = handle.attention(&problem, &mut call).expect_err(&c.name);
            assert_eq!(error.status().0, c.status, "{}: {}", c.name, error);
            assert!(error.text().contains(&c.error), "{}: {}", c.name, error);
            for name in ["o", "lse"] {
                assert!(c.buffers[name].bytes().chunks(2).all(|two| two == [0xe5, 0x7f]), "{}: {}", c.name, name);
            }
            errors += 1;
            continue;
        }
        let mut o = c.buffers.remove("o").unwrap();
        let mut lse = c.buffers.remove("lse");
        let buffers = std::mem::take(&mut c.buffers);
        // shapes() asks which buffers there are.
        c.buffers = buffers.keys().map(|name| (name.clone(), Buffer::default())).collect();
        let inputs = Inputs { case: &c, buffers: &buffers };
        let (q_kind, kv_kind, o_kind) = (&buffers["q"].kind, &buffers["k"].kind, o.kind.clone());
        with_type!(q_kind, Q, {
            with_type!(kv_kind, Kv, with_type!(o_kind, O, run::<Q, Kv, O>(&handle, &inputs, &mut o, lse.as_mut())))
        });
        compare(&c, "o", &o);
        if let Some(lse) = &lse {
            compare(&c, "lse", lse);
        }
        results += 1;
    }
    assert!(results >= 30 && errors >= 14, "{} results, {} errors", results, errors);
}
