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

// The key of a result. It consists of all numbers that the computation of the result used, as words of 64 bits. The
// first word names the kind of result.
using Key = std::vector<std::uint64_t>;
enum Kind : std::uint64_t { kTotals, kPartSpectra, kLevelProduct, kLevel };

inline std::uint64_t result_store_word(double x) {
    return std::bit_cast<std::uint64_t>(x);
}

// A cache of results. All methods may be called at any time from any thread. A result stays valid while a caller holds
// it.
class Store {
  public:
    // Number of bytes that may be kept, until limit_store_bytes() changes this number. It is half of the memory that
    // one call of the engine takes on its largest grid (BYTES_PER_POINT times MOST_POINTS of the Python engine).
    static constexpr std::size_t kMostBytes = std::size_t{128} << 20;

    static Store& get_shared_store();

    // Returns the result that was kept under this key, or null if there is none. T must be the type with which the
    // result was kept.
    template <class T>
    std::shared_ptr<const T> find_stored_result(const Key& key) {
        return std::static_pointer_cast<const T>(
            look_up_stored(key.data(), key.size(), hash_store_key(key.data(), key.size())));
    }

    // Looks for results under several keys, and returns the result of the longest key that has a result. Key i consists
    // of the first ends[i] words of `words`, and `ends` ascends. Sets `which` to i + 1 for the key i that was found. If
    // no key has a result, sets `which` to 0 and returns null.
    template <class T>
    std::shared_ptr<const T> find_longest_stored_result(const Key& words, const std::vector<std::size_t>& ends,
                                                        std::size_t& which) {
        return std::static_pointer_cast<const T>(look_up_longest_stored(words, ends, which));
    }

    // Keeps a result that takes `bytes` bytes. If there is no room, drops the results that were not used for the
    // longest time.
    template <class T>
    void keep_result_in_store(Key key, std::shared_ptr<const T> what, std::size_t bytes) {
        put_in_store(std::move(key), std::static_pointer_cast<const void>(std::move(what)), bytes);
    }

    // Returns the result kept under the key. If there is none, makes a new T, keeps it and returns it.
    template <class T>
    std::shared_ptr<T> make_stored_result(const Key& key, std::size_t bytes) {
        auto found = std::const_pointer_cast<T>(find_stored_result<T>(key));
        if (found) return found;
        found = std::make_shared<T>();
        keep_result_in_store<T>(key, found, bytes);
        return found;
    }

    // Marks the result under the first `length` words as the first to be dropped when room is needed.
    void mark_stored_unneeded(const Key& words, std::size_t length);

    // Sets the number of bytes that may be kept. Drops results at once until the remaining ones fit.
    void limit_store_bytes(std::size_t bytes);
    std::size_t count_store_bytes();

    // Returns the number of look-ups that found a result.
    std::size_t count_store_hits();

  private:
    struct Entry {
        Key key;
        std::uint64_t hash;
        std::shared_ptr<const void> what;
        std::size_t bytes;
    };

    static std::uint64_t mix_store_hash(std::uint64_t hash, std::uint64_t word);
    static std::uint64_t hash_store_key(const std::uint64_t* words, std::size_t length);
    std::shared_ptr<const void> look_up_stored(const std::uint64_t* words, std::size_t length, std::uint64_t hash);
    std::shared_ptr<const void> look_up_longest_stored(const Key& words, const std::vector<std::size_t>& ends,
                                                       std::size_t& which);
    std::list<Entry>::iterator find_store_entry(const std::uint64_t* words, std::size_t length, std::uint64_t hash);
    void put_in_store(Key key, std::shared_ptr<const void> what, std::size_t bytes);
    void shrink_store(std::list<Entry>& gone);

    std::mutex mutex_;
    std::list<Entry> entries_;  // the most recently used entry comes first
    std::unordered_map<std::uint64_t, std::list<Entry>::iterator> by_hash_;
    std::size_t bytes_ = 0, most_ = kMostBytes, found_ = 0;
};

}  // namespace tightdp::grid
