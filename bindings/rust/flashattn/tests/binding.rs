// SPDX-License-Identifier: Apache-2.0
//! What the binding adds: ownership, checks, errors, threads, and nothing copied.

// What the const form of thread_local! expands to in Rust 1.63.
#![allow(clippy::declare_interior_mutable_const)]

use flashattn::{Backend, Call, Float16, Handle, Input, Options, Plan, Problem, Status, Tensor, TensorMut, Workspace};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what Rust code of one thread allocates.
struct Counting;
thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

// SAFETY: the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        System.alloc(layout)
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        System.dealloc(memory, layout)
    }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn cpu() -> Handle {
    Handle::open(&Options::new().backend(Backend::Cpu).num_threads(1)).unwrap()
}

/// Two sequences of 5 queries and keys, 4 heads over 2, dimension 8.
struct Tensors {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    o: Vec<f32>,
}

impl Tensors {
    fn new() -> Tensors {
        Tensors { q: vec![0.5; 320], k: vec![0.25; 160], v: vec![1.5; 160], o: vec![0.0; 320] }
    }
    fn call(&mut self) -> Call<'_> {
        Call::new(
            Tensor::new(&self.q, [2, 5, 4, 8]),
            Tensor::new(&self.k, [2, 5, 2, 8]),
            Tensor::new(&self.v, [2, 5, 2, 8]),
            TensorMut::new(&mut self.o, [2, 5, 4, 8]),
        )
    }
}

fn refusal(problem: &Problem, mut call: Call<'_>) -> String {
    let error = cpu().attention(problem, &mut call).expect_err("refused");
    assert_eq!(error.status(), Status::INVALID_ARGUMENT);
    error.text().to_string()
}

#[test]
fn pointers_pass_through_and_forward_allocates_nothing() {
    let mut t = Tensors::new();
    let pointers = [t.q.as_ptr(), t.k.as_ptr(), t.v.as_ptr(), t.o.as_ptr()];
    let mut call = t.call();
    let raw = call.raw();
    assert_eq!([raw.q.data, raw.k.data, raw.v.data, raw.o.data].map(|p| p as *const f32), pointers);
    let plan = cpu().plan(&Problem::of(&call).causal(true)).unwrap();
    let mut workspace = plan.workspace().unwrap();
    let before = ALLOCATIONS.with(|count| count.get());
    for _ in 0..10 {
        plan.forward(&mut call, &mut workspace).unwrap();
    }
    assert_eq!(ALLOCATIONS.with(|count| count.get()), before);
    assert!(t.o.iter().all(|x| *x == 1.5));
}

#[test]
fn plans_outlive_handles_and_go_between_threads() {
    fn sendable<T: Send>() {}
    fn shareable<T: Sync>() {}
    sendable::<Handle>();
    shareable::<Handle>();
    sendable::<Plan>();
    shareable::<Plan>();
    sendable::<Workspace>();
    sendable::<Call<'_>>();

    let mut t = Tensors::new();
    let problem = Problem::of(&t.call());
    let plan = cpu().plan(&problem).unwrap(); // the handle is gone after this line
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut t = Tensors::new();
                let mut workspace = plan.workspace().unwrap();
                plan.forward(&mut t.call(), &mut workspace).unwrap();
                assert_eq!(t.o[319], 1.5);
            });
        }
    });
}

#[test]
fn errors_carry_status_and_text_of_the_thread_that_failed() {
    std::thread::scope(|scope| {
        for n in 1..=8 {
            scope.spawn(move || {
                let mut t = Tensors::new();
                let cap = -(n as f32);
                let call = t.call();
                let error = cpu().plan(&Problem::of(&call).softcap(cap)).expect_err("refused");
                assert_eq!(error.status(), Status::INVALID_ARGUMENT);
                assert_eq!(error.driver_error(), 0);
                assert!(error.text().contains(&format!("softcap is -{}", n)), "{}", error);
            });
        }
    });
    let error = Handle::open(&Options::new().backend(Backend::Cpu).device(7)).expect_err("no such device");
    assert_eq!(error.status(), Status::INVALID_DEVICE);
    let mut t = Tensors::new();
    let call = t.call();
    assert!(refusal(&Problem::of(&call).kernel(&"x".repeat(70)), call).contains("NUL within its 64 bytes"));
}

#[test]
fn tensors_must_fit_and_agree() {
    let mut t = Tensors::new();
    let (q, k, v) = (t.q.clone(), t.k.clone(), t.v.clone());
    let problem = Problem::of(&t.call());
    let full = |heads| [2, 5, heads, 8];
    let mut o = vec![0.0f32; 320];
    let mut with = |k: Tensor<'_, f32>, v: Tensor<'_, f32>, o_shape| {
        refusal(&problem, Call::new(Tensor::new(&q, full(4)), k, v, TensorMut::new(&mut o, o_shape)))
    };
    let good_k = Tensor::new(&k, full(2));
    let good_v = Tensor::new(&v, full(2));
    let text = with(Tensor::new(&k[1..], full(2)), good_v, full(4));
    assert_eq!(text, "k has elements 159; what shape and strides need is 160");
    assert_eq!(with(Tensor::new(&k, [2, 5, 1, 8]), good_v, full(4)), "k has heads 1; num_heads_kv is 2");
    assert_eq!(with(good_k, Tensor::new(&v, [1, 5, 2, 8]), full(4)), "v has batch 1; that of k is 2");
    assert_eq!(with(good_k, good_v, [2, 5, 4, 7]), "o has dim 7; head_dim_v is 8");
    assert_eq!(with(good_k, good_v, [2, 4, 4, 8]), "o has seqlen 4; that of q is 5");
    let one = [1, 5, 2, 8];
    let text = with(Tensor::new(&k, one), Tensor::new(&v, one), full(4));
    assert_eq!(text, "k has batch 1; that of the call is 2");
    let text = with(good_k, Tensor::strided(&v, full(2), [80, 16, usize::MAX]), full(4));
    assert!(text.starts_with("v has elements 160; what shape and strides need is 1844674407370955"), "{}", text);

    let half = vec![Float16(0); 160];
    let call = Call::new(
        Tensor::new(&q, full(4)),
        Tensor::new(&half, full(2)),
        Tensor::new(&half, full(2)),
        TensorMut::new(&mut t.o, full(4)),
    );
    assert_eq!(refusal(&problem, call), "k has dtype 2; dtype_kv is 1");
}

#[test]
fn lists_must_be_as_long_as_the_batch_and_their_strides_need() {
    fn refused<'a>(t: &'a mut Tensors, add: impl FnOnce(Call<'a>) -> Call<'a>) -> String {
        let call = add(t.call());
        refusal(&Problem::of(&call), call)
    }
    let t = &mut Tensors::new();
    let (one, table) = ([5i32], [0i32, 1, 2]);
    let three = [0.1f32; 3];
    assert!(refused(t, |c| c.seqused_kv(&one)).starts_with("seqused_kv has elements 1;"));
    assert!(refused(t, |c| c.seqused_q(&one)).starts_with("seqused_q has elements 1;"));
    assert!(refused(t, |c| c.diag_offsets(&one)).starts_with("diag_offsets has elements 1;"));
    assert!(refused(t, |c| c.page_table(&table, 2, 2)).starts_with("page_table has elements 3;"));
    assert!(refused(t, |c| c.page_csr(&[0, 1], &table)).starts_with("page_indptr has elements 2;"));
    assert!(refused(t, |c| c.page_csr(&[0, 1, 4], &table)).starts_with("page_indices has elements 3;"));
    assert!(refused(t, |c| c.alibi_slopes(&three, [0, 1])).starts_with("alibi_slopes has elements 3;"));
    assert!(refused(t, |c| c.sinks(&three, [0, 1])).starts_with("sinks has elements 3;"));
    assert!(refused(t, |c| c.bias(&[0.0f32; 24], [0, 0, 5, 1])).starts_with("bias has elements 24;"));
    let text = refused(t, |c| c.cu_seqlens_q(&[0i32, 1, 2]).cu_seqlens_kv(&[0i32, 1]));
    assert!(text.starts_with("cu_seqlens_kv has elements 2;"), "{}", text);
    let text = refused(t, |c| c.cu_seqlens_q(&[0i32, 1, 2]).cu_seqlens_kv(&[0i64, 1, 2]));
    assert!(text.starts_with("cu_seqlens_q has bits 32;"), "{}", text);
    let mut lse = [0.0f32; 39];
    let text = refused(t, |c| c.lse(TensorMut::new(&mut lse, [2, 5, 4, 1])));
    assert!(text.starts_with("lse has elements 39;"), "{}", text);
}

#[test]
fn a_workspace_serves_its_own_plan_only() {
    let mut t = Tensors::new();
    let mut call = t.call();
    let handle = cpu();
    let (first, second) = (handle.plan(&Problem::of(&call)).unwrap(), handle.plan(&Problem::of(&call)).unwrap());
    let mut workspace = first.workspace().unwrap();
    assert_eq!(second.forward(&mut call, &mut workspace).expect_err("refused").status(), Status::WORKSPACE);
    first.forward(&mut call, &mut workspace).unwrap();
}

#[test]
fn device_memory_is_refused_on_the_cpu() {
    let mut t = Tensors::new();
    // SAFETY: it is never read: the call is refused.
    let q = unsafe { Input::device(t.q.as_ptr(), t.q.len()) };
    let call = Call::new(
        Tensor::new(q, [2, 5, 4, 8]),
        Tensor::new(&t.k, [2, 5, 2, 8]),
        Tensor::new(&t.v, [2, 5, 2, 8]),
        TensorMut::new(&mut t.o, [2, 5, 4, 8]),
    );
    assert_eq!(refusal(&Problem::of(&call), call), "the call has device memory; the handle's device is the CPU");
}

#[test]
fn plans_tell_what_was_decided() {
    let mut t = Tensors::new();
    let plan = cpu().plan(&Problem::of(&t.call()).kernel("fwd_cpu_scalar")).unwrap();
    let info = plan.info();
    assert_eq!((info.kernel.as_str(), info.backend), ("fwd_cpu_scalar", Backend::Cpu));
    assert!(info.deterministic && info.workspace_alignment.is_power_of_two());
    let library = flashattn::Library::of_program().unwrap();
    assert_eq!(library.devices(Backend::Cpu).len(), 1);
}
