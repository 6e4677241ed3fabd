// One rank's list of work as it is written: which products, attention and memory-bound passes, in
// order. work.cc writes a layer's, work_ends.cc the embedding's and the head's.
#pragma once

#include <cstdint>
#include <optional>

#include "models/layer_share.h"
#include "models/pass_cost.h"
#include "models/work.h"

namespace trireme::models {

// Of this project's runtime, for a pass in each direction.
struct OwnKernels {
  std::optional<Kernel> forward = {}, backward = {};
};

class WorkList {
 public:
  WorkList(const Transformer& model, const Shard& shard, const Kernels& kernels)
      : model_(model), shard_(shard), kernels_(kernels), share_(layer_share(model, shard)) {}

  LayerWork layer(std::int64_t layer);
  LayerWork embedding();
  LayerWork head();

 private:
  // A product with a weight: C = A B forward; dA = dC B^T and dB = A^T dC backward.
  void linear(Part part, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count = 1);
  // A product of two activations, both of which need a gradient.
  void activation_product(Part part, std::int64_t m, std::int64_t n, std::int64_t k,
                          std::int64_t count);
  void pass(Part part, std::int64_t elements, const PassCost& cost, OwnKernels own = {});
  [[nodiscard]] OwnKernels activation_kernels() const;
  void norm(Part part, std::int64_t elements);
  void bias_gradient(Part part, std::int64_t rows, std::int64_t width);

  void attention_projections();
  void latent_projections();
  void rotary();
  void core_attention(std::int64_t layer);
  void unfused_attention();
  // `up`, `gate`, `down` and the function between them.
  struct MlpParts {
    Part up, gate, down, activation;
  };
  void mlp(const MlpParts& parts, std::int64_t inner);
  void experts();
  void residual(Part part);
  void add_layer(std::int64_t layer);
  void add_head();
  void add_token_projection();

  const Transformer& model_;
  const Shard& shard_;
  const Kernels& kernels_;
  const LayerShare share_;
  LayerWork work_;
};

}  // namespace trireme::models
