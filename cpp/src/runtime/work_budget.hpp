// Budgets of work for a question (the computation of an epsilon, delta or similar quantity), and the interruption of
// long computations.
//
// Work is counted in units of about a nanosecond of one core. Operations are counted, and no clock is read. Whether a
// budget suffices, and hence the answer, therefore depends on the question alone. A result that is found in a store or
// cache is charged with the work that computed it. Each thread has its own counter.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

namespace tightdp {

// Exceptions that work::spend throws.
struct OutOfWork : std::exception {
    const char* what() const noexcept override { return "the question's budget of work is spent"; }
};
struct Interrupted : std::exception {
    const char* what() const noexcept override { return "interrupted"; }
};

namespace work {

inline constexpr std::int64_t kUnlimited = INT64_MAX / 4;
// Units of work between two checks whether to stop. This work takes some milliseconds.
inline constexpr std::int64_t kBetweenLooks = 4'000'000;

struct Counter {
    std::int64_t spent = 0, limit = kUnlimited;
    std::int64_t passed = 0;  // units spent, including work that is not charged (Aside)
    std::int64_t looked = 0;  // value of `passed` at the last check whether to stop
    bool aside = false;       // true while work is not charged
    bool (*signalled)() = nullptr;            // returns whether a signal asks this thread to stop
    const std::atomic<bool>* stop = nullptr;  // true if another thread asks this thread to stop
};

inline Counter& thread_work_counter() noexcept {
    thread_local Counter mine;
    return mine;
}

// Checks whether this thread is asked to stop, and throws Interrupted if it is.
void check_work_stop(Counter& c);

// Returns how many units of work all threads of this process had done at their last checks whether to stop. Tests use
// this sum to find how much work is done after a signal.
std::int64_t work_passed_by_all_threads() noexcept;

inline std::int64_t spent() noexcept {
    return thread_work_counter().spent;
}

// Charges a piece of work of `units` units. The caller calls this function before the piece begins. A piece takes some
// milliseconds at most. Throws OutOfWork if the limit is exceeded. In that case `spent` becomes the limit plus one.
// Throws Interrupted if the thread is asked to stop.
inline void spend(std::int64_t units) {
    Counter& c = thread_work_counter();
    c.passed += units;
    if (c.passed - c.looked >= kBetweenLooks) check_work_stop(c);
    if (c.aside) return;
    c.spent += units;
    if (c.spent <= c.limit) return;
    // A stored result is charged with its whole work at once, which may exceed the limit by more than a piece of a
    // computation does. In both cases the count becomes the same number.
    c.spent = c.limit + 1;
    throw OutOfWork{};
}

// Returns whether more was spent than the limit allows, so that spend() would throw.
inline bool is_work_budget_exhausted() noexcept {
    return thread_work_counter().spent > thread_work_counter().limit;
}

// Returns whether this thread is asked to stop, for loops that must not throw and whose work is not charged. `units` is
// the work between two calls. The check is made once every kBetweenLooks units.
inline bool asked_to_stop(std::int64_t units) noexcept {
    Counter& c = thread_work_counter();
    c.passed += units;
    if (c.passed - c.looked < kBetweenLooks) return false;
    try {
        check_work_stop(c);
        return false;
    } catch (const Interrupted&) {
        return true;
    }
}

// Sets a field of this thread's counter as long as the object exists. The destructor restores the value from before.
template <auto field>
class Scoped {
  public:
    using Value = std::remove_reference_t<decltype(thread_work_counter().*field)>;

    explicit Scoped(Value value) noexcept : before_(thread_work_counter().*field) {
        thread_work_counter().*field = value;
    }
    ~Scoped() { thread_work_counter().*field = before_; }
    Scoped(const Scoped&) = delete;
    Scoped& operator=(const Scoped&) = delete;

  private:
    const Value before_;
};

// Allows at most `units` units of work as long as the object exists, and no more than an enclosing Budget allows.
struct Budget : Scoped<&Counter::limit> {
    explicit Budget(std::int64_t units) noexcept : Scoped(limit_work(thread_work_counter(), units)) {}

  private:
    static std::int64_t limit_work(const Counter& c, std::int64_t units) noexcept {
        return units < c.limit - c.spent ? c.spent + units : c.limit;
    }
};

// Work is not charged as long as the object exists, but can be interrupted. Such objects are used for tables that are
// computed once for many questions, and for the last steps of a question whose budget is spent. The work that is not
// charged has to be of bounded size.
struct Aside : Scoped<&Counter::aside> {
    Aside() noexcept : Scoped(true) {}
};

// Makes the calling thread stop when the given flag is set, as long as the object exists.
using StopsOn = Scoped<&Counter::stop>;

}  // namespace work
}  // namespace tightdp
