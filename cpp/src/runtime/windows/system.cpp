#include "runtime/system.hpp"

#define NOMINMAX 1
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
// has to follow windows.h
#include <bcrypt.h>

#include <algorithm>
#include <bit>
#include <new>
#include <system_error>
#include <vector>

namespace tightdp::system {

// Counts the processors that the process may use. They are in one processor group, which has at most 64.
int count_processors() noexcept {
    DWORD_PTR process = 0, machine = 0;
    return GetProcessAffinityMask(GetCurrentProcess(), &process, &machine) ? std::popcount(process) : 0;
}

std::size_t second_level_cache() noexcept try {
    DWORD bytes = 0;
    GetLogicalProcessorInformation(nullptr, &bytes);  // sets `bytes` to the size of the data
    std::vector<SYSTEM_LOGICAL_PROCESSOR_INFORMATION> parts(bytes / sizeof(SYSTEM_LOGICAL_PROCESSOR_INFORMATION));
    if (parts.empty() || !GetLogicalProcessorInformation(parts.data(), &bytes)) return 0;
    for (const auto& part : parts)
        if (part.Relationship == RelationCache && part.Cache.Level == 2) return part.Cache.Size;
    return 0;
} catch (const std::bad_alloc&) {
    return 0;
}

void random_bytes(void* out, std::size_t bytes) {
    auto* to = static_cast<unsigned char*>(out);
    while (bytes > 0) {
        const auto piece = static_cast<ULONG>(std::min<std::size_t>(bytes, 1u << 20));
        if (const NTSTATUS status = BCryptGenRandom(nullptr, to, piece, BCRYPT_USE_SYSTEM_PREFERRED_RNG); status < 0)
            throw std::system_error(static_cast<int>(status), std::system_category(),
                                    "the operating system gave no random bytes");
        to += piece;
        bytes -= piece;
    }
}

int at_fork(void (*)(), void (*)()) noexcept {
    return 0;
}

int processor_to_leave() noexcept {
    return -1;
}

void keep_off(int, std::span<const std::thread::native_handle_type>) noexcept {}

bool grant_tiles() noexcept {
    return false;
}

}  // namespace tightdp::system
