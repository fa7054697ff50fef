// Sums whose roundings are kept.
#pragma once

namespace tightdp {

// A sum beside what its n additions round away (Knuth's two-sum): within u of the sum and (n u)^2 of the sum of
// magnitudes (Ogita, Rump and Oishi 2005), hence within 3u of the sum of positive numbers.
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
