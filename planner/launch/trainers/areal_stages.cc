// Source: AReaL of May 2026 (areal/engine/megatron_utils/pipeline_parallel.py), whose choice among
// splits that are as good is kept: earlier stages end as early as they can.
#include "planner/launch/trainers/areal_stages.h"

#include <algorithm>
#include <limits>

namespace trireme::planner {

std::vector<std::int64_t> balanced_stages(const std::vector<double>& layers, double embedding,
                                          double head, std::int64_t stages) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::size_t ends = layers.size() + 1;
  if (stages < 2 || stages > static_cast<std::int64_t>(ends) + 1) {
    return {};
  }
  std::vector<double> before(ends, 0);  // parameters of the layers before each
  for (std::size_t i = 0; i < layers.size(); ++i) {
    before[i + 1] = before[i] + layers[i];
  }
  const auto count = static_cast<std::size_t>(stages);
  std::vector<double> most(ends, kNever);  // of the stages so far, if they end there
  most[0] = 0;
  std::vector<std::vector<std::size_t>> begins(count, std::vector<std::size_t>(ends, 0));
  for (std::size_t stage = 0; stage < count; ++stage) {
    const bool at_an_end = stage == 0 || stage + 1 == count;
    const double own = stage == 0 ? embedding : stage + 1 == count ? head : 0;
    std::vector<double> next(ends, kNever);
    for (std::size_t end = 0; end < ends; ++end) {
      for (std::size_t begin = 0; begin < end + (at_an_end ? 1 : 0); ++begin) {
        const double load = std::max(most[begin], own + before[end] - before[begin]);
        if (load < next[end]) {
          next[end] = load;
          begins[stage][end] = begin;
        }
      }
    }
    most = next;
  }
  if (most.back() == kNever) {
    return {};
  }
  std::vector<std::int64_t> lengths(count);
  std::size_t end = layers.size();
  for (std::size_t stage = count; stage-- > 0;) {
    lengths[stage] = static_cast<std::int64_t>(end - begins[stage][end]);
    end = begins[stage][end];
  }
  return lengths;
}

std::vector<std::int64_t> areal_stages(const models::Transformer& model, std::int64_t stages,
                                       std::int64_t expert_ranks) {
  std::vector<double> layers;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    double parameters = 0;
    for (const models::ParameterTensor& tensor : models::layer_tensors(model, layer)) {
      parameters += static_cast<double>(models::element_count(tensor)) /
                    static_cast<double>(tensor.expert ? expert_ranks : 1);
    }
    layers.push_back(parameters);
  }
  return balanced_stages(layers, static_cast<double>(models::embedding_parameter_count(model)),
                         static_cast<double>(models::head_parameter_count(model)), stages);
}

}  // namespace trireme::planner
