// Keeps intermediate results between calls, because the next bound of a growing composition needs them again
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

// A key consists of everything from which the result kept under it was computed, as words of 64 bits. The first word
// names the kind of result.
using Key = std::vector<std::uint64_t>;
enum Kind : std::uint64_t { kTotals, kLaw, kFold, kLevel };

inline std::uint64_t word(double x) { return std::bit_cast<std::uint64_t>(x); }

// A cache of results. All methods may be called at any time from any thread. A result stays valid while a caller holds
// it.
class Store {
  public:
    // Number of bytes that may be kept at first: half of the memory that one call of the engine may take on the largest
    // lattice (BYTES_PER_POINT of the Python engine).
    static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

    static Store& shared();

    // Returns the result kept under exactly these words, or null if there is none. The result must have been kept as a
    // T.
    template <class T>
    std::shared_ptr<const T> find(const Key& key) {
        return std::static_pointer_cast<const T>(look(key.data(), key.size(), hash(key.data(), key.size())));
    }

    // Returns the result under the longest key that has one. The keys are the first ends[0] of `words`, the first
    // ends[1], and so on, and `ends` ascends. Sets `which` to the index of that key in `ends` plus one, or to 0 if no
    // key has a result.
    template <class T>
    std::shared_ptr<const T> find_longest(const Key& words, const std::vector<std::size_t>& ends,
                                          std::size_t& which) {
        return std::static_pointer_cast<const T>(look_longest(words, ends, which));
    }

    template <class T>
    void keep(Key key, std::shared_ptr<const T> what, std::size_t bytes) {
        put(std::move(key), std::static_pointer_cast<const void>(std::move(what)), bytes);
    }

    // Returns the result kept under the key. If there is none, makes a new T, keeps it and returns it.
    template <class T>
    std::shared_ptr<T> made(const Key& key, std::size_t bytes) {
        auto found = std::const_pointer_cast<T>(find<T>(key));
        if (found) return found;
        found = std::make_shared<T>();
        keep<T>(key, found, bytes);
        return found;
    }

    // Marks the result under the first `length` words as the first to be dropped when room is needed.
    void not_needed(const Key& words, std::size_t length);

    // Sets the number of bytes that may be kept. Drops results at once until the remaining ones fit.
    void limit(std::size_t bytes);
    std::size_t bytes();

    // Returns the number of look-ups that found a result.
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
    std::list<Entry> entries_;  // the most recently used entry comes first
    std::unordered_map<std::uint64_t, std::list<Entry>::iterator> by_hash_;
    std::size_t bytes_ = 0, most_ = kMostBytes, found_ = 0;
};

}  // namespace tightdp::grid
