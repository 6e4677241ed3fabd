// What a framework copies around a unit's gather and reduction, beside the collective: bytes for
// each element of the unit (training_systems 2.2).
#pragma once

#include "planner/plan/job.h"
#include "planner/plan/shape.h"

namespace trireme::planner {

struct UnitCopies {
  double gather = 0;  // a gather: the shard cast, the gathered unit copied into its tensors
  double reduce = 0;  // a reduction: gradients copied in
  double keep = 0;    // a micro-batch whose gradients wait for a later one's reduction
  double sum = 0;     // a reduction after the first: the shard's earlier ones added
};

// Of a unit that `shards` ranks share.
UnitCopies unit_copies(const Job& job, const RunSharding& run, std::int64_t shards);

}  // namespace trireme::planner
