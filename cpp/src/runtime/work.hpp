// A budget of work for a question, and the way out of a long computation when somebody asks it to stop.
//
// Work is counted in units of about a nanosecond of one core, by what is done and not by a clock: whether a budget
// suffices is a function of the question alone, and so is the answer. What is found in a store or a cache is charged
// with what it took to make. Counters belong to a thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>

namespace tightdp {

// Thrown by work::spend.
struct OutOfWork : std::exception {
    const char* what() const noexcept override { return "the question's budget of work is spent"; }
};
struct Interrupted : std::exception {
    const char* what() const noexcept override { return "interrupted"; }
};

namespace work {

inline constexpr std::int64_t kUnlimited = INT64_MAX / 4;
// Units between looks at whether to stop: some milliseconds.
inline constexpr std::int64_t kBetweenLooks = 4'000'000;

struct Counter {
    std::int64_t spent = 0, limit = kUnlimited;
    std::int64_t passed = 0;  // as spent, but what is done aside counts as well
    std::int64_t looked = 0;  // passed at the last look
    bool aside = false;
    bool (*signalled)() = nullptr;            // whether a signal asks this thread to stop
    const std::atomic<bool>* stop = nullptr;  // whether another thread does
};

inline Counter& counter() noexcept {
    thread_local Counter mine;
    return mine;
}

// Looks whether to stop: Interrupted.
void look(Counter& c);

// Units that all threads of this process had passed at their last looks: how much is done after a signal.
std::int64_t passed_by_all() noexcept;

inline std::int64_t spent() noexcept { return counter().spent; }

// OutOfWork beyond the limit, of which one unit more is then spent; Interrupted where that is asked. Called where the
// next piece of work of so many units begins, a piece being some milliseconds at most.
inline void spend(std::int64_t units) {
    Counter& c = counter();
    c.passed += units;
    if (c.passed - c.looked >= kBetweenLooks) look(c);
    if (c.aside) return;
    c.spent += units;
    if (c.spent <= c.limit) return;
    // The same count whatever piece it ended with: one piece, or all that something kept took to make.
    c.spent = c.limit + 1;
    throw OutOfWork{};
}

// Whether more was spent than the limit allows: spend would throw.
inline bool exhausted() noexcept { return counter().spent > counter().limit; }

// Whether this thread is asked to stop, looked at once in so many units: for loops that must not throw, and
// whose work is not charged.
inline bool asked_to_stop(std::int64_t units) noexcept {
    Counter& c = counter();
    c.passed += units;
    if (c.passed - c.looked < kBetweenLooks) return false;
    try {
        look(c);
        return false;
    } catch (const Interrupted&) {
        return true;
    }
}

// Sets a field of this thread's counter for the length of a scope.
template <auto field>
class Scoped {
  public:
    using Value = std::remove_reference_t<decltype(counter().*field)>;

    explicit Scoped(Value value) noexcept : before_(counter().*field) { counter().*field = value; }
    ~Scoped() { counter().*field = before_; }
    Scoped(const Scoped&) = delete;
    Scoped& operator=(const Scoped&) = delete;

  private:
    const Value before_;
};

// Allows at most this many units of work within its scope, and no more than a scope around it allows.
struct Budget : Scoped<&Counter::limit> {
    explicit Budget(std::int64_t units) noexcept : Scoped(limit_of(counter(), units)) {}

  private:
    static std::int64_t limit_of(const Counter& c, std::int64_t units) noexcept {
        return units < c.limit - c.spent ? c.spent + units : c.limit;
    }
};

// Marks work that is not charged, but can be interrupted: tables that are made once for many questions, and the last
// steps of a question that ran out of units. The work within its scope has to be of bounded size.
struct Aside : Scoped<&Counter::aside> {
    Aside() noexcept : Scoped(true) {}
};

// Makes the calling thread stop, within its scope, when the flag is set.
using StopsOn = Scoped<&Counter::stop>;

}  // namespace work
}  // namespace tightdp
