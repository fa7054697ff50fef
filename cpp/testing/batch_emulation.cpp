#include "batch_emulation.hpp"

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "contour/batch/setting.hpp"
#include "runtime/team.hpp"

namespace tightdp::contour {
namespace {

// Lanes as threads that meet at every collective: a lane that reads what another has yet to write shows.
struct Meeting {
    explicit Meeting(int lanes) : barrier(lanes), given(lanes) {}
    std::barrier<> barrier;
    std::vector<double> given;
};

class ThreadTeam {
  public:
    ThreadTeam(Meeting& meeting, int lane) : meeting_(&meeting), lane_(lane) {}
    int lane() const noexcept { return lane_; }
    int size() const noexcept { return static_cast<int>(meeting_->given.size()); }
    void sync() const noexcept { meeting_->barrier.arrive_and_wait(); }
    double sum(double x) const noexcept {
        return folded(x, [](double a, double b) { return a + b; });
    }
    double largest(double x) const noexcept { return folded(x, larger); }
    double smallest(double x) const noexcept { return folded(x, smaller); }
    std::uint32_t votes(bool yes) const noexcept {
        return static_cast<std::uint32_t>(
            folded(yes ? static_cast<double>(1u << lane_) : 0.0, [](double a, double b) { return a + b; }));
    }

  private:
    template <class F>
    double folded(double x, F combine) const noexcept {
        meeting_->given[lane_] = x;
        sync();
        double all = meeting_->given[0];
        for (int i = 1; i < size(); ++i) all = combine(all, meeting_->given[i]);
        sync();
        return all;
    }

    Meeting* meeting_;
    int lane_;
};

}  // namespace

void emulate_epsilon_batch(std::int64_t n, const double* sigma, const double* q, const double* steps,
                           const double* delta, double tolerance, int lanes, double* lower, double* upper,
                           unsigned char* status, std::int64_t* nodes, std::int64_t* abscissae) {
    const auto memory = std::make_unique<BatchMemory>();
    const auto run = [&](const auto& team) {
        for (std::int64_t i = 0; i < n; ++i) {
            const Result r = batch_epsilon(team, *memory, sigma[i], q[i], steps[i], delta[i], tolerance);
            team.sync();
            if (team.lane() != 0) continue;
            status[i] = r.status == Status::certified;
            lower[i] = status[i] ? r.lower : 0;
            upper[i] = status[i] ? r.upper : HUGE_VAL;
            nodes[i] = r.nodes;
            abscissae[i] = r.abscissae;
        }
    };
    if (lanes == 1) return run(SoloTeam{});
    Meeting meeting(lanes);
    std::vector<std::thread> others;
    for (int lane = 1; lane < lanes; ++lane) others.emplace_back([&, lane] { run(ThreadTeam(meeting, lane)); });
    run(ThreadTeam(meeting, 0));
    for (std::thread& other : others) other.join();
}

}  // namespace tightdp::contour
