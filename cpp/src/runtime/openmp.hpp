// The pool of threads that PyTorch's operations run in.
//
// After an operation its threads spin for milliseconds, waiting for the next one. Threads of our own would compete with
// them for the processors, while these threads can run our loops at once. So where PyTorch is loaded, its OpenMP
// runtime is asked to. It is looked up in the process, and never linked.
#pragma once

namespace tightdp::openmp {

enum class Outcome {
    kNone,  // there is no such pool, or it is too small; nothing was called
    kBusy,  // it serves another caller, or this one is inside one of its loops; nothing was called
    kDone,
};

// Calls body(context, worker, workers) once for each worker in [0, workers), all at the same time, where `workers` is
// `wanted`, or fewer where the runtime gives fewer threads; worker 0 is the calling thread. Every thread runs in the
// default floating-point environment, but for the caller, who keeps its own. The body must not throw.
//
// In a forked child there is never a pool, and the team that a call of this function started is no more when the caller
// forks: PyTorch's loops work in the child. TIGHTDP_OPENMP=0 in the environment says that there is none.
Outcome run(int wanted, void (*body)(void*, int, int), void* context);

}  // namespace tightdp::openmp
