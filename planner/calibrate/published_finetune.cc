#include "planner/calibrate/published_finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "planner/calibrate/published.h"
#include "planner/calibrate/published_model.h"
#include "planner/calibrate/row_words.h"

namespace trireme::planner {

namespace {

using nlohmann::json;

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string words_in(const json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  std::string words;
  for (const json& word : value.is_array() ? value : json::array()) {
    words += word.is_string() ? word.get<std::string>() + "," : "";
  }
  return words;
}

// Measurements and remarks that stand in the dict beside the configuration.
constexpr std::string_view kMeasuredOfFinetuning[] = {"gradient_accumulation",
                                                      "memory_all_gpus_gb",
                                                      "longest_sample_tokens",
                                                      "s_per_micro_batch",
                                                      "minutes_per_1000_micro_batches",
                                                      "epochs",
                                                      "dataset",
                                                      "runtime_min",
                                                      "max_steps",
                                                      "nvidia_smi_peak_mib",
                                                      "allocated_after_load_bytes",
                                                      "runtime_s_100_steps",
                                                      "total_params",
                                                      "memory_reserved_avg_bytes",
                                                      "memory_reserved_p99_bytes",
                                                      "adapter_file_bytes",
                                                      "optimizer_kwargs",
                                                      "tokens_total",
                                                      "steps",
                                                      "host_memory_gb",
                                                      "memory_range_gb",
                                                      "samples_per_s",
                                                      "memory_by_gpu_gib",
                                                      "runtime_h",
                                                      "lora_alpha",
                                                      "padding"};

void read_number(const json& value, double scale, std::optional<double>& out, const char* key,
                 std::string& fault) {
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > 1e15) {
    fault = fmt::format("finetune.{} should be a number of 0 or more", key);
    return;
  }
  out = scale * value.get<double>();
}

bool keeps_torch_states(const Framework& framework) {
  return framework.states == StateLayout::kTorch;
}

BaseFormat base_of(const FinetuneRow& row) {
  const std::string name = lower_case(row.base_dtype);
  if (contains(name, "nf4") || contains(name, "bnb") ||
      (contains(name, "int4") && !contains(name, "gptq"))) {
    const bool twice = contains(name, "dq") || contains(name, "double") || contains(name, "(bnb)");
    return twice ? BaseFormat::kNf4Double : BaseFormat::kNf4;
  }
  if (contains(name, "int8") || contains(name, "8bit") || contains(name, "8-bit")) {
    return BaseFormat::kInt8;
  }
  if (contains(name, "gptq") || contains(name, "int4") || contains(name, "awq") ||
      contains(name, "hqq")) {
    return BaseFormat::kGptq4;
  }
  if (contains(name, "fp32") || contains(name, "float32")) {
    return BaseFormat::kFp32;
  }
  return row.method == "qlora" ? BaseFormat::kNf4Double : BaseFormat::kSixteenBit;
}

void set_optimizer(const FinetuneRow& row, Job& job) {
  const std::string name = lower_case(row.optimizer);
  if (contains(name, "8bit") || contains(name, "8-bit")) {
    job.optimizer = Optimizer::kAdam8bit;
    job.framework.foreach_optimizer = false;
  } else if (contains(name, "sgd") || contains(name, "muon")) {
    job.optimizer = Optimizer::kSgd;  // one moment, as Muon has of a matrix
  }
}

// Plain PyTorch modules and libraries on them.
void set_library(const PublishedRow& row, Job& job) {
  const FinetuneRow& finetune = *row.finetune;
  Framework& framework = job.framework;
  const FinetuneLibrary& library = finetune.library;
  framework.fp32_norms = !finetune.fused_kernels;
  framework.foreach_optimizer = keeps_torch_states(framework) && library.foreach_optimizer;
  if (library.gathers_frozen && row.sharding == "full" && job.training.has_adapters()) {
    framework.reshard_after_forward = false;
  }
  framework.host_threads = row.gpus.value_or(1) > 1 ? 1 : 0;  // torchrun's
  if (framework.sharder == Sharder::kZero) {
    // "auto" in transformers' configuration: buckets of hidden x hidden elements.
    framework.bucket_elements = library.bucket_elements > 0 ? std::llround(library.bucket_elements)
                                                            : job.model.hidden * job.model.hidden;
  }
  // What nvidia-smi showed over what was allocated in runs that print both.
  framework.reserved_typical =
      framework.sharder == Sharder::kFsdp1 && row.sharding == "full" ? 1.15 : 1.09;
  framework.reserved_high = framework.reserved_typical + 0.15;
  if (finetune.fused_loss) {
    // Logits of one chunk of the tokens at a time, their gradient in place.
    framework.cross_entropy_fusion = true;
    framework.fused_logit_bytes = 0.25;
  } else if (finetune.fused_kernels) {
    framework.logit_bytes = library.kernel_logit_bytes;
  } else if (library.logit_bytes > 0) {
    framework.logit_bytes = library.logit_bytes;
  }
}

void set_full(const PublishedRow& row, Job& job) {
  // accelerate keeps masters beside 16-bit weights in FSDP alone; weights that were loaded in fp32
  // are the optimizer's own.
  const std::string& base = row.finetune->base_dtype;
  const bool master = base == "fp32" || (contains(base, "fp32") && row.sharding == "full");
  if (keeps_torch_states(job.framework) && !master) {
    apply_setting(job.framework, "parameter_dtype", "bf16");
    apply_setting(job.framework, "optimizer_dtype", "bf16");
  }
}

void set_targets(const FinetuneRow& row, Training& training, std::vector<std::string>& assumed) {
  std::string targets = lower_case(row.targets);
  std::replace(targets.begin(), targets.end(), ' ', '-');
  if (targets.empty()) {
    training.targets = kTargetQuery | kTargetValue;
    assumed.emplace_back("finetune.lora_targets=q,v");
    return;
  }
  if (targets.substr(0, 7) == "default") {
    targets = "default";
  }
  try {
    training.targets = adapter_targets_of(targets);
  } catch (const Error&) {
    training.targets = kLinearTargets;
    assumed.emplace_back("finetune.lora_targets=all-linear");
  }
}

void set_adapters(const PublishedRow& row, Job& job, std::vector<std::string>& assumed) {
  const FinetuneRow& finetune = *row.finetune;
  Training& training = job.training;
  training.base = base_of(finetune);
  if (finetune.method == "lora" || finetune.method == "qlora" || finetune.method == "dora") {
    training.rank = static_cast<std::int64_t>(finetune.rank.value_or(8));
    if (!finetune.rank) {
      assumed.emplace_back("finetune.lora_rank=8");
    }
    set_targets(finetune, training, assumed);
  } else if (finetune.trainable_parameters) {
    training.trained = *finetune.trainable_parameters;
  } else {
    throw Skip{fmt::format("finetune.method {} without finetune.trainable_params is not modelled",
                           finetune.method)};
  }
  training.embeddings = finetune.embeddings;
  training.scales_outputs = contains(lower_case(finetune.adapter), "adapter v2");
  const FinetuneLibrary& library = finetune.library;
  training.adapter_bytes = training.base == BaseFormat::kFp32 ? 4 : library.adapter_bytes;
  training.adapter_dropout = finetune.dropout.value_or(library.adapter_dropout);
  training.fp32_stream = library.fp32_stream && row.sharding == "none";
  training.keeps_inputs = library.keeps_inputs && (training.base == BaseFormat::kNf4 ||
                                                   training.base == BaseFormat::kNf4Double);
  training.holds_graph = library.holds_graph && training.keeps_inputs;
}

// Samples of instruction sets, in tokens; Megatron-SWIFT and transformers leave them unpadded or
// pad them to the longest of a micro-batch.
constexpr double kLongestAlpaca = 512;

// A mean and the longest make log-logistic lengths, whose logarithm spreads by 0.45 as in the
// published sets of instructions and mathematics.
void spread_lengths(double mean, double longest, Training& training) {
  constexpr int kParts = 64;
  constexpr double kShape = 4;
  constexpr double kMeanOverMedian = 1.1107;  // (pi / 4) / sin(pi / 4)
  for (int part = 0; part < kParts; ++part) {
    const double quantile = (part + 0.5) / kParts;
    const double tokens = mean / kMeanOverMedian * std::pow(quantile / (1 - quantile), 1 / kShape);
    training.lengths.push_back(
        {std::max<std::int64_t>(1, std::llround(std::min(longest, tokens))), 1.0 / kParts});
  }
}

void set_lengths(const PublishedRow& row, Job& job, std::vector<std::string>& assumed) {
  const FinetuneRow& finetune = *row.finetune;
  job.framework.expandable_segments =
      job.framework.expandable_segments || finetune.library.expandable_segments;
  std::optional<double> mean = finetune.mean_tokens;
  if (finetune.packed && finetune.library.packed_tokens > 0) {
    mean = mean.value_or(finetune.library.packed_tokens);
    spread_lengths(*mean, static_cast<double>(job.sequence), job.training);
    job.training.batching = Batching::kPacked;
    assumed.push_back(fmt::format("packed samples of {:.0f} tokens on average", *mean));
    return;
  }
  // Who leaves padding out has samples shorter than the limit: as those that are packed.
  const bool unpadded = finetune.padding_free && finetune.library.packed_tokens > 0;
  if (!mean && unpadded) {
    mean = finetune.library.packed_tokens;
  } else if (!mean && finetune.library.mean_tokens > 0) {
    mean = finetune.library.mean_tokens;
  }
  if (finetune.packed || !mean) {
    return;
  }
  const double longest = finetune.mean_tokens || unpadded
                             ? static_cast<double>(job.sequence)
                             : std::min(kLongestAlpaca, static_cast<double>(job.sequence));
  if (finetune.library.sorts_lengths) {
    job.training.lengths.push_back({std::llround(*mean), 1});
  } else {
    spread_lengths(*mean, longest, job.training);
  }
  // A sample as long as the limit comes once in a while; memory is its peak.
  job.training.lengths.push_back({std::llround(longest), 1e-9});
  job.training.batching = finetune.padding_free ? Batching::kUnpadded : Batching::kPadded;
  assumed.push_back(fmt::format("samples of {:.0f} tokens on average, log-logistic", *mean));
}

}  // namespace

namespace {

void read_library(const json& object, FinetuneLibrary& library) {
  constexpr std::pair<const char*, bool FinetuneLibrary::*> kSwitches[] = {
      {"plain_modules", &FinetuneLibrary::plain_modules},
      {"recomputes", &FinetuneLibrary::recomputes},
      {"foreach_optimizer", &FinetuneLibrary::foreach_optimizer},
      {"gathers_frozen", &FinetuneLibrary::gathers_frozen},
      {"keeps_inputs", &FinetuneLibrary::keeps_inputs},
      {"holds_graph", &FinetuneLibrary::holds_graph},
      {"fp32_stream", &FinetuneLibrary::fp32_stream},
      {"expandable_segments", &FinetuneLibrary::expandable_segments},
      {"sorts_lengths", &FinetuneLibrary::sorts_lengths},
      {"layers_in_turn", &FinetuneLibrary::layers_in_turn}};
  constexpr std::pair<const char*, double FinetuneLibrary::*> kNumbers[] = {
      {"adapter_bytes", &FinetuneLibrary::adapter_bytes},
      {"adapter_dropout", &FinetuneLibrary::adapter_dropout},
      {"logit_bytes", &FinetuneLibrary::logit_bytes},
      {"kernel_logit_bytes", &FinetuneLibrary::kernel_logit_bytes},
      {"bucket_elements", &FinetuneLibrary::bucket_elements},
      {"mean_tokens", &FinetuneLibrary::mean_tokens},
      {"packed_tokens", &FinetuneLibrary::packed_tokens}};
  for (const auto& [key, field] : kSwitches) {
    if (const auto value = object.find(key); value != object.end() && value->is_boolean()) {
      library.*field = value->get<bool>();
    }
  }
  for (const auto& [key, field] : kNumbers) {
    if (const auto value = object.find(key); value != object.end() && value->is_number()) {
      library.*field = value->get<double>();
    }
  }
  const auto behaviour = object.find("behaviour");
  library.behaviour = behaviour == object.end() ? "" : words_in(*behaviour);
}

}  // namespace

std::string read_finetune(const json& object, FinetuneRow& row, std::set<std::string>& unknown) {
  std::string fault;
  for (const auto& [key, value] : object.items()) {
    const bool on = value.is_boolean() && value.get<bool>();
    if (key == "library" && value.is_object()) {
      read_library(value, row.library);
    } else if (key == "method") {
      row.method = words_in(value);
    } else if (key == "base_dtype") {
      row.base_dtype = words_in(value);
    } else if (key == "lora_targets") {
      row.targets = words_in(value);
    } else if (key == "optimizer") {
      row.optimizer = words_in(value);
    } else if (key == "config") {
      row.config = words_in(value);
    } else if (key == "variant") {
      row.variant = words_in(value);
    } else if (key == "adapter") {
      row.adapter = words_in(value);
    } else if (key == "lora_rank") {
      read_number(value, 1, row.rank, "lora_rank", fault);
    } else if (key == "lora_dropout") {
      read_number(value, 1, row.dropout, "lora_dropout", fault);
    } else if (key == "trainable_params" || key == "trainable_params_m") {
      read_number(value, key == "trainable_params" ? 1 : 1e6, row.trainable_parameters, key.c_str(),
                  fault);
    } else if (key == "mean_tokens_per_sample" || key == "dataset_tokens_mean") {
      read_number(value, 1, row.mean_tokens, key.c_str(), fault);
    } else if (key == "packed") {
      row.packed = on;
    } else if (key == "padding_free") {
      row.padding_free = on;
    } else if (key == "fused_kernels") {
      row.fused_kernels = on;
    } else if (key == "liger_cross_entropy" || key == "fused_linear_cross_entropy") {
      row.fused_loss = on;
    } else if (key == "trainable_embeddings") {
      row.embeddings = on;
    } else if (key == "optimizer_in_bwd" || key == "optimizer_in_backward") {
      row.optimizer_in_backward = on;
    } else if (std::find(std::begin(kMeasuredOfFinetuning), std::end(kMeasuredOfFinetuning), key) ==
               std::end(kMeasuredOfFinetuning)) {
      unknown.insert("finetune." + key);
    }
  }
  return fault;
}

bool recomputes_by_default(const PublishedRow& row) {
  return row.finetune && row.finetune->library.recomputes;
}

std::string finetune_behaviour(const PublishedRow& row) {
  const std::string& behaviour = row.finetune->library.behaviour;
  return !behaviour.empty() ? behaviour : row.sharding == "gradients" ? "deepspeed" : "fsdp1";
}

void set_finetune(const PublishedRow& row, Job& job, std::vector<std::string>& assumed) {
  const FinetuneRow& finetune = *row.finetune;
  if (finetune.method == "full" || finetune.method.empty()) {
    set_full(row, job);
  } else {
    set_adapters(row, job, assumed);
  }
  if (finetune.library.plain_modules) {
    set_library(row, job);
  }
  set_optimizer(finetune, job);
  job.training.optimizer_in_backward = finetune.optimizer_in_backward;
  set_lengths(row, job, assumed);
}

}  // namespace trireme::planner
