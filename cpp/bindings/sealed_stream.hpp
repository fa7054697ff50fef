// A random stream whose key Python cannot read. The key and its round keys are overwritten when the stream is
// destroyed.
#pragma once

#include "tightdp/random/tile.hpp"

namespace tightdp::bindings {

class SealedStream {
  public:
    explicit SealedStream(const random::RandomStream& stream) : stream_(stream) {}
    SealedStream(const SealedStream&) = delete;
    SealedStream& operator=(const SealedStream&) = delete;
    ~SealedStream() {
        volatile std::uint32_t* key = stream_.key;
        for (int i = 0; i < 8; ++i) key[i] = 0;
        volatile std::uint32_t* round_keys = stream_.round_keys;
        for (int i = 0; i < random::kAesScheduleWords; ++i) round_keys[i] = 0;
    }
    const random::RandomStream& operator*() const { return stream_; }

  private:
    random::RandomStream stream_;
};

}  // namespace tightdp::bindings
