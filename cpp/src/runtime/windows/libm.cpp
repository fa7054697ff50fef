// MinGW links sin, cos and pow of its own, which use the x87. Near multiples of pi, and at large powers, they are off
// by hundreds of thousands of units in the last place, where docs/theory/closed-forms.md, section 1, allows 4. Those of
// the system's C library stand in for them here. library_fault (runtime/arithmetic.hpp) holds them to the allowance.
#if defined(__MINGW32__) && defined(__x86_64__)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <cstdlib>

namespace {

// Every Windows since 10 has ucrtbase.dll, and Python brings it to older ones.
template <class Function>
Function* of_system(const char* name) noexcept {
    const HMODULE library = LoadLibraryA("ucrtbase.dll");
    void* const found = library ? reinterpret_cast<void*>(GetProcAddress(library, name)) : nullptr;
    if (!found) std::abort();
    return reinterpret_cast<Function*>(found);
}

// Called through pointers: GCC would make sincos of two calls that it knows.
double sine(double x) {
    static const auto found = of_system<double(double)>("sin");
    return found(x);
}

double cosine(double x) {
    static const auto found = of_system<double(double)>("cos");
    return found(x);
}

}  // namespace

extern "C" {

double sin(double x) {
    return sine(x);
}

double cos(double x) {
    return cosine(x);
}

void sincos(double x, double* sine_of_x, double* cosine_of_x) {
    *sine_of_x = sine(x);
    *cosine_of_x = cosine(x);
}

double pow(double x, double y) {
    static const auto found = of_system<double(double, double)>("pow");
    return found(x, y);
}

}  // extern "C"
#endif
