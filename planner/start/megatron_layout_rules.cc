// What Megatron-LM's validate_args and core configurations ask of a layout, its pipeline and its
// recompute (arguments.py, transformer_config.py, schedules.py).
#include <fmt/format.h>

#include <algorithm>

#include "planner/launch/megatron/megatron.h"
#include "planner/start/launch_rules.h"

namespace trireme::planner {
namespace {

using Found = std::optional<Finding>;

Found world_divides(const LaunchConfig& config, const LaunchCase& found) {
  const Plan& plan = found.plan;
  const std::int64_t ranks = plan.tensor * plan.pipeline * plan.context;
  if (found.world % ranks == 0) {
    return {};
  }
  return Finding{fmt::format("{} ranks are not divisible by tp {} x pp {} x cp {} = {}",
                             found.world, plan.tensor, plan.pipeline, plan.context, ranks),
                 fix_of(config, found, Rule::kGpuProduct)};
}

Found expert_grid(const LaunchConfig& config, const LaunchCase& found) {
  const Plan& plan = found.plan;
  const std::int64_t tensor = plan.expert_tensor == 0 ? plan.tensor : plan.expert_tensor;
  const std::int64_t grid = tensor * plan.expert * plan.pipeline;
  if (!found.job.model.moe || plan.expert == 1 || found.world % grid == 0) {
    return {};
  }
  return Finding{fmt::format("{} ranks are not divisible by etp {} x ep {} x pp {} = {}",
                             found.world, tensor, plan.expert, plan.pipeline, grid),
                 fix_of(config, found, Rule::kExpertGrid)};
}

Found one_virtual_split(const LaunchConfig& config, const LaunchCase&) {
  std::vector<std::string> given;
  for (const char* key :
       {"num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank",
        "pipeline_model_parallel_layout"}) {
    if (has_setting(config, key)) {
      given.push_back(find_setting(config, key)->spelled);
    }
  }
  if (given.size() < 2) {
    return {};
  }
  return Finding{
      fmt::format("{} are given together; they are alternatives", fmt::join(given, " and ")),
      fmt::format("leave out all but one, e.g. keep {}", given.front())};
}

Found layers_over_stages(const LaunchConfig& config, const LaunchCase& found) {
  const LaunchLayout& layout = config.layout;
  const std::int64_t layers = found.job.model.layers;
  const std::int64_t pipeline = found.plan.pipeline;
  if (!layout.stage_layers.empty() || layout.first_stage_layers > 0 ||
      layout.last_stage_layers > 0) {
    return {};
  }
  const std::int64_t all = layers + layout.first_chunk_less + layout.last_chunk_less;
  if (all % pipeline == 0) {
    return {};
  }
  const bool counted = (layers + 2) % pipeline == 0 && all == layers;
  std::string fix = values_that_hold(config, found, Knob::kPipeline, Rule::kLayersDivide);
  if (counted) {
    fix += std::string(fix.empty() ? "" : ", or ") +
           (config.format == LaunchFormat::kMegatron
                ? "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
                : "model.account_for_embedding_in_pipeline_split=true and "
                  "model.account_for_loss_in_pipeline_split=true");
  }
  return Finding{
      fmt::format("{} layers{} are not divisible by pp {}", layers,
                  all == layers ? "" : fmt::format(" + {} for embedding and loss", all - layers),
                  pipeline),
      fix.empty() ? "" : "use " + fix};
}

Found layers_over_chunks(const LaunchConfig& config, const LaunchCase& found) {
  const LaunchLayout& layout = config.layout;
  if (!layout.stage_layers.empty() || found.plan.pipeline == 1 || layout.first_stage_layers > 0 ||
      layout.last_stage_layers > 0) {
    return {};
  }
  const std::int64_t all =
      found.job.model.layers + layout.first_chunk_less + layout.last_chunk_less;
  const std::int64_t stage = all / found.plan.pipeline;
  const std::int64_t each = layout.layers_per_virtual_stage;
  const std::int64_t parts = layout.virtual_pipeline.value_or(1);
  if (all % found.plan.pipeline != 0 || (each > 0 ? stage % each == 0 : stage % parts == 0)) {
    return {};
  }
  std::vector<std::int64_t> good;
  for (std::int64_t part = 1; part <= stage; ++part) {
    if (stage % part == 0) {
      good.push_back(part);
    }
  }
  const char* key = each > 0 ? "num_layers_per_virtual_pipeline_stage" : nullptr;
  return Finding{
      each > 0
          ? fmt::format("{} layers a stage are not divisible by {} layers a virtual stage", stage,
                        each)
          : fmt::format("{} layers a stage are not divisible by {} virtual stages", stage, parts),
      key != nullptr && has_setting(config, key)
          ? fmt::format("use {} of {}", find_setting(config, key)->spelled, fmt::join(good, ", "))
          : "use " +
                spelled(config.format, Knob::kVirtual, fmt::format("{}", fmt::join(good, ", ")))};
}

Found uneven_stages(const LaunchConfig& config, const LaunchCase& found) {
  const LaunchLayout& layout = config.layout;
  const Plan& plan = found.plan;
  const std::int64_t first = layout.first_stage_layers;
  const std::int64_t last = layout.last_stage_layers;
  if (first == 0 && last == 0) {
    return {};
  }
  if (layout.layers_per_virtual_stage > 0) {
    return Finding{
        "the first or last stage's layers are given together with layers per virtual stage",
        "give the virtual stages per rank instead: " +
            spelled(config.format, Knob::kVirtual,
                    std::to_string(std::max<std::int64_t>(2, plan.virtual_pipeline)))};
  }
  if (layout.first_chunk_less + layout.last_chunk_less > 0) {
    return Finding{
        "the first or last stage's layers are given, and embedding or loss counted as a layer",
        "leave out one of the two ways to split"};
  }
  if (plan.pipeline == 1) {
    const char* key =
        first > 0 ? "decoder_first_pipeline_num_layers" : "decoder_last_pipeline_num_layers";
    return Finding{"layers of the first or last stage are given with pp 1, which has one stage",
                   fmt::format("leave out {}", find_setting(config, key)->spelled)};
  }
  const std::int64_t middle = plan.pipeline - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const std::int64_t rest = found.job.model.layers - first - last;
  if (middle > 0 ? rest < 0 || rest % middle != 0 : rest != 0) {
    const std::int64_t each = std::max<std::int64_t>(1, middle > 0 ? rest / middle : 0);
    return Finding{
        fmt::format("{} layers without the first stage's {} and the last's {} leave {} for {} "
                    "stages between",
                    found.job.model.layers, first, last, rest, middle),
        fmt::format("let them be {} together: {} stages of {}",
                    found.job.model.layers - each * middle, middle, each)};
  }
  const std::int64_t parts = plan.virtual_pipeline;
  const std::int64_t between = middle > 0 ? rest / middle : 0;
  if (first % parts != 0 || last % parts != 0 || between % parts != 0) {
    return Finding{
        fmt::format("stages of {}, {} and {} layers are not all divisible by {} virtual stages",
                    first, between, last, parts),
        fmt::format("use multiples of {} layers", parts)};
  }
  return {};
}

Found pipeline_layout(const LaunchConfig& config, const LaunchCase& found) {
  const LaunchSetting* setting = find_setting(config, "pipeline_model_parallel_layout");
  if (setting == nullptr || config.layout.stage_layers.empty()) {
    return {};
  }
  if (config.layout.first_stage_layers + config.layout.last_stage_layers +
          config.layout.first_chunk_less + config.layout.last_chunk_less >
      0) {
    return Finding{
        fmt::format("{} is given together with another way to split the layers", setting->spelled),
        "leave out the other one"};
  }
  const std::string& text = setting->value;
  const auto begin = text.find_first_of("EtmL");
  const auto end = text.find_last_of("EtmL");
  if (begin == std::string::npos || text[begin] != 'E' || text[end] != 'L') {
    return Finding{
        fmt::format("{} '{}' does not begin with the embedding E and end with the loss L",
                    setting->spelled, text),
        "begin with E and end with L"};
  }
  const auto stages = static_cast<std::int64_t>(config.layout.stage_layers.size());
  if (stages % found.plan.pipeline != 0) {
    return Finding{fmt::format("{} stages are not divisible by pp {}", stages, found.plan.pipeline),
                   fmt::format("use {} or {} stages",
                               std::max(found.plan.pipeline,
                                        stages / found.plan.pipeline * found.plan.pipeline),
                               (stages / found.plan.pipeline + 1) * found.plan.pipeline)};
  }
  std::int64_t layers = 0;
  for (const std::int64_t stage : config.layout.stage_layers) {
    layers += stage;
  }
  if (layers != found.job.model.layers) {
    return Finding{
        fmt::format("its stages hold {} layers, the model has {}", layers, found.job.model.layers),
        fmt::format("use {} times t in all", found.job.model.layers)};
  }
  return {};
}

Found virtual_needs_pipeline(const LaunchConfig& config, const LaunchCase& found) {
  const bool said =
      config.layout.virtual_pipeline.value_or(1) > 1 || config.layout.layers_per_virtual_stage > 0;
  const bool overlaps = !is_on(config, "no_overlap_p2p_communication");
  const std::int64_t least = overlaps ? 2 : 3;
  if (!said || found.plan.pipeline >= least) {
    return {};
  }
  std::string fix = found.plan.pipeline > 1 && !overlaps
                        ? fmt::format("leave out {}, or the virtual stages",
                                      find_setting(config, "no_overlap_p2p_communication")->spelled)
                        : "leave the virtual stages out";
  const std::string stages =
      values_that_hold(config, found, Knob::kPipeline, Rule::kVirtualNeedsPipeline);
  fix += stages.empty() ? "" : ", or use " + stages;
  return Finding{fmt::format("virtual stages need pp {} or more {} overlapped messages; pp is {}",
                             least, overlaps ? "with" : "without", found.plan.pipeline),
                 fix};
}

Found micro_batch_group(const LaunchConfig& config, const LaunchCase& found) {
  const Plan& plan = found.plan;
  if (plan.virtual_pipeline == 1 || plan.pipeline == 1) {
    return {};
  }
  const std::int64_t group =
      integer_setting(config, "microbatch_group_size_per_virtual_pipeline_stage")
          .value_or(plan.pipeline);
  const std::int64_t count = plan.micro_batches;
  const std::int64_t rest = count % group;
  if (plan.pipeline <= group && group <= count && (rest == 0 || rest >= plan.pipeline)) {
    return {};
  }
  const std::int64_t one = plan.data_parallel() * plan.micro_batch;
  const std::int64_t near = std::max<std::int64_t>(1, count / group);
  std::string fix =
      values_that_hold(config, found, Knob::kGlobalBatch, Rule::kInterleavedMicroBatches);
  if (fix.empty()) {
    fix = spelled(config.format, Knob::kGlobalBatch,
                  fmt::format("{} or {}", near * group * one, (near + 1) * group * one));
  }
  return Finding{
      fmt::format("{} micro-batches in groups of {} over pp {}: the group must lie between pp "
                  "and the micro-batches, and the rest be 0 or at least pp",
                  count, group, plan.pipeline),
      "use " + fix};
}

Found hidden_over_heads(const LaunchConfig& config, const LaunchCase& found) {
  const models::Transformer& model = found.job.model;
  if (!config.model || has_setting(config, "kv_channels") || model.latent ||
      model.hidden % model.heads == 0) {
    return {};
  }
  return Finding{
      fmt::format("hidden size {} is not divisible by {} heads, and the heads' size is not given",
                  model.hidden, model.heads),
      fmt::format("give --kv-channels, e.g. {}", model.hidden / model.heads)};
}

Found positions(const LaunchConfig& config, const LaunchCase& found) {
  const auto longest = integer_setting(config, "max_position_embeddings");
  if (!longest || *longest >= found.job.sequence) {
    return {};
  }
  return Finding{fmt::format("sequence {} is longer than max-position-embeddings {}",
                             found.job.sequence, *longest),
                 fmt::format("use {} {}", find_setting(config, "max_position_embeddings")->spelled,
                             found.job.sequence)};
}

Found sequence_parallel_alone(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_on(config, "sequence_parallel") || found.plan.tensor > 1) {
    return {};
  }
  return Finding{
      "sequence parallelism is on with tp 1, where it is switched off",
      fmt::format("leave out {}, or use {}", find_setting(config, "sequence_parallel")->spelled,
                  spelled(config.format, Knob::kTensor, "2"))};
}

// The granularity that the start ends with: --recompute-activations sets it whatever else is said.
std::string granularity_of(const LaunchConfig& config) {
  return is_on(config, "recompute_activations") ? "selective"
                                                : text_setting(config, "recompute_granularity");
}

Found full_recompute(const LaunchConfig& config, const LaunchCase&) {
  const std::string granularity = granularity_of(config);
  const bool method = has_setting(config, "recompute_method");
  if (granularity == "full" && (!method || !has_setting(config, "recompute_num_layers"))) {
    return Finding{"full recompute needs a method and a number of layers",
                   config.format == LaunchFormat::kMegatron
                       ? "add --recompute-method uniform --recompute-num-layers 1"
                       : "add model.recompute_method=uniform and model.recompute_num_layers=1"};
  }
  if (granularity == "selective" && method) {
    const bool alias = is_on(config, "recompute_activations");
    return Finding{
        fmt::format("selective recompute{} with a recompute method",
                    alias ? " (--recompute-activations)" : ""),
        fmt::format(
            "leave out {}",
            find_setting(config, alias ? "recompute_activations" : "recompute_method")->spelled)};
  }
  const bool full = text_setting(config, "recompute_granularity") == "full";
  if (granularity == "selective" && full) {
    return Finding{
        "--recompute-activations makes it selective, whatever --recompute-granularity is",
        "leave out one of the two", Severity::kWarning};
  }
  return {};
}

Found distributed_saves(const LaunchConfig& config, const LaunchCase& found) {
  if (!is_on(config, "distribute_saved_activations")) {
    return {};
  }
  const bool full = granularity_of(config) == "full" && has_setting(config, "recompute_method");
  if (found.plan.tensor > 1 && full && !found.plan.sequence_parallel) {
    return {};
  }
  return Finding{
      fmt::format("saved activations are distributed with tp {}, {} recompute{}", found.plan.tensor,
                  full ? "full" : "no full",
                  found.plan.sequence_parallel ? " and sequence parallelism" : ""),
      "use it with tp 2 or more, full recompute with a method, and no sequence parallelism; "
      "or leave it out"};
}

Found cpu_offloading(const LaunchConfig& config, const LaunchCase& found) {
  if (!offloads_layers(config)) {
    return {};
  }
  const std::int64_t layers = integer_setting(config, "cpu_offloading_num_layers", 0).value_or(0);
  if (found.plan.pipeline == 1 && found.plan.recompute == Recompute::kNone &&
      layers < found.job.model.layers) {
    return {};
  }
  return Finding{fmt::format("activations of {} layers are offloaded with pp {} and recompute {}",
                             layers, found.plan.pipeline, to_string(found.plan.recompute)),
                 fmt::format("use pp 1, no recompute, and at most {} offloaded layers",
                             found.job.model.layers - 1)};
}

constexpr LaunchRule kLayoutRules[] = {
    {"world % (tp * pp * cp)", Severity::kError, Rule::kGpuProduct, world_divides},
    {"world % (etp * ep * pp)", Severity::kError, Rule::kExpertGrid, expert_grid},
    {"one way to say virtual stages", Severity::kError, {}, one_virtual_split},
    {"(layers + embedding + loss) % pp", Severity::kError, Rule::kLayersDivide, layers_over_stages},
    {"stage layers % virtual stages", Severity::kError, Rule::kLayersDivide, layers_over_chunks},
    {"first and last stage's layers", Severity::kError, Rule::kLayersDivide, uneven_stages},
    {"pipeline layout", Severity::kError, Rule::kLayersDivide, pipeline_layout},
    {"virtual stages need pp", Severity::kError, Rule::kVirtualNeedsPipeline,
     virtual_needs_pipeline},
    {"pp <= micro-batch group <= micro-batches", Severity::kError, Rule::kInterleavedMicroBatches,
     micro_batch_group},
    {"hidden % heads", Severity::kError, {}, hidden_over_heads},
    {"max_position_embeddings >= seq", Severity::kError, {}, positions},
    {"sequence_parallel needs tp > 1", Severity::kWarning, {}, sequence_parallel_alone},
    {"recompute granularity, method, number", Severity::kError, {}, full_recompute},
    {"distribute_saved_activations", Severity::kError, {}, distributed_saves},
    {"cpu_offloading", Severity::kError, {}, cpu_offloading},
};

}  // namespace

std::span<const LaunchRule> megatron_layout_rules() {
  return kLayoutRules;
}

}  // namespace trireme::planner
