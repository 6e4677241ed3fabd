#include "planner/cost/behaviour_fit.h"

#include <algorithm>

#include "core/error.h"
#include "planner/plan/host_counts.h"

namespace trireme::planner {

std::string behaviour_name(const Framework& framework) {
  switch (framework.implementation) {
    case models::Implementation::kClassicMegatron:
      return framework.constants + "-classic";
    case models::Implementation::kCompiledTorch:
      return framework.constants + "-compiled";
    case models::Implementation::kTransformerEngine:
    case models::Implementation::kEagerTorch:
    case models::Implementation::kTrireme:
      break;
  }
  return framework.constants;
}

BehaviourFit behaviour_fit(const Framework& framework, const topologies::Profile& profile) {
  BehaviourFit fit;
  auto found = profile.frameworks.find(behaviour_name(framework));
  if (found == profile.frameworks.end()) {
    found = profile.frameworks.find(framework.constants);
  }
  static const std::map<std::string, double> kNone;
  for (const auto& [key, value] : found == profile.frameworks.end() ? kNone : found->second) {
    if (key == "memory_traffic") {
      fit.memory_traffic = value;
    } else if (key == "host_factor") {
      fit.host_factor = value;
    } else if (key == "tensor_host_seconds") {
      fit.tensor_host_seconds = value;
    } else if (key == "overlap_slowdown") {
      fit.overlap_slowdown = value;
    } else if (key == "attention_rate") {
      fit.attention_rate = value;
    } else if (key == "new_card_rate") {
      fit.new_card_rate = value;
    } else if (key == "product_rate") {
      fit.product_rate = value;
    } else if (key == "exchange_seconds") {
      fit.exchange_seconds = value;
    } else if (key == "step_seconds") {
      fit.step_seconds = value;
    } else if (key == "message_rate") {
      fit.message_rate = value;
    } else {
      throw Error("profile " + profile.name,
                  "framework " + found->first + " has no constant \"" + key + "\"");
    }
  }
  // 44 steps of PyTorch 2.11 on two H200, with and without full recompute: 10.4 ms more a layer,
  // where a forward is 6.2.
  constexpr double kThroughDTensor = 1.9;
  fit.repeated_tensor_host = framework.sharder == Sharder::kFsdp2 ? kThroughDTensor : 1;
  if (const HostCounts* counts = host_counts_of(framework)) {
    fit.host_factor = kPlainLaunch * counts->skew;
  }
  if (framework.deterministic) {
    // Each result is filled before a kernel writes it. What a layer's products, attention and
    // passes write is about half of the bytes that its passes read and write. Where launches were
    // not counted, one fill for each of the layers' kernels. Megatron-LM #7093 saves 13 % of a
    // large model's step without; this adds 10 % to a 7B on H100.
    constexpr double kFill = 1.5;
    fit.memory_traffic *= kFill;
    fit.host_factor += host_counts_of(framework) == nullptr ? 1 : 0;
  }
  // What a CUDA graph launches the host does not.
  fit.host_factor *= framework.host_slowdown * (1 - framework.graphed_launches);
  fit.tensor_host_seconds *= 1 - framework.graphed_launches;
  fit.overlap_slowdown *= topologies::correction_of(profile, "overlap");
  fit.host_factor *= topologies::correction_of(profile, "host");
  fit.tensor_host_seconds *= topologies::correction_of(profile, "host");
  return fit;
}

BehaviourFit behaviour_fit(const Job& job) {
  // Counts and costs come from one of two processes on a host. A process that has no other beside
  // it, nor collectives, issued in 0.81 to 0.86 of their time (llama-400m under torchtitan,
  // accelerate and DeepSpeed), and waits for nobody.
  constexpr double kAlone = 0.83;
  BehaviourFit fit = behaviour_fit(job.framework, job.profile);
  const HostCounts* counts = host_counts_of(job.framework);
  if (counts != nullptr && job.cluster.gpus == 1) {
    fit.host_factor *= kAlone / counts->skew;
  }
  return fit;
}

double tensor_host_seconds(const BehaviourFit& fit, const Framework& framework,
                           double launch_seconds) {
  constexpr double kReferenceLaunch = 5e-6;
  return framework.traced_graph ? 0 : fit.tensor_host_seconds * launch_seconds / kReferenceLaunch;
}

double message_seconds(const BehaviourFit& fit, double send_recv, double bytes) {
  return fit.message_rate > 0 ? std::max(send_recv, bytes / fit.message_rate) : send_recv;
}

}  // namespace trireme::planner
