#include "position_gradients.hpp"

#include <algorithm>
#include <vector>

#include "layer_workers.hpp"
#include "position_gradients.simd.hpp"

namespace tightdp {
namespace {

// form_position_gradient() vectorises over columns. So if the right-hand vectors of form_product_gradients() have fewer
// entries than this, and the left-hand vectors are longer, the two change places.
constexpr std::int64_t kFewColumns = 16;

std::int64_t count_position_axes_entries(const ImageAxes& axes) noexcept { return axes[0] * axes[1] * axes[2]; }

// Forms the gradients of records on several threads. start() is called once in each thread. It returns a function that
// maps a record to the arguments of form_position_gradient(). One thread may form some rows of a gradient, and another
// thread the other rows.
template <class Start>
void form_record_gradients(std::int64_t records, const PositionGradient& shape, const Start& start) {
    constexpr std::int64_t kRows = 8;
    const std::int64_t pieces = (shape.row_count + kRows - 1) / kRows;
    const double work = static_cast<double>(records * shape.positions) * static_cast<double>(shape.row_count) *
                        static_cast<double>(shape.column_count);
    share_layer_rows(records * pieces, work, 1, [&](std::int64_t first, std::int64_t count) {
        std::vector<float> scratch(
            static_cast<std::size_t>(position_gradient_scratch_size(shape.row_count, shape.column_count)));
        auto read_record = start();
        for (const std::int64_t end = first + count; first < end;) {
            const std::int64_t piece = first % pieces, here = std::min(pieces - piece, end - first);
            PositionGradient g = read_record(first / pieces);
            g.rows += piece * kRows * g.row_entry;
            g.out += piece * kRows * g.out_row;
            g.row_count = std::min(g.row_count - piece * kRows, here * kRows);
            g.scratch = scratch.data();
            TIGHTDP_SELECT_SIMD(form_position_gradient)(g);
            first += here;
        }
    });
}

// The image of one record with zeros around it, and the places of its patches.
class PaddedImage {
  public:
    explicit PaddedImage(const ConvolutionGradients& r) : r_(r) {
        for (std::size_t a = 0; a < 3; ++a) padded_[a] = r.image[a] + 2 * r.padding[a];
        memory_.resize(static_cast<std::size_t>(r.channels * count_position_axes_entries(padded_) + 2 * kLargestChunk));
        visit_image_axes(r.output, [&](const ImageAxes& t) {
            corners_.push_back(find_padded_index(0, {t[0] * r.stride[0], t[1] * r.stride[1], t[2] * r.stride[2]}));
        });
        const std::int64_t run = r.dilation[2] == 1 ? r.kernel[2] : 1;  // entries of a patch that are neighbours
        chunk_ = run % kLargestChunk == 0 ? kLargestChunk : 4;
        std::int64_t column = 0;
        for (std::int64_t c = 0; c < r.channels; ++c)
            visit_image_axes({r.kernel[0], r.kernel[1], r.kernel[2] / run}, [&](const ImageAxes& z) {
                add_patch_run(find_padded_index(c, {z[0] * r.dilation[0], z[1] * r.dilation[1], z[2] * r.dilation[2]}),
                              column, run);
                column += run;
            });
    }

    // Copies the image of a record. The zeros around it stay.
    ImagePatches copy_position_gradient_image(std::int64_t record) {
        const std::int64_t size = r_.channels * count_position_axes_entries(r_.image);
        const float* x = r_.images + record * size;
        if (padded_ == r_.image) {  // many small copies would take longer than one large copy
            std::copy_n(x, size, memory_.begin());
        } else {
            for (std::int64_t c = 0; c < r_.channels; ++c)
                visit_image_axes({r_.image[0], r_.image[1], 1}, [&](const ImageAxes& at) {
                    std::copy_n(x, r_.image[2],
                                memory_.begin() + find_padded_index(c, {at[0] + r_.padding[0], at[1] + r_.padding[1],
                                                                        r_.padding[2]}));
                    x += r_.image[2];
                });
        }
        return {memory_.data(),  corners_.data(), sources_.data(),
                targets_.data(), static_cast<std::int64_t>(sources_.size()), chunk_};
    }

  private:
    template <class Visit>
    static void visit_image_axes(const ImageAxes& sizes, const Visit& visit) {
        for (std::int64_t i = 0; i < sizes[0]; ++i)
            for (std::int64_t j = 0; j < sizes[1]; ++j)
                for (std::int64_t k = 0; k < sizes[2]; ++k) visit(ImageAxes{i, j, k});
    }

    // Adds the chunks of a run of neighbouring entries. The first entry goes to the column `column` of the scratch
    // memory, which is divided into panels of kPanelColumns columns. If a chunk would reach beyond the end of a panel,
    // the next chunk begins with the first entry of the next panel.
    void add_patch_run(std::int64_t source, std::int64_t column, std::int64_t length) {
        for (const std::int64_t end = column + length; column < end;) {
            const std::int64_t inside = column % kPanelColumns, here = std::min(chunk_, kPanelColumns - inside);
            sources_.push_back(source);
            targets_.push_back(column / kPanelColumns * kPanelStride + inside);
            source += here, column += here;
        }
    }

    std::int64_t find_padded_index(std::int64_t channel, const ImageAxes& at) const noexcept {
        return ((channel * padded_[0] + at[0]) * padded_[1] + at[1]) * padded_[2] + at[2];
    }

    const ConvolutionGradients& r_;
    ImageAxes padded_{};
    std::int64_t chunk_ = 4;
    std::vector<float> memory_;
    std::vector<std::int64_t> corners_, sources_, targets_;
};

}  // namespace

void form_product_gradients(const ProductGradients& r) {
    const bool turned = r.right_size < kFewColumns && r.left_size > r.right_size;
    const std::int64_t rows = turned ? r.right_size : r.left_size, columns = turned ? r.left_size : r.right_size;
    if (r.positions == 0) std::fill_n(r.out, r.records * rows * columns, 0.0f);
    if (r.positions == 0 || rows * columns == 0) return;
    const PositionGradient shape{nullptr, rows,    1,       rows,    nullptr,           {},
                                 r.positions, columns, nullptr, nullptr, turned ? 1 : columns, turned ? rows : 1};
    form_record_gradients(r.records, shape, [&] {
        return [&](std::int64_t record) {
            const float *const left = r.left + record * r.positions * r.left_size,
                        *const right = r.right + record * r.positions * r.right_size;
            PositionGradient g = shape;
            g.rows = turned ? right : left, g.columns = turned ? left : right;
            g.out = r.out + record * rows * columns;
            return g;
        };
    });
}

void form_convolution_gradients(const ConvolutionGradients& r) {
    const std::int64_t positions = count_position_axes_entries(r.output), columns = r.channels * count_position_axes_entries(r.kernel);
    if (positions == 0) std::fill_n(r.out, r.records * r.outputs * columns, 0.0f);
    if (positions == 0 || r.outputs * columns == 0) return;
    const PositionGradient shape{nullptr, 1,       positions, r.outputs, nullptr, {},
                                 positions, columns, nullptr,   nullptr,   columns, 1};
    form_record_gradients(r.records, shape, [&] {
        return [&, image = PaddedImage(r)](std::int64_t record) mutable {
            PositionGradient g = shape;
            g.rows = r.errors + record * r.outputs * positions;
            g.patches = image.copy_position_gradient_image(record);
            g.out = r.out + record * r.outputs * columns;
            return g;
        };
    });
}

}  // namespace tightdp
