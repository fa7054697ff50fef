// Tests tightdp/special/*.hpp at points whose values were computed with 40 digits. At other points, the test checks
// identities.
#include <initializer_list>

#include "check.hpp"
#include "tightdp/special/log_ndtri.hpp"
#include "tightdp/special/logaddexp.hpp"
#include "tightdp/special/normal.hpp"
#include "tightdp/special/sampled_loss.hpp"

using namespace tightdp;

namespace {

constexpr double u = kUnitRoundoff;

void values() {
    CHECK(check::near(mills_ratio(0), 1.2533141373155002512, 8 * u));
    CHECK(check::near(mills_ratio(0.5), 0.87636445645369234673, 8 * u));
    CHECK(check::near(mills_ratio(3), 0.30459029871010329573, 8 * u));
    CHECK(check::near(mills_ratio(12), 0.082766286501369177252, 8 * u));
    CHECK(check::near(mills_ratio(1000), 0.000999999000002999985, 8 * u));
    CHECK(check::near(mills_slope(0), 1.0, 8 * u));
    CHECK(check::near(mills_slope(0.5), 0.56181777177315382664, 8 * u));
    CHECK(check::near(mills_slope(3), 0.086229103869690112799, 8 * u));
    CHECK(check::near(mills_slope(12), 0.0068045619835698729728, 8 * u));
    CHECK(check::near(mills_slope(1000), 9.99997000014999895e-7, 8 * u));
    CHECK(check::near(ndtr(0.25), 0.59870632568292372424, 16 * u));
    CHECK(check::near(ndtr(-1), 0.15865525393145705141, 16 * u));
    CHECK(check::near(ndtr(-8), 6.2209605742717841235e-16, 16 * u));
    CHECK(check::near(ndtr(-37), 5.7255712225245768227e-300, 16 * u));
    CHECK(check::near(log_ndtr(8), -6.2209605742717860585e-16, 20 * u));
    CHECK(check::near(log_ndtr(0.5), -0.36894641528865639307, 20 * u));
    CHECK(check::near(log_ndtr(-1), -1.8410216450092635058, 20 * u));
    CHECK(check::near(log_ndtr(-37), -689.0305855768905936, 20 * u));
    CHECK(check::near(log_ndtr(-1000), -500007.82669481218431, 20 * u));
    CHECK(check::near(log_ndtri(-40), -8.5926757184737721488, 20 * u));
    CHECK(check::near(log_ndtri(-0.0625), 1.5498651976584227369, 20 * u));
    CHECK(check::near(log_ndtri(-5000), -99.944748174841092478, 20 * u));
    CHECK(check::near(log1mexp(-1e-300), -690.77552789821370518, 6 * u));
    CHECK(check::near(log1mexp(-0.5), -0.93275212956718857189, 6 * u));
    CHECK(check::near(log1mexp(-1), -0.45867514538708189102, 6 * u));
    CHECK(check::near(log1mexp(-700), -9.8596765437597708567e-305, 6 * u));
    CHECK(check::near(sampled_loss(-3, 0.25), -0.27122258658753732137, 8 * u));
    CHECK(check::near(sampled_loss(1e-9, 0.25), 2.5000000009375001559e-10, 8 * u));
    CHECK(check::near(sampled_loss(900, 0.25), 898.61370563888010938, 8 * u));
}

void identities() {
    for (double x = 0; x < 30; x += 0.37) {
        // Mills' ratio R and its slope S satisfy S = 1 - x R. The tolerance allows for the error of the subtraction.
        CHECK(std::fabs(mills_slope(x) - (1 - x * mills_ratio(x))) <= 32 * u);
        CHECK(std::fabs(ndtr(x) + ndtr(-x) - 1) <= 16 * u);
        CHECK(check::near(std::exp(log_ndtr(x)), ndtr(x), 32 * u));
        CHECK(check::near(log_ndtr(log_ndtri(-x - 0.01)), -x - 0.01, 40 * u));
    }
    for (double q : {1e-9, 0.01, 0.5, 0.999, 1.0})
        for (double t = -20; t < 60; t += 0.7) {
            const double y = sampled_loss(t, q);
            // The derivative is dt/dy = e^y / (q e^t).
            const double steep = std::exp(y - t) / q;
            CHECK(std::fabs(sampled_loss_inverse(y, q) - t) <=
                  16 * u * (std::fabs(t) + 1 + std::fabs(y) * steep) + 16 * u * steep);
        }
}

void edges() {
    CHECK(log_ndtri(0) == HUGE_VAL && log_ndtri(-HUGE_VAL) == -HUGE_VAL && std::isnan(log_ndtri(1)));
    CHECK(log1mexp(0) == -HUGE_VAL && log1mexp(-HUGE_VAL) == 0);
    CHECK(logaddexp(-HUGE_VAL, 3) == 3);
    CHECK(ndtr(HUGE_VAL) == 1 && ndtr(-HUGE_VAL) == 0 && std::isnan(ndtr(NAN)));
    CHECK(sampled_loss_inverse(-1, 0.1) == -HUGE_VAL);
}

}  // namespace

int main() {
    values();
    identities();
    edges();
    return check::failures;
}
