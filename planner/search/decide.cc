#include "planner/search/decide.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/transformer.h"
#include "topologies/cluster.h"

namespace trireme::planner {
namespace {

constexpr double kHugeUnitShare = 0.2;  // of the model in one gathered unit
constexpr int kSmallUnitLayers = 1;

int axes_of(const Plan& plan) {
  return (plan.tensor > 1 ? 1 : 0) + (plan.pipeline > 1 ? 1 : 0) + (plan.context > 1 ? 1 : 0) +
         (plan.expert > 1 ? 1 : 0) + (plan.data_parallel() > 1 ? 1 : 0);
}

std::string bytes_words(double bytes) {
  return fmt::format("{:g}", bytes);
}

}  // namespace

std::string_view to_string(Family family) {
  switch (family) {
    case Family::kDdp:
      return "DDP";
    case Family::kFsdp:
      return "FSDP";
    case Family::kMegatron:
      return "Megatron";
    case Family::kHybrid:
      return "hybrid";
  }
  return "";
}

Family family_of(const Plan& plan) {
  const bool split = plan.tensor > 1 || plan.pipeline > 1;
  const bool sharded = plan.sharded > 1 && plan.sharding >= Sharding::kGradients;
  if (split) {
    return sharded ? Family::kHybrid : Family::kMegatron;
  }
  return plan.sharded > 1 ? Family::kFsdp : Family::kDdp;
}

double f21_complexity(const Plan& plan) {
  const bool split = plan.tensor > 1 || plan.pipeline > 1;
  const int points = (split ? 1 : 0) + (plan.pipeline > 1 ? 1 : 0) + (plan.tensor > 1 ? 1 : 0) +
                     (axes_of(plan) > 1 ? 1 : 0) + (split ? 1 : 0);
  return points / 5.0;
}

Favour f22_favour(const F22Input& in) {
  Favour favour;
  const double ratio = in.activations / in.shard;
  favour.fsdp = in.tensor_optimum < 4 || ratio > 2 || in.irregular;
  favour.megatron = in.tensor_optimum >= 8 && 1 / ratio > 4 && in.micro_batches >= 4 * in.pipeline;
  favour.why = fmt::format(
      "F20 finds tensor parallelism of {:.1f} best, where below 4 speaks for FSDP and 8 or more "
      "for "
      "Megatron; a layer's activations are {:.2g} times a rank's share of the parameters, above 2 "
      "for FSDP, below 0.25 for Megatron; {:.0f} micro-batches, of which Megatron's pipeline wants "
      "{:.0f}{}",
      in.tensor_optimum, ratio, in.micro_batches, 4 * in.pipeline,
      in.irregular ? "; layers differ, for FSDP" : "");
  return favour;
}

Advice f23_tree(const F23Input& in) {
  if (in.fits_one_gpu) {
    return in.batch_fits_one_pass
               ? Advice{"DDP (NO_SHARD)", "the model fits on one GPU", {Family::kDdp}}
               : Advice{"DDP with gradient accumulation",
                        "the model fits on one GPU, its batch does not",
                        {Family::kDdp}};
  }
  const std::string size =
      fmt::format("{:.0f}B parameters on {:.0f} GPUs", in.parameters / 1e9, in.gpus);
  if (in.parameters >= 200e9 && in.gpus >= 1000) {
    return {"3D: pipeline, tensor and sharded data parallelism",
            size,
            {Family::kMegatron, Family::kHybrid}};
  }
  if (in.parameters >= 65e9 && in.gpus >= 100) {
    return {"FSDP/ZeRO with tensor parallelism", size, {Family::kHybrid, Family::kMegatron}};
  }
  if (in.fits_zero2 && in.has_zero2) {
    return {"ZeRO-2 (SHARD_GRAD_OP)",
            "does not fit on one GPU; with gradients and optimizer sharded it does",
            {Family::kFsdp},
            2};
  }
  if (in.fits_zero2) {
    return {"ZeRO-1 (the framework has no ZeRO-2)",
            "does not fit on one GPU; with the optimizer sharded it does",
            {Family::kFsdp},
            1};
  }
  return {"FSDP full shard (FULL_SHARD, ZeRO-3)",
          "does not fit with whole parameters on each GPU",
          {Family::kFsdp},
          3};
}

std::vector<std::string> f24_warnings(const Job& job, const Plan& plan) {
  std::vector<std::string> warnings;
  const topologies::GroupShape tensor =
      topologies::group_shape(job.cluster, plan.tensor, stride_of(plan, Axis::kTensor));
  if (plan.tensor > 1 &&
      (tensor.ranks_per_node < tensor.ranks || job.cluster.node.nvlink_domain <= 1)) {
    warnings.push_back(fmt::format(
        "tensor parallelism of {} crosses {}: it moves activations in every layer and needs the "
        "in-node fabric",
        plan.tensor, tensor.ranks_per_node < tensor.ranks ? "the network between nodes" : "PCIe"));
  }
  const auto parameters = static_cast<double>(models::parameter_count(job.model));
  if (plan.sharding == Sharding::kFull && plan.sharded > 1) {
    const auto layer =
        static_cast<double>(models::layer_parameter_count(job.model, job.model.layers - 1));
    const double unit =
        plan.fsdp_unit == 0 ? 1.0 : layer * static_cast<double>(plan.fsdp_unit) / parameters;
    if (unit > kHugeUnitShare) {
      warnings.push_back(fmt::format(
          "one FSDP unit holds {:.0f} % of the model: it is gathered at once, which costs "
          "memory and leaves nothing to overlap; wrap smaller units",
          100 * unit));
    }
    if (plan.fsdp_unit == kSmallUnitLayers && layer * job.framework.parameter_bytes < 8e6) {
      warnings.push_back(
          "FSDP units are smaller than 8 MB: gathers are bound by latency; wrap several layers a "
          "unit");
    }
    if (plan.recompute == Recompute::kNone) {
      warnings.push_back("FSDP saves model state, never activation memory");
    }
    warnings.push_back("sharded checkpoints need the framework's own tools to save and to load");
  }
  if (plan.data_parallel() > 1) {
    warnings.push_back(fmt::format("each of the {} data-parallel ranks needs different data",
                                   plan.data_parallel()));
    warnings.push_back(fmt::format(
        "global batch {}: a learning rate tuned at another batch needs the linear rule with "
        "warm-up",
        job.global_batch));
  }
  warnings.push_back(
      "profile a few steps before committing to a long run ('trireme run', 'trireme compare')");
  return warnings;
}

double f26_variance_fsdp(double devices) {
  return 1 / devices;
}
double f26_variance_megatron(double tensor, double pipeline_noise) {
  return 1 / tensor + pipeline_noise;
}

std::vector<ComparisonRow> f27_comparison(const Job& job, const Plan& plan) {
  const auto parameters = static_cast<double>(models::parameter_count(job.model));
  const auto elements = [](double count) { return fmt::format("{:.2f}e9 elements", count / 1e9); };
  const Framework& framework = job.framework;
  const std::string storage = fmt::format(
      "{} B computed, {} B master, {} B gradient", bytes_words(framework.parameter_bytes),
      bytes_words(framework.master_bytes), bytes_words(framework.gradient_bytes));
  const auto pipeline = static_cast<double>(plan.pipeline);
  return {
      {Family::kFsdp, "d/P = " + elements(parameters / static_cast<double>(job.cluster.gpus)),
       "all-gather + reduce-scatter", "high", storage},
      {Family::kMegatron, "d/P_p = " + elements(parameters / pipeline), "point-to-point",
       fmt::format(
           "bubble-bound: {:.1f} % of ideal",
           100 * f17_bubbles(pipeline, static_cast<double>(plan.micro_batches), 1).over_ideal),
       storage},
      {Family::kHybrid, "d = " + elements(parameters) + " without sharded activations",
       "all-reduce",
       fmt::format("bounded by width: {} columns over tp {}", job.model.hidden, plan.tensor),
       storage},
  };
}

}  // namespace trireme::planner
