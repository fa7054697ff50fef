// Objects that exist once in each process, also in a process that was forked.
#pragma once

#include <atomic>

#include "system.hpp"

namespace tightdp {

// Holds the one T of this process. The object is made at the first use, and never destroyed, since threads may outlive
// main.
//
// A forked child makes another T. The child has only the thread that called fork. If another thread was changing the
// parent's T at that moment, the copy in the child would stay half changed and locked for ever. The child never frees
// this copy.
//
// The class itself uses no lock, because the child could find this lock locked. For the same reason it has no static
// variable inside of a function: the first use of such a variable takes a lock.
template <class T>
class PerProcess {
  public:
    static T& get() {
        static_cast<void>(registered_);  // a static member of a template is initialised only where it is used
        T* found = current_.load();
        if (found) return *found;
        T* const made = new T;
        if (current_.compare_exchange_strong(found, made)) return *made;
        delete made;  // another thread made the T first
        return *found;
    }

  private:
    static inline std::atomic<T*> current_{nullptr};
    static inline const int registered_ = system::at_fork(nullptr, [] { current_.store(nullptr); });
};

}  // namespace tightdp
