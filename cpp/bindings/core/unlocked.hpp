// Runs long computations without the interpreter's lock, and checks for signals during them.
#pragma once

#include "../bind.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::bindings {

// Runs the handlers of pending signals, and returns whether a handler raised an exception. The exception stays set for
// this thread. The function returns false if it looked for signals less than 50 ms ago.
bool has_python_signal();

// Raises the exception of a signal handler. If no handler raised an exception, another thread has asked this thread to
// stop, and KeyboardInterrupt is raised.
[[noreturn]] void raise_interrupt();

// Returns f(), which is called without the interpreter's lock. An interrupt is raised as a Python exception.
template <class F>
auto run_unlocked(F&& f) {
    const work::Scoped<&work::Counter::signalled> asking(has_python_signal);
    try {
        py::gil_scoped_release release;
        return f();
    } catch (const Interrupted&) {
        raise_interrupt();
    }
}

}  // namespace tightdp::bindings
