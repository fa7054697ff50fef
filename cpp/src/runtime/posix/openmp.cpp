#include "runtime/openmp.hpp"

#include <dlfcn.h>

#if defined(__linux__)
#include <link.h>
#elif defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <cstring>

#include "runtime/system.hpp"

namespace tightdp::openmp {
namespace {

// The entry points of GCC's OpenMP runtime. The runtimes of LLVM and Intel have these entry points too, in addition to
// their own.
struct Runtime {
    void (*parallel)(void (*)(void*), void*, unsigned threads, unsigned flags) = nullptr;
    int (*thread_num)() = nullptr;
    int (*num_threads)() = nullptr;
    int (*max_threads)() = nullptr;
    int (*in_parallel)() = nullptr;
    int (*pause)(int kind) = nullptr;  // null if the runtime needs no pause before a fork
};
constexpr int kPauseSoft = 1;  // omp_pause_soft: threads end, and settings are kept

template <class Function>
bool look_up_openmp_function(void* library, const char* name, Function& found) noexcept {
    found = reinterpret_cast<Function>(dlsym(library, name));
    return found != nullptr;
}

// Finds the OpenMP runtime that the loaded library at `path` calls. The symbols are looked up in this library and in
// the libraries that it links. Returns whether all entry points were found.
bool find_openmp_runtime_in(const char* path, Runtime& found) noexcept {
    void* library = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : nullptr;  // never closed, since threads use it
    // The runtimes of LLVM and Intel have the symbol __kmpc_fork_call. They need no pause before a fork.
    if (library && !dlsym(library, "__kmpc_fork_call"))
        look_up_openmp_function(library, "omp_pause_resource_all", found.pause);
    return library && look_up_openmp_function(library, "GOMP_parallel", found.parallel) &&
           look_up_openmp_function(library, "omp_get_thread_num", found.thread_num) &&
           look_up_openmp_function(library, "omp_get_num_threads", found.num_threads) &&
           look_up_openmp_function(library, "omp_get_max_threads", found.max_threads) &&
           look_up_openmp_function(library, "omp_in_parallel", found.in_parallel);
}

// Returns whether `path` is that of the library that contains PyTorch's loops.
bool is_torch_library(const char* path) noexcept {
    const char* slash = path ? std::strrchr(path, '/') : nullptr;
    return slash && std::strncmp(slash + 1, "libtorch_cpu.", 13) == 0;
}

#if defined(__linux__)
struct Loaded {
    unsigned long long loads = 0;  // number of libraries loaded since the process began
    const char* torch = nullptr;
};

extern "C" int visit_first(dl_phdr_info* info, std::size_t, void* loads) {
    *static_cast<unsigned long long*>(loads) = info->dlpi_adds;
    return 1;
}

extern "C" int visit_all(dl_phdr_info* info, std::size_t, void* loaded) {
    if (is_torch_library(info->dlpi_name)) static_cast<Loaded*>(loaded)->torch = info->dlpi_name;
    return 0;
}

// Returns a number that grows whenever a library is loaded. The call takes a tenth of a microsecond.
unsigned long long count_loaded_libraries() noexcept {
    unsigned long long count = 0;
    dl_iterate_phdr(visit_first, &count);
    return count;
}

const char* find_torch_library() noexcept {
    Loaded loaded;
    dl_iterate_phdr(visit_all, &loaded);
    return loaded.torch;  // the loader owns this string, which lives as long as the library
}
#elif defined(__APPLE__)
unsigned long long count_loaded_libraries() noexcept {
    return _dyld_image_count();
}

const char* find_torch_library() noexcept {
    for (std::uint32_t i = 0; i < _dyld_image_count(); ++i)
        if (is_torch_library(_dyld_get_image_name(i))) return _dyld_get_image_name(i);
    return nullptr;
}
#else
unsigned long long count_loaded_libraries() noexcept {
    return 1;
}

const char* find_torch_library() noexcept {
    return nullptr;
}
#endif

std::atomic<const Runtime*> found{nullptr};
std::atomic<bool> forked{false};
thread_local bool used = false;  // whether this thread's team may have been started by run_in_openmp_pool()

// Ends the team of threads of the thread that is about to fork. In the child, the next loop would otherwise make GCC's
// runtime wait for threads that only the parent has. The next loop of the parent starts a new team.
void end_posix_openmp_team() {
    const Runtime* omp = found.load(std::memory_order_acquire);
    if (used && omp && omp->pause) omp->pause(kPauseSoft);
    used = false;
}
const int registered = system::at_fork(end_posix_openmp_team, [] { forked.store(true); });

const bool off = [] {
    const char* text = std::getenv("TIGHTDP_OPENMP");
    return text && std::strcmp(text, "0") == 0;
}();

bool is_posix_openmp_wanted() noexcept {
    static_cast<void>(registered);
    return !off && !forked.load(std::memory_order_relaxed);
}

// Returns the runtime if PyTorch is loaded, and null otherwise. The search is repeated if a library was loaded since
// the last search.
const Runtime* find_posix_openmp_runtime() noexcept {
    static constinit Runtime kept;
    static constinit std::atomic<unsigned long long> looked{0};
    static constinit std::atomic_flag looking = ATOMIC_FLAG_INIT;
    if (const Runtime* known = found.load(std::memory_order_acquire)) return known;
    const unsigned long long now = count_loaded_libraries();
    if (looked.load(std::memory_order_relaxed) == now || looking.test_and_set(std::memory_order_acquire))
        return nullptr;
    if (!found.load(std::memory_order_acquire) && find_openmp_runtime_in(find_torch_library(), kept))
        found.store(&kept, std::memory_order_release);
    looked.store(now, std::memory_order_relaxed);
    looking.clear(std::memory_order_release);
    return found.load(std::memory_order_acquire);
}

struct Job {
    const Runtime& runtime;
    int wanted;
    void (*body)(void*, int, int);
    void* context;
};

extern "C" void run_openmp_job(void* given) {
    const Job& job = *static_cast<const Job*>(given);
    const int worker = job.runtime.thread_num();
    const int workers = std::min(job.wanted, job.runtime.num_threads());
    if (worker == 0) return job.body(job.context, 0, workers);
    if (worker >= workers) return;
    std::fenv_t before;  // PyTorch may have set its threads to flush subnormal numbers
    std::fegetenv(&before);
    std::fesetenv(FE_DFL_ENV);
    job.body(job.context, worker, workers);
    std::fesetenv(&before);
}

std::atomic_flag busy = ATOMIC_FLAG_INIT;

}  // namespace

Outcome run_in_openmp_pool(int wanted, void (*body)(void*, int, int), void* context) {
    if (!is_posix_openmp_wanted()) return Outcome::kNone;
    const Runtime* omp = find_posix_openmp_runtime();
    if (!omp) return Outcome::kNone;
    if (omp->in_parallel()) return Outcome::kBusy;
    if (omp->max_threads() < wanted) return Outcome::kNone;
    if (busy.test_and_set(std::memory_order_acquire)) return Outcome::kBusy;
    Job job{*omp, wanted, body, context};
    // Uses the whole team, as PyTorch's loops do. For a smaller team the runtime would end threads, and start them
    // again in PyTorch's next loop.
    used = true;
    omp->parallel(run_openmp_job, &job, 0, 0);
    busy.clear(std::memory_order_release);
    return Outcome::kDone;
}

}  // namespace tightdp::openmp
