#include "planner/search/orders.h"

#include <algorithm>
#include <bit>

namespace trireme::planner {
namespace {

// `order` with the axes outside `active` moved behind: two orders that differ only there are one
// layout.
AxisOrder canonical(const AxisOrder& order, std::size_t active) {
  AxisOrder sorted = order;
  std::stable_partition(sorted.begin(), sorted.end(), [&](Axis axis) {
    return (active >> static_cast<std::size_t>(axis) & 1U) != 0;
  });
  const auto rest =
      static_cast<std::ptrdiff_t>(std::count_if(sorted.begin(), sorted.end(), [&](Axis axis) {
        return (active >> static_cast<std::size_t>(axis) & 1U) != 0;
      }));
  std::sort(sorted.begin() + rest, sorted.end());
  return sorted;
}

}  // namespace

std::size_t active_axes(const Plan& plan) {
  std::size_t set = 0;
  for (const Axis axis : Plan{}.order) {
    if (degree_of(plan, axis) > 1) {
      set |= std::size_t{1} << static_cast<std::size_t>(axis);
    }
  }
  return set;
}

// Orders that a framework offers (Megatron's two, of which Megatron-FSDP refuses the second,
// torchtitan's and DeepSpeed's fixed meshes); this project's runtime places axes freely.
std::vector<AxisOrder> legal_orders(const Job& job, std::size_t active) {
  std::vector<AxisOrder> orders;
  const auto bit = [](Axis axis) { return std::size_t{1} << static_cast<std::size_t>(axis); };
  // On unlike nodes stages are runs of ranks, so that each can be on cards of one kind.
  const bool runs = !job.cluster.groups.empty() && (active & bit(Axis::kPipeline)) != 0;
  const auto add = [&](const AxisOrder& order) {
    const AxisOrder one = canonical(order, active);
    const auto last = static_cast<std::size_t>(std::popcount(active));
    if (runs && one[last - 1] != Axis::kPipeline) {
      return;
    }
    if (std::find(orders.begin(), orders.end(), one) == orders.end()) {
      orders.push_back(one);
    }
  };
  const AxisOrder usual = Plan{}.order;
  add(usual);
  if (job.framework.sharder == Sharder::kTrireme) {
    AxisOrder order = {Axis::kTensor, Axis::kContext, Axis::kSharded, Axis::kReplica,
                       Axis::kPipeline};
    std::sort(order.begin(), order.end());
    do {
      add(order);
    } while (std::next_permutation(order.begin(), order.end()));
  } else if (is_megatron(job.framework) && job.framework.sharder != Sharder::kMegatronFsdp) {
    add({Axis::kTensor, Axis::kContext, Axis::kPipeline, Axis::kSharded, Axis::kReplica});
  }
  return orders;
}

std::array<std::int64_t, 5> degrees_of(const Plan& plan) {
  std::array<std::int64_t, 5> degrees = {};
  for (std::size_t axis = 0; axis < degrees.size(); ++axis) {
    degrees[axis] = degree_of(plan, static_cast<Axis>(axis));
  }
  return degrees;
}

Placement placement_of(const std::array<std::int64_t, 5>& degrees, const AxisOrder& order) {
  Placement placement;
  std::int64_t stride = 1;
  std::size_t last = 0;
  for (const Axis axis : order) {
    const auto index = static_cast<std::size_t>(axis);
    if (axis == Axis::kTensor) {
      placement.tensor_stride = stride;
    } else if (axis == Axis::kContext) {
      placement.context_stride = stride;
    }
    if (degrees[index] > 1) {
      placement.usual = placement.usual && index >= last;
      last = index;
      stride *= degrees[index];
    }
  }
  return placement;
}

std::vector<Placement> placements_of(const std::array<std::int64_t, 5>& degrees,
                                     const std::vector<AxisOrder>& orders) {
  std::vector<Placement> placements;
  placements.reserve(orders.size());
  for (const AxisOrder& order : orders) {
    placements.push_back(placement_of(degrees, order));
  }
  return placements;
}

}  // namespace trireme::planner
