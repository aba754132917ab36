// SPDX-License-Identifier: Apache-2.0
//! What a call through the safe crate costs over the C call: one query, one key, one head, f32, one thread. Two functions
//! in turns, so that both see the same machine; short batches, so that few are interrupted on a busy one.

use flashattn::{Backend, Call, Handle, Options, Problem, Tensor, TensorMut};
use std::ptr::null_mut;
use std::time::Instant;

const BATCHES: usize = 4001;
const CALLS_PER_BATCH: u32 = 50;

fn main() {
    let (q, k, v, mut o) = ([0.0f32; 8], [0.0f32; 8], [1.0f32; 8], [0.0f32; 8]);
    let one = [1, 1, 1, 8];
    let handle = Handle::open(&Options::new().backend(Backend::Cpu).num_threads(1)).unwrap();
    let mut call =
        Call::new(Tensor::new(&q, one), Tensor::new(&k, one), Tensor::new(&v, one), TensorMut::new(&mut o, one));
    let problem = Problem::of(&call);
    let plan = handle.plan(&problem).unwrap();
    let mut workspace = plan.workspace().unwrap();
    let api = flashattn::Library::of_program().unwrap().api();

    let time = |function: &mut dyn FnMut()| {
        let begin = Instant::now();
        for _ in 0..CALLS_PER_BATCH {
            function();
        }
        begin.elapsed().as_nanos() as f64 / f64::from(CALLS_PER_BATCH)
    };
    let report = |name, mut c: Vec<f64>, mut rust: Vec<f64>| {
        let median = |times: &mut Vec<f64>| {
            times.sort_by(|a, b| a.total_cmp(b));
            times[BATCHES / 2]
        };
        let (c, rust) = (median(&mut c), median(&mut rust));
        println!("{:10} C {:6.0} ns   Rust {:6.0} ns   {:.3}x", name, c, rust, rust / c);
    };

    let (mut c, mut rust) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        let (memory, size) = workspace.as_mut_ptr();
        c.push(time(&mut || {
            // SAFETY: the same call as below.
            let status = unsafe { (api.flashattn_forward)(plan.as_ptr(), call.raw(), memory, size, null_mut()) };
            assert_eq!(status, 0);
        }));
        rust.push(time(&mut || plan.forward(&mut call, &mut workspace).unwrap()));
    }
    report("forward", c, rust);

    let (mut c, mut rust) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        c.push(time(&mut || {
            // SAFETY: the same call as below.
            let status = unsafe { (api.flashattn_attention)(handle.as_ptr(), problem.raw(), call.raw(), null_mut()) };
            assert_eq!(status, 0);
        }));
        rust.push(time(&mut || handle.attention(&problem, &mut call).unwrap()));
    }
    report("attention", c, rust);
}
