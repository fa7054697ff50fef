// Algorithms of C++20 that emscripten's library (libc++ 14) lacks. tools/calculator.py includes this header before
// every file.
#pragma once
#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 15000
namespace std {

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
    return __builtin_bit_cast(To, from);
}

namespace ranges {

template <class Range>
void reverse(Range&& range) {
    std::reverse(std::begin(range), std::end(range));
}

template <class Range, class Predicate>
bool any_of(Range&& range, Predicate holds) {
    return std::any_of(std::begin(range), std::end(range), holds);
}

template <class Range, class Predicate>
bool all_of(Range&& range, Predicate holds) {
    return std::all_of(std::begin(range), std::end(range), holds);
}

template <class Range, class Predicate>
auto count_if(Range&& range, Predicate holds) {
    return std::count_if(std::begin(range), std::end(range), holds);
}

template <class One, class Other, class Equal = std::equal_to<>>
bool equal(One&& one, Other&& other, Equal same = {}) {
    return std::equal(std::begin(one), std::end(one), std::begin(other), std::end(other), same);
}

// Returns a function that compares the projections of two elements.
template <class Compare, class Projection>
auto make_libcxx_projected_comparison(Compare compare, Projection of) {
    return [=](const auto& a, const auto& b) { return std::invoke(compare, std::invoke(of, a), std::invoke(of, b)); };
}

template <class Range, class Less = std::less<>, class Projection = std::identity>
void sort(Range&& range, Less less = {}, Projection of = {}) {
    std::sort(std::begin(range), std::end(range), make_libcxx_projected_comparison(less, of));
}

template <class Range, class Less = std::less<>, class Projection = std::identity>
void stable_sort(Range&& range, Less less = {}, Projection of = {}) {
    std::stable_sort(std::begin(range), std::end(range), make_libcxx_projected_comparison(less, of));
}

template <class Range, class Equal = std::equal_to<>, class Projection = std::identity>
auto adjacent_find(Range&& range, Equal equal = {}, Projection of = {}) {
    return std::adjacent_find(std::begin(range), std::end(range), make_libcxx_projected_comparison(equal, of));
}

template <class Range, class Less = std::less<>, class Projection = std::identity>
auto max_element(Range&& range, Less less = {}, Projection of = {}) {
    return std::max_element(std::begin(range), std::end(range), make_libcxx_projected_comparison(less, of));
}

template <class Range, class Less = std::less<>, class Projection = std::identity>
auto max(Range&& range, Less less = {}, Projection of = {}) {
    return *ranges::max_element(range, less, of);
}

template <class Range, class Less = std::less<>, class Projection = std::identity>
auto minmax(Range&& range, Less less = {}, Projection of = {}) {
    const auto found = std::minmax_element(std::begin(range), std::end(range), make_libcxx_projected_comparison(less, of));
    return std::pair(*found.first, *found.second);
}

template <class One, class Other, class Out, class Less = std::less<>, class Projection>
auto merge(One&& one, Other&& other, Out out, Less less, Projection of, Projection) {
    return std::merge(std::begin(one), std::end(one), std::begin(other), std::end(other), out,
                      make_libcxx_projected_comparison(less, of));
}

}  // namespace ranges
}  // namespace std
#endif
