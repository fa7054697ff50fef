// Replaces MinGW's functions sin, cos and pow, which use the x87 unit, by the functions of the system's C library. Near
// multiples of pi, and for large powers, the errors of MinGW's functions are hundreds of thousands of units in the last
// place. docs/theory/closed-forms.md, section 1, allows 4 units. find_library_fault (runtime/arithmetic.hpp) tests the
// replacements.
#if defined(__MINGW32__) && defined(__x86_64__)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <cstdlib>

namespace {

// Returns a function of ucrtbase.dll. Windows has this library since version 10, and Python installs it on older
// versions of Windows.
template <class Function>
Function* find_in_windows_library(const char* name) noexcept {
    const HMODULE library = LoadLibraryA("ucrtbase.dll");
    void* const found = library ? reinterpret_cast<void*>(GetProcAddress(library, name)) : nullptr;
    if (!found) std::abort();
    return reinterpret_cast<Function*>(found);
}

// The functions are called through pointers. GCC would combine direct calls of sin and cos into a call of sincos, which
// is defined below by these functions.
double call_windows_sine(double x) {
    static const auto found = find_in_windows_library<double(double)>("sin");
    return found(x);
}

double call_windows_cosine(double x) {
    static const auto found = find_in_windows_library<double(double)>("cos");
    return found(x);
}

}  // namespace

extern "C" {

double sin(double x) {
    return call_windows_sine(x);
}

double cos(double x) {
    return call_windows_cosine(x);
}

void sincos(double x, double* sine_of_x, double* cosine_of_x) {
    *sine_of_x = call_windows_sine(x);
    *cosine_of_x = call_windows_cosine(x);
}

double pow(double x, double y) {
    static const auto found = find_in_windows_library<double(double, double)>("pow");
    return found(x, y);
}

}  // extern "C"
#endif
