// tightdp._cuda: the kernels for a device (GPU). Device memory is passed as addresses, which the files in
// python/tightdp/clipping_and_noise/cuda check.
#include <vector>

#include "../bind.hpp"
#include "../prv_entry.hpp"
#include "../sealed_stream.hpp"
#include "clipping/clipped_sum.cuda.hpp"
#include "contour/batch/epsilon_batch.cuda.hpp"
#include "dense_layers/product_sum.cuda.hpp"
#include "prv/cells.cuda.hpp"
#include "runtime/cuda_scratch.hpp"

namespace {

using tightdp::ClipRequest;
using tightdp::Dtype;
using tightdp::bindings::SealedStream;
using tightdp::cuda::check_cuda;
using tightdp::cuda::Scratch;
using Address = std::uintptr_t;
using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

template <class T>
T* cuda_pointer_at(Address address) {
    return reinterpret_cast<T*>(address);
}

int device_count() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();
    return 0;
}

py::tuple describe_device(int device) {
    cudaDeviceProp p{};
    check_cuda(cudaGetDeviceProperties(&p, device), "the properties of the device");
    return py::make_tuple(py::str(p.name), p.major, p.minor, p.multiProcessorCount);
}

// Returns the number of the device whose memory contains an address, or -1 if the address is in host memory.
int find_cuda_device(Address address) {
    cudaPointerAttributes found{};
    check_cuda(cudaPointerGetAttributes(&found, cuda_pointer_at<void>(address)), "the owner of an address");
    return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged ? found.device : -1;
}

// Makes a device the current device of the calling thread, and restores the previous one at the end of the scope.
class OnDevice {
  public:
    explicit OnDevice(int device) {
        check_cuda(cudaGetDevice(&before_), "the current device");
        check_cuda(cudaSetDevice(device), "the device");
    }
    ~OnDevice() { cudaSetDevice(before_); }

  private:
    int before_ = 0;
};

Dtype read_cuda_dtype(const std::string& name) {
    for (int i = 0; i < 4; ++i)
        if (name == tightdp::kDtypeNames[i]) return static_cast<Dtype>(i);
    throw py::type_error("dtype must be float16, bfloat16, float32 or float64");
}

// Computes a clipped sum. `arrays` is a list of tuples (address, stride in bytes, columns, address of the sums, index
// of the first column's noise). If `grid` is 0, the sums are computed in doubles. Otherwise integers in units of the
// grid are added (the exact form of clipped_sum.hpp). `noise` is the random stream, and `stream` the CUDA stream.
void clipped_sum(const std::vector<std::tuple<Address, std::int64_t, std::int64_t, Address, std::uint64_t>>& arrays,
                 std::int64_t rows, const std::string& dtype, const std::string& out_dtype, double max_norm,
                 double deviation, const SealedStream* noise, Address norms, double grid, int device, Address stream,
                 bool normalize, double stability, Address weights, Address center, Address inverse_scale,
                 bool accumulate) {
    ClipRequest r;
    for (const auto& [data, stride, columns, out, noise_index] : arrays)
        r.segments.push_back(
            {cuda_pointer_at<void>(data), stride, static_cast<std::size_t>(columns), cuda_pointer_at<void>(out), noise_index});
    r.rows = static_cast<std::size_t>(rows);
    r.dtype = read_cuda_dtype(dtype);
    r.out_double = out_dtype == "float64";
    r.out_integers = out_dtype == "int64";
    r.grid = grid;
    r.accumulate = accumulate;
    r.max_norm = max_norm;
    r.rule = normalize ? tightdp::clipping::Rule::normalize : tightdp::clipping::Rule::flat;
    r.stability = stability;
    r.weights = cuda_pointer_at<double>(weights);
    r.center = cuda_pointer_at<double>(center);
    r.inverse_scale = cuda_pointer_at<double>(inverse_scale);
    r.deviation = deviation;
    r.stream = noise ? &**noise : nullptr;
    r.norms = cuda_pointer_at<double>(norms);
    py::gil_scoped_release release;
    const OnDevice current(device);
    tightdp::cuda::clipped_sum(r, cuda_pointer_at<CUstream_st>(stream));
}

// Adds normal noise, rounded to integers, to the `count` integers at `sums`. Writes the results times `scale` to `out`,
// which is float64 if `full`, and float32 otherwise. Integer i gets draw i of the random stream `noise`.
void release_sums(Address sums, std::int64_t count, Address out, bool full, double scale, double deviation,
                  const SealedStream& noise, int device, Address stream) {
    ClipRequest r;
    r.segments.push_back({nullptr, 0, static_cast<std::size_t>(count), cuda_pointer_at<void>(out), 0});
    r.out_double = full;
    r.grid = scale;
    r.deviation = deviation;
    r.stream = &*noise;
    py::gil_scoped_release release;
    const OnDevice current(device);
    tightdp::cuda::release_sums(r, cuda_pointer_at<std::int64_t>(sums), cuda_pointer_at<CUstream_st>(stream));
}

// Adds sum_k w[k][o] q[k][j] to sums[o][j]. `w` is an array [rows][outputs] of int32, `q` an array [rows][columns] of
// int16, and `sums` an array [outputs][columns] of int64.
void add_integer_product(Address w, Address q, Address sums, std::int64_t rows, std::int64_t outputs,
                         std::int64_t columns, int device, Address stream) {
    const tightdp::IntegerProduct p{
        cuda_pointer_at<std::int32_t>(w),     cuda_pointer_at<std::int16_t>(q),   rows, outputs, columns,
        tightdp::kLargestIntegerProduct, cuda_pointer_at<std::int64_t>(sums)};
    py::gil_scoped_release release;
    const OnDevice current(device);
    tightdp::cuda::add_integer_product(p, cuda_pointer_at<CUstream_st>(stream));
}

// Clips the gradients of a batch's records, rounds them to integers, and adds the integers to totals. `layers` is a
// list of (inputs, errors, columns, outputs, totals). Inputs and errors are float64 if `full`, and float32 otherwise.
// The other arguments are those of ProductSum.
void add_products(const std::vector<std::tuple<Address, Address, std::int64_t, std::int64_t, Address>>& layers,
                  std::int64_t rows, bool full, double bound, double inverse_grid, Address taken, Address bounds,
                  int device, Address stream) {
    tightdp::ProductSum r{};
    r.rows = rows;
    r.bound = bound, r.inverse_grid = inverse_grid;
    r.taken = cuda_pointer_at<std::uint8_t>(taken), r.bounds = cuda_pointer_at<double>(bounds);
    for (const auto& [inputs, errors, columns, outputs, totals] : layers) {
        tightdp::DenseLayer layer{};
        layer.inputs = cuda_pointer_at<void>(inputs), layer.errors = cuda_pointer_at<void>(errors);
        layer.columns = columns, layer.outputs = outputs;
        r.layers.push_back(layer);
        r.totals.push_back(cuda_pointer_at<std::int64_t>(totals));
    }
    py::gil_scoped_release release;
    const OnDevice current(device);
    full ? tightdp::cuda::add_products<double>(r, cuda_pointer_at<CUstream_st>(stream))
         : tightdp::cuda::add_products<float>(r, cuda_pointer_at<CUstream_st>(stream));
}

// Computes a batch of epsilons. Arguments and results are arrays on the host. The function waits for the result.
py::tuple epsilon_batch(Doubles sigma, Doubles q, Doubles steps, Doubles delta, double tolerance, int device) {
    const auto n = static_cast<std::size_t>(sigma.size());
    py::array_t<double> lower(sigma.size()), upper(sigma.size());
    py::array_t<unsigned char> status(sigma.size());
    const double* const inputs[] = {sigma.data(), q.data(), steps.data(), delta.data()};
    double *const lo = lower.mutable_data(), *const up = upper.mutable_data();
    unsigned char* const st = status.mutable_data();
    {
        py::gil_scoped_release release;
        const OnDevice current(device);
        const Scratch memory(n * (6 * sizeof(double) + 1), nullptr);
        double* const d = memory.as<double>();
        auto* const d_status = reinterpret_cast<unsigned char*>(d + 6 * n);
        for (std::size_t i = 0; i < 4; ++i)
            check_cuda(cudaMemcpyAsync(d + i * n, inputs[i], n * 8, cudaMemcpyHostToDevice, nullptr),
                       "copying settings");
        tightdp::cuda::epsilon_batch(static_cast<std::int64_t>(n), d, d + n, d + 2 * n, d + 3 * n, tolerance, d + 4 * n,
                                     d + 5 * n, d_status, nullptr);
        check_cuda(cudaMemcpyAsync(lo, d + 4 * n, n * 8, cudaMemcpyDeviceToHost, nullptr), "copying bounds");
        check_cuda(cudaMemcpyAsync(up, d + 5 * n, n * 8, cudaMemcpyDeviceToHost, nullptr), "copying bounds");
        check_cuda(cudaMemcpyAsync(st, d_status, n, cudaMemcpyDeviceToHost, nullptr), "copying bounds");
        check_cuda(cudaStreamSynchronize(nullptr), "the batched contour engine");
    }
    return py::make_tuple(lower, upper, status);
}

void prv_cells(const tightdp::bindings::Entry& entry, double h, long long first, std::int64_t count, Address out,
               int device, Address stream) {
    const tightdp::prv::Run run = tightdp::bindings::read_prv_entry(entry);
    py::gil_scoped_release release;
    const OnDevice current(device);
    tightdp::cuda::prv_cells(run.law, h, first, count, cuda_pointer_at<double>(out), cuda_pointer_at<CUstream_st>(stream));
}

}  // namespace

PYBIND11_MODULE(_cuda, m) {
    using namespace py::literals;
    m.doc() = "Kernels of tightdp for CUDA devices. Private: use the tightdp package.";
    py::module_::import("tightdp._core");  // registers the type of streams
    py::register_exception<tightdp::cuda::Error>(m, "CudaError", PyExc_RuntimeError);
    m.def("device_count", &device_count);
    m.def("describe", &describe_device, "device"_a);
    m.def("find_cuda_device", &find_cuda_device, "address"_a);
    m.def("clipped_sum", &clipped_sum, "arrays"_a, "rows"_a, "dtype"_a, "out_dtype"_a, "max_norm"_a, "deviation"_a,
          "noise"_a, "norms"_a, "grid"_a, "device"_a, "stream"_a, "normalize"_a = false, "stability"_a = 0.01,
          "weights"_a = 0, "center"_a = 0, "inverse_scale"_a = 0, "accumulate"_a = false);
    m.def("release_sums", &release_sums, "sums"_a, "count"_a, "out"_a, "full"_a, "scale"_a, "deviation"_a, "noise"_a,
          "device"_a, "stream"_a);
    m.def("add_integer_product", &add_integer_product, "w"_a, "q"_a, "sums"_a, "rows"_a, "outputs"_a, "columns"_a,
          "device"_a, "stream"_a);
    m.def("add_products", &add_products, "layers"_a, "rows"_a, "full"_a, "bound"_a, "inverse_grid"_a, "taken"_a,
          "bounds"_a, "device"_a, "stream"_a);
    m.def("epsilon_batch", &epsilon_batch, "sigma"_a, "q"_a, "steps"_a, "delta"_a, "tolerance"_a, "device"_a);
    m.def("prv_cells", &prv_cells, "run"_a, "h"_a, "first"_a, "count"_a, "out"_a, "device"_a, "stream"_a);
}
