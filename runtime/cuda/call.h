// The operands and dims of one launch, by place and by name; and the launches that have files of
// their own.
#pragma once

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
void run_context(const Call& call);  // every kernel of context parallelism

}  // namespace trireme::runtime::cuda
