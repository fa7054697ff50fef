#include "work.hpp"

namespace tightdp::work {

void look(Counter& c) {
    c.look_at = c.passed + kBetweenLooks;
    if ((c.stop && c.stop->load(std::memory_order_relaxed)) || (c.signalled && c.signalled())) throw Interrupted{};
}

}  // namespace tightdp::work
