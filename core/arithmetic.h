// Numbers of the model's function that every op of a program shares and that no dim of a kernel
// says. Plain data; the defaults are a plain Llama's or GPT's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace trireme {

// kPlain: silu in swiglu_*, the tanh form of GELU in gelu_*.
enum class Activation : std::uint8_t { kPlain, kSilu, kGelu, kGeluTanh, kRelu, kRelu2, kQuickGelu };
std::string_view to_string(Activation activation);  // as a model's function spells it; "plain"
std::optional<Activation> find_activation(std::string_view word);

// How a head is turned by its position; what the pairs leave of it stays as it is.
struct RotaryTable {
  std::vector<double> frequencies;  // of each pair, radians a position
  double scale = 1;                 // of the turned elements
  bool neighbours = false;          // pairs are (2j, 2j + 1), else (j, j + pairs)
  friend bool operator==(const RotaryTable&, const RotaryTable&) = default;
};

struct Arithmetic {
  Activation activation = Activation::kPlain;
  double norm_epsilon = 1e-5;
  bool norm_plus_one = false;  // weights of norms are kept minus one
  double attention_scale = 0;  // of the scores; 0: 1 / sqrt(D)
  double attention_cap = 0;    // scores are cap * tanh(score / cap); 0: they are not capped
  double embedding_multiplier = 1, residual_multiplier = 1;
  double logit_multiplier = 1, logit_cap = 0;  // the cap after the multiplier
  bool router_normalises = true;               // the chosen experts' weights sum to router_scale
  double router_scale = 1;
  // Experts stand in so many groups, of which the best are chosen before experts are; by the sum of
  // a group's two largest ranks or by its largest. 0: in none.
  std::int64_t router_groups = 0, router_groups_chosen = 0;
  bool router_groups_by_two = true;
  double initial_deviation = 0.02;  // of weights before the first step
  std::vector<RotaryTable> rotary;  // a dim of the rotary kernels names one by its place
  friend bool operator==(const Arithmetic&, const Arithmetic&) = default;
};

}  // namespace trireme
