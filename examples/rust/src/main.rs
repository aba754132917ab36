// SPDX-License-Identifier: Apache-2.0
//! Attention of a real layer as an engine runs it: the whole prompt at once, then its last token again as a decode step
//! over the cache. Asked for batch-invariant results, both give the last token the same bits; and the first token, which
//! sees itself only, gets exactly its V.
//!
//!     cargo run --manifest-path examples/rust/Cargo.toml -- tests/data/smollm2/layer09.safetensors

use flashattn::{Backend, Call, Float16, Handle, Options, Problem, Tensor, TensorMut};
use std::error::Error;
use std::time::Instant;

const TOKENS: usize = 505;
const HEADS: usize = 9;
const HEADS_KV: usize = 3;
const DIM: usize = 64;

/// A .safetensors file is the length of a JSON text in eight bytes, that text, and the data it gives offsets into.
struct File {
    header: String,
    data: Vec<u8>,
}

impl File {
    fn open(path: &str) -> Result<File, Box<dyn Error>> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {}", path, error))?;
        let size = bytes.get(..8).ok_or("the file is too short")?;
        let size = u64::from_le_bytes(size.try_into()?) as usize;
        let header = bytes.get(8..).and_then(|rest| rest.get(..size)).ok_or("the file is too short")?;
        Ok(File { header: String::from_utf8(header.to_vec())?, data: bytes[8 + size..].to_vec() })
    }

    /// The f16 tensor of that name, `count` elements.
    fn tensor(&self, name: &str, count: usize) -> Result<Vec<Float16>, Box<dyn Error>> {
        let entry = self.header.split(&format!("\"{}\":", name)).nth(1).ok_or("no such tensor")?;
        let offsets = entry.split("\"data_offsets\":[").nth(1).ok_or("no offsets")?;
        let begin: usize = offsets.split(',').next().unwrap_or("").parse()?;
        let bytes = self.data.get(begin..begin + 2 * count).ok_or("the tensor is too short")?;
        Ok(bytes.chunks_exact(2).map(|two| Float16(u16::from_le_bytes([two[0], two[1]]))).collect())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "tests/data/smollm2/layer09.safetensors".into());
    let file = File::open(&path)?;
    let q = file.tensor("q", TOKENS * HEADS * DIM)?;
    let k = file.tensor("k", TOKENS * HEADS_KV * DIM)?;
    let v = file.tensor("v", TOKENS * HEADS_KV * DIM)?;
    let mut o = vec![Float16::default(); q.len()];
    let keys = Tensor::new(&k, [1, TOKENS, HEADS_KV, DIM]);
    let values = Tensor::new(&v, [1, TOKENS, HEADS_KV, DIM]);

    let handle = Handle::open(&Options::new().backend(Backend::Cpu))?;
    let whole = [1, TOKENS, HEADS, DIM];
    let mut prefill = Call::new(Tensor::new(&q, whole), keys, values, TensorMut::new(&mut o, whole));
    let plan = handle.plan(&Problem::of(&prefill).causal(true).batch_invariant(true))?;
    let mut workspace = plan.workspace()?;
    let begin = Instant::now();
    plan.forward(&mut prefill, &mut workspace)?;
    let time = begin.elapsed();
    for (h, row) in o[..HEADS * DIM].chunks(DIM).enumerate() {
        let kv = h / (HEADS / HEADS_KV);
        assert_eq!(row, &v[kv * DIM..(kv + 1) * DIM], "the first token must get its own V");
    }

    // The last token alone, over the same cache.
    let mut decoded = vec![Float16::default(); HEADS * DIM];
    let one = [1, 1, HEADS, DIM];
    let last = Tensor::new(&q[(TOKENS - 1) * HEADS * DIM..], one);
    plan.forward(&mut Call::new(last, keys, values, TensorMut::new(&mut decoded, one)), &mut workspace)?;
    assert_eq!(decoded, o[(TOKENS - 1) * HEADS * DIM..], "prefill and decode must give the same bits");

    println!(
        "{} tokens, {} heads over {}, {}: {:.1} ms; first token and decode step as they must be",
        TOKENS,
        HEADS,
        HEADS_KV,
        plan.info().kernel,
        time.as_secs_f64() * 1e3
    );
    Ok(())
}
