// How long the work of one op takes alone on a card, and how many kernels it is: products,
// attention and passes through memory, as the framework runs them.
#pragma once

#include <cstdint>
#include <optional>

#include "core/program.h"
#include "core/units.h"
#include "planner/cost/behaviour_fit.h"
#include "planner/cost/product_time.h"
#include "planner/plan/host_counts.h"
#include "planner/plan/job.h"
#include "topologies/op_cost.h"

namespace trireme::planner {

// Where an op's work stands: what a product runs in goes by that.
enum class WorkPlace : std::uint8_t { kLayer, kWeightGradient, kOutside };

class WorkTimer {
 public:
  // All three must outlive it.
  WorkTimer(const Job& job, const topologies::OpCost& cost, const BehaviourFit& fit);
  [[nodiscard]] Seconds time(const Work& work, WorkPlace place) const;
  // Kernels; plain launches where those were counted.
  [[nodiscard]] double launches(const Work& work) const;

 private:
  [[nodiscard]] Seconds time_product(const topologies::MatmulShape& shape,
                                     const ProductKind& kind) const;
  [[nodiscard]] Seconds time_modelled_attention(const Work& work) const;
  [[nodiscard]] Seconds time_attention(const Work& work, std::int64_t ranks,
                                       topologies::Pass pass) const;
  // A step round a ring.
  [[nodiscard]] Seconds time_ring(const Work& work, topologies::Pass pass) const;
  // What small kernels beside an attention move.
  [[nodiscard]] Seconds time_pieces(Bytes traffic, int kernels) const;
  [[nodiscard]] std::optional<Seconds> time_own(const Work& work) const;
  [[nodiscard]] Seconds time_pass(const Work& work) const;

  const Job& job_;
  const topologies::OpCost& cost_;
  const BehaviourFit& fit_;
  const HostCounts* counts_;  // nothing: kernels are counted
  bool narrow_;
  bool portable_attention_;
};

}  // namespace trireme::planner
