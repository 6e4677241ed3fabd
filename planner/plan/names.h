// The words that people write for the choices of a job and a plan: printing, parsing and the lists
// of what an option takes read these tables.
#pragma once

#include "core/enum_names.h"
#include "models/work.h"
#include "planner/plan/job.h"
#include "planner/plan/plan.h"
#include "topologies/cluster.h"

namespace trireme::planner {

// What products can run in; the first is what is taken where nothing is said.
inline constexpr EnumNames kPrecisionNames(
    std::to_array<std::pair<topologies::Precision, std::string_view>>({
        {topologies::Precision::kBf16, "bf16"},
        {topologies::Precision::kFp16, "fp16"},
        {topologies::Precision::kFp32, "fp32"},
        {topologies::Precision::kFp8, "fp8"},
    }));
inline constexpr EnumNames kOptimizerNames(std::to_array<std::pair<Optimizer, std::string_view>>({
    {Optimizer::kAdam, "adam"},
    {Optimizer::kAdam8bit, "adam8bit"},
    {Optimizer::kSgd, "sgd"},
}));
inline constexpr EnumNames kAttentionNames(
    std::to_array<std::pair<models::AttentionKernel, std::string_view>>({
        {models::AttentionKernel::kFlash, "flash"},
        {models::AttentionKernel::kUnfused, "unfused"},
    }));
inline constexpr EnumNames kShardingNames(std::to_array<std::pair<Sharding, std::string_view>>({
    {Sharding::kNone, "none"},
    {Sharding::kOptimizer, "optimizer"},
    {Sharding::kGradients, "gradients"},
    {Sharding::kFull, "full"},
}));
inline constexpr EnumNames kRecomputeNames(std::to_array<std::pair<Recompute, std::string_view>>({
    {Recompute::kNone, "none"},
    {Recompute::kSelective, "selective"},
    {Recompute::kFull, "full"},
}));
inline constexpr EnumNames kScheduleNames(std::to_array<std::pair<Schedule, std::string_view>>({
    {Schedule::kGpipe, "gpipe"},
    {Schedule::kOneForwardOneBackward, "1f1b"},
    {Schedule::kInterleaved, "interleaved"},
    {Schedule::kZeroBubbleH1, "zb-h1"},
    {Schedule::kZeroBubbleH2, "zb-h2"},
    {Schedule::kZeroBubbleV, "zb-v"},
    {Schedule::kDualPipeV, "dualpipe-v"},
}));
inline constexpr EnumNames kAxisNames(std::to_array<std::pair<Axis, std::string_view>>({
    {Axis::kTensor, "tp"},
    {Axis::kContext, "cp"},
    {Axis::kSharded, "fsdp"},
    {Axis::kReplica, "dp"},
    {Axis::kPipeline, "pp"},
}));

}  // namespace trireme::planner
