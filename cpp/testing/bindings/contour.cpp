// tightdp._testing: gives tests access to parts of the contour engine, and runs the engine's code for devices on the
// host.
#include "../../bindings/bind.hpp"
#include "../kernel_emulation.hpp"
#include "contour/batch/batch_setting.hpp"
#include "contour/many_noise_multipliers/noise_bins.hpp"
#include "contour/many_noise_multipliers/noise_interpolation.hpp"
#include "contour/mgf/node_sums.hpp"
#include "contour/tail_bound/moved_line_tail.hpp"
#include "runtime/team.hpp"

void bind_testing_contour(py::module_& m) {
    using tightdp::contour::contour_composition_direction;
    using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
    using namespace py::literals;
    m.def(
        "contour_log_decay",
        [](double sigma, double q, bool add, double c, double s) {
            return tightdp::contour::MovedLineTail({sigma, q, contour_composition_direction(add)}, c, s, 20)
                .log_decay(s);
        },
        "sigma"_a, "q"_a, "add"_a, "c"_a, "s"_a);
    // Returns the real and the imaginary parts of xi_m, m = 1..count (contour/mgf/node_sums.hpp). The number of nodes
    // is a multiple of kNodeBlock.
    m.def(
        "contour_products",
        [](const Doubles& loss, double sign, const Doubles& weights, double step, std::int64_t count) {
            const std::int64_t n = loss.size();
            if (n % tightdp::contour::kNodeBlock || weights.size() != n) throw std::invalid_argument("blocks of nodes");
            Doubles re(count), im(count);
            using namespace tightdp;  // for the namespaces of the instruction sets
            TIGHTDP_SELECT_SIMD(sum_mgf_phases)
            (loss.data(), sign, weights.data(), n, step, count, re.mutable_data(), im.mutable_data());
            return py::make_tuple(re, im);
        },
        "loss"_a, "sign"_a, "weights"_a, "step"_a, "count"_a);
    m.def(
        "contour_bin_decay",
        [](double low, double high, double q, bool add, double c, double s) {
            return tightdp::contour::NoiseBinTail({q, low, high, 1, 2, low}, contour_composition_direction(add), c, s,
                                                  20)
                .log_decay(s);
        },
        "low"_a, "high"_a, "q"_a, "add"_a, "c"_a, "s"_a);
    m.def("contour_interpolation_error", &tightdp::contour::interpolation_error, "rho"_a, "nodes"_a);
    m.def(
        "contour_cell",
        [](double middle, double half, double rho, double left, double right, double sigma) {
            const double height = tightdp::contour::noise_ellipse_height_between(middle, half, rho, left, right);
            const auto box = tightdp::contour::noise_box(left, right, height, sigma);
            return py::make_tuple(box.real, box.imaginary);
        },
        "middle"_a, "half"_a, "rho"_a, "left"_a, "right"_a, "sigma"_a);
    // Returns (tau, D, the largest |ln G|), which contour/many_noise_multipliers/near_level.hpp defines.
    m.def(
        "contour_near_level",
        [](double sigma, double q, bool add, double c, double radius, double real, double imaginary) {
            const tightdp::contour::NearLevel near({sigma, q, contour_composition_direction(add)}, c, radius);
            return py::make_tuple(near.tau, near.bound_near_level_distance({real, imaginary}),
                                  near.bound_near_level_log_factor({real, imaginary}));
        },
        "sigma"_a, "q"_a, "add"_a, "c"_a, "radius"_a, "real"_a, "imaginary"_a);
    // Returns (number of nodes, (ln M(c), rule, rounding), an upper bound on ln M(other), rows). Here M is the moment
    // generating function of the privacy loss of all steps at all noise levels. Row m = 1..count is (re, im, rule,
    // rounding), where re and im are the parts of ln(M(c + i m step)/M(c)). `rule` and `rounding` bound the two errors
    // of a logarithm: the error of the interpolation and the quadrature, and the rounding error. Returns None if the
    // levels are not interpolated.
    m.def(
        "contour_levels",
        [](const std::vector<double>& sigmas, const std::vector<double>& counts, double q, bool add, double c,
           double other, double step, std::int64_t count, double log_inverse) -> py::object {
            using namespace tightdp::contour;
            std::vector<Sampled> levels;
            for (std::size_t i = 0; i < sigmas.size(); ++i) levels.push_back({sigmas[i], q, counts[i]});
            auto made = Interpolation::make_interpolation(levels, contour_composition_direction(add), c, log_inverse);
            if (!made) return py::none();
            for (SampledMgf& node : made->nodes())
                if (!node.place_nodes(std::max(c, other), step * static_cast<double>(count), 35, kMaxNodes))
                    return py::none();
            std::vector<LogRatio> ratios(count + 1);
            made->add_to_ratios(ratios, step);
            py::array_t<double> rows({static_cast<py::ssize_t>(count), py::ssize_t{4}});
            for (std::int64_t i = 0; i < count; ++i) {
                const LogRatio& one = ratios[i + 1];
                const double row[] = {one.re, one.im, one.rule, one.round};
                std::copy(row, row + 4, rows.mutable_data(i, 0));
            }
            const CertifiedLogMgf k = made->log_mgf();
            return py::make_tuple(made->nodes().size(), py::make_tuple(k.value, k.rule, k.rounding),
                                  made->log_mgf_upper(other), rows);
        },
        "sigmas"_a, "counts"_a, "q"_a, "add"_a, "c"_a, "other"_a, "step"_a, "count"_a, "log_inverse"_a);
    // Returns (lower, upper, status, nodes, abscissae) of each setting, under add_or_remove. The lanes of a warp
    // compute the results if `warp` is true, and a single lane otherwise.
    m.def(
        "emulate_epsilon_batch",
        [](Doubles sigma, Doubles q, Doubles steps, Doubles delta, double tolerance, bool warp) {
            using namespace tightdp::contour;
            const py::ssize_t n = sigma.size();
            py::array_t<double> lower(n), upper(n);
            py::array_t<unsigned char> status(n);
            py::array_t<std::int64_t> nodes(n), abscissae(n);
            const auto memory = std::make_unique<BatchMemory>();
            for (py::ssize_t i = 0; i < n; ++i) {
                const double s = sigma.at(i), p = q.at(i), k = steps.at(i), d = delta.at(i);
                const Result r = warp ? tightdp::emulate_batch_epsilon(*memory, s, p, k, d, tolerance)
                                      : batch_epsilon(SoloTeam{}, *memory, s, p, k, d, tolerance);
                const bool certified = r.status == Status::certified;
                status.mutable_at(i) = certified;
                lower.mutable_at(i) = certified ? r.lower : 0;
                upper.mutable_at(i) = certified ? r.upper : HUGE_VAL;
                nodes.mutable_at(i) = r.nodes;
                abscissae.mutable_at(i) = r.abscissae;
            }
            return py::make_tuple(lower, upper, status, nodes, abscissae);
        },
        "sigma"_a, "q"_a, "steps"_a, "delta"_a, "tolerance"_a, "warp"_a);
}
