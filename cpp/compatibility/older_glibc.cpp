// Makes a shared object loadable with glibc 2.28 (manylinux_2_28), even if it was linked against a newer C library.
//
// The linker binds a function to the newest version of its symbol. The functions below got a new version after 2.28,
// although their older versions do the same. The new versions of exp, exp2, log, log2, pow and hypot only changed how
// errno is set. The functions for threads and for loading libraries moved from libpthread and libdl to libc. Each
// function is defined here as a hidden symbol, which calls the older version. Three symbols have no version in 2.28,
// and are defined here by older functions. libstdc++ is linked statically and uses the functions of this file too.
//
// The file is compiled with -fno-builtin, and without the headers of the C library, whose declarations have versions
// and attributes.
#include <cstddef>

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define TIMEDWAIT "GLIBC_2.3.2"
#define AFFINITY "GLIBC_2.3.4"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define TIMEDWAIT OLDEST
#define AFFINITY OLDEST
#else
#error "which versions glibc has of these symbols is known for x86-64 and aarch64"
#endif

// Defines extern "C" result name(parameters), which calls name@version.
#define OLDER(version, result, name, parameters, arguments)            \
    extern "C" result older_##name parameters;                         \
    __asm__(".symver older_" #name "," #name "@" version);             \
    extern "C" __attribute__((visibility("hidden"))) result name parameters { return older_##name arguments; }

OLDER(OLDEST, double, exp, (double x), (x))
OLDER(OLDEST, double, exp2, (double x), (x))
OLDER(OLDEST, double, log, (double x), (x))
OLDER(OLDEST, double, log2, (double x), (x))
OLDER(OLDEST, double, pow, (double x, double y), (x, y))
OLDER(OLDEST, double, hypot, (double x, double y), (x, y))

// The handle of a thread is an integer in glibc, and so is the key of thread-specific data. The functions below pass
// pointers on, and do not read the objects that the pointers point to.
using Thread = unsigned long;
using Key = unsigned;
OLDER(OLDEST, int, pthread_create, (Thread* t, const void* attr, void* (*run)(void*), void* with), (t, attr, run, with))
OLDER(OLDEST, int, pthread_detach, (Thread t), (t))
OLDER(OLDEST, int, pthread_join, (Thread t, void** result), (t, result))
OLDER(OLDEST, int, pthread_once, (int* control, void (*run)()), (control, run))
OLDER(OLDEST, int, pthread_mutex_trylock, (void* mutex), (mutex))
OLDER(OLDEST, int, pthread_key_create, (Key* key, void (*drop)(void*)), (key, drop))
OLDER(OLDEST, int, pthread_key_delete, (Key key), (key))
OLDER(OLDEST, void*, pthread_getspecific, (Key key), (key))
OLDER(OLDEST, int, pthread_setspecific, (Key key, const void* value), (key, value))
OLDER(AFFINITY, int, pthread_setaffinity_np, (Thread t, std::size_t size, const void* set), (t, size, set))

OLDER(OLDEST, void*, dlopen, (const char* path, int mode), (path, mode))
OLDER(OLDEST, void*, dlsym, (void* library, const char* name), (library, name))

struct Time {
    long seconds, nanoseconds;
};
extern "C" int clock_gettime(int clock, Time* now);
extern "C" int older_timedwait(void* condition, void* mutex, const Time* until);
__asm__(".symver older_timedwait,pthread_cond_timedwait@" TIMEDWAIT);

// The older function waits by the wall clock. If the wall clock is set during a wait, the wait ends too early or too
// late by the change of the clock. All callers with a time limit check their condition again after the wait.
extern "C" __attribute__((visibility("hidden"))) int pthread_cond_clockwait(void* condition, void* mutex, int clock,
                                                                            const Time* until) {
    constexpr int kWall = 0;
    constexpr long kSecond = 1'000'000'000;
    Time now, wall;
    clock_gettime(clock, &now);
    clock_gettime(kWall, &wall);
    Time at{wall.seconds + until->seconds - now.seconds, wall.nanoseconds + until->nanoseconds - now.nanoseconds};
    if (at.nanoseconds < 0) at = {at.seconds - 1, at.nanoseconds + kSecond};
    if (at.nanoseconds >= kSecond) at = {at.seconds + 1, at.nanoseconds - kSecond};
    return older_timedwait(condition, mutex, &at);
}

// The value 0 says that there may be other threads, and makes libstdc++ count references atomically.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the name is glibc's
extern __attribute__((visibility("hidden"))) char __libc_single_threaded;
char __libc_single_threaded = 0;
// NOLINTEND(bugprone-reserved-identifier)
}

// libstdc++'s std::random_device calls arc4random. The library does not use std::random_device, because its keys come
// from getrandom (src/runtime/posix/system.cpp).
extern "C" long getrandom(void* out, std::size_t bytes, unsigned flags);
extern "C" void abort() __attribute__((noreturn));
extern "C" __attribute__((visibility("hidden"))) unsigned arc4random() {
    unsigned word;
    if (getrandom(&word, sizeof word, 0) != sizeof word) abort();
    return word;
}
