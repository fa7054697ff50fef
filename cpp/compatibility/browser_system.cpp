// Defines the functions of runtime/system.hpp for WebAssembly, where a program has one thread, no fork, and no secure
// randomness for releases.
#include <system_error>

#include "runtime/system.hpp"

namespace tightdp::system {

int count_processors() noexcept {
    return 1;
}

std::size_t second_level_cache() noexcept {
    return 0;
}

void random_bytes(void*, std::size_t) {
    throw std::system_error(std::make_error_code(std::errc::function_not_supported), "no secure generator");
}

int at_fork(void (*)(), void (*)()) noexcept {
    return 0;
}

int processor_to_leave() noexcept {
    return -1;
}

void keep_off(int, std::span<const std::thread::native_handle_type>) noexcept {}

}  // namespace tightdp::system
