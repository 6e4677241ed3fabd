// What changes the numbers that a model computes, and not what they cost. Plain data; one row of
// models/function_table.h a field says what a config.json calls it, and one of
// planner/launch/function_spellings.h how the launch formats spell it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::models {

// The defaults are a plain Llama's.
struct Function {
  // MLP: of the gate where the MLP is gated.
  std::string activation = "silu";  // silu, gelu, gelu_tanh, relu, relu2, quick_gelu
  double activation_limit = 0;      // gate and up are clamped to it (gpt-oss); 0 = they are not
  double up_offset = 0;             // act(gate) * (up + offset) (gpt-oss)

  double norm_epsilon = 1e-5;
  bool norm_plus_one = false;        // the weight is kept minus one (Gemma, Nemotron)
  bool norm_after = false;           // of each half's output, not of its input (OLMo 2, EXAONE 4)
  bool residual_after_norm = false;  // the residual is taken behind the norm (BLOOM's option, BERT)

  // Rotary positions.
  double rotary_base = 10000;
  double rotary_local_base = 0;     // of sliding layers; 0 = the same
  double rotary_share = 1;          // of a head's width that is rotated
  bool rotary_interleaved = false;  // pairs are neighbours (GPT-J), not halves of the head
  std::vector<std::int64_t> no_rotary_layers;  // without positions (SmolLM3, Cohere 2)
  std::vector<std::int64_t> rotary_sections;   // of time, height and width (Qwen-VL)
  std::string rotary_scaling = "none";         // none, linear, dynamic, llama3, yarn, longrope
  double rotary_factor = 1;
  std::int64_t rotary_trained = 0;                  // positions it was trained on; 0 = not said
  double rotary_low = 1, rotary_high = 4;           // llama3
  double rotary_fast = 32, rotary_slow = 1;         // yarn: rotations that bound the ramp
  double rotary_mscale = 0, rotary_mscale_all = 0;  // yarn (DeepSeek); 0 = not said
  double rotary_attention_factor = 0;               // yarn, longrope; 0 = from the factor
  bool rotary_rounds = true;                        // yarn: the ramp's bounds are whole numbers
  std::vector<double> rotary_short, rotary_long;    // longrope, a factor a frequency

  // Attention.
  double attention_scale = 0;  // of the scores; 0 = 1 / sqrt(head width)
  double attention_cap = 0;    // scores are cap * tanh(score / cap) (Gemma 2); 0 = not capped
  double qkv_clip = 0;         // q, k and v are clamped to it (OLMo, DBRX, MPT)
  double query_growth = 0;     // scores grow with the position by this share (Llama 4); 0 = not
  double query_growth_length = 8192;
  bool chunked_windows = false;       // a window is a block that starts anew (Llama 4)
  bool scales_by_layer = false;       // scores over the layer's number (GPT-2's option)
  bool qk_norm_unweighted = false;    // q and k are normalised without parameters (Llama 4)
  bool qk_norm_after_rotary = false;  // Hunyuan
  double alibi_max = 8;               // largest exponent of ALiBi's slopes

  // Streams.
  double embedding_multiplier = 1;
  double residual_multiplier = 1;
  double logit_multiplier = 1;
  double logit_cap = 0;  // 0 = not capped

  // Routing of experts.
  std::string router_score = "softmax";  // softmax (of all experts) or sigmoid
  bool router_normalises = false;        // the chosen ones' weights sum to one
  double router_scale = 1;               // of the weights
  std::int64_t router_groups = 0;        // experts stand in so many groups; 0 = in none
  std::int64_t router_groups_chosen = 0;
  std::string router_group_score = "top2";  // by which a group is chosen: top2 (their sum) or max
  bool router_bias_selects = false;  // its bias chooses experts and does not weigh them (DeepSeek)
  bool router_scales_input = false;  // weights scale what an expert reads (Llama 4)
  bool router_sparsemixer = false;   // Phi-3.5-MoE
  double router_jitter = 0;
  double router_aux_loss = 0;  // weight of the balancing loss
  double router_z_loss = 0;

  double init_std = 0.02;
  friend bool operator==(const Function&, const Function&) = default;
};

}  // namespace trireme::models
