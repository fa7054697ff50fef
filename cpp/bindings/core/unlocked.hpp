// Long computations release the interpreter's lock, and look for signals on the way.
#pragma once

#include "../bind.hpp"
#include "runtime/work.hpp"

namespace tightdp::bindings {

// Whether a handler of a signal raised an exception; it is left set for this thread. Asks at most every 50 ms.
bool signalled();

// Raises what a handler raised, or KeyboardInterrupt where another thread asked to stop.
[[noreturn]] void raise_interrupt();

// f() without the lock; an interrupt comes out of it as a Python exception.
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
