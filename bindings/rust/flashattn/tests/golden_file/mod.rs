// SPDX-License-Identifier: Apache-2.0
//! Reads bindings/golden/golden.txt; the format is in bindings/golden/README.md.

use flashattn::sys;
use std::collections::BTreeMap;
use std::os::raw::c_void;

#[derive(Default)]
pub struct Buffer {
    pub kind: String,
    pub count: usize,
    /// The bytes, in words so that every element type is aligned.
    pub words: Vec<u64>,
}

impl Buffer {
    fn new(kind: &str, count: usize, bytes: &[u8]) -> Buffer {
        let mut words = vec![0u64; bytes.len() / 8 + 1];
        for (i, byte) in bytes.iter().enumerate() {
            words[i / 8] |= u64::from(*byte) << (8 * (i % 8));
        }
        Buffer { kind: kind.into(), count, words }
    }
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(self.count * size_of(&self.kind));
        bytes
    }
}

#[derive(Default)]
pub struct Case {
    pub name: String,
    pub problem: BTreeMap<String, String>,
    pub call: BTreeMap<String, i64>,
    pub buffers: BTreeMap<String, Buffer>,
    pub status: i32,
    pub error: String,
    /// Tolerance and values.
    pub want: BTreeMap<String, (f32, Vec<f32>)>,
}

impl Case {
    pub fn problem_int(&self, field: &str) -> i64 {
        self.problem.get(field).map_or(0, |value| value.parse().unwrap())
    }
    pub fn problem_float(&self, field: &str) -> f32 {
        self.problem.get(field).map_or(0.0, |value| value.parse().unwrap())
    }
    pub fn call_int(&self, field: &str) -> i64 {
        self.call.get(field).copied().unwrap_or(0)
    }
}

fn size_of(kind: &str) -> usize {
    match kind {
        "i64" => 8,
        "f32" | "i32" => 4,
        "f16" | "bf16" => 2,
        _ => 1,
    }
}

fn read_hex<'a>(lines: &mut impl Iterator<Item = &'a str>, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        let line = lines.next().expect("more bytes");
        bytes.extend((0..line.len() / 2).map(|i| u8::from_str_radix(&line[2 * i..2 * i + 2], 16).unwrap()));
    }
    assert_eq!(bytes.len(), size);
    bytes
}

pub fn read() -> Vec<Case> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/golden.txt");
    let text = std::fs::read_to_string(path).expect(path);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("flashattn golden 1"));
    let mut cases = Vec::new();
    let mut case = Case::default();
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["case", name] => case.name = name.to_string(),
            ["problem", field, value] => {
                case.problem.insert(field.to_string(), value.to_string());
            }
            ["call", field, value] => {
                case.call.insert(field.to_string(), value.parse().unwrap());
            }
            [what @ ("buffer" | "fill"), name, kind, count] => {
                let count: usize = count.parse().unwrap();
                let size = count * size_of(kind);
                let bytes = match *what {
                    "buffer" => read_hex(&mut lines, size),
                    _ => [0xe5, 0x7f].iter().copied().cycle().take(size).collect(),
                };
                case.buffers.insert(name.to_string(), Buffer::new(kind, count, &bytes));
            }
            ["status", status] => case.status = status.parse().unwrap(),
            ["error", ..] => case.error = line["error ".len()..].to_string(),
            ["want", name, tolerance] => {
                let bytes = read_hex(&mut lines, case.buffers[*name].count * 4);
                let values = bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
                case.want.insert(name.to_string(), (tolerance.parse().unwrap(), values));
            }
            ["end"] => cases.push(std::mem::take(&mut case)),
            _ => panic!("golden.txt: what is '{}'?", line),
        }
    }
    cases
}

pub fn raw_problem(c: &Case) -> sys::flashattn_problem_t {
    let mut p = sys::flashattn_problem_t::default();
    for (field, value) in &c.problem {
        let number = || value.parse::<i64>().unwrap();
        match field.as_str() {
            "op" => p.op = number() as i32,
            "dtype_q" => p.dtype_q = number() as i32,
            "dtype_kv" => p.dtype_kv = number() as i32,
            "dtype_o" => p.dtype_o = number() as i32,
            "dtype_bias" => p.dtype_bias = number() as i32,
            "layout_q" => p.layout_q = number() as i32,
            "layout_kv" => p.layout_kv = number() as i32,
            "num_heads_q" => p.num_heads_q = number() as i32,
            "num_heads_kv" => p.num_heads_kv = number() as i32,
            "head_dim" => p.head_dim = number() as i32,
            "head_dim_v" => p.head_dim_v = number() as i32,
            "max_batch" => p.max_batch = number() as i32,
            "max_seqlen_q" => p.max_seqlen_q = number() as i32,
            "max_seqlen_kv" => p.max_seqlen_kv = number() as i32,
            "page_size" => p.page_size = number() as i32,
            "max_total_q" => p.max_total_q = number(),
            "max_total_kv" => p.max_total_kv = number(),
            "max_pages" => p.max_pages = number(),
            "features" => p.features = number() as u64,
            "flags" => p.flags = number() as u64,
            "softmax_scale" => p.softmax_scale = value.parse().unwrap(),
            "softcap" => p.softcap = value.parse().unwrap(),
            "causal" => p.causal = number() as i32,
            "window_left" => p.window_left = number() as i32,
            "window_right" => p.window_right = number() as i32,
            "num_splits" => p.num_splits = number() as i32,
            "kernel" => p.kernel.iter_mut().zip(value.bytes()).for_each(|(to, from)| *to = from as _),
            other => panic!("golden.txt: problem field {}", other),
        }
    }
    p
}

pub fn raw_call(c: &Case, data: &dyn Fn(&str) -> *const u8) -> sys::flashattn_call_t {
    let field = |name: &str, field: &str| c.call_int(&format!("{}.{}", name, field));
    let tensor = |name: &str| sys::flashattn_tensor_t {
        data: data(name) as *mut c_void,
        stride_batch: field(name, "stride_batch"),
        stride_seq: field(name, "stride_seq"),
        stride_head: field(name, "stride_head"),
    };
    let per_head = |name: &str| sys::flashattn_per_head_t {
        data: data(name) as *const f32,
        stride_batch: field(name, "stride_batch"),
        stride_head: field(name, "stride_head"),
    };
    let ints = |name: &str| data(name) as *const i32;
    sys::flashattn_call_t {
        batch: c.call_int("batch") as i32,
        seqlen_q: c.call_int("seqlen_q") as i32,
        seqlen_kv: c.call_int("seqlen_kv") as i32,
        total_q: c.call_int("total_q"),
        total_kv: c.call_int("total_kv"),
        num_pages: c.call_int("num_pages"),
        diag_offset: c.call_int("diag_offset") as i32,
        q: tensor("q"),
        k: tensor("k"),
        v: tensor("v"),
        o: tensor("o"),
        lse: tensor("lse"),
        cu_seqlens_q: data("cu_seqlens_q") as *const c_void,
        cu_seqlens_kv: data("cu_seqlens_kv") as *const c_void,
        seqused_q: ints("seqused_q"),
        seqused_kv: ints("seqused_kv"),
        diag_offsets: ints("diag_offsets"),
        page_table: ints("page_table"),
        page_table_stride: c.call_int("page_table_stride"),
        page_table_width: c.call_int("page_table_width") as i32,
        page_indptr: ints("page_indptr"),
        page_indices: ints("page_indices"),
        bias: sys::flashattn_bias_t {
            data: data("bias") as *mut c_void,
            stride_batch: field("bias", "stride_batch"),
            stride_head: field("bias", "stride_head"),
            stride_q: field("bias", "stride_q"),
            stride_kv: field("bias", "stride_kv"),
        },
        alibi_slopes: per_head("alibi_slopes"),
        sinks: per_head("sinks"),
        ..Default::default()
    }
}
