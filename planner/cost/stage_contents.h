// What one pipeline stage holds, before any moment of the step is chosen.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/cost/stage_memory.h"

namespace trireme::planner {

// What a stage holds, before any moment is chosen. Bytes and elements.
struct StageContents {
  double dense_layers = 0, sparse_layers = 0;
  double frozen_dense = 0, frozen_sparse = 0;  // of them, layers that are not trained
  double prediction = 0;             // extra prediction modules; their layers are counted above
  double elements = 0, experts = 0;  // parameters
  double trained = 0, trained_experts = 0;  // of them, or of adapters beside them
  double frozen = 0;                        // bytes of what is not trained
  double tables = 0;  // elements of the embedding and the head that are trained beside adapters
  double root = 0;    // of the embedding and the head
  double largest_unit = 0;  // gathered at once
  double chunk = 0;         // elements of the layers of the largest chunk
  // Chunks whose every micro-batch is in flight at the peak: they have no gradients yet.
  double chunks = 0, chunks_before_backward = 0;
  double head = 0;         // output matrix, when this stage has it
  double activations = 0;  // of all micro-batches in flight
  double waiting = 0;      // micro-batches of it whose weight gradient is postponed
  double in_flight = 0;    // of the last chunk
  // More than that in the last split backward before its first layer's turn: as many micro-batches
  // as may wait have what their weight gradients read in the place of what they kept.
  double turned = 0;
  double first_split = 0;  // the same of DualPipeV's first backwards, which it splits: may be less
  double live = 0;         // of the layer whose backward runs, beyond what it kept
  double held = 0;         // of the micro-batch before, until this one's loss is there
  bool embedding = false, has_head = false;
  [[nodiscard]] double body() const { return elements + experts - root; }  // of the layers
  // Of the larger of its two tables.
  [[nodiscard]] double table() const { return std::max(head, root - head); }
};

// All of it.
StageContents stage_of(const StageContext& context, const std::vector<ChunkLayers>& split,
                       std::int64_t rank);
// The same but for what set_trained fills, which is zero: plans that differ only in over whom their
// states are sharded have it in common.
StageContents contents_of(const StageContext& context, const std::vector<ChunkLayers>& split,
                          std::int64_t rank);
// Fills what the trained and the frozen part take of contents_of: trained, trained_experts, frozen
// (bytes, by the context's states) and tables.
void set_trained(const StageContext& context, StageContents& stage);
// chunk_layers of one rank and of that as far from the other end, where micro-batches may enter
// too; the others are empty.
std::vector<ChunkLayers> chunk_layers_of(const Job& job, const Plan& plan, std::int64_t rank);
// Bytes that what is trained and what is frozen take of a rank, offloaded or not.
double parameter_bytes(const StageContext& context, const StageContents& stage);
double gradient_bytes(const StageContext& context, const StageContents& stage);
double optimizer_bytes(const StageContext& context, const StageContents& stage);
double main_copy_bytes(const StageContext& context,
                       const StageContents& stage);  // of the optimizer's
// Tables that PEFT trains whole are copies in 16 bits, beside the frozen ones, with moments alike.
inline constexpr double kTableBytes = 2;
// What left the GPU, and the part of it that is in the host's memory.
void set_offloaded(const StageContext& context, const StageContents& stage, StageMemory& memory);

}  // namespace trireme::planner
