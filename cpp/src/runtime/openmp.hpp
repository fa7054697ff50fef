// Runs the loops of our kernels in the pool of threads in which PyTorch's operations run.
//
// After an operation, PyTorch's threads spin for milliseconds while they wait for the next operation. Threads of our
// own would compete with the spinning threads for the processors. Therefore, if PyTorch is loaded, its OpenMP runtime
// runs our loops on the same threads. The runtime is looked up in the process, and never linked.
#pragma once

namespace tightdp::openmp {

enum class Outcome {
    kNone,  // there is no such pool, or it has too few threads. Nothing was called
    kBusy,  // the pool serves another caller, or this caller is inside one of the pool's loops. Nothing was called
    kDone,
};

// Calls body(context, worker, workers) once for each worker in [0, workers), all at the same time. `workers` is
// `wanted`, or smaller if the runtime gives fewer threads. Worker 0 is the calling thread. All threads run in the
// default floating-point environment, except for the caller, which keeps its own. The body must not throw.
//
// In a forked child there is never a pool. The team that this function started for a thread ends before the thread
// forks, so that PyTorch's loops in the child do not wait for the team. With TIGHTDP_OPENMP=0 in the environment there
// is no pool.
Outcome run_in_openmp_pool(int wanted, void (*body)(void*, int, int), void* context);

}  // namespace tightdp::openmp
