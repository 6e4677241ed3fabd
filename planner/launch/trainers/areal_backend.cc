// The notation of AReaL's allocation modes (areal/api/alloc_mode.py of May 2026).
#include "planner/launch/trainers/areal_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "planner/launch/field_table.h"
#include "planner/launch/trainers/trainer.h"

namespace trireme::planner {
namespace {

std::int64_t* degree_of(ArealDegrees& degrees, char letter) {
  switch (letter) {
    case 'd':
      return &degrees.data;
    case 'p':
      return &degrees.pipeline;
    case 't':
      return &degrees.tensor;
    case 'c':
      return &degrees.context;
    case 'e':
      return &degrees.expert;
    default:
      return nullptr;
  }
}

// "d4p1t2"; nothing where it is none.
std::optional<ArealDegrees> degrees_in(std::string_view text) {
  constexpr std::int64_t kMost = 1'000'000;
  ArealDegrees degrees;
  do {
    std::int64_t* degree = text.empty() ? nullptr : degree_of(degrees, text.front());
    if (degree == nullptr) {
      return {};
    }
    const auto [stop, failure] =
        std::from_chars(text.data() + 1, text.data() + text.size(), *degree);
    if (failure != std::errc() || *degree < 1 || *degree > kMost) {
      return {};
    }
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  } while (!text.empty());
  return degrees;
}

// What trains of sglang[rollout]:d4+fsdp[actor]:d4|fsdp[critic]:d4 (allocation_mode): the first
// that is no server of rollouts.
std::string_view training_part(std::string_view text) {
  while (text.starts_with("sglang") || text.starts_with("vllm")) {
    text.remove_prefix(std::min(text.find_first_of("+|"), text.size() - 1) + 1);
  }
  std::size_t end = text.find('+');
  const std::size_t beside = text.find('|');
  if (beside != std::string_view::npos && !text.substr(beside).starts_with("|ffn:")) {
    end = std::min(end, beside);
  }
  return text.substr(0, end);
}

// fsdp:d4, fsdp[actor]:d4, megatron:(attn:d1p12t4|ffn:d1p12e4); d4t2 of 2025 names no engine.
std::optional<ArealBackend> backend_in(std::string_view text) {
  text = training_part(text);
  ArealBackend backend;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    const auto degrees = degrees_in(text);
    const bool core = degrees && (degrees->pipeline > 1 || degrees->expert > 1);
    return degrees ? std::optional(ArealBackend{core ? "megatron" : "fsdp", *degrees})
                   : std::nullopt;
  }
  backend.engine = text.substr(0, std::min(colon, text.find('[')));
  text.remove_prefix(colon + 1);
  if (text.starts_with('(') && text.ends_with(')')) {
    text = text.substr(1, text.size() - 2);
  }
  constexpr std::string_view kAttention = "attn:";
  constexpr std::string_view kExperts = "|ffn:";
  const std::size_t bar = text.find(kExperts);
  const bool both = text.starts_with(kAttention) && bar != std::string_view::npos;
  const auto degrees =
      degrees_in(both ? text.substr(kAttention.size(), bar - kAttention.size()) : text);
  const auto experts = both ? degrees_in(text.substr(bar + kExperts.size())) : ArealDegrees{};
  if (!degrees || !experts || (experts->pipeline > 1 && experts->pipeline != degrees->pipeline)) {
    return {};
  }
  backend.degrees = *degrees;
  if (both) {
    backend.degrees.expert = experts->expert;
    backend.expert_tensor = experts->tensor;
  }
  return backend;
}

}  // namespace

ArealBackend areal_backend(const LaunchConfig& said) {
  const LaunchSetting* named = run_setting(said, "actor.backend allocation_mode");
  if (named == nullptr) {
    throw Error(said.source,
                "says no actor.backend; fsdp:d8 (an engine with its degrees) would be right");
  }
  const auto backend = backend_in(named->value);
  if (!backend) {
    refuse_setting(said, *named, "an engine with its degrees (fsdp:d4t2, megatron:d4p2t2e4)");
  }
  const ArealDegrees& degrees = backend->degrees;
  if (backend->engine == "fsdp" && (degrees.pipeline > 1 || degrees.expert > 1)) {
    refuse_setting(said, *named, "FSDP's degrees d, t and c, or the engine megatron,");
  }
  if (!is_among("fsdp archon megatron", backend->engine)) {
    throw Error(
        where_of(said, *named),
        fmt::format("trains with AReaL's {} engine, which is not read; its model, batch and "
                    "degrees as options of `trireme estimate` would be right",
                    backend->engine));
  }
  if (static_cast<double>(degrees.data) * static_cast<double>(degrees.pipeline) *
          static_cast<double>(degrees.tensor) * static_cast<double>(degrees.context) >
      static_cast<double>(kMostGpus)) {
    refuse_setting(said, *named, "fewer GPUs");
  }
  return *backend;
}

}  // namespace trireme::planner
