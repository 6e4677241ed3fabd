#include "core/arithmetic.h"

#include <array>

namespace trireme {
namespace {

constexpr std::array<std::string_view, 7> kWords = {"plain", "silu",  "gelu",      "gelu_tanh",
                                                    "relu",  "relu2", "quick_gelu"};

}  // namespace

std::string_view to_string(Activation activation) {
  return kWords[static_cast<std::size_t>(activation)];
}

std::optional<Activation> find_activation(std::string_view word) {
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (kWords[i] == word) {
      return static_cast<Activation>(i);
    }
  }
  return std::nullopt;
}

}  // namespace trireme
