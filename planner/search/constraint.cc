#include "planner/search/constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace trireme::planner {
namespace {

constexpr std::pair<std::string_view, ConstraintAxis> kAxes[] = {
    {"tp", ConstraintAxis::kTensor},
    {"pp", ConstraintAxis::kPipeline},
    {"vpp", ConstraintAxis::kVirtual},
    {"cp", ConstraintAxis::kContext},
    {"ep", ConstraintAxis::kExpert},
    {"etp", ConstraintAxis::kExpertTensor},
    {"fsdp", ConstraintAxis::kSharded},
    {"dp", ConstraintAxis::kReplicas},
    {"data_parallel", ConstraintAxis::kDataParallel},
    {"micro_batch", ConstraintAxis::kMicroBatch},
    {"mb", ConstraintAxis::kMicroBatch},
    {"micro_batches", ConstraintAxis::kMicroBatches},
};

constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
    {"<=", Comparison::kLessEqual}, {">=", Comparison::kGreaterEqual}, {"==", Comparison::kEqual},
    {"<", Comparison::kLess},       {">", Comparison::kGreater},       {"=", Comparison::kEqual},
};

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  throw Error("--constraint", fmt::format("'{}' {}", text, what));
}

ConstraintAxis axis_of(std::string name, const std::string& text) {
  std::replace(name.begin(), name.end(), '-', '_');
  std::string known;
  for (const auto& [axis_name, axis] : kAxes) {
    if (axis_name == name) {
      return axis;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", axis_name);
  }
  refuse(text, fmt::format("names no axis; the axes are {}", known));
}

std::int64_t value_of(ConstraintAxis axis, const Plan& plan) {
  switch (axis) {
    case ConstraintAxis::kTensor:
      return plan.tensor;
    case ConstraintAxis::kPipeline:
      return plan.pipeline;
    case ConstraintAxis::kVirtual:
      return plan.virtual_pipeline;
    case ConstraintAxis::kContext:
      return plan.context;
    case ConstraintAxis::kExpert:
      return plan.expert;
    case ConstraintAxis::kExpertTensor:
      return plan.expert_tensor == 0 ? plan.tensor : plan.expert_tensor;
    case ConstraintAxis::kSharded:
      return plan.sharded;
    case ConstraintAxis::kReplicas:
      return plan.replicas;
    case ConstraintAxis::kDataParallel:
      return plan.data_parallel();
    case ConstraintAxis::kMicroBatch:
      return plan.micro_batch;
    case ConstraintAxis::kMicroBatches:
      return plan.micro_batches;
  }
  return 0;
}

}  // namespace

Constraint parse_constraint(const std::string& text) {
  std::string compact = text;
  std::erase(compact, ' ');
  const auto cut = compact.find_first_of("<=>");
  if (cut == std::string::npos || cut == 0) {
    refuse(text, "is not AXIS COMPARISON NUMBER, e.g. tp<=8");
  }
  Constraint constraint;
  constraint.axis = axis_of(compact.substr(0, cut), text);
  const std::string_view rest = std::string_view(compact).substr(cut);
  const auto* comparison =
      std::find_if(std::begin(kComparisons), std::end(kComparisons),
                   [&](const auto& entry) { return rest.starts_with(entry.first); });
  constraint.comparison = comparison->second;
  const std::string_view digits = rest.substr(comparison->first.size());
  const auto [end, failure] =
      std::from_chars(digits.data(), digits.data() + digits.size(), constraint.number);
  if (failure != std::errc() || end != digits.data() + digits.size() || constraint.number < 0) {
    refuse(text, "needs a whole number behind the comparison, e.g. tp<=8");
  }
  const bool below = constraint.comparison == Comparison::kLess;
  const bool above = constraint.comparison == Comparison::kGreater ||
                     constraint.comparison == Comparison::kGreaterEqual;
  if (!above && constraint.number < (below ? 2 : 1)) {
    refuse(text, "leaves no layout, every axis is at least 1; e.g. tp<=8 would be right");
  }
  return constraint;
}

bool satisfies(const Constraint& constraint, const Plan& plan) {
  const std::int64_t value = value_of(constraint.axis, plan);
  switch (constraint.comparison) {
    case Comparison::kLess:
      return value < constraint.number;
    case Comparison::kLessEqual:
      return value <= constraint.number;
    case Comparison::kEqual:
      return value == constraint.number;
    case Comparison::kGreaterEqual:
      return value >= constraint.number;
    case Comparison::kGreater:
      return value > constraint.number;
  }
  return false;
}

}  // namespace trireme::planner
