#include "runtime/system.hpp"

#include <pthread.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#endif
#if defined(__linux__) || defined(__APPLE__)
#include <sys/random.h>
#endif

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace tightdp::system {

int count_processors() noexcept {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    return 0;
}

std::size_t second_level_cache() noexcept {
#if defined(_SC_LEVEL2_CACHE_SIZE)
    const auto size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (size > 0) return static_cast<std::size_t>(size);
#endif
    return 0;
}

void random_bytes(void* out, std::size_t bytes) {
    auto* to = static_cast<unsigned char*>(out);
    while (bytes > 0) {
#if defined(__linux__)
        const ssize_t got = getrandom(to, bytes, 0);
#else
        const std::size_t piece = std::min<std::size_t>(bytes, 256);  // getentropy's limit
        const ssize_t got = getentropy(to, piece) == 0 ? static_cast<ssize_t>(piece) : -1;
#endif
        if (got < 0) {
            if (errno == EINTR) continue;
            throw std::system_error(errno, std::generic_category(), "the operating system gave no random bytes");
        }
        to += got;
        bytes -= static_cast<std::size_t>(got);
    }
}

int at_fork(void (*before)(), void (*in_child)()) noexcept {
    return pthread_atfork(before, nullptr, in_child);
}

// On Linux, helper threads must be kept off the caller's processor, because they may wait there for milliseconds. On
// a virtual machine, if a processor has slept for some milliseconds, Linux assumes that the host has taken it away. If
// the caller then wakes a helper thread, Linux starts the helper on the caller's own processor, where the helper waits
// for the scheduler's next tick. This wait was measured as 2 to 4 ms for each job after a pause.
int processor_to_leave() noexcept {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

void keep_off([[maybe_unused]] int processor,
              [[maybe_unused]] std::span<const std::thread::native_handle_type> threads) noexcept {
#if defined(__linux__)
    cpu_set_t others;
    if (sched_getaffinity(0, sizeof others, &others) != 0) return;
    CPU_CLR(processor, &others);
    if (CPU_COUNT(&others) == 0) return;
    for (const auto thread : threads) pthread_setaffinity_np(thread, sizeof others, &others);
#endif
}

bool grant_tiles() noexcept {
#if defined(__linux__) && defined(__x86_64__)
    constexpr long kRequestComponent = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequestComponent, kTileData) == 0;
#else
    return false;
#endif
}

}  // namespace tightdp::system
