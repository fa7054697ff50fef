// Results kept between questions: parts of answers that the next question to a growing composition needs again
// (docs/theory/grid.md, section 8).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace tightdp::grid {

// A key: everything, word by word, from which the result kept under it was computed. The first word names the kind.
using Key = std::vector<std::uint64_t>;
enum Kind : std::uint64_t { kTotals, kLaw, kFold, kLevel };

inline std::uint64_t word(double x) { return std::bit_cast<std::uint64_t>(x); }

// Thread safety: all methods may be called at any time from any thread. A result stays valid while a caller holds it.
class Store {
  public:
    // Half of what one question may take on the largest lattice (BYTES_PER_POINT of the Python engine).
    static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

    static Store& shared();

    // The result kept under exactly these words, which must have been kept with a T; null if there is none.
    template <class T>
    std::shared_ptr<const T> find(const Key& key) {
        return std::static_pointer_cast<const T>(look(key.data(), key.size(), hash(key.data(), key.size())));
    }

    // Finds the longest of the keys that consist of the first ends[0], ends[1], ... words (ascending). Sets `which` to
    // its number plus one, 0 if there is none.
    template <class T>
    std::shared_ptr<const T> find_longest(const Key& words, const std::vector<std::size_t>& ends,
                                          std::size_t& which) {
        return std::static_pointer_cast<const T>(look_longest(words, ends, which));
    }

    template <class T>
    void keep(Key key, std::shared_ptr<const T> what, std::size_t bytes) {
        put(std::move(key), std::static_pointer_cast<const void>(std::move(what)), bytes);
    }

    // The result kept under the key; if there is none, a new T, which is kept.
    template <class T>
    std::shared_ptr<T> made(const Key& key, std::size_t bytes) {
        auto found = std::const_pointer_cast<T>(find<T>(key));
        if (found) return found;
        found = std::make_shared<T>();
        keep<T>(key, found, bytes);
        return found;
    }

    // Marks a result as the first to be dropped when room is needed.
    void not_needed(const Key& words, std::size_t length);

    // Sets the number of bytes that may be kept; results beyond it are dropped at once.
    void limit(std::size_t bytes);
    std::size_t bytes();

    // Number of look-ups that found a result.
    std::size_t found();

  private:
    struct Entry {
        Key key;
        std::uint64_t hash;
        std::shared_ptr<const void> what;
        std::size_t bytes;
    };

    static std::uint64_t mix(std::uint64_t hash, std::uint64_t word);
    static std::uint64_t hash(const std::uint64_t* words, std::size_t length);
    std::shared_ptr<const void> look(const std::uint64_t* words, std::size_t length, std::uint64_t hash);
    std::shared_ptr<const void> look_longest(const Key& words, const std::vector<std::size_t>& ends,
                                             std::size_t& which);
    std::list<Entry>::iterator at(const std::uint64_t* words, std::size_t length, std::uint64_t hash);
    void put(Key key, std::shared_ptr<const void> what, std::size_t bytes);
    void shrink(std::list<Entry>& gone);

    std::mutex mutex_;
    std::list<Entry> entries_;  // the last used first
    std::unordered_map<std::uint64_t, std::list<Entry>::iterator> by_hash_;
    std::size_t bytes_ = 0, most_ = kMostBytes, found_ = 0;
};

}  // namespace tightdp::grid
