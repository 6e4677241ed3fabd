// The operands and dims of one op of the reference backend, by place and by name.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "core/check.h"
#include "runtime/cpu/compute.h"

namespace trireme::runtime::cpu {

// Named as the kernel's row in core/kernels.h names them.
template <typename T>
class Call {
 public:
  Call(const ComputeContext& context, const Work& work, std::span<const View> operands)
      : context_(&context), work_(&work), operands_(operands) {}

  [[nodiscard]] T* at(std::size_t i) const {
    TRIREME_CHECK(i < operands_.size());
    const ElementType type = operands_[i].type;
    TRIREME_CHECK(type == ElementType::kCompute || type == ElementType::kMaster);
    return static_cast<T*>(operands_[i].data);
  }
  [[nodiscard]] std::uint8_t* codes(std::size_t i) const {
    TRIREME_CHECK(operands_[i].type == ElementType::kNarrow);
    return static_cast<std::uint8_t*>(operands_[i].data);
  }
  [[nodiscard]] std::int32_t* tokens(std::size_t i) const {
    TRIREME_CHECK(operands_[i].type == ElementType::kToken);
    return static_cast<std::int32_t*>(operands_[i].data);
  }
  [[nodiscard]] std::int64_t dim(const char* name) const {
    const int index = dim_index(work_->kernel, name);
    TRIREME_CHECK(index >= 0);
    return work_->dims[static_cast<std::size_t>(index)];
  }
  // This rank's place in the group that the dim names, and how many are in it.
  [[nodiscard]] std::int64_t place(const char* name = "group") const {
    const std::int64_t group = dim(name);
    return group < 0 ? 0
                     : index_in_group(*context_->program,
                                      GroupId(static_cast<std::uint32_t>(group)), context_->rank);
  }
  [[nodiscard]] std::int64_t ranks(const char* name) const {
    const std::int64_t group = dim(name);
    return group < 0 ? 1 : group_size(context_->program->groups[static_cast<std::size_t>(group)]);
  }
  // An operand that "accumulate 0" clears first.
  [[nodiscard]] T* accumulated(std::size_t i) const {
    if (dim("accumulate") == 0) {
      std::fill_n(at(i), operands_[i].count, T(0));
    }
    return at(i);
  }
  [[nodiscard]] const trireme::Arithmetic& arithmetic() const {
    return context_->program->arithmetic;
  }
  // Of scores of heads of this size.
  [[nodiscard]] double attention_scale(std::int64_t head_size) const {
    const double said = arithmetic().attention_scale;
    return said > 0 ? said : 1.0 / std::sqrt(static_cast<double>(head_size));
  }
  [[nodiscard]] std::int64_t count(std::size_t i) const { return operands_[i].count; }
  [[nodiscard]] const StepSettings& settings() const { return context_->settings; }

 private:
  const ComputeContext* context_;
  const Work* work_;
  std::span<const View> operands_;
};

}  // namespace trireme::runtime::cpu
