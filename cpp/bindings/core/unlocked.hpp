// Runs long computations without the interpreter's lock, and checks for signals during them.
#pragma once

#include "../bind.hpp"
#include "runtime/work.hpp"

namespace tightdp::bindings {

// Returns whether a signal handler raised an exception. The exception stays set for this thread. Signals are checked at
// most every 50 ms.
bool signalled();

// Raises the exception of a signal handler, or KeyboardInterrupt if another thread asked to stop.
[[noreturn]] void raise_interrupt();

// Returns f(), which is called without the interpreter's lock. An interrupt is raised as a Python exception.
template <class F>
auto unlocked(F&& f) {
    const work::Scoped<&work::Counter::signalled> asking(signalled);
    try {
        py::gil_scoped_release release;
        return f();
    } catch (const Interrupted&) {
        raise_interrupt();
    }
}

}  // namespace tightdp::bindings
