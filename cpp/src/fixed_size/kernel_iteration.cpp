// Bounds on the worst privacy profile over all choices of kernels (docs/theory/adaptive.md, section 2). A kernel is a
// distribution of losses on a lattice. Terms of sums are multiplied by e^{tilt loss}, so that small terms keep their
// digits (Scale).
#include "kernel_iteration.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>

#include "fft/real_fft.hpp"
#include "runtime/aligned.hpp"
#include "runtime/work_budget.hpp"

namespace tightdp::fixed_size {
namespace {

constexpr double u = 0x1p-53;
// Absolute error of a difference of terms up to 1: sixteen roundings.
constexpr double kSubtracted = 16 * u;
// Relative error of a mass or value that is multiplied by e^{tilt loss}: sixteen roundings. The error of the exponent
// is not included.
constexpr double kRelative = 16 * u;
// Largest part of a sum that may be lost by underflow.
constexpr double kUnseen = 1e-290;
// Units of work (runtime/work_budget.hpp) for each point of a Fourier transform. A point was measured to take two
// nanoseconds.
constexpr std::int64_t kUnits = 2;

// The worst privacy profile of the steps so far, at the losses eps = (i - n) h. A value is the excess of delta over its
// smallest possible value (1 - e^eps)_+ = max(1 - e^eps, 0), multiplied by e^{tilt eps}.
class Values {
  public:
    Values(const std::vector<Kernel>& menu, const Scale& scale, bool upper)
        : kernel_scale_(scale),
          upper_(upper),
          plan_(RealFft::plan(choose_kernel_transform_length(scale.n))),
          tilt_(2 * scale.n + 1),
          values_(2 * scale.n + 1),
          spectrum_(plan_->size()),
          padded_(plan_->size()) {
        for (std::size_t i = 0; i < tilt_.size(); ++i) tilt_[i] = std::exp(scale.tilt * kernel_loss_at(i));
        relative_ = kRelative + 4 * u * std::abs(scale.tilt) * kernel_loss_at(2 * scale.n);
        for (const Kernel& kernel : menu) add_kernel_factor(kernel);
    }

    // Adds one step. `beyond` bounds the worst delta at n h.
    void add_kernel_step(double beyond) {
        work::spend(kUnits * static_cast<std::int64_t>(plan_->size() * (factors_.size() + 1)));
        const double error = 3.5 * plan_->rounding_bound() * bound_kernel_values_norm() * (1 + 1e-9);
        std::fill_n(std::copy_n(values_.data(), values_.size(), padded_.data()), padded_.size() - values_.size(), 0.0);
        plan_->forward(padded_.data(), spectrum_.data());
        std::vector<double>& best = values_;
        const std::size_t n = kernel_scale_.n,
                          first = upper_ ? n : 0;  // upper values at negative losses follow by symmetry
        for (std::size_t k = 0; k < factors_.size(); ++k) {
            const Factor& f = factors_[k];
            plan_->multiply(spectrum_.data(), f.spectrum.data(), padded_.data());
            plan_->inverse(padded_.data(), padded_.data());
            const double lost = (upper_ ? 1 : -1) * (error * f.sum + kUnseen);
            const double rel = upper_ ? 1 + relative_ : 1 - relative_;
            for (std::size_t i = first; i < best.size(); ++i) {
                const double sum = std::max(padded_[i + n] + lost, 0.0) * rel + f.excess[i];
                known_ = known_ && std::abs(sum) < HUGE_VAL;
                best[i] = k == 0 ? sum : std::max(best[i], sum);
            }
        }
        if (!upper_) {
            for (double& value : best) value = std::max(value, 0.0);
            return;
        }
        for (std::size_t i = n; i < best.size(); ++i) best[i] += beyond * tilt_[i] * (1 + relative_);
        // The values at negative losses follow from delta(-eps) - (1 - e^-eps) = e^-eps delta(eps).
        for (std::size_t i = 1; i <= n; ++i)
            best[n - i] = best[n + i] * std::exp(-(1 + 2 * kernel_scale_.tilt) * kernel_loss_at(n + i)) *
                          (1 + relative_ + 8 * u * kernel_loss_at(n + i));
    }

    std::vector<double> bound_kernel_curve() const {
        std::vector<double> found(kernel_scale_.n + 1);
        for (std::size_t i = 0; i <= kernel_scale_.n; ++i) {
            const double value = values_[kernel_scale_.n + i] / tilt_[kernel_scale_.n + i];
            const double bound = upper_ ? value * (1 + relative_) : value * (1 - relative_);
            found[i] = known_ && bound <= 1 ? bound : upper_ ? 1 : 0;
        }
        return found;
    }

  private:
    struct Factor {
        AlignedArray spectrum;
        std::vector<double> excess;  // excess of the kernel's own delta over (1 - e^eps)_+, multiplied by e^{tilt eps}
        double sum;                  // sum of the kernel's masses, each multiplied by e^{tilt loss}
    };

    // Returns the length of the transforms. A circular convolution of this length is free of wrap-around at its points
    // n to 3n, the only ones that are used.
    static std::size_t choose_kernel_transform_length(std::size_t n) {
        std::size_t points = RealFft::kMinLength;
        while (points < 3 * n + 2) points *= 2;
        return points;
    }

    double kernel_loss_at(std::size_t i) const {
        return (static_cast<double>(i) - static_cast<double>(kernel_scale_.n)) * kernel_scale_.h;
    }

    double bound_kernel_values_norm() const {
        double sum = 0;
        for (const double value : values_) sum += value * value;
        return std::sqrt(sum) * (1 + 1e-9);
    }

    void add_kernel_factor(const Kernel& kernel) {
        Factor f{AlignedArray::make_aligned_zeros(plan_->size()), std::vector<double>(kernel.mass.size()), 0};
        const double rel = upper_ ? 1 + relative_ : 1 - relative_;
        for (std::size_t i = 0; i < kernel.mass.size(); ++i) {
            f.spectrum[i] = kernel.mass[i] * tilt_[i] * rel;
            f.sum += f.spectrum[i];
        }
        f.sum *= 1 + 1e-9;
        plan_->forward(f.spectrum.data(), f.spectrum.data());
        // The excess is E[(1 - e^{eps - Y})_+] - (1 - e^eps)_+, where Y is the kernel's loss. The expectation d_i at
        // point i follows from the recurrence d_i = (1 - e^-h) p_i + e^-h d_{i+1}, where p_i is the mass beyond point
        // i.
        const double fall = -std::expm1(-kernel_scale_.h), keep = std::exp(-kernel_scale_.h);
        const double rounding = 8 * u * static_cast<double>(kernel.mass.size());
        double p = 0, d = 0;
        for (std::size_t i = kernel.mass.size(); i-- > 0;) {
            d = fall * p + keep * d;
            p += kernel.mass[i];
            const double bare = kernel_loss_at(i) < 0 ? -std::expm1(kernel_loss_at(i)) : 0;
            const double subtracted = bare > 0 ? kSubtracted : 0;
            const double excess = upper_ ? d * (1 + rounding) + kernel.infinity - bare + subtracted
                                         : d * (1 - rounding) - bare - subtracted;
            f.excess[i] = tilt_[i] * (excess + (upper_ ? relative_ : -relative_) * std::abs(excess));
        }
        // A kernel that dominates a pair has a mass of at least 1, and a kernel that a pair dominates has a mass of at
        // most 1.
        const double slack = 2 * u * static_cast<double>(kernel.mass.size());
        if (upper_ ? p + kernel.infinity < 1 - slack : p > 1 + slack)
            throw std::logic_error("the mass of a kernel is on the wrong side of 1: " +
                                   std::to_string(p + kernel.infinity));
        factors_.push_back(std::move(f));
    }

    Scale kernel_scale_;
    bool upper_, known_ = true;  // known_ tells whether all values so far were finite
    double relative_ = 0;
    std::shared_ptr<const RealFft> plan_;
    std::vector<double> tilt_, values_;
    AlignedArray spectrum_, padded_;
    std::vector<Factor> factors_;
};

}  // namespace

std::vector<double> compute_kernel_curve(const Kernel& kernel, double h) {
    const std::size_t n = kernel.mass.size() / 2;
    const double fall = -std::expm1(-h), keep = std::exp(-h);
    std::vector<double> found(n + 1);
    double p = 0, d = 0;
    for (std::size_t i = n + 1; i-- > 0;) {
        d = fall * p + keep * d;
        found[i] = (d + kernel.infinity) * (1 + 8 * u * static_cast<double>(n));
        p += kernel.mass[n + i];
    }
    return found;
}

std::vector<double> bound_worst_kernel_deltas(const std::vector<Kernel>& menu, const Scale& scale, std::size_t count,
                                              bool upper, double beyond) {
    Values values(menu, scale, upper);
    for (std::size_t i = 0; i < count; ++i) values.add_kernel_step(beyond);
    return values.bound_kernel_curve();
}

}  // namespace tightdp::fixed_size
