// PyTorch's OpenMP runtime on Windows lacks the entry points that posix/openmp.cpp calls. Kernels therefore run in the
// library's own pool of threads.
#include "runtime/openmp.hpp"

namespace tightdp::openmp {

Outcome run_in_openmp_pool(int, void (*)(void*, int, int), void*) {
    return Outcome::kNone;
}

}  // namespace tightdp::openmp
