// Functions that differ between operating systems. CMake compiles their definitions in posix/ or in windows/.
#pragma once

#include <cstddef>
#include <span>
#include <thread>

namespace tightdp::system {

// Returns the number of processors that this process may run on, or 0 if the system does not tell.
int count_processors() noexcept;

// Returns the size in bytes of a processor's second-level cache, or 0 if the system does not tell.
std::size_t second_level_cache() noexcept;

// Fills `out` from the system's secure generator. Throws std::system_error if there is none.
void random_bytes(void* out, std::size_t bytes);

// Registers functions that later forks call: `before` before the fork, and `in_child` after the fork in the child. Each
// of the two may be null. Windows has no fork.
int at_fork(void (*before)(), void (*in_child)()) noexcept;

// Returns the processor on which the calling thread runs, if helper threads must be kept off this processor. Returns -1
// on systems where helper threads may use it too.
int processor_to_leave() noexcept;
// Forbids the threads to run on the given processor, if the process has another processor.
void keep_off(int processor, std::span<const std::thread::native_handle_type> threads) noexcept;

// Requests the tile registers of AMX for this process. Returns whether the system grants them.
bool grant_tiles() noexcept;

}  // namespace tightdp::system
