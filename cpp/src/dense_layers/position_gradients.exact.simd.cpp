// Forms the gradient of a record that passes a layer at several positions, in float32. The gradient is the sum over
// positions of outer products of a vector of rows and a vector of columns (position_gradients.simd.hpp).
#include "position_gradients.simd.hpp"

#include "simd/vec.hpp"

namespace tightdp::TIGHTDP_ISA {
namespace {

// A register of 32 bytes, or of 16 in the baseline. With registers of 64 bytes, multiplications and additions that are
// not fused took a quarter more time (Zen 4).
constexpr int kFloats = kLanes == 2 ? 4 : 8;
using Floats = float __attribute__((vector_size(4 * kFloats)));
// Number of rows and of registers of columns that are added side by side, such that their sums stay in registers.
constexpr int kDown = 4, kAcross = kLanes == 8 ? 4 : 2;
static_assert(kPanelColumns % (kAcross * kFloats) == 0 && kPanelRows % kDown == 0);

// The rows and columns of one tile, for a block of positions.
struct Tile {
    const float* rows;
    std::int64_t row_position, row_entry;
    const float* columns;
    std::int64_t positions;
    float* out;
    std::int64_t out_row, out_column, column_count;
    bool first;  // whether the block is the first one, so that nothing has been written to `out`
};

TIGHTDP_VINLINE Floats load_position_floats(const float* p) {
    Floats v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
TIGHTDP_VINLINE void store_position_floats(float* p, Floats v) {
    __builtin_memcpy(p, &v, sizeof v);
}

// Adds a row of a tile to the gradient, or writes it if the block is the first one.
template <int across>
TIGHTDP_VINLINE void add_position_tile_row(const Tile& t, const Floats* sums, float* out) {
    constexpr std::int64_t width = across * kFloats;
    if (t.out_column == 1 && t.column_count >= width) {
#pragma GCC unroll 4
        for (int v = 0; v < across; ++v) {
            float* const at = out + v * kFloats;
            store_position_floats(at, t.first ? sums[v] : load_position_floats(at) + sums[v]);
        }
        return;
    }
    float entries[width];
    for (int v = 0; v < across; ++v) store_position_floats(entries + v * kFloats, sums[v]);
    for (std::int64_t j = 0; j < width && j < t.column_count; ++j) {
        float& at = out[j * t.out_column];
        at = t.first ? entries[j] : at + entries[j];
    }
}

template <int down, int across>
TIGHTDP_VINLINE void add_gradient_tile(const Tile& t) {
    Floats sums[down][across] = {};
    const float* row = t.rows;
    const float* column = t.columns;
    for (std::int64_t k = 0; k < t.positions; ++k, row += t.row_position, column += kPanelColumns) {
        Floats entries[across];
#pragma GCC unroll 4
        for (int v = 0; v < across; ++v) entries[v] = load_position_floats(column + v * kFloats);
#pragma GCC unroll 4
        for (int i = 0; i < down; ++i) {
            const float weight = row[i * t.row_entry];
#pragma GCC unroll 4
            for (int v = 0; v < across; ++v) sums[i][v] += entries[v] * weight;
        }
    }
    for (int i = 0; i < down; ++i) add_position_tile_row<across>(t, sums[i], t.out + i * t.out_row);
}

// Adds tiles of `down` rows from row i on while there are so many rows, and then smaller tiles. `panels` are the packed
// rows.
template <int down, int across>
TIGHTDP_VINLINE void add_gradient_rows(Tile t, const float* panels, std::int64_t i, std::int64_t rows) {
    for (; i + down <= rows; i += down) {
        const std::int64_t inside = i % kPanelRows;
        t.rows = panels + (i - inside) * kPositionBlock + inside * t.row_entry;
        add_gradient_tile<down, across>(t);
        t.out += down * t.out_row;
    }
    if constexpr (down > 1) add_gradient_rows<down / 2, across>(t, panels, i, rows);
}

// Writes the patch of one position to its row of the panels, in chunks of `size` floats.
template <int size>
TIGHTDP_VINLINE void copy_image_patch(const ImagePatches& p, const float* corner, float* out) {
    for (std::int64_t c = 0; c < p.count; ++c)
        __builtin_memcpy(out + p.targets[c], corner + p.sources[c], size * sizeof(float));
}

// Writes the rows of the positions [first, first + count) to panels of kPanelRows rows. Neighbours in memory stay
// neighbours. Without the copy, rows that lie large powers of two apart would displace one another from the cache.
void pack_position_rows(const PositionGradient& g, std::int64_t first, std::int64_t count, float* out) {
    const float* const rows = g.rows + first * g.row_position;
    if (g.row_position == 1) {
        for (std::int64_t i = 0; i < g.row_count; ++i)
            for (std::int64_t t = 0; t < count; ++t) out[i * kPositionBlock + t] = rows[i * g.row_entry + t];
        return;
    }
    for (std::int64_t i = 0; i < g.row_count; i += kPanelRows, out += kPanelRows * kPositionBlock) {
        const std::int64_t left = g.row_count - i;
        for (std::int64_t t = 0; t < count; ++t) {
            const float* const row = rows + t * g.row_position + i;
            if (left >= kPanelRows)
                __builtin_memcpy(out + t * kPanelRows, row, kPanelRows * sizeof(float));
            else
                for (std::int64_t j = 0; j < left; ++j) out[t * kPanelRows + j] = row[j];
        }
    }
}

// Writes the columns of the positions [first, first + count) to panels of kPanelColumns columns. A panel may have
// columns behind the last one. Their sums are not stored, so these columns may have any values.
void pack_position_columns(const PositionGradient& g, std::int64_t first, std::int64_t count) {
    for (std::int64_t t = 0; t < count; ++t) {
        float* out = g.scratch + t * kPanelColumns;
        if (g.patches.image) {
            const float* const corner = g.patches.image + g.patches.corners[first + t];
            g.patches.chunk == 4 ? copy_image_patch<4>(g.patches, corner, out)
                                 : copy_image_patch<8>(g.patches, corner, out);
            continue;
        }
        const float* const row = g.columns + (first + t) * g.column_count;
        std::int64_t j = 0;
        for (; j + kPanelColumns <= g.column_count; j += kPanelColumns, out += kPanelStride)
            __builtin_memcpy(out, row + j, kPanelColumns * sizeof(float));
        for (; j < g.column_count; ++j) *out++ = row[j];
    }
}

}  // namespace

void form_position_gradient(const PositionGradient& g) {
    const bool across_positions = g.row_position == 1;
    float* const rows = g.scratch + column_panel_size(g.column_count);
    for (std::int64_t first = 0; first < g.positions; first += kPositionBlock) {
        const std::int64_t left = g.positions - first, count = left < kPositionBlock ? left : kPositionBlock;
        pack_position_columns(g, first, count);
        pack_position_rows(g, first, count, rows);
        Tile t{};
        t.row_position = across_positions ? 1 : kPanelRows;
        t.row_entry = across_positions ? kPositionBlock : 1;
        t.positions = count, t.out_row = g.out_row, t.out_column = g.out_column, t.first = first == 0;
        for (std::int64_t j = 0; j < g.column_count; j += kAcross * kFloats) {
            t.columns = g.scratch + j / kPanelColumns * kPanelStride + j % kPanelColumns;
            t.out = g.out + j * g.out_column;
            t.column_count = g.column_count - j;
            if (t.column_count > kAcross / 2 * kFloats)
                add_gradient_rows<kDown, kAcross>(t, rows, 0, g.row_count);
            else if (t.column_count > kFloats)
                add_gradient_rows<kDown, kAcross / 2>(t, rows, 0, g.row_count);
            else
                add_gradient_rows<kDown, 1>(t, rows, 0, g.row_count);
        }
    }
}

}  // namespace tightdp::TIGHTDP_ISA
