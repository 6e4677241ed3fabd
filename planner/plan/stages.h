// How layers are spread over pipeline stages and virtual chunks, embedding and head counted as the
// framework does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/plan/job.h"
#include "planner/plan/plan.h"

namespace trireme::planner {

// Layers [first, last) of chunk c, which lives on pipeline rank c % pipeline. Chunk 0 holds the
// embedding and the last chunk the final norm and head.
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
