// Compensated summation, which also adds up the rounding errors of a sum.
#pragma once

namespace tightdp {

// A sum, together with the sum of the rounding errors of its n additions (Knuth's two-sum). Let u = 2^-53. The error of
// the result is at most u times the sum plus (n u)^2 times the sum of magnitudes (Ogita, Rump and Oishi 2005). If all
// numbers are positive and n <= 2^26, the relative error is hence at most 3u.
class CompensatedSum {
  public:
    CompensatedSum& operator+=(double x) {
        const double total = high_ + x, part = total - high_;
        low_ += (high_ - (total - part)) + (x - part);
        high_ = total;
        return *this;
    }
    CompensatedSum& operator=(double x) {
        high_ = x;
        low_ = 0;
        return *this;
    }
    operator double() const { return high_ + low_; }

  private:
    double high_ = 0, low_ = 0;
};

}  // namespace tightdp
