// Functions that differ between operating systems. CMake compiles their definitions in posix/ or in windows/.
#pragma once

#include <cstddef>
#include <span>
#include <thread>

namespace tightdp::system {

// Returns the number of processors that this process may run on, or 0 where the system does not say.
int processors() noexcept;

// Returns the bytes of a processor's second-level cache, or 0 where the system does not say.
std::size_t second_level_cache() noexcept;

// Fills `out` from the system's secure generator. Throws std::system_error where it has none.
void random_bytes(void* out, std::size_t bytes);

// Registers functions that fork calls from now on: `before` first, and `in_child` last, in the child. Each may be null.
// Windows has no fork.
int at_fork(void (*before)(), void (*in_child)()) noexcept;

// The processor that the calling thread runs on; -1 where threads need not be kept off it (keep_off).
int processor_to_leave() noexcept;
// Bars the threads from this processor, if the process has another one.
void keep_off(int processor, std::span<const std::thread::native_handle_type> threads) noexcept;

// Asks the system for the tile registers of AMX; false where it does not grant them to this process.
bool grant_tiles() noexcept;

}  // namespace tightdp::system
