// Gemma 1 to 3 and VaultGemma.
#include "models/families.h"

namespace trireme::models {
namespace {

Transformer read_gemma(ConfigFields& fields) {
  return read_llama_like(fields, {.hidden = 3072,
                                  .ffn = 24576,
                                  .layers = 28,
                                  .heads = 16,
                                  .kv_heads = 16,
                                  .head_dim = 256,
                                  .vocab = 256000,
                                  .max_sequence = 8192,
                                  .tied = true});
}

// What the classes of Gemma 2 and 3 share.
ClassDefaults second_defaults(std::int64_t vocab, std::int64_t max_sequence) {
  return {.hidden = 2304,
          .ffn = 9216,
          .layers = 26,
          .heads = 8,
          .kv_heads = 4,
          .head_dim = 256,
          .vocab = vocab,
          .max_sequence = max_sequence,
          .tied = true};
}

Transformer read_gemma2(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, second_defaults(256000, 8192));
  model.norms_per_layer = 4;
  model.sliding_window = fields.count_or({"sliding_window", "sliding_window_size"}, 4096);
  set_sliding_layers(model, [](std::int64_t layer) { return layer % 2 == 0; });
  apply_layer_types(fields, model);
  return model;
}

Transformer read_gemma3(ConfigFields& fields) {
  Transformer model = read_llama_like(fields, second_defaults(262208, 131072));
  model.norms_per_layer = 4;
  model.qk_norm = true;
  model.sliding_window = fields.count_or({"sliding_window"}, 4096);
  const std::int64_t pattern =
      fields.count_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  set_sliding_layers(model, [pattern](std::int64_t layer) { return (layer + 1) % pattern != 0; });
  apply_layer_types(fields, model);
  return model;
}

// VaultGemma: Gemma 2 without the norms behind its halves.
Transformer read_vaultgemma(ConfigFields& fields) {
  Transformer model = read_gemma2(fields);
  model.norms_per_layer = 2;
  return model;
}

constexpr NamedReader kGemmaFamilies[] = {
    {"gemma", read_gemma},        {"gemma2", read_gemma2},         {"gemma3", read_gemma3},
    {"gemma3_text", read_gemma3}, {"vaultgemma", read_vaultgemma},
};

}  // namespace

FamilyReader gemma_family(const std::string& model_type) {
  return find_reader(kGemmaFamilies, model_type);
}

}  // namespace trireme::models
