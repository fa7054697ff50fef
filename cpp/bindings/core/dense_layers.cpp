// tightdp._core: dense layers. The file python/tightdp/models/dense.py checks the arguments.
#include <algorithm>

#include "../bind.hpp"
#include "../draw_limits.hpp"
#include "../sealed_stream.hpp"
#include "dense_layers/layer_positions.hpp"
#include "dense_layers/layers.hpp"
#include "dense_layers/position_gradients.hpp"
#include "dense_layers/product_sum.hpp"
#include "dense_layers/product_way.hpp"

namespace {

using tightdp::bindings::fill_new_numpy;
template <class T>
using Matrix = py::array_t<T, py::array::c_style>;
using Vector = Matrix<double>;
using Targets = Matrix<std::int64_t>;

template <class A>
std::int64_t numpy_layer_extent(const A& array, int axis) {
    return static_cast<std::int64_t>(array.shape(axis));
}

template <class T>
const T* data_or_null(const std::optional<Matrix<T>>& v) {
    return v ? v->data() : nullptr;
}

void require_fitting_numpy(bool fits) {
    if (!fits) throw std::invalid_argument("arrays must fit one another");
}

template <class T>
Matrix<T> affine(const Matrix<T>& inputs, const Matrix<T>& weights, const std::optional<Matrix<T>>& bias) {
    require_fitting_numpy(inputs.ndim() == 2 && weights.ndim() == 2 && inputs.shape(1) == weights.shape(1) &&
                          (!bias || bias->size() == weights.shape(0)));
    return fill_new_numpy<T>({inputs.shape(0), weights.shape(0)}, [&](T* scores) {
        tightdp::affine(inputs.data(), numpy_layer_extent(inputs, 0), numpy_layer_extent(inputs, 1), weights.data(),
                        numpy_layer_extent(weights, 0), data_or_null(bias), scores);
    });
}

template <class T>
std::pair<Vector, Vector> row_units(const Matrix<T>& x, bool bias, int digits) {
    require_fitting_numpy(x.ndim() == 2 && digits >= 0 && digits <= 20);
    Vector rounding_factors(x.shape(0)), squares(x.shape(0));
    double *const factor = rounding_factors.mutable_data(), *const square = squares.mutable_data();
    {
        py::gil_scoped_release release;
        tightdp::row_units(x.data(), numpy_layer_extent(x, 0), numpy_layer_extent(x, 1), bias, digits, factor, square);
    }
    return {rounding_factors, squares};
}

template <class T>
tightdp::LossRequest<T> read_numpy_loss_request(int kind, double width, const Matrix<T>& z, const Targets& targets) {
    require_fitting_numpy(z.ndim() == 2 && targets.size() == z.shape(0));
    return {
        static_cast<tightdp::LossKind>(kind), width, z.data(), targets.data(), numpy_layer_extent(z, 0), numpy_layer_extent(z, 1)};
}

template <class T>
Matrix<T> loss_residual(int kind, double width, const Matrix<T>& z, const Targets& targets) {
    const auto request = read_numpy_loss_request(kind, width, z, targets);
    return fill_new_numpy<T>({z.shape(0), z.shape(1)}, [&](T* out) { tightdp::loss_residual(request, out); });
}

template <class T>
Vector loss_value(int kind, double width, const Matrix<T>& z, const Targets& targets) {
    const auto request = read_numpy_loss_request(kind, width, z, targets);
    return fill_new_numpy<double>({z.shape(0)}, [&](double* out) { tightdp::loss_value(request, out); });
}

template <class T>
Matrix<T> tanh_of(const Matrix<T>& x) {
    return fill_new_numpy<T>({x.shape(), x.shape() + x.ndim()},
                             [&](T* out) { tightdp::tanh_of(x.data(), static_cast<std::int64_t>(x.size()), out); });
}

// A layer as (inputs, errors, rounding_factors, squares, bias, transform). row_units() computes `rounding_factors` and
// `squares` from the inputs. `transform` is (center, inverse_scale, column_squares), or None if gradients are neither
// centred nor scaled.
template <class T>
using Layer = std::tuple<Matrix<T>, Matrix<T>, Vector, Vector, bool, std::optional<std::tuple<Vector, Vector, Vector>>>;

template <class T>
void outer_sum(const std::vector<Layer<T>>& layers, double bound, double inverse_grid, double center_norm,
               bool normalize, const std::optional<Matrix<std::uint8_t>>& taken, const std::optional<Vector>& shares,
               std::optional<Vector> norms, std::optional<Targets> out) {
    require_fitting_numpy(!layers.empty());
    tightdp::OuterSum request{};
    const auto n = std::get<0>(layers.front()).shape(0);
    py::ssize_t size = 0;
    for (const auto& [x, errors, rounding_factors, squares, bias, transform] : layers) {
        require_fitting_numpy(x.ndim() == 2 && errors.ndim() == 2 && x.shape(0) == n && errors.shape(0) == n &&
                              rounding_factors.size() == n && squares.size() == n &&
                              transform.has_value() == std::get<5>(layers.front()).has_value());
        tightdp::DenseLayer layer{x.data(),
                                  errors.data(),
                                  numpy_layer_extent(x, 1),
                                  numpy_layer_extent(errors, 1),
                                  bias,
                                  rounding_factors.data(),
                                  squares.data(),
                                  nullptr,
                                  nullptr,
                                  nullptr,
                                  0,
                                  false};
        if (transform) {
            const auto& [center, inverse, columns] = *transform;
            layer.center = center.data(), layer.inverse_scale = inverse.data(), layer.column_squares = columns.data();
            layer.padded = static_cast<std::int64_t>(columns.size());
            require_fitting_numpy(layer.padded % tightdp::kScaledPad == 0 && layer.padded >= layer.columns + bias &&
                                  center.size() == layer.outputs * layer.padded && inverse.size() == center.size());
        }
        size += layer.outputs * (layer.columns + bias);
        request.layers.push_back(layer);
    }
    require_fitting_numpy((!taken || taken->size() == n) && (!shares || shares->size() == n) &&
                          (!norms || norms->size() == n) && (!out || out->size() == size));
    request.rows = static_cast<std::int64_t>(n);
    request.bound = bound, request.inverse_grid = inverse_grid, request.center_norm = center_norm;
    request.normalize = normalize;
    request.taken = taken ? taken->data() : nullptr;
    request.shares = data_or_null(shares);
    request.norms = norms ? norms->mutable_data() : nullptr;
    request.out = out ? out->mutable_data() : nullptr;
    py::gil_scoped_release release;
    tightdp::outer_sum<T>(request);
}

// A layer of a product sum as (inputs, errors, rounding_factors, squares).
template <class T>
using Product = std::tuple<Matrix<T>, Matrix<T>, Vector, Vector>;

// Returns the request for tightdp::add_products. `totals` is empty, or has one array for each layer.
template <class T>
tightdp::ProductSum read_numpy_product_sum(const std::vector<Product<T>>& layers, double bound, double inverse_grid,
                                           const std::optional<Matrix<std::uint8_t>>& taken,
                                           std::vector<Targets>& totals) {
    require_fitting_numpy(!layers.empty() && (totals.empty() || totals.size() == layers.size()) &&
                          bound <= tightdp::kLargestProductBound);
    tightdp::ProductSum request{};
    const auto n = std::get<0>(layers.front()).shape(0);
    for (const auto& [x, errors, rounding_factors, squares] : layers) {
        require_fitting_numpy(x.ndim() == 2 && errors.ndim() == 2 && x.shape(0) == n && errors.shape(0) == n &&
                              rounding_factors.size() == n && squares.size() == n);
        if (!totals.empty()) {
            Targets& total = totals[request.layers.size()];
            require_fitting_numpy(total.size() == x.shape(1) * errors.shape(1));
            request.totals.push_back(total.mutable_data());
        }
        request.layers.push_back({x.data(), errors.data(), numpy_layer_extent(x, 1), numpy_layer_extent(errors, 1), false,
                                  rounding_factors.data(), squares.data(), nullptr, nullptr, nullptr, 0,
                                  errors.shape(1) == 1});
    }
    require_fitting_numpy(!taken || taken->size() == n);
    request.rows = static_cast<std::int64_t>(n);
    request.bound = bound, request.inverse_grid = inverse_grid;
    request.taken = taken ? taken->data() : nullptr;
    return request;
}

template <class T>
void add_products(const std::vector<Product<T>>& layers, double bound, double inverse_grid,
                  const std::optional<Matrix<std::uint8_t>>& taken, std::vector<Targets> totals,
                  const std::optional<Vector>& bounds) {
    tightdp::ProductSum request = read_numpy_product_sum(layers, bound, inverse_grid, taken, totals);
    require_fitting_numpy(!totals.empty());
    if (bounds) {
        require_fitting_numpy(bounds->size() == request.rows);
        for (std::int64_t k = 0; k < request.rows; ++k)
            require_fitting_numpy(bounds->data()[k] >= 0 && bounds->data()[k] <= bound);
        request.bounds = bounds->data();
    }
    py::gil_scoped_release release;
    tightdp::add_products<T>(request);
}

template <class T, class Out>
void release_numpy_products(const std::vector<Product<T>>& layers, double bound, double inverse_grid,
                            const std::optional<Matrix<std::uint8_t>>& taken, std::vector<Targets> totals,
                            const tightdp::bindings::SealedStream* stream, double deviation, double scale,
                            const std::vector<std::uint64_t>& first, std::vector<Matrix<Out>> out) {
    tightdp::ProductSum request = read_numpy_product_sum(layers, bound, inverse_grid, taken, totals);
    require_fitting_numpy(out.size() == layers.size() && first.size() == layers.size());
    require_fitting_numpy(!totals.empty() || request.rows <= tightdp::kRowRecords);
    require_fitting_numpy(!stream || (deviation >= 0 && deviation <= tightdp::bindings::kLargestSigma));
    tightdp::SumRelease to{stream ? &**stream : nullptr, deviation, scale, std::is_same_v<Out, double>, {}, first};
    for (std::size_t l = 0; l < out.size(); ++l) {
        require_fitting_numpy(out[l].size() == std::get<0>(layers[l]).shape(1) * std::get<1>(layers[l]).shape(1));
        require_fitting_numpy(
            tightdp::bindings::is_within_draw_limits(first[l], static_cast<std::size_t>(out[l].size())));
        to.out.push_back(out[l].mutable_data());
    }
    request.release = &to;
    py::gil_scoped_release release;
    tightdp::add_products<T>(request);
}

void add_integer_product(const Matrix<std::int32_t>& w, const Matrix<std::int16_t>& q, double largest_product,
                         Targets sums) {
    require_fitting_numpy(w.ndim() == 2 && q.ndim() == 2 && w.shape(0) == q.shape(0) && sums.ndim() == 2 &&
                          sums.shape(0) == w.shape(1) && sums.shape(1) == q.shape(1));
    require_fitting_numpy(largest_product >= 0 && largest_product <= tightdp::kLargestIntegerProduct);
    const tightdp::IntegerProduct p{w.data(),           q.data(),        numpy_layer_extent(w, 0), numpy_layer_extent(w, 1),
                                    numpy_layer_extent(q, 1), largest_product, sums.mutable_data()};
    py::gil_scoped_release release;
    tightdp::add_integer_product(p);
}

template <class T, class Integer>
void scale_position_rows(const Matrix<T>& x, const Vector& factors, Integer most, Matrix<Integer> out) {
    require_fitting_numpy(x.ndim() == 2 && out.ndim() == 2 && x.shape(0) == out.shape(0) &&
                          x.shape(1) == out.shape(1) && factors.size() == x.shape(0));
    const tightdp::ScaledRows<T, Integer> rows{x.data(), numpy_layer_extent(x, 0),   numpy_layer_extent(x, 1), factors.data(),
                                               most,     out.mutable_data()};
    py::gil_scoped_release release;
    tightdp::scale_position_rows(rows);
}

template <class T>
Vector round_position_rows(const Matrix<T>& x, int digits, std::int16_t most, Matrix<std::int16_t> out) {
    require_fitting_numpy(x.ndim() == 2 && out.ndim() == 2 && x.shape(0) == out.shape(0) &&
                          x.shape(1) == out.shape(1) && digits >= 1 && digits <= 15);
    std::int16_t* const integers = out.mutable_data();
    return fill_new_numpy<double>({x.shape(0)}, [&](double* factors) {
        tightdp::round_position_rows<T>(
            {x.data(), numpy_layer_extent(x, 0), numpy_layer_extent(x, 1), digits, most, factors, integers});
    });
}

template <class Integer>
Vector multiply_positions(const Matrix<Integer>& x) {
    require_fitting_numpy(x.ndim() == 3);
    return fill_new_numpy<double>({x.shape(0), x.shape(1), x.shape(1)}, [&](double* out) {
        tightdp::multiply_positions<Integer>(
            {x.data(), numpy_layer_extent(x, 0), numpy_layer_extent(x, 1), numpy_layer_extent(x, 2), nullptr, out});
    });
}

Matrix<float> form_product_gradients(const Matrix<float>& left, const Matrix<float>& right) {
    require_fitting_numpy(left.ndim() == 3 && right.ndim() == 3 && left.shape(0) == right.shape(0) &&
                          left.shape(1) == right.shape(1));
    return fill_new_numpy<float>({left.shape(0), left.shape(2), right.shape(2)}, [&](float* out) {
        tightdp::form_product_gradients({left.data(), right.data(), numpy_layer_extent(left, 0), numpy_layer_extent(left, 1),
                                         numpy_layer_extent(left, 2), numpy_layer_extent(right, 2), out});
    });
}

// The images and errors are arrays [records][channels][depth][height][width].
Matrix<float> form_convolution_gradients(const Matrix<float>& images, const Matrix<float>& errors,
                                         const tightdp::ImageAxes& kernel, const tightdp::ImageAxes& stride,
                                         const tightdp::ImageAxes& padding, const tightdp::ImageAxes& dilation) {
    require_fitting_numpy(images.ndim() == 5 && errors.ndim() == 5 && images.shape(0) == errors.shape(0));
    tightdp::ConvolutionGradients request{images.data(),
                                          errors.data(),
                                          numpy_layer_extent(images, 0),
                                          numpy_layer_extent(images, 1),
                                          numpy_layer_extent(errors, 1),
                                          {},
                                          {},
                                          kernel,
                                          stride,
                                          padding,
                                          dilation,
                                          nullptr};
    constexpr std::int64_t most = std::int64_t{1} << 31;  // no sum or product of two such numbers overflows
    double entries = static_cast<double>(request.channels);
    for (std::size_t a = 0; a < 3; ++a) {
        const auto axis = static_cast<int>(a) + 2;
        request.image[a] = numpy_layer_extent(images, axis), request.output[a] = numpy_layer_extent(errors, axis);
        require_fitting_numpy(kernel[a] > 0 && stride[a] > 0 && padding[a] >= 0 && dilation[a] > 0);
        require_fitting_numpy(std::max({request.image[a], request.output[a], kernel[a], stride[a], padding[a],
                                        dilation[a]}) < most);
        entries *= static_cast<double>(request.image[a] + 2 * padding[a]);
        require_fitting_numpy(request.output[a] == 0 ||
                              (request.output[a] - 1) * stride[a] + (kernel[a] - 1) * dilation[a] <
                                  request.image[a] + 2 * padding[a]);
    }
    require_fitting_numpy(entries < 0x1p40);  // the padded image of one record
    std::vector<py::ssize_t> shape{errors.shape(0), errors.shape(1), images.shape(1)};
    for (const std::int64_t size : kernel) shape.push_back(static_cast<py::ssize_t>(size));
    return fill_new_numpy<float>(std::move(shape), [&](float* out) {
        request.out = out;
        tightdp::form_convolution_gradients(request);
    });
}

std::vector<std::string> list_python_product_ways() {
    std::vector<std::string> names;
    for (int i = 0; tightdp::product_way(i); ++i) names.emplace_back(tightdp::product_way(i)->name);
    return names;
}

template <class T>
void bind_layers_of_type(py::module_& m) {
    using namespace py::literals;
    m.def("affine", &affine<T>, "inputs"_a.noconvert(), "weights"_a.noconvert(), "bias"_a.noconvert());
    m.def("row_units", &row_units<T>, "x"_a.noconvert(), "bias"_a, "digits"_a);
    m.def("scale_rows", &scale_position_rows<T, std::int16_t>, "x"_a.noconvert(), "factors"_a, "most"_a,
          "out"_a.noconvert());
    m.def("scale_rows", &scale_position_rows<T, std::int32_t>, "x"_a.noconvert(), "factors"_a, "most"_a,
          "out"_a.noconvert());
    m.def("round_rows", &round_position_rows<T>, "x"_a.noconvert(), "digits"_a, "most"_a, "out"_a.noconvert());
    m.def("loss_residual", &loss_residual<T>, "kind"_a, "width"_a, "z"_a.noconvert(), "targets"_a.noconvert());
    m.def("loss_value", &loss_value<T>, "kind"_a, "width"_a, "z"_a.noconvert(), "targets"_a.noconvert());
    m.def("tanh", &tanh_of<T>, "x"_a.noconvert());
    m.def("outer_sum", &outer_sum<T>, "layers"_a.noconvert(), "bound"_a, "inverse_grid"_a, "center_norm"_a,
          "normalize"_a, "taken"_a.noconvert(), "shares"_a.noconvert(), "norms"_a.noconvert(), "out"_a.noconvert());
    m.def("add_products", &add_products<T>, "layers"_a.noconvert(), "bound"_a, "inverse_grid"_a, "taken"_a.noconvert(),
          "totals"_a.noconvert(), "bounds"_a.noconvert() = py::none());
    const auto release = [&](auto function) {
        m.def("release_products", function, "layers"_a.noconvert(), "bound"_a, "inverse_grid"_a, "taken"_a.noconvert(),
              "totals"_a.noconvert(), "stream"_a, "deviation"_a, "scale"_a, "first"_a, "out"_a.noconvert());
    };
    release(&release_numpy_products<T, float>);
    release(&release_numpy_products<T, double>);
}

}  // namespace

void bind_dense_layers(py::module_& m) {
    py::module_ dense = m.def_submodule("dense");
    bind_layers_of_type<float>(dense);
    bind_layers_of_type<double>(dense);
    using namespace py::literals;
    dense.def("add_integer_product", &add_integer_product, "w"_a.noconvert(), "q"_a.noconvert(), "largest_product"_a,
              "sums"_a.noconvert());
    dense.def("multiply_positions", &multiply_positions<std::int16_t>, "x"_a.noconvert());
    dense.def("multiply_positions", &multiply_positions<std::int32_t>, "x"_a.noconvert());
    dense.def("form_product_gradients", &form_product_gradients, "left"_a.noconvert(), "right"_a.noconvert());
    dense.def("form_convolution_gradients", &form_convolution_gradients, "images"_a.noconvert(),
              "errors"_a.noconvert(), "kernel"_a, "stride"_a, "padding"_a, "dilation"_a);
    dense.def("product_ways", &list_python_product_ways);
    dense.def("serving_way", [] { return tightdp::serving_product_way().name; });
    dense.def("choose_way", &tightdp::choose_product_way, "number"_a);
}
