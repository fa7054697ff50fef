// tightdp._core: budgets of work and interrupts (runtime/work_budget.hpp).
#include <chrono>
#include <memory>

#include "../bind.hpp"
#include "unlocked.hpp"

namespace tightdp::bindings {

bool has_python_signal() {
    using Clock = std::chrono::steady_clock;
    constexpr auto kBetween = std::chrono::milliseconds(50);
    thread_local Clock::time_point last{};
    const auto now = Clock::now();
    if (now - last < kBetween) return false;
    last = now;
    py::gil_scoped_acquire lock;
    return PyErr_CheckSignals() != 0;  // runs signal handlers in the main thread, and does nothing in other threads
}

void raise_interrupt() {
    if (!PyErr_Occurred()) PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
}

}  // namespace tightdp::bindings

namespace {

namespace work = tightdp::work;

// The context manager `with Budget(units):`, which applies work::Budget. An object can be used by one thread and in one
// `with` statement at a time.
class Budget {
  public:
    explicit Budget(std::int64_t units) : units_(units) {}
    void enter_python_budget() { scope_ = std::make_unique<work::Budget>(units_); }
    void exit_python_budget(const py::args&) { scope_.reset(); }

  private:
    std::int64_t units_;
    std::unique_ptr<work::Budget> scope_;
};

// A flag that asks threads to stop. A Python function that starts threads and waits for them makes them watch the flag.
class Stop {
  public:
    void set_python_stop() { flag_->store(true, std::memory_order_relaxed); }

    // Makes the calling thread stop its work as soon as the flag is set. The thread keeps the flag alive.
    void watch_python_stop() {
        thread_local std::shared_ptr<std::atomic<bool>> watched;
        watched = flag_;
        work::thread_work_counter().stop = watched.get();
    }

  private:
    std::shared_ptr<std::atomic<bool>> flag_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

void bind_work_budget(py::module_& m) {
    using namespace py::literals;
    py::class_<Budget>(m, "Budget",
                       "Limits the units of work that this thread spends within a `with` statement. A unit is about a "
                       "nanosecond.")
        .def(py::init<std::int64_t>(), "units"_a)
        .def("__enter__", &Budget::enter_python_budget)
        .def("__exit__", &Budget::exit_python_budget);
    py::class_<Stop>(m, "Stop", "Stops the threads that watch this flag at their next check.")
        .def(py::init<>())
        .def("set", &Stop::set_python_stop)
        .def("watch", &Stop::watch_python_stop);
    m.def("work_spent", &work::spent, "Units of work that this thread has spent.");
    m.def(
        "work_left", [] { return work::thread_work_counter().limit - work::spent(); },
        "Units of work that this thread may still spend. Negative once the budget is exceeded.");
    m.def("work_passed_by_all", &work::work_passed_by_all_threads,
          "Units of work that all threads had done at their last checks whether to stop.");
    m.def(
        "work_charge",
        [](std::int64_t units) {
            try {
                work::spend(units);
            } catch (const tightdp::OutOfWork&) {
                return false;
            } catch (const tightdp::Interrupted&) {
                tightdp::bindings::raise_interrupt();
            }
            return true;
        },
        "units"_a, "Charges the work that computed a stored result. Returns False if the budget does not allow it.");
}
