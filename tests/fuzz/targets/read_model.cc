#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/json_reader.h"
#include "models/model_file.h"
#include "models/presets.h"
#include "models/work.h"
#include "tests/fuzz/targets/target.h"

namespace trireme::fuzz {

void read_model(std::string_view text) {
  const models::Transformer model =
      models::load_model("{" + std::string(text.substr(text.starts_with('{') ? 1 : 0)));
  require(models::parameter_count(model) > 0, "a model has parameters");
  require(models::parameter_count(model) >= models::active_parameter_count(model),
          "no more are active than there are");
  const models::Shard shard{.sequence = 128, .tensor_parallel = 2};
  for (const models::Matmul& matmul : models::layer_work(model, 0, shard).forward.matmuls) {
    require(models::flop_of(matmul).value > 0, "a product is work");
  }
  const std::string again = models::write_model_file(model).dump();
  require(models::read_model_file(parse_json(again, "again"), "again") == model,
          "a model file reads back");
}

}  // namespace trireme::fuzz
