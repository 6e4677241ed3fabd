// How layers are spread over pipeline stages and virtual chunks, embedding and head counted as the
// framework does.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Layers [first, last) of chunk c, which lives on pipeline rank c % pipeline. Chunk 0 holds the
// embedding and the last chunk the final norm and head.
struct Chunk {
  std::int64_t first = 0, last = 0;
  bool embedding = false, head = false;
};
// One entry for each of pipeline * virtual_pipeline chunks, in model order.
std::vector<Chunk> chunks_of(const Job& job, const Plan& plan);

}  // namespace trireme::planner
