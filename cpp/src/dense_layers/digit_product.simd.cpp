// Adds integer outer products in digits of eight bits, with tiles of 16 rows of 64 bytes
// (docs/theory/exact-products.md, section 8).
//
// The instruction tdpbssd multiplies two tiles, and adds the products to a third tile. The first tile has one digit of
// the weights of 16 outputs and 64 records. The second tile has one digit of the inputs of 64 records and 16 columns.
// Weights are packed as [tile][64 records][digit][output][record]. Inputs are packed as [tile][64 records][digit][group
// of 4 records][column][record of the group].
#include "pack_integers.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

constexpr int kOutputs = 16, kColumns = 16, kTileBytes = 1024, kRowBytes = 64;
constexpr int kWeightDigits = 3, kInputDigits = 2, kSums = kWeightDigits + kInputDigits - 1;
static_assert(kDenseBlock == kRowBytes);

// Emulates TileRegisters with tiles in memory, one number at a time.
class TilesInMemory {
  public:
    template <int tile>
    void clear_digit_product_tile() {
        for (std::int32_t& x : tiles_[tile]) x = 0;
    }
    template <int tile>
    void load_digit_product_tile(const std::uint8_t* from) {
        __builtin_memcpy(tiles_[tile], from, kTileBytes);
    }
    template <int tile>
    void store_digit_product_tile(std::int32_t* to) const {
        __builtin_memcpy(to, tiles_[tile], kTileBytes);
    }
    // Adds to sums[m][n] the products of byte 4 k + i of row m of `left` and byte 4 n + i of row k of `right`, for all
    // k and all i < 4.
    template <int sums, int left, int right>
    void multiply_digit_product_tiles() {
        const auto* const a = reinterpret_cast<const signed char*>(tiles_[left]);
        const auto* const b = reinterpret_cast<const signed char*>(tiles_[right]);
        for (int m = 0; m < 16; ++m)
            for (int k = 0; k < 16; ++k)
                for (int n = 0; n < 16; ++n)
                    for (int i = 0; i < 4; ++i)
                        tiles_[sums][16 * m + n] += a[kRowBytes * m + 4 * k + i] * b[kRowBytes * k + 4 * n + i];
    }

  private:
    std::int32_t tiles_[8][kTileBytes / 4];
};

#if defined(TIGHTDP_ISA_avx512)
// The eight tile registers of AMX, each with 16 rows of 64 bytes. The instructions are written in assembler, so that no
// compiler flag is needed. The process must first have requested the registers with system::grant_tiles.
class TileRegisters {
  public:
    TileRegisters() {
        struct alignas(64) {
            std::uint8_t palette = 1, start = 0, reserved[14] = {};
            std::uint16_t row_bytes[16] = {};
            std::uint8_t rows[16] = {};
        } form;
        for (int i = 0; i < 8; ++i) form.rows[i] = 16, form.row_bytes[i] = kRowBytes;
        asm volatile("ldtilecfg %0" ::"m"(form));
    }
    TileRegisters(const TileRegisters&) = delete;
    TileRegisters& operator=(const TileRegisters&) = delete;
    ~TileRegisters() { asm volatile("tilerelease" ::); }

    template <int tile>
    void clear_digit_product_tile() {
        asm volatile("tilezero %%tmm%c0" ::"i"(tile));
    }
    template <int tile>
    void load_digit_product_tile(const std::uint8_t* from) {
        asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(std::int64_t{kRowBytes}), "i"(tile) : "memory");
    }
    template <int tile>
    void store_digit_product_tile(std::int32_t* to) const {
        asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(std::int64_t{kRowBytes}), "i"(tile) : "memory");
    }
    template <int sums, int left, int right>
    void multiply_digit_product_tiles() {
        asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(left), "i"(right));
    }
};
#endif

// Adds the sums of a tile of outputs and columns to the totals. There are four sums for each output and column, one for
// each power of 2^8. The unit of each sum is 2^8 times the unit of the previous sum.
TIGHTDP_VINLINE void add_digit_sums(const std::int32_t (&sums)[kSums][kTileBytes / 4], const PackedProduct& p,
                                    std::int64_t o, std::int64_t j) {
    const std::int64_t outputs = p.outputs - o < kOutputs ? p.outputs - o : kOutputs;
    const std::int64_t columns = p.columns - j < kColumns ? p.columns - j : kColumns;
    for (std::int64_t m = 0; m < outputs; ++m) {
        std::int64_t row[kColumns];
        for (int n = 0; n < kColumns; ++n) {
            row[n] = 0;
            for (int d = kSums - 1; d >= 0; --d) row[n] = row[n] * 256 + sums[d][16 * m + n];
        }
        auto* const total = reinterpret_cast<std::uint64_t*>(p.sums + (o + m) * p.stride + j);
        if (columns == kColumns)
            for (int n = 0; n < kColumns; ++n) total[n] += static_cast<std::uint64_t>(row[n]);
        else
            for (std::int64_t n = 0; n < columns; ++n) total[n] += static_cast<std::uint64_t>(row[n]);
    }
}

template <class Tiles>
void add_digit_product(const PackedProduct& p) {
    constexpr std::int64_t kWeights = kOutputs * kWeightDigits, kInputs = kColumns * kInputDigits;
    alignas(64) std::int32_t sums[kSums][kTileBytes / 4];
    Tiles tiles;
    for (std::int64_t j = 0; j < p.columns; j += kColumns)
        for (std::int64_t o = 0; o < p.outputs; o += kOutputs) {
            prefetch_product_totals(p, o, j, kOutputs, kColumns);
            for (std::int64_t first = 0; first < p.records; first += p.limit) {
                const std::int64_t end = p.records - first < p.limit ? p.records : first + p.limit;
                tiles.template clear_digit_product_tile<0>();
                tiles.template clear_digit_product_tile<1>();
                tiles.template clear_digit_product_tile<2>();
                tiles.template clear_digit_product_tile<3>();
                for (std::int64_t k = first; k < end; k += kDenseBlock) {
                    const std::uint8_t* const w = p.weights + kWeightDigits * o * p.records + k * kWeights;
                    const std::uint8_t* const q = p.inputs + kInputDigits * j * p.records + k * kInputs;
                    tiles.template load_digit_product_tile<4>(q);
                    tiles.template load_digit_product_tile<5>(q + kTileBytes);
                    tiles.template load_digit_product_tile<6>(w);
                    tiles.template multiply_digit_product_tiles<0, 6, 4>();
                    tiles.template multiply_digit_product_tiles<1, 6, 5>();
                    tiles.template load_digit_product_tile<7>(w + kTileBytes);
                    tiles.template multiply_digit_product_tiles<1, 7, 4>();
                    tiles.template multiply_digit_product_tiles<2, 7, 5>();
                    tiles.template load_digit_product_tile<6>(w + 2 * kTileBytes);
                    tiles.template multiply_digit_product_tiles<2, 6, 4>();
                    tiles.template multiply_digit_product_tiles<3, 6, 5>();
                }
                tiles.template store_digit_product_tile<0>(sums[0]);
                tiles.template store_digit_product_tile<1>(sums[1]);
                tiles.template store_digit_product_tile<2>(sums[2]);
                tiles.template store_digit_product_tile<3>(sums[3]);
                add_digit_sums(sums, p, o, j);
            }
        }
}

void pack_digit_weights(const double* w, std::int64_t outputs, const LargestInputs& /*largest*/, PackedPlace place) {
    for (std::int64_t o = 0; o < (outputs + kOutputs - 1) / kOutputs * kOutputs; ++o) {
        const std::int64_t tile = o / kOutputs * kOutputs;
        std::uint8_t* const row =
            place.first + kWeightDigits * (tile * place.records + place.at * kOutputs) + o % kOutputs * kRowBytes;
        std::int32_t left[kDenseBlock];
        for (std::int64_t k = 0; k < kDenseBlock; ++k)
            left[k] = o < outputs ? confine_packed_weight(w[o * kDenseBlock + k]) : 0;
        for (int d = 0; d < kWeightDigits; ++d)
            for (std::int64_t k = 0; k < kDenseBlock; ++k) {
                row[d * kTileBytes + k] = static_cast<std::uint8_t>(left[k]);
                left[k] = without_low_digit(left[k]);
            }
    }
}

void pack_weight_rows(const WeightRows& r, const LargestInputs& largest, PackedPlace place) {
    double w[kOutputs * kDenseBlock];
    for (std::int64_t o = 0; o < r.outputs; o += kOutputs) {
        const std::int64_t outputs = r.outputs - o < kOutputs ? r.outputs - o : kOutputs;
        for (std::int64_t k = 0; k < kDenseBlock; ++k)
            for (std::int64_t i = 0; i < outputs; ++i)
                w[i * kDenseBlock + k] = k < r.count ? r.w[k * r.outputs + o + i] : 0;
        const std::int64_t tile = o / kOutputs * (place.records / kDenseBlock) * kWeightDigits * kTileBytes;
        pack_digit_weights(w, outputs, largest, {place.first + tile, place.at, place.records});
    }
}

template <class T>
void pack_digit_inputs(const InputBlock<T>& b, PackedPlace place, LargestInputs& /*largest*/) {
    std::int32_t rows[4][kColumns];
    for (std::int64_t k = 0; k < kDenseBlock; k += 4)
        for (std::int64_t j = 0; j < b.columns; j += kColumns) {
            for (int i = 0; i < 4; ++i) round_packed_row<kColumns>(b, k + i, j, rows[i]);
            std::uint8_t* const group =
                place.first + kInputDigits * (j * place.records + place.at * kColumns) + k / 4 * kRowBytes;
            for (int d = 0; d < kInputDigits; ++d) {
                std::uint32_t digits[kColumns];
                for (int n = 0; n < kColumns; ++n) {
                    digits[n] = 0;
                    for (int i = 0; i < 4; ++i) {
                        digits[n] |= (static_cast<std::uint32_t>(rows[i][n]) & 255) << (8 * i);
                        rows[i][n] = without_low_digit(rows[i][n]);
                    }
                }
                __builtin_memcpy(group + d * kTileBytes, digits, sizeof digits);
            }
        }
}

template <class Tiles>
ProductWay make_digit_product_way(const char* name) {
    return {name,
            kOutputs,
            kColumns,
            kWeightDigits * kTileBytes,
            false,
            &pack_digit_weights,
            &pack_weight_rows,
            &pack_digit_inputs<float>,
            &pack_digit_inputs<double>,
            &pack_digit_inputs<std::int16_t>,
            &add_digit_product<Tiles>};
}

}  // namespace

ProductWay tile_product_way() {
#if defined(TIGHTDP_ISA_avx512)
    return make_digit_product_way<TileRegisters>("amx");
#else
    return {};
#endif
}

ProductWay plain_tile_product_way() {
    return make_digit_product_way<TilesInMemory>("tiles");
}

}  // namespace tightdp::TIGHTDP_ISA
