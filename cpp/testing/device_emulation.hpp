// Runs the kernels of a device on the host, for tests. Each thread of each block is a fiber of one thread of the host.
// Barriers, shuffles and asynchronous copies behave as on a device. Asynchronous copies are made only when a thread
// waits for them, so that a missing wait shows. Shared memory is filled with NaNs at the start. Writes beyond its end,
// and threads that wait for each other for ever, are detected.
//
// Include this header before any .cuh file. Only one launch can run at a time.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace tightdp::on_host {

struct Index {
    unsigned x = 0;
};

struct Barrier {
    int members = 0, waiting = 0;
    std::int64_t generation = 0;
};

struct Copy {
    void* to;
    const void* from;
    int bytes;
};

struct Block {
    std::vector<unsigned char> memory;
    unsigned char* shared = nullptr;
    Barrier all;
    std::vector<Barrier> warps;
};

struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    Block* block = nullptr;
    Index thread, block_index;
    const Barrier* awaited = nullptr;  // the barrier at which the thread waits, and the generation found there
    std::int64_t awaited_generation = 0;
    double given = 0;                 // the argument of a shuffle or a vote
    std::uint32_t digits[2][6] = {};  // the arguments of this matrix product and of the one before
    int product = 0;                  // index of the arguments of this product
    std::deque<std::vector<Copy>> batches;
    std::vector<Copy> open;
    bool done = false;
};

class Launch {
  public:
    static constexpr std::size_t kStack = 64 << 10, kFence = 256;
    // A launch fails after this number of rounds without progress. run_emulated() lets blocks and warps pause, for a
    // smaller number of rounds.
    static constexpr int kPatience = 200;
    static constexpr unsigned char kNonsense = 0xff;  // bytes that are a NaN in each floating-point type

    Launch(unsigned blocks, unsigned threads, std::int64_t shared, std::function<void()> kernel)
        : grid{blocks}, threads{threads}, kernel_(std::move(kernel)), blocks_(blocks), fibers_(blocks * threads) {
        for (unsigned b = 0; b < blocks; ++b) {
            Block& block = blocks_[b];
            block.memory.assign(static_cast<std::size_t>(shared) + 2 * kFence, kNonsense);
            block.shared = block.memory.data() + (16 - reinterpret_cast<std::uintptr_t>(block.memory.data()) % 16);
            block.all.members = static_cast<int>(threads);
            block.warps.assign(threads / 32, Barrier{32, 0, 0});
            for (unsigned t = 0; t < threads; ++t) {
                Fiber& f = fibers_[b * threads + t];
                f.block = &block;
                f.thread.x = t;
                f.block_index.x = b;
                f.stack.reset(new char[kStack]);
                prepare_emulated_thread(f);
            }
        }
        shared_ = shared;
    }

    void run_emulated() {
        current_emulated_launch() = this;
        std::size_t left = fibers_.size();
        std::vector<unsigned> order(fibers_.size());
        std::iota(order.begin(), order.end(), 0u);
        std::mt19937 random(left);
        // Threads take turns in a changing order. Some warps skip a round and a block may rest for a while, so that
        // warps and blocks are not in step.
        for (int still = 0; left > 0; still = moved_ ? 0 : still + 1) {
            if (still > kPatience) throw std::logic_error("threads wait for each other for ever");
            moved_ = false;
            std::shuffle(order.begin(), order.end(), random);
            if (blocks_.size() > 1 && random() % 16 == 0)
                resting_ = static_cast<unsigned>(random() % (2 * blocks_.size()));
            const std::uint64_t out = random() | static_cast<std::uint64_t>(random()) << 32;
            for (const unsigned at : order) {
                Fiber& f = fibers_[at];
                if (f.done || f.block_index.x == resting_ || out >> (f.thread.x / 32 + 8 * f.block_index.x) % 64 & 1u)
                    continue;
                if (f.awaited && f.awaited->generation == f.awaited_generation) continue;
                fiber = &f;
                swapcontext(&main_, &f.context);
                if (!error.empty()) throw std::logic_error(error);
                if (f.done) {
                    --left;
                    moved_ = true;
                }
            }
        }
        current_emulated_launch() = nullptr;
        for (const Block& block : blocks_)
            for (const unsigned char* p = block.shared + shared_; p != block.memory.data() + block.memory.size(); ++p)
                if (*p != kNonsense) throw std::logic_error("a write beyond shared memory");
    }

    void yield_emulated_thread() { swapcontext(&fiber->context, &main_); }
    void note_emulated_progress() { moved_ = true; }
    void wait_at_emulated_barrier(Barrier& barrier) {
        const std::int64_t before = barrier.generation;
        if (++barrier.waiting == barrier.members) {
            barrier.waiting = 0;
            ++barrier.generation;
            moved_ = true;
        }
        fiber->awaited = &barrier, fiber->awaited_generation = before;
        while (barrier.generation == before) yield_emulated_thread();
        fiber->awaited = nullptr;
    }
    Barrier& emulated_warp() { return fiber->block->warps[fiber->thread.x / 32]; }
    Fiber& emulated_lane_mate(unsigned distance) { return fibers_[emulated_lane_index(distance)]; }

    static Launch*& current_emulated_launch() {
        static Launch* launch = nullptr;
        return launch;
    }

    Index grid, threads;
    Fiber* fiber = nullptr;
    std::string error;

  private:
    // Sets up the context of a fiber. This is a separate function, since compilers assume that getcontext may return
    // twice.
    void prepare_emulated_thread(Fiber& f) {
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get();
        f.context.uc_stack.ss_size = kStack;
        f.context.uc_link = &main_;
        makecontext(&f.context, &Launch::enter_emulated_thread, 0);
    }
    static void enter_emulated_thread() {
        Launch& l = *current_emulated_launch();
        l.kernel_();
        l.fiber->done = true;
    }
    std::size_t emulated_lane_index(unsigned distance) const {
        return static_cast<std::size_t>(fiber->block_index.x) * threads.x + (fiber->thread.x ^ distance);
    }

    std::function<void()> kernel_;
    std::vector<Block> blocks_;
    std::vector<Fiber> fibers_;
    ucontext_t main_{};
    std::int64_t shared_ = 0;
    unsigned resting_ = ~0u;
    bool moved_ = false;
};

inline Launch& emulated_launch() {
    return *Launch::current_emulated_launch();
}

}  // namespace tightdp::on_host

// The next lines define the names of CUDA that kernels use.
#define __device__
#define __global__
#define __launch_bounds__(...)
#define threadIdx (::tightdp::on_host::emulated_launch().fiber->thread)
#define blockIdx (::tightdp::on_host::emulated_launch().fiber->block_index)
#define blockDim (::tightdp::on_host::emulated_launch().threads)
#define gridDim (::tightdp::on_host::emulated_launch().grid)
#define TIGHTDP_SHARED_MEMORY(name) \
    unsigned char* const name = ::tightdp::on_host::emulated_launch().fiber->block->shared
#define TIGHTDP_UNROLL
#define TIGHTDP_UNROLL_4

namespace tightdp::cuda {

inline void __syncthreads() {
    on_host::emulated_launch().wait_at_emulated_barrier(on_host::emulated_launch().fiber->block->all);
}
inline void __syncwarp() {
    on_host::emulated_launch().wait_at_emulated_barrier(on_host::emulated_launch().emulated_warp());
}

inline double __shfl_xor_sync(unsigned, double x, int distance) {
    on_host::Launch& l = on_host::emulated_launch();
    l.fiber->given = x;
    l.wait_at_emulated_barrier(l.emulated_warp());
    const double y = l.emulated_lane_mate(static_cast<unsigned>(distance)).given;
    l.wait_at_emulated_barrier(l.emulated_warp());
    return y;
}
inline unsigned __ballot_sync(unsigned, bool yes) {
    on_host::Launch& l = on_host::emulated_launch();
    l.fiber->given = yes;
    l.wait_at_emulated_barrier(l.emulated_warp());
    unsigned votes = 0;
    for (unsigned d = 0; d < 32; ++d)
        if (l.emulated_lane_mate(d).given != 0) votes |= 1u << (l.fiber->thread.x % 32 ^ d);
    l.wait_at_emulated_barrier(l.emulated_warp());
    return votes;
}
inline void atomicAdd(unsigned long long* p, unsigned long long x) {
    *p += x;
    on_host::emulated_launch().note_emulated_progress();
}

// Stands for the function of dense_layers/device/matrix_unit.cuh. Fails if a sum does not fit in 32 bits.
inline void multiply_digits(std::int32_t (&sums)[4], const std::uint32_t (&left)[4], std::uint32_t right_low,
                            std::uint32_t right_high) {
    on_host::Launch& l = on_host::emulated_launch();
    const std::uint32_t given[] = {left[0], left[1], left[2], left[3], right_low, right_high};
    // A lane that goes on to the next product waits there for lanes that still read the arguments of this product.
    const int product = l.fiber->product ^= 1;
    std::copy_n(given, 6, l.fiber->digits[product]);
    l.wait_at_emulated_barrier(l.emulated_warp());
    const unsigned lane = l.fiber->thread.x % 32;
    const auto digit = [&](unsigned holder, unsigned word, unsigned byte) {
        return static_cast<signed char>(l.emulated_lane_mate(lane ^ holder).digits[product][word] >> (8 * byte));
    };
    for (unsigned c = 0; c < 4; ++c) {
        const unsigned row = lane / 4 + 8 * (c / 2), column = 2 * (lane % 4) + c % 2;
        std::int64_t sum = sums[c];
        for (unsigned k = 0; k < 32; ++k)
            sum += digit(row % 8 * 4 + k % 16 / 4, row / 8 + 2 * (k / 16), k % 4) *
                   digit(column * 4 + k % 16 / 4, 4 + k / 16, k % 4);
        sums[c] = static_cast<std::int32_t>(sum);
        if (sums[c] != sum) l.error = "a sum beyond 32 bits";
    }
}

template <int bytes>
inline void copy_async(void* shared, const void* global) {
    on_host::Launch& l = on_host::emulated_launch();
    if ((reinterpret_cast<std::uintptr_t>(shared) | reinterpret_cast<std::uintptr_t>(global)) % bytes != 0) {
        l.error = "an asynchronous copy of " + std::to_string(bytes) + " bytes at other addresses";
        l.yield_emulated_thread();
    }
    l.fiber->open.push_back({shared, global, bytes});
}
inline void close_batch() {
    on_host::Fiber& f = *on_host::emulated_launch().fiber;
    f.batches.push_back(std::move(f.open));
    f.open.clear();
}
template <int open>
inline void wait_batches() {
    on_host::Fiber& f = *on_host::emulated_launch().fiber;
    while (f.batches.size() > static_cast<std::size_t>(open)) {
        for (const on_host::Copy& c : f.batches.front()) std::memcpy(c.to, c.from, static_cast<std::size_t>(c.bytes));
        f.batches.pop_front();
    }
}

}  // namespace tightdp::cuda
