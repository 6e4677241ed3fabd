// What of a training step lives outside the GPU's memory, and the host that takes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::planner {

enum class OffloadTo : std::uint8_t { kNone, kHost, kNvme };

struct Offload {
  OffloadTo optimizer = OffloadTo::kNone;  // states; the update then runs on the host's cores
  double optimizer_share = 1;  // of the states (Megatron's --optimizer-offload-fraction)
  OffloadTo gradients = OffloadTo::kNone;
  OffloadTo parameters = OffloadTo::kNone;
  OffloadTo activations = OffloadTo::kNone;  // checkpoints, or what backward keeps
  double activation_share = 1;               // of the layers
  bool overlap = true;  // transfers run beside compute (ZeRO-Infinity, Megatron); DeepSpeed's first
                        // ZeRO-Offload and FSDP wait for some of them

  // The host: of the node's preset where these are 0.
  double host_gib = 0;                       // memory a node
  double nvme_gbytes_per_second = 0;         // a node, read and write alike
  double host_memory_gbytes_per_second = 0;  // a node
  double link_gbytes_per_second = 0;         // a GPU and direction, GPU to host

  [[nodiscard]] bool any() const {
    return optimizer != OffloadTo::kNone || gradients != OffloadTo::kNone ||
           parameters != OffloadTo::kNone || activations != OffloadTo::kNone;
  }
};

// "optimizer", "optimizer=0.5", "gradients", "parameters=nvme", "activations=0.75", separated by
// commas. Throws Error naming the part that is wrong.
Offload parse_offload(const std::string& text);
std::string to_text(const Offload& offload);

}  // namespace trireme::planner
