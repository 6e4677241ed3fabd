#include "planner/plan/host_counts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/embedded_file.h"
#include "core/error.h"
#include "core/json_reader.h"
#include "models/layer_parts.h"
#include "planner/plan/framework_fields.h"

namespace trireme::planner {

namespace embedded {
std::span<const core::EmbeddedFile> host_counts();
}  // namespace embedded

namespace {

using models::Part;

constexpr std::pair<const char*, PassCount HostCounts::*> kParts[] = {
    {"norm", &HostCounts::norm},
    {"product", &HostCounts::product},
    {"rotary", &HostCounts::rotary},
    {"attention", &HostCounts::attention},
    {"shared_heads", &HostCounts::shared_heads},
    {"activation", &HostCounts::activation},
    {"residual", &HostCounts::residual},
    {"embedding", &HostCounts::embedding},
    {"loss", &HostCounts::loss},
    {"collective", &HostCounts::collective},
    {"per_op", &HostCounts::per_op},
    {"ring", &HostCounts::ring},
    {"sparse", &HostCounts::sparse},
    {"packed_sample", &HostCounts::packed_sample},
    {"packed_exchange", &HostCounts::packed_exchange},
    {"expert", &HostCounts::expert}};
// Passes over memory that were counted; softmax and layouts are attention's.
constexpr std::pair<Part, PassCount HostCounts::*> kPasses[] = {
    {Part::kAttentionNorm, &HostCounts::norm},
    {Part::kMlpNorm, &HostCounts::norm},
    {Part::kHeadNorm, &HostCounts::norm},
    {Part::kFinalNorm, &HostCounts::norm},
    {Part::kEmbeddingNorm, &HostCounts::norm},
    {Part::kTokenNorm, &HostCounts::norm},
    {Part::kRotary, &HostCounts::rotary},
    {Part::kActivation, &HostCounts::activation},
    {Part::kSharedActivation, &HostCounts::activation},
    {Part::kExpertActivation, &HostCounts::activation},
    {Part::kAttentionResidual, &HostCounts::residual},
    {Part::kMlpResidual, &HostCounts::residual},
    {Part::kEmbedding, &HostCounts::embedding},
    {Part::kCrossEntropy, &HostCounts::loss}};
constexpr std::pair<const char*, HostCount HostCounts::*> kOnce[] = {
    {"micro_batch_tensor", &HostCounts::micro_batch_tensor},
    {"step_tensor", &HostCounts::step_tensor},
    {"step", &HostCounts::step}};

void read_parts(JsonReader& reader, HostCounts& counts) {
  for (const auto& [key, member] : kParts) {
    if (reader.has(key)) {
      JsonReader part = reader.object(key);
      const auto& launches = part.raw("launches");
      const auto& plain = part.raw("plain");
      (counts.*member).forward = {launches.at(0).get<double>(), plain.at(0).get<double>()};
      (counts.*member).backward = {launches.at(1).get<double>(), plain.at(1).get<double>()};
      part.finish();
    }
  }
  for (const auto& [key, member] : kOnce) {
    if (reader.has(key)) {
      JsonReader once = reader.object(key);
      counts.*member = {once.number("launches", 0), once.number("plain", 0)};
      once.finish();
    }
  }
  if (reader.has("unit")) {
    JsonReader unit = reader.object("unit");
    counts.unit_gather = unit.number("gather", 0);
    counts.unit_reduce = unit.number("reduce", 0);
    counts.unit_hooks = unit.number("hooks", 0);
    unit.finish();
  }
}

// The last so named, of those above.
const HostCounts* counts_named(const std::vector<HostCounts>& all, const std::string& name) {
  const auto found = std::find_if(all.rbegin(), all.rend(),
                                  [&](const HostCounts& one) { return one.name == name; });
  return found == all.rend() ? nullptr : &*found;
}

std::vector<HostCounts> read_counts() {
  std::vector<HostCounts> all;
  for (const core::EmbeddedFile& file : embedded::host_counts()) {
    const nlohmann::json document = parse_json(file.content, "host_counts.json");
    JsonReader top(document, "host_counts.json");
    top.ignore("sources");
    for (JsonReader& reader : top.objects("counts")) {
      HostCounts counts;
      if (reader.has("like")) {
        counts = *counts_named(all, reader.text("like"));
      }
      counts.name = reader.text("name");
      counts.source = reader.text("source");
      counts.implementation = implementation_of(reader.text("implementation"));
      if (reader.has("packed_waits")) {
        counts.packed_waits = reader.boolean("packed_waits");
      }
      if (reader.has("looped_only")) {
        counts.looped_only = reader.boolean("looped_only");
      }
      if (reader.has("waits_every_micro_batch")) {
        counts.waits_every_micro_batch = reader.boolean("waits_every_micro_batch");
      }
      if (reader.has("kernel")) {
        counts.kernel = reader.number("kernel", 0);
      }
      if (reader.has("skew")) {
        counts.skew = reader.number("skew", 1);
      }
      read_parts(reader, counts);
      reader.finish();
      all.push_back(std::move(counts));
    }
    top.finish();
  }
  return all;
}

// What deterministic algorithms do besides: PyTorch fills each tensor that it allocates (its
// fill_uninitialized_memory) by a kernel from C++ before the one that writes it: 1.5 bare launches,
// as kernels are that were not counted.
constexpr double kFromCpp = 0.3;
void add_fills(HostCount& count) {
  count.plain += kFromCpp * count.launches;
  count.launches *= 2;
}

HostCounts with_fills(HostCounts counts) {
  counts.deterministic = true;
  counts.kernel += kFromCpp;
  for (const auto& [key, member] : kParts) {
    add_fills((counts.*member).forward);
    add_fills((counts.*member).backward);
  }
  for (const auto& [key, member] : kOnce) {
    add_fills(counts.*member);
  }
  return counts;
}

void add(const HostCount& each, double times, HostCount& sum) {
  sum.launches += times * each.launches;
  sum.plain += times * each.plain;
}

// What routes tokens and works on them is Framework::expert_launches' where it was not counted.
bool is_uncounted(const HostCounts& counts, Part part) {
  const bool of_experts = part == Part::kRouter || models::traits_of(part).routed;
  return of_experts && counts.sparse.forward.plain <= 0;
}

PassCount plain_kernels(int kernels, double each_plain) {
  const HostCount each{static_cast<double>(kernels), each_plain * kernels};
  return {each, each};
}

}  // namespace

const std::vector<HostCounts>& host_counts() {
  static const std::vector<HostCounts> all = read_counts();
  return all;
}

const HostCounts* host_counts_of(const Framework& framework) {
  if (framework.host_counts.empty() || framework.traced_graph) {
    return nullptr;
  }
  static const std::vector<HostCounts> filled = [] {
    std::vector<HostCounts> counts = host_counts();
    std::ranges::transform(counts, counts.begin(), with_fills);
    return counts;
  }();
  const std::vector<HostCounts>& all = framework.deterministic ? filled : host_counts();
  const auto found = std::ranges::find_if(all, [&](const HostCounts& one) {
    return one.name == framework.host_counts && one.implementation == framework.implementation;
  });
  return found == all.end() ? nullptr : &*found;
}

PassCount packed_sample_count(const Framework& framework, std::int64_t ranks) {
  const HostCounts* found = host_counts_of(framework);
  if (found == nullptr) {
    return {};
  }
  PassCount count = found->packed_sample;
  if (ranks > 1 && framework.context_all_to_all) {
    const auto times = static_cast<double>(ranks);
    add(found->packed_exchange.forward, times, count.forward);
    add(found->packed_exchange.backward, times, count.backward);
  }
  return count;
}

bool waits_for_packed_samples(const Framework& framework) {
  const HostCounts* found = host_counts_of(framework);
  return found != nullptr && found->packed_waits;
}

PassCount attention_count(const HostCounts& counts, bool shares_heads) {
  PassCount count = counts.attention;
  if (shares_heads) {
    add(counts.shared_heads.forward, 1, count.forward);
    add(counts.shared_heads.backward, 1, count.backward);
  }
  return count;
}

PassCount product_count(const HostCounts& counts, Part part) {
  if (part == Part::kScores || part == Part::kContext) {
    return {};
  }
  const PassCount kernels = {plain_kernels(1, counts.kernel).forward,
                             plain_kernels(2, counts.kernel).backward};
  return is_uncounted(counts, part) ? kernels : counts.product;
}

PassCount pass_count(const HostCounts& counts, Part part, int kernels, bool shares_heads) {
  if (part == Part::kSoftmax) {
    // Its count is of a joined kernel; a softmax of several has them besides.
    PassCount count = attention_count(counts, shares_heads);
    for (HostCount* pass : {&count.forward, &count.backward}) {
      pass->launches += kernels - 1;
      pass->plain += kernels - 1;
    }
    return count;
  }
  if (part == Part::kAdapter) {
    // Small products and casts, half of them from C++ alone: LoRA of Qwen 1.8B to 14B on one A100,
    // 256 tokens, takes 4.7 to 5.2 ms a layer whatever its width (recomputed, five adapters).
    constexpr double kPlain = 0.5;
    return plain_kernels(kernels, kPlain);
  }
  for (const auto& [known, member] : kPasses) {
    if (known == part && !is_uncounted(counts, part)) {
      return counts.*member;
    }
  }
  return part == Part::kAttentionLayout ? PassCount{} : plain_kernels(kernels, counts.kernel);
}

PassCount sparse_count(const HostCounts& counts, double experts) {
  PassCount count = counts.sparse;
  const double further = std::max(0.0, experts - 1);  // the layer's products count the first
  add(counts.expert.forward, further, count.forward);
  add(counts.expert.backward, further, count.backward);
  return count;
}

bool shares_heads(const models::Transformer& model) {
  return !model.latent && model.kv_heads < model.heads;
}

HostCount counted_launches(const HostCounts& counts, const models::PassWork& work, bool backward,
                           bool shares_heads) {
  HostCount sum;
  const auto add_pass = [&](const PassCount& count, double times) {
    add(backward ? count.backward : count.forward, times, sum);
  };
  add_pass(attention_count(counts, shares_heads), static_cast<double>(work.attention.size()));
  for (const models::Matmul& product : work.matmuls) {
    add_pass(product_count(counts, product.part), backward ? 0.5 : 1.0);
  }
  for (const models::MemoryBoundWork& pass : work.memory_bound) {
    add_pass(pass_count(counts, pass.part, pass.kernels, shares_heads), 1);
  }
  return sum;
}

}  // namespace trireme::planner
