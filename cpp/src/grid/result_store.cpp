#include "result_store.hpp"

#include <algorithm>

#include "runtime/per_process.hpp"

namespace tightdp::grid {

Store& Store::get_shared_store() {
    return PerProcess<Store>::get();
}

// Keys with the same hash are compared word by word, so the hash only has to spread the keys.
std::uint64_t Store::mix_store_hash(std::uint64_t hash, std::uint64_t word) {
    std::uint64_t x = (hash ^ word) * 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    x ^= x >> 32;
    return x * 0xd6e8feb86659fd93;  // an odd number whose bits have no pattern
}

std::uint64_t Store::hash_store_key(const std::uint64_t* words, std::size_t length) {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < length; ++i) hash = mix_store_hash(hash, words[i]);
    return hash;
}

std::list<Store::Entry>::iterator Store::find_store_entry(const std::uint64_t* words, std::size_t length,
                                                          std::uint64_t hash) {
    const auto found = by_hash_.find(hash);
    if (found == by_hash_.end()) return entries_.end();
    const Key& key = found->second->key;
    return key.size() == length && std::equal(key.begin(), key.end(), words) ? found->second : entries_.end();
}

std::shared_ptr<const void> Store::look_up_stored(const std::uint64_t* words, std::size_t length, std::uint64_t hash) {
    const std::lock_guard lock(mutex_);
    const auto entry = find_store_entry(words, length, hash);
    if (entry == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, entry);
    ++found_;
    return entry->what;
}

std::shared_ptr<const void> Store::look_up_longest_stored(const Key& words, const std::vector<std::size_t>& ends,
                                                          std::size_t& which) {
    std::vector<std::uint64_t> hashes;
    std::uint64_t hash = 0;
    std::size_t i = 0;
    for (const std::size_t end : ends) {
        for (; i < end; ++i) hash = mix_store_hash(hash, words[i]);
        hashes.push_back(hash);
    }
    for (which = ends.size(); which > 0; --which)
        if (auto found = look_up_stored(words.data(), ends[which - 1], hashes[which - 1])) return found;
    return nullptr;
}

void Store::put_in_store(Key key, std::shared_ptr<const void> what, std::size_t bytes) {
    std::list<Entry> gone;  // destroyed after the lock is released
    const std::uint64_t name = hash_store_key(key.data(), key.size());
    bytes += key.size() * sizeof(std::uint64_t) + sizeof(Entry);
    const std::lock_guard lock(mutex_);
    if (const auto before = by_hash_.find(name); before != by_hash_.end()) {
        bytes_ -= before->second->bytes;
        gone.splice(gone.begin(), entries_, before->second);
    }
    entries_.push_front({std::move(key), name, std::move(what), bytes});
    by_hash_[name] = entries_.begin();
    bytes_ += bytes;
    shrink_store(gone);
}

void Store::mark_stored_unneeded(const Key& words, std::size_t length) {
    const std::lock_guard lock(mutex_);
    const auto entry = find_store_entry(words.data(), length, hash_store_key(words.data(), length));
    if (entry != entries_.end()) entries_.splice(entries_.end(), entries_, entry);
}

void Store::shrink_store(std::list<Entry>& gone) {
    while (bytes_ > most_ && !entries_.empty()) {
        const auto last = std::prev(entries_.end());
        bytes_ -= last->bytes;
        by_hash_.erase(last->hash);
        gone.splice(gone.begin(), entries_, last);
    }
}

void Store::limit_store_bytes(std::size_t bytes) {
    std::list<Entry> gone;
    const std::lock_guard lock(mutex_);
    most_ = bytes;
    shrink_store(gone);
}

std::size_t Store::count_store_bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
}

std::size_t Store::count_store_hits() {
    const std::lock_guard lock(mutex_);
    return found_;
}

}  // namespace tightdp::grid
