#include "planner/lower/trained.h"

#include <fmt/format.h>

#include <utility>

#include "planner/plan/shape.h"

namespace trireme::planner::lowering {
namespace {

// One matrix has one adapter: of its parts all are targets or none.
std::string cut_matrix(const Job& job) {
  const std::pair<unsigned, const char*> matrices[] = {
      {kTargetQuery | kTargetKey | kTargetValue, "q,k,v"}, {kTargetGate | kTargetUp, "gate,up"}};
  for (const auto& [parts, names] : matrices) {
    const bool gated = job.model.gated_mlp || (parts & kTargetUp) == 0;
    const unsigned there = job.training.targets & parts;
    if (gated && there != 0 && there != parts) {
      return fmt::format("adapters on a part of {} (one matrix here, with one adapter)", names);
    }
  }
  return "";
}

std::string untrained_adapter(const Job& job) {
  const Training& training = job.training;
  const std::pair<bool, std::string> parts[] = {
      {training.trained > 0, "a method that counts its trained elements itself"},
      {training.base != BaseFormat::kSixteenBit,
       fmt::format("a base stored in {} (bf16 runs)", to_string(training.base))},
      {training.adapter_dropout > 0, "dropout before adapters"},
      {training.embeddings, "tables that are trained whole beside adapters"},
      {job.model.moe.has_value(), "adapters on routed experts"},
      {job.model.latent.has_value(), "adapters on latent attention"},
      {(training.targets & kTargetHead) != 0, "an adapter on the head"}};
  for (const auto& [there, part] : parts) {
    if (there) {
      return part;
    }
  }
  return cut_matrix(job);
}

}  // namespace

Trained trained_of(const Job& job) {
  const Training& training = job.training;
  Trained trained;
  trained.first_layer = training.frozen_layers;
  if (training.has_adapters()) {
    trained.rank = training.rank;
    const unsigned there = job.model.gated_mlp ? kLinearTargets : kLinearTargets & ~kTargetGate;
    trained.targets = static_cast<std::uint16_t>(training.targets & there);
    trained.embedding = trained.head = false;
  } else if (training.frozen_layers > 0) {
    trained.embedding = false;
  }
  return trained;
}

std::string untrained_part(const Job& job, const Plan& plan) {
  const Training& training = job.training;
  if (training.reference) {
    return "a reference model beside the trained one";
  }
  const bool all = !training.has_adapters() && training.frozen_layers == 0;
  if (!all && job.framework.implementation != models::Implementation::kTrireme) {
    return fmt::format("{} as {} trains them",
                       training.has_adapters() ? "adapters" : "frozen layers", job.framework.name);
  }
  if (!all && job.model.multi_token_layers > 0) {
    return "extra prediction modules beside frozen weights";
  }
  if (!training.has_adapters()) {
    return "";
  }
  for (std::int64_t layer = 0; layer < job.model.layers; ++layer) {
    if (is_modelled_layer(job, plan, layer)) {
      return "adapters beside products that are timed and not executed";
    }
  }
  return untrained_adapter(job);
}

}  // namespace trireme::planner::lowering
