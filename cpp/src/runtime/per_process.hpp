// Objects of which each process has one of its own, also after fork.
#pragma once

#include <atomic>

#include "system.hpp"

namespace tightdp {

// The one T of this process, made when first asked for and never destroyed, for threads may outlive main.
//
// A forked child gets another one: it has only the thread that called fork, and what another thread was changing at
// that moment would stay half changed, and its locks locked, for ever. The parent's T is leaked in the child.
//
// Without a lock of its own, and without a static whose first use takes one: those could be found locked as well.
template <class T>
class PerProcess {
  public:
    static T& get() {
        static_cast<void>(registered_);  // a static member of a template is initialised only where it is used
        T* found = current_.load();
        if (found) return *found;
        T* const made = new T;
        if (current_.compare_exchange_strong(found, made)) return *made;
        delete made;  // another thread was first
        return *found;
    }

  private:
    static inline std::atomic<T*> current_{nullptr};
    static inline const int registered_ = system::at_fork(nullptr, [] { current_.store(nullptr); });
};

}  // namespace tightdp
