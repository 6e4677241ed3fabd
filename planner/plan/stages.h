// How layers are spread over pipeline stages and virtual chunks, embedding and head counted as the
// framework does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Where chunks lie, numbered in model order. Looped: chunk c on rank c % p (Narayanan et al. 2021).
// In a V: rank r has the chunks r and 2p - 1 - r, so that the first and the last are on one rank,
// and the two in the middle on another (Qi et al. 2024, "Pipeline Parallelism with Controllable
// Memory").
std::int64_t rank_of_chunk(const Plan& plan, std::int64_t chunk);
// The `place`-th chunk of a rank.
std::int64_t chunk_of_rank(const Plan& plan, std::int64_t rank, std::int64_t place);

// Layers [first, last) of a chunk. Chunk 0 holds the embedding and the last chunk the final norm
// and head.
// The layers of the extra prediction modules are numbered behind the model's own and counted in
// `prediction` too; they end the last chunk, or the one before it (Plan::prediction_apart).
struct Chunk {
  std::int64_t first = 0, last = 0;
  bool embedding = false, head = false;
  std::int64_t prediction = 0;
  [[nodiscard]] std::int64_t own_layers() const { return last - first - prediction; }
};
// Leaves out the model's extra prediction modules where the framework does not train them; true
// when it did.
bool leave_out_prediction(Job& job);
// Why the plan's place of those modules is none; empty: it is one.
std::string prediction_fault(const Job& job, const Plan& plan);
// Whether two stages hold the token table: a head that is tied to it, or extra prediction modules
// that read it, behind the first stage.
bool shares_table(const Job& job, const Plan& plan);
// One entry for each of pipeline * virtual_pipeline chunks, in model order.
std::vector<Chunk> chunks_of(const Job& job, const Plan& plan);

}  // namespace trireme::planner
