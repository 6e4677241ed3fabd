// The operands and dims of one launch, by place and by name; and the launches that have files of
// their own.
#pragma once

#include <cmath>
#include <iterator>
#include <string>

#include "runtime/cuda/check.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/run_kernel.h"

namespace trireme::runtime::cuda {

struct Call {
  const KernelContext& context;
  const Work& work;
  std::span<const View> operands;

  [[nodiscard]] std::int64_t dim(std::size_t index) const { return work.dims[index]; }
  [[nodiscard]] bool flag(std::size_t index) const { return work.dims[index] != 0; }
  [[nodiscard]] Bf16* compute(std::size_t index) const {
    return static_cast<Bf16*>(operands[index].data);
  }
  [[nodiscard]] float* master(std::size_t index) const {
    return static_cast<float*>(operands[index].data);
  }
  [[nodiscard]] std::int32_t* tokens(std::size_t index) const {
    return static_cast<std::int32_t*>(operands[index].data);
  }
  [[nodiscard]] bool is_master(std::size_t index) const {
    return operands[index].type == ElementType::kMaster;
  }
  // This rank's place in the group that dim `index` names; 0 without one.
  [[nodiscard]] std::int64_t place(std::size_t index) const {
    return dim(index) < 0
               ? 0
               : index_in_group(*context.program, GroupId(static_cast<std::uint32_t>(dim(index))),
                                context.rank);
  }
  // How many are in it; 1 without one.
  [[nodiscard]] std::int64_t ranks(std::size_t index) const {
    return dim(index) < 0
               ? 1
               : group_size(context.program->groups[static_cast<std::size_t>(dim(index))]);
  }
  // Of the tokens of sequences of `sequence` that this rank of the context group of dim `index`
  // has.
  [[nodiscard]] Positions positions(std::int64_t sequence, std::size_t index) const {
    const std::int64_t own = sequence / ranks(index);
    const std::int64_t chunk = (own + 1) / 2;
    const auto at = [&](std::int64_t i) {
      return context_position(i, sequence, ranks(index), place(index));
    };
    return {own, chunk, at(0), at(own - 1) - (own - 1 - chunk)};
  }
  [[nodiscard]] const Arithmetic& arithmetic() const { return context.program->arithmetic; }
  // Of scores of heads of this size.
  [[nodiscard]] double attention_scale(std::int64_t head_size) const {
    const double said = arithmetic().attention_scale;
    return said > 0 ? said : 1.0 / std::sqrt(static_cast<double>(head_size));
  }
  [[nodiscard]] NormNumbers norm_numbers() const {
    return {static_cast<float>(arithmetic().norm_epsilon),
            arithmetic().norm_plus_one ? 1.0F : 0.0F};
  }
  [[nodiscard]] LogitNumbers logit_numbers() const {
    return {static_cast<float>(arithmetic().logit_multiplier),
            static_cast<float>(arithmetic().logit_cap)};
  }
  // The rotary table that dim `index` names; none of it: nothing is turned.
  [[nodiscard]] RotaryTurns turns(std::size_t index) const {
    RotaryTurns turns;
    if (dim(index) < 0) {
      return turns;
    }
    const RotaryTable& table = arithmetic().rotary.at(static_cast<std::size_t>(dim(index)));
    if (table.frequencies.size() > std::size(turns.frequencies)) {
      throw Error("rotary", std::to_string(2 * table.frequencies.size()) +
                                " elements of a head are turned; at most 256 on a GPU");
    }
    turns.pairs = static_cast<int>(table.frequencies.size());
    turns.neighbours = table.neighbours;
    turns.scale = static_cast<float>(table.scale);
    for (std::size_t j = 0; j < table.frequencies.size(); ++j) {
      turns.frequencies[j] = static_cast<float>(table.frequencies[j]);
    }
    return turns;
  }
  [[nodiscard]] cudaStream_t stream() const { return context.stream; }
  [[nodiscard]] Scratch scratch() const {
    return {reinterpret_cast<float*>(context.scratch), context.scratch_bytes};
  }
};

// Kernels that move eight bf16 at a time need rows and addresses of whole vectors.
inline void need_vectors(const Call& call, std::int64_t row_elements) {
  bool fits = row_elements % 8 == 0;
  for (const View& view : call.operands) {
    fits = fits && (view.type != ElementType::kCompute ||
                    reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0);
  }
  if (!fits) {
    throw Error(std::string(signature_of(call.work.kernel).name),
                "rows of " + std::to_string(row_elements) +
                    " elements are not whole 16-byte vectors on each rank; use sizes that are "
                    "multiples of 8");
  }
}

void run_experts(const Call& call);  // every kernel of routed experts
void run_narrow(const Call& call);   // every kernel of products in 8 bits
void run_context(const Call& call);  // every kernel of context parallelism

}  // namespace trireme::runtime::cuda
